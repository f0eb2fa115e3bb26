/*
 * expected — see expected.h.
 */
#include "tests/crash/expected.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct plan_save *step_set_find(const struct step_set *step_set, uint64_t step)
{
    for (unsigned i = 0; i < step_set->count; i++)
        if (step_set->steps[i].step == step)
            return &step_set->steps[i];
    return NULL;
}

/* Whether found contains every step of variant. */
static bool contains_all(const struct step_set *variant, const struct step_set *found)
{
    for (unsigned i = 0; i < variant->count; i++) {
        const struct plan_save *step = step_set_find(found, variant->steps[i].step);
        if (!step || step->version != variant->steps[i].version)
            return false;
    }
    return true;
}

bool step_set_equals(const struct step_set *a, const struct step_set *b)
{
    return a->count == b->count && contains_all(a, b);
}

static void set_step(struct step_set *step_set, struct plan_save save)
{
    unsigned i = 0;
    while (i < step_set->count && step_set->steps[i].step < save.step)
        i++;
    if (i == step_set->count || step_set->steps[i].step != save.step) {
        if (step_set->count == STEP_SET_MAX)
            abort();
        memmove(&step_set->steps[i + 1], &step_set->steps[i], (step_set->count - i) * sizeof save);
        step_set->count++;
    }
    step_set->steps[i] = save;
}

void step_set_save(struct step_set *step_set, struct plan_save save, uint32_t keep)
{
    unsigned stays = 0;
    set_step(step_set, save);
    /* keep the steps with the highest numbers, and the one just saved */
    for (unsigned i = 0; keep > 0 && i < step_set->count; i++)
        if (step_set->count - i <= keep || step_set->steps[i].step == save.step)
            step_set->steps[stays++] = step_set->steps[i];
    if (keep > 0)
        step_set->count = stays;
}

static void record_note(struct expected *expected, uint32_t number)
{
    if (number % 2 == 0)
        expected->has_begun[number / 2] = true;
    else
        expected->is_done[number / 2] = true;
}

void expected_from_history(struct expected *expected, const struct history *history,
                           uint32_t instant)
{
    memset(expected->has_begun, 0, sizeof expected->has_begun);
    memset(expected->is_done, 0, sizeof expected->is_done);
    for (uint32_t i = 0; i < history->ops_count && history->ops[i].begin <= instant; i++)
        if (history->ops[i].kind == HISTORY_NOTE)
            record_note(expected, history->ops[i].node);
}

void expected_from_note_count(struct expected *expected, unsigned notes_count)
{
    memset(expected->has_begun, 0, sizeof expected->has_begun);
    memset(expected->is_done, 0, sizeof expected->is_done);
    for (unsigned number = 0; number < notes_count; number++)
        record_note(expected, number);
}

static bool was_ever_saved(const struct expected *expected, const struct plan_save *step)
{
    const struct plan_save *before = step_set_find(&expected->before, step->step);
    if (before && before->version == step->version)
        return true;
    for (unsigned i = 0; i < expected->plan->saves_count; i++)
        if (expected->has_begun[i] && expected->plan->saves[i].step == step->step &&
            expected->plan->saves[i].version == step->version)
            return true;
    return false;
}

static size_t print_step_set(const struct step_set *step_set, char *text, size_t bytes)
{
    size_t used = 0;
    for (unsigned i = 0; i < step_set->count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, " %llu (version %llu)",
                                 (unsigned long long)step_set->steps[i].step,
                                 (unsigned long long)step_set->steps[i].version);
    return used < bytes ? used : bytes;
}

/* The variant in which exactly those undecided saves succeeded that have their bit set. */
static struct step_set make_variant(const struct expected *expected, unsigned succeeded)
{
    struct step_set variant = expected->before;
    for (unsigned i = 0; i < expected->plan->saves_count; i++)
        if (expected->is_done[i] || (expected->has_begun[i] && succeeded >> i & 1))
            step_set_save(&variant, expected->plan->saves[i], expected->plan->keep);
    return variant;
}

bool expected_allows(const struct expected *expected, const struct step_set *found, char *why,
                     size_t why_bytes)
{
    unsigned undecided = 0;
    for (unsigned i = 0; i < expected->plan->saves_count; i++)
        undecided |= (unsigned)(expected->has_begun[i] && !expected->is_done[i]) << i;
    bool is_possible = false;
    for (unsigned succeeded = undecided;;
         succeeded = (succeeded - 1) & undecided) { /* all subsets */
        struct step_set variant = make_variant(expected, succeeded);
        is_possible = is_possible || contains_all(&variant, found);
        if (succeeded == 0)
            break;
    }
    for (unsigned i = 0; i < found->count && is_possible; i++)
        is_possible = was_ever_saved(expected, &found->steps[i]);
    if (is_possible)
        return true;
    struct step_set variant = make_variant(expected, 0);
    size_t used = print_step_set(found, why, why_bytes);
    used += (size_t)snprintf(why + used, why_bytes - used, " were found; there should be");
    print_step_set(&variant, why + used, used < why_bytes ? why_bytes - used : 0);
    return false;
}
