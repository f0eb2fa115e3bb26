/*
 * comm_tcp on real ranks: 2, 3 and 4 processes that know only torchrun's variables.
 */
#include "tests/comm/cases.h"

#include "comm/ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct comm *world;

static const char *variable(const char *name)
{
    return getenv(name);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_gather_gives_each_rank_what_all_sent),
        cmocka_unit_test(all_to_all_moves_slices_of_any_sizes),
        cmocka_unit_test(canonical_sums_are_added_in_the_order_of_the_tree),
        cmocka_unit_test(works_of_one_communicator_are_in_flight_at_once),
        cmocka_unit_test(more_canonical_sums_at_once_than_there_are_tags_are_refused),
        cmocka_unit_test(fast_sums_are_the_librarys_own),
        cmocka_unit_test(integers_are_reduced_exactly),
        cmocka_unit_test(messages_arrive_by_tag_in_order),
        cmocka_unit_test(testing_ends_when_the_work_is_done),
        cmocka_unit_test(splitting_sorts_by_key_and_leaves_out_whoever_wants_none),
        cmocka_unit_test(closed_communicators_make_room_for_others),
        cmocka_unit_test(a_rank_without_room_for_a_communicator_fails_all_of_it),
        cmocka_unit_test(communicators_work_side_by_side),
    };
    struct ranks ranks;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    if (ranks_detect(variable, &ranks, &err) || ranks_open(&ranks, NULL, &world, &err)) {
        fprintf(stderr, "%s\n", err_format(&err, line, sizeof line));
        return 1;
    }
    if (strcmp(world->ops->name, "tcp") != 0) {
        fprintf(stderr, "torchrun's ranks, 2 at least, have \"%s\"\n", world->ops->name);
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
