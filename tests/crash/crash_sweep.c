/*
 * crash_sweep — the full sweep, for scripts/crash-sweep: plans derived from a seed, with repeated
 * kills and power losses.
 *
 *     crash_sweep FOLDER SEED KILLS          ranks are threads; kills and power losses
 *     crash_sweep FOLDER SEED KILLS ranks    three real ranks under mpirun; kills each rank at each
 *                                            of its calls, then random ranks
 *
 * Works in FOLDER, which must exist. Prints one line: seed, kills, operations, choices, disks. On a
 * violation, prints it with the history that led to it, and exits with status 1.
 */
#include "base/philox.h"
#include "base/str.h"
#include "tests/crash/plans.h"
#include "tests/crash/sweep_ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    KILLS_PER_PLAN = 40,
    STATES_PER_PLAN = 40,
    DEATHS_PER_PLAN = 3,
    REAL_RANKS = 3,
    REAL_KILLS_PER_PLAN = 20, /* in addition to the kills at each call */
};

/* State shared by all plans of one invocation. */
struct campaign {
    struct io *engines[2], *check_io;
    unsigned engines_count;
    char folder[1024], crash_folder[1024];
    struct sweep_counts counts;
    struct sweep_finding finding;
};

static bool open_campaign(struct campaign *campaign, const char *folder)
{
    static const enum io_engine engines[] = {IO_ENGINE_THREADS, IO_ENGINE_URING};
    snprintf(campaign->folder, sizeof campaign->folder, "%s/run", folder);
    snprintf(campaign->crash_folder, sizeof campaign->crash_folder, "%s/crashed", folder);
    mkdir(campaign->folder, 0777);
    mkdir(campaign->crash_folder, 0777);
    for (int i = 0; i < 2; i++) /* without io_uring only one remains */
        campaign->engines_count += io_open("file:", &(struct io_options){.engine = engines[i]},
                                           &campaign->engines[campaign->engines_count], NULL) == 0;
    struct io_options looking = {.engine = IO_ENGINE_THREADS, .cache = IO_CACHE_ALL};
    return campaign->engines_count > 0 &&
           io_open("file:", &looking, &campaign->check_io, NULL) == 0;
}

static struct sweep make_sweep(const struct campaign *campaign, const struct plan *plan,
                               uint64_t seed)
{
    return (struct sweep){.plan = plan,
                          .io = campaign->engines[seed % campaign->engines_count],
                          .check_io = campaign->check_io,
                          .folder = campaign->folder,
                          .crash_folder = campaign->crash_folder};
}

static bool run_plan_with_ranks(struct campaign *campaign, uint64_t seed)
{
    struct known_plan known = plans_make(seed);
    known.plan.ranks = REAL_RANKS;
    known.plan.refuses_rename_flags = false;
    struct sweep sweep = make_sweep(campaign, &known.plan, seed);
    bool holds =
        sweep_prepare(&sweep, &known.before, &campaign->finding) &&
        sweep_ranks_each(&sweep, &campaign->counts, &campaign->finding) &&
        sweep_ranks_some(&sweep, seed, REAL_KILLS_PER_PLAN, &campaign->counts, &campaign->finding);
    sweep_deinit(&sweep);
    return holds;
}

static bool run_plan(struct campaign *campaign, uint64_t seed)
{
    struct known_plan known = plans_make(seed);
    struct sweep sweep = make_sweep(campaign, &known.plan, seed);
    bool holds = sweep_prepare(&sweep, &known.before, &campaign->finding);
    if (holds)
        holds =
            sweep_kill_random(&sweep, seed, KILLS_PER_PLAN, &campaign->counts, &campaign->finding);
    for (unsigned i = 0; i <= DEATHS_PER_PLAN && holds; i++) {
        unsigned dies_at = i == 0 ? 0 : 1 + philox(seed, 6, i).word[0] % 100;
        struct sweep_power how = {
            .seed = seed + i, .states_max = STATES_PER_PLAN, .dies_at = dies_at, .report = stdout};
        holds = sweep_power(&sweep, &how, &campaign->counts, &campaign->finding);
    }
    sweep_deinit(&sweep);
    return holds;
}

int main(int count, char **arguments)
{
    static struct campaign campaign;
    bool of_ranks = count == 5 && strcmp(arguments[4], "ranks") == 0;
    if ((count != 4 && !of_ranks) || !open_campaign(&campaign, arguments[1])) {
        fprintf(stderr, "usage: crash_sweep FOLDER SEED KILLS [ranks]\n");
        return 2;
    }
    if (of_ranks && sweep_ranks_skip_reason()) {
        fprintf(stderr, "crash_sweep: no real ranks: %s\n", sweep_ranks_skip_reason());
        return 2;
    }
    uint64_t seed = strtoull(arguments[2], NULL, 10), kills = strtoull(arguments[3], NULL, 10);
    bool holds = true;
    for (uint64_t i = 0; campaign.counts.kills < kills && holds; i++)
        holds = of_ranks ? run_plan_with_ranks(&campaign, seed * 1000 + i)
                         : run_plan(&campaign, seed * 1000 + i);
    const struct sweep_counts *counts = &campaign.counts;
    printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", seed, counts->kills,
           counts->operations, counts->choices, counts->states);
    if (!holds)
        printf("seed %" PRIu64 ": %s\n", seed, campaign.finding.why);
    return !holds;
}
