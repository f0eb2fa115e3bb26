/*
 * cases — checks every communicator operation on real ranks against plain computation, for each
 * multi-rank backend.
 */
#ifndef MILLRACE_TESTS_COMM_CASES_H
#define MILLRACE_TESTS_COMM_CASES_H

#include "tests/support/ranks.h"

void all_gather_delivers_every_ranks_data(void **state);
void all_to_all_moves_slices_of_any_sizes(void **state);
void canonical_sums_follow_the_tree_order(void **state);
void one_communicator_may_have_several_operations_in_flight(void **state);
void too_many_concurrent_canonical_sums_are_refused(void **state);
void fast_sums_use_the_library(void **state);
void integers_are_reduced_exactly(void **state);
void messages_arrive_by_tag_in_order(void **state);
void polling_ends_when_the_work_is_done(void **state);
void split_sorts_by_key_and_excludes_ranks_without_a_color(void **state);
void closed_communicators_free_their_slots(void **state);
void a_communicator_that_one_rank_cannot_open_fails_on_all(void **state);
void communicators_can_work_concurrently(void **state);

#endif
