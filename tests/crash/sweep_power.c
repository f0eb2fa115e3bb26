/*
 * sweep_power — see sweep.h: records a plan once, then simulates a power loss at each of its
 * instants.
 *
 * First builds all states in memory: at each instant, those for every single pending operation, and
 * some random ones. Duplicates (the same disk and expectation) are dropped. Then stores a limited
 * number of the distinct states as files, in random order, and checks them.
 */
#include "tests/crash/sweep.h"

#include "base/philox.h"
#include "tests/crash/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RANDOM_CHOICES = 4 }; /* per instant */

struct disk_state {
    uint32_t instant;
    struct power_choice choice;
    uint64_t key; /* hash of the disk and the expected steps */
};

/* A hash set with open addressing; slots_count is a power of two. */
struct disk_states {
    struct disk_state *list;
    uint32_t count;
    uint32_t *slots; /* index + 1; 0: empty */
    uint32_t slots_count;
};

static uint32_t *find_slot(const struct disk_states *states, uint64_t key)
{
    uint32_t at = (uint32_t)key & (states->slots_count - 1);
    while (states->slots[at] && states->list[states->slots[at] - 1].key != key)
        at = (at + 1) & (states->slots_count - 1);
    return &states->slots[at];
}

static void grow_states(struct disk_states *states)
{
    if (2 * (states->count + 1) <= states->slots_count)
        return;
    free(states->slots);
    states->slots_count = states->slots_count > 0 ? 2 * states->slots_count : 1024;
    states->slots = calloc(states->slots_count, sizeof *states->slots);
    states->list = realloc(states->list, states->slots_count * sizeof *states->list);
    if (!states->slots || !states->list)
        abort();
    for (uint32_t i = 0; i < states->count; i++)
        *find_slot(states, states->list[i].key) = i + 1;
}

/* One recorded run. */
struct recording {
    struct sweep *sweep;
    const struct sweep_power *options;
    struct sweep_counts *counts;
    struct history history;
    struct disk_states states;
    struct expected expected;
};

static uint64_t state_key(const struct recording *recording, const struct tree *tree)
{
    struct {
        struct hash128 disk;
        bool has_begun[PLAN_SAVES_MAX], is_done[PLAN_SAVES_MAX];
    } both = {.disk = tree_digest(tree)};
    memcpy(both.has_begun, recording->expected.has_begun, sizeof both.has_begun);
    memcpy(both.is_done, recording->expected.is_done, sizeof both.is_done);
    return hash_64(&both, sizeof both);
}

static void add_state(struct recording *recording, uint32_t instant, struct power_choice choice)
{
    struct tree tree;
    power_state(&recording->history, instant, choice, &tree);
    struct disk_state state = {instant, choice, state_key(recording, &tree)};
    tree_deinit(&tree);
    recording->counts->choices++;
    grow_states(&recording->states);
    uint32_t *slot = find_slot(&recording->states, state.key);
    if (*slot)
        return;
    recording->states.list[recording->states.count] = state;
    *slot = ++recording->states.count;
}

static void add_instant_states(struct recording *recording, uint32_t instant)
{
    const struct history *history = &recording->history;
    bool has_open = false;
    expected_from_history(&recording->expected, history, instant);
    add_state(recording, instant, (struct power_choice){.kind = POWER_NONE});
    add_state(recording, instant, (struct power_choice){.kind = POWER_ALL});
    for (uint32_t op = 0; op < history->ops_count; op++) {
        if (!power_is_pending(&history->ops[op], instant))
            continue;
        has_open = true;
        add_state(recording, instant, (struct power_choice){.kind = POWER_ALL_BUT, .op = op});
        add_state(recording, instant, (struct power_choice){.kind = POWER_ONLY, .op = op});
    }
    for (uint32_t i = 0; i < RANDOM_CHOICES && has_open; i++)
        add_state(recording, instant,
                  (struct power_choice){.kind = POWER_SOME,
                                        .seed = recording->options->seed * 1000003 +
                                                (uint64_t)instant * RANDOM_CHOICES + i});
}

static void shuffle(struct recording *recording)
{
    struct disk_states *states = &recording->states;
    for (uint32_t i = states->count; i > 1; i--) {
        uint32_t other = philox(recording->options->seed, 1, i).word[0] % i;
        struct disk_state state = states->list[i - 1];
        states->list[i - 1] = states->list[other];
        states->list[other] = state;
    }
}

static bool check_state(struct recording *recording, const struct disk_state *state,
                        struct sweep_finding *finding)
{
    struct sweep *sweep = recording->sweep;
    char why[CHECK_WHY_BYTES];
    struct tree tree;
    expected_from_history(&recording->expected, &recording->history, state->instant);
    power_state(&recording->history, state->instant, state->choice, &tree);
    tree_store(&tree, sweep->crash_folder);
    tree_deinit(&tree);
    recorder_skip_syncs(true);
    bool holds = check_folder(&recording->expected, sweep->check_io, sweep->crash_folder, why);
    recorder_skip_syncs(false);
    recording->counts->states++;
    if (holds)
        return true;
    snprintf(finding->why, sizeof finding->why,
             "%s, power lost at instant %u (choice %d, operation %u, seed %llu): %s",
             sweep->plan->name, state->instant, (int)state->choice.kind, state->choice.op,
             (unsigned long long)state->choice.seed, why);
    if (recording->options->report) {
        fprintf(recording->options->report, "%s\n", finding->why);
        history_print(&recording->history, state->instant, recording->options->report);
    }
    return false;
}

static void revive_recorder(void)
{
    recorder_die_at(0);
}

/* Runs and records the plan. */
static bool record(struct recording *recording, struct sweep_finding *finding)
{
    struct sweep *sweep = recording->sweep;
    const struct sweep_power *options = recording->options;
    atomic_uint calls;
    tree_store(&sweep->base, sweep->folder);
    recorder_begin(&recording->history, sweep->folder);
    if (options->dies_after)
        recorder_die_after(options->dies_after);
    else
        recorder_die_at(options->dies_at);
    recorder_count_calls_in(&calls);
    unsigned failed = workload_run(sweep->plan, sweep->io, sweep->folder, revive_recorder, NULL);
    recording->counts->operations += atomic_load(&calls);
    recorder_die_at(0);
    recorder_end();
    if (failed > (options->dies_at > 0 || options->dies_after > 0)) {
        snprintf(finding->why, sizeof finding->why, "%s: %u saves failed without a disk fault",
                 sweep->plan->name, failed);
        return false;
    }
    if (recorder_is_complete(&recording->history, sweep->folder))
        return true;
    snprintf(finding->why, sizeof finding->why,
             "%s: something was written that the recorder did not see", sweep->plan->name);
    return false;
}

/* If only a few disks are checked, some instants can be skipped. */
static bool is_sampled(const struct recording *recording, uint32_t instant)
{
    uint64_t wanted = 2 * (uint64_t)recording->options->states_max;
    return philox(recording->options->seed, 7, instant).word[0] %
               (recording->history.instants_count + 1) <
           wanted;
}

bool sweep_power(struct sweep *sweep, const struct sweep_power *options,
                 struct sweep_counts *counts, struct sweep_finding *finding)
{
    struct recording recording = {.sweep = sweep,
                                  .options = options,
                                  .counts = counts,
                                  .expected = {.plan = sweep->plan, .before = sweep->step_set}};
    bool holds = record(&recording, finding);
    for (uint32_t instant = 0; instant <= recording.history.instants_count && holds; instant++)
        if (is_sampled(&recording, instant))
            add_instant_states(&recording, instant);
    shuffle(&recording);
    for (uint32_t i = 0; i < recording.states.count && i < options->states_max && holds; i++)
        holds = check_state(&recording, &recording.states.list[i], finding);
    free(recording.states.list);
    free(recording.states.slots);
    history_deinit(&recording.history);
    return holds;
}
