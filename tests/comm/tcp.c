/*
 * Tests comm_tcp on 2, 3 and 4 processes that have only torchrun's variables.
 */
#include "tests/comm/cases.h"

#include "comm/ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct comm *world;

static const char *get_variable(const char *name)
{
    return getenv(name);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_gather_delivers_every_ranks_data),
        cmocka_unit_test(all_to_all_moves_slices_of_any_sizes),
        cmocka_unit_test(canonical_sums_follow_the_tree_order),
        cmocka_unit_test(one_communicator_may_have_several_operations_in_flight),
        cmocka_unit_test(too_many_concurrent_canonical_sums_are_refused),
        cmocka_unit_test(fast_sums_use_the_library),
        cmocka_unit_test(integers_are_reduced_exactly),
        cmocka_unit_test(messages_arrive_by_tag_in_order),
        cmocka_unit_test(polling_ends_when_the_work_is_done),
        cmocka_unit_test(split_sorts_by_key_and_excludes_ranks_without_a_color),
        cmocka_unit_test(closed_communicators_free_their_slots),
        cmocka_unit_test(a_communicator_that_one_rank_cannot_open_fails_on_all),
        cmocka_unit_test(communicators_can_work_concurrently),
    };
    struct ranks ranks;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    if (ranks_detect(get_variable, &ranks, &err) || ranks_open(&ranks, NULL, &world, &err)) {
        fprintf(stderr, "%s\n", err_format(&err, line, sizeof line));
        return 1;
    }
    if (strcmp(world->ops->name, "tcp") != 0) {
        fprintf(stderr, "expected tcp on at least 2 ranks, found \"%s\"\n", world->ops->name);
        return 1;
    }
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (_cmocka_run_group_tests("tcp", &tests[i], 1, NULL, NULL) == 0)
            continue;
        fprintf(stderr, "%s failed on rank %d of %d\n", tests[i].name, world->rank, world->ranks);
        world->ops->abort(world);
        return 1;
    }
    comm_close(world);
    return 0;
}
