/*
 * plans — see plans.h.
 */
#include "tests/crash/plans.h"

#include "base/philox.h"

#include <string.h>

const struct known_plan plans[PLANS_COUNT] = {
    {{.name = "the first step", .ranks = 2, .saves = {{1, 1}}, .saves_count = 1}, {.count = 0}},
    {{.name = "one kept", .ranks = 3, .keep = 1, .saves = {{2, 2}, {3, 3}}, .saves_count = 2},
     {.steps = {{1, 1}}, .count = 1}},
    {{.name = "two kept, and back to an earlier step",
      .ranks = 2,
      .keep = 2,
      .saves = {{4, 4}, {2, 5}, {3, 6, .reopens = true}},
      .saves_count = 3},
     {.steps = {{1, 1}, {3, 3}}, .count = 2}},
    {{.name = "a step replaced, then saved again as it is",
      .ranks = 2,
      .saves = {{2, 3}, {2, 3}},
      .saves_count = 2},
     {.steps = {{1, 1}, {2, 2}}, .count = 2}},
    {{.name = "a step replaced without rename flags",
      .ranks = 2,
      .refuses_rename_flags = true,
      .saves = {{2, 3}, {3, 4}},
      .saves_count = 2},
     {.steps = {{1, 1}, {2, 2}}, .count = 2}},
    {{.name = "a large file",
      .ranks = 1,
      .keep = 1,
      .rows = 20000,
      .saves = {{2, 2}},
      .saves_count = 1},
     {.steps = {{1, 1}}, .count = 1}},
    {{.name = "a file that all ranks write",
      .ranks = 3,
      .keep = 1,
      .is_consolidated = true,
      .saves = {{2, 2}, {2, 3}},
      .saves_count = 2},
     {.steps = {{1, 1}}, .count = 1}},
};

struct known_plan plans_make(uint64_t seed)
{
    struct philox_block random = philox(seed, 3, 0);
    struct known_plan made = {.plan = {.name = "made",
                                       .ranks = 1 + (int)(random.word[0] % 4),
                                       .keep = random.word[1] % 4,
                                       .saves_count = 1 + random.word[2] % 4}};
    made.plan.refuses_rename_flags = random.word[3] % 8 == 0;
    made.plan.is_consolidated = random.word[3] / 8 % 3 == 0;
    uint64_t version = 0;
    for (unsigned i = 0; i < philox(seed, 3, 1).word[0] % 4; i++) {
        version++;
        made.before.steps[made.before.count++] =
            (struct plan_save){.step = 2 * version, .version = version};
    }
    for (unsigned i = 0; i < made.plan.saves_count; i++) {
        struct philox_block of = philox(seed, 4, i);
        /* save the same content again under the previous step's number */
        bool is_same = i > 0 && of.word[0] % 6 == 0;
        made.plan.saves[i] =
            is_same ? made.plan.saves[i - 1]
                    : (struct plan_save){.step = 1 + of.word[1] % 10, .version = ++version};
        made.plan.saves[i].reopens = i > 0 && of.word[2] % 3 == 0;
    }
    return made;
}
