/*
 * cases — checks every operation of a communicator of real ranks against plain computation. For
 * each backend with ranks.
 */
#ifndef MILLRACE_TESTS_COMM_CASES_H
#define MILLRACE_TESTS_COMM_CASES_H

#include "tests/support/ranks.h"

void all_gather_gives_each_rank_what_all_sent(void **state);
void all_to_all_moves_slices_of_any_sizes(void **state);
void canonical_sums_are_added_in_the_order_of_the_tree(void **state);
void works_of_one_communicator_are_in_flight_at_once(void **state);
void more_canonical_sums_at_once_than_there_are_tags_are_refused(void **state);
void fast_sums_are_the_librarys_own(void **state);
void integers_are_reduced_exactly(void **state);
void messages_arrive_by_tag_in_order(void **state);
void testing_ends_when_the_work_is_done(void **state);
void splitting_sorts_by_key_and_leaves_out_whoever_wants_none(void **state);
void closed_communicators_make_room_for_others(void **state);
void a_rank_without_room_for_a_communicator_fails_all_of_it(void **state);
void communicators_work_side_by_side(void **state);

#endif
