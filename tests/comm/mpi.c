/*
 * Tests comm_mpi on 1, 2, 3 and 4 real ranks, and once with messages split into pieces of a few
 * bytes.
 */
#include "tests/comm/cases.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void prepared_fast_sums_can_be_repeated(void **state)
{
    enum { SUMS = 6, COUNT = 5000 };
    struct comm_work works[SUMS];
    struct err err = {0};
    size_t ranks = (size_t)world->ranks;
    float *send = malloc(SUMS * ranks * COUNT * sizeof *send),
          *sums = malloc(SUMS * COUNT * sizeof *sums);
    (void)state;
    assert_true(send && sums);
    struct comm *comm;
    assert_ok(world->ops->split(world, 0, world->rank, &comm, &err), &err);
    assert_ok(comm_prepare_fast(comm, NULL, &err), &err);
    for (size_t n = 0; n < SUMS; n++) {
        for (size_t i = 0; i < ranks * COUNT; i++)
            send[n * ranks * COUNT + i] = (float)(n * 1000 + i);
        assert_ok(comm->ops->reduce_scatter(comm, send + n * ranks * COUNT, sums + n * COUNT, COUNT,
                                            DTYPE_F32, COMM_FAST, NULL, &works[n], &err),
                  &err);
    }
    for (size_t n = 0; n < SUMS; n++) {
        assert_ok(comm_wait(comm, &works[n], &err), &err);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(sums[n * COUNT + i] ==
                        (float)((n * 1000 + (size_t)world->rank * COUNT + i) * ranks));
    }
    free(send), free(sums);
    comm_close(comm);
}

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 31 + i / 251);
}

/* Maps the same pages many times, so a large range takes little memory. */
static unsigned char *map_repeatedly(size_t page_bytes, size_t times)
{
    int file = memfd_create("often", 0);
    assert_true(file >= 0 && ftruncate(file, (off_t)page_bytes) == 0);
    unsigned char *all = mmap(NULL, page_bytes * times, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(all != MAP_FAILED);
    for (size_t i = 0; i < times; i++)
        assert_true(mmap(all + i * page_bytes, page_bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED);
    close(file);
    return all;
}

static void messages_may_exceed_2_gib(void **state)
{
    (void)state;
    enum { PAGE_BYTES = 32 << 20, TIMES = 65 };
    size_t bytes = (size_t)PAGE_BYTES * TIMES;
    struct comm_work work;
    struct err err = {0};
    assert_true(bytes > INT32_MAX);
    if (test_is_sanitized())
        test_skip("2 GiB take the sanitizers too long");
    if (world->ranks == 2) {
        unsigned char *data = map_repeatedly(PAGE_BYTES, TIMES);
        if (world->rank == 0) {
            for (size_t i = 0; i < PAGE_BYTES; i++)
                data[i] = byte_at(i);
            assert_ok(world->ops->send(world, data, bytes, 1, 0, NULL, &work, &err), &err);
        } else {
            assert_ok(world->ops->receive(world, data, bytes, 0, 0, NULL, &work, &err), &err);
        }
        assert_ok(comm_wait(world, &work, &err), &err);
        for (size_t i = 0; i < PAGE_BYTES; i++)
            if (data[i] != byte_at(i))
                fail_msg("byte %zu differs", i);
        munmap(data, bytes);
    }
    ranks_barrier();
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_gather_delivers_every_ranks_data),
        cmocka_unit_test(all_to_all_moves_slices_of_any_sizes),
        cmocka_unit_test(canonical_sums_follow_the_tree_order),
        cmocka_unit_test(one_communicator_may_have_several_operations_in_flight),
        cmocka_unit_test(too_many_concurrent_canonical_sums_are_refused),
        cmocka_unit_test(fast_sums_use_the_library),
        cmocka_unit_test(prepared_fast_sums_can_be_repeated),
        cmocka_unit_test(integers_are_reduced_exactly),
        cmocka_unit_test(messages_arrive_by_tag_in_order),
        cmocka_unit_test(polling_ends_when_the_work_is_done),
        cmocka_unit_test(split_sorts_by_key_and_excludes_ranks_without_a_color),
        cmocka_unit_test(closed_communicators_free_their_slots),
        cmocka_unit_test(a_communicator_that_one_rank_cannot_open_fails_on_all),
        cmocka_unit_test(communicators_can_work_concurrently),
        cmocka_unit_test(messages_may_exceed_2_gib),
    };
    size_t count = sizeof tests / sizeof tests[0];
    bool splits_messages = argc > 1; /* the last case would then send millions of messages */
    return ranks_main(tests, splits_messages ? count - 1 : count,
                      splits_messages ? strtoul(argv[1], NULL, 10) : 0);
}
