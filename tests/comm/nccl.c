/*
 * Tests comm_nccl over comm_mpi on real ranks, with device memory and several stream orders. Uses
 * the NCCL stand-in.
 */
#include "tests/comm/cases.h"

#include "comm/nccl/comm_nccl.h"
#include "device/device_cuda.h"
#include "tests/comm/buffer.h"
#include "tests/cuda_on_cpu/order.h"

#include <errno.h>
#include <string.h>

static struct comm *mpi;
static size_t order;

/* From here on, world is the NCCL communicator. */
static void opening_connects_all_ranks(void **state)
{
    (void)state;
    struct err err = {0};
    order_set(order);
    assert_ok(device_cuda_open(0, &buffer_device, &err), &err);
    mpi = world;
    struct comm *opened;
    assert_ok(comm_nccl_open(mpi, buffer_device, UINT64_C(60000000000), &opened, &err), &err);
    world = opened;
    assert_true(world->rank == mpi->rank && world->ranks == mpi->ranks);
}

/* Many operations are in progress at a time. Each progresses without being polled, and all progress
 * while one is waited for. */
static void operations_of_several_communicators_complete_in_any_order(void **state)
{
    (void)state;
    enum { COMMS = 3, WORKS = 5, BYTES = 40000 };
    const struct device_ops *ops = buffer_device->ops;
    struct comm *comms[COMMS];
    struct comm_work works[COMMS][WORKS];
    struct device_stream *stream;
    struct err err = {0};
    unsigned char *host, *memory;
    size_t ranks = (size_t)world->ranks, all_bytes = COMMS * WORKS * ranks * BYTES;
    assert_ok(ops->stream_open(buffer_device, &stream, &err), &err);
    assert_ok(ops->mem_alloc(buffer_device, MEM_PINNED, all_bytes, (void **)&host, &err), &err);
    assert_ok(ops->mem_alloc(buffer_device, MEM_DEVICE, all_bytes, (void **)&memory, &err), &err);
    const struct comm_options options = {.stream = stream};
    for (int c = 0; c < COMMS; c++)
        assert_ok(world->ops->split(world, 0, world->rank, &comms[c], &err), &err);
    for (int w = 0; w < WORKS; w++)
        for (int c = 0; c < COMMS; c++) {
            unsigned char *at = memory + (size_t)(c * WORKS + w) * ranks * BYTES,
                          *own = at + (size_t)world->rank * BYTES;
            assert_ok(
                ops->fill(buffer_device, stream, own, world->rank * 16 + c * 5 + w, BYTES, &err),
                &err);
            assert_ok(
                comms[c]->ops->all_gather(comms[c], own, at, BYTES, &options, &works[c][w], &err),
                &err);
        }
    /* each rank starts with a different communicator */
    for (int w = 0; w < WORKS; w++)
        for (int i = 0; i < COMMS; i++) {
            int c = (i + world->rank) % COMMS;
            assert_ok(comm_wait(comms[c], &works[c][w], &err), &err);
        }
    assert_ok(ops->copy(buffer_device, stream, host, memory, all_bytes, &err), &err);
    assert_ok(ops->stream_sync(buffer_device, stream, &err), &err);
    for (size_t i = 0; i < all_bytes; i++) {
        size_t rank = i / BYTES % ranks, work = i / BYTES / ranks;
        if (host[i] != rank * 16 + work / WORKS * 5 + work % WORKS)
            fail_msg("byte %zu from rank %zu in operation %zu differs", i % BYTES, rank, work);
    }
    for (int c = 0; c < COMMS; c++)
        comm_close(comms[c]);
    ops->mem_free(buffer_device, MEM_DEVICE, memory, all_bytes);
    ops->mem_free(buffer_device, MEM_PINNED, host, all_bytes);
    ops->stream_close(buffer_device, stream);
}

static void the_library_reports_its_version(void **state)
{
    (void)state;
    char text[COMM_NCCL_TEXT_BYTES];
    struct err err = {0};
    assert_ok(comm_nccl_library(text, &err), &err);
    assert_memory_equal(text, "NCCL 2.", strlen("NCCL 2."));
}

static void closing_keeps_the_host_communicator_open(void **state)
{
    (void)state;
    buffer_release_thread();
    comm_close(world);
    world = mpi;
    device_close(buffer_device);
    buffer_device = NULL;
    order++;
    ranks_barrier();
}

int main(void)
{
    enum { ORDERS = 3 }; /* streams run at once; as late as possible; at random */
    static const struct CMUnitTest once[] = {
        cmocka_unit_test(opening_connects_all_ranks),
        cmocka_unit_test(all_gather_delivers_every_ranks_data),
        cmocka_unit_test(all_to_all_moves_slices_of_any_sizes),
        cmocka_unit_test(canonical_sums_follow_the_tree_order),
        cmocka_unit_test(fast_sums_use_the_library),
        cmocka_unit_test(integers_are_reduced_exactly),
        cmocka_unit_test(messages_arrive_by_tag_in_order),
        cmocka_unit_test(polling_ends_when_the_work_is_done),
        cmocka_unit_test(split_sorts_by_key_and_excludes_ranks_without_a_color),
        cmocka_unit_test(closed_communicators_free_their_slots),
        cmocka_unit_test(communicators_can_work_concurrently),
        cmocka_unit_test(operations_of_several_communicators_complete_in_any_order),
        cmocka_unit_test(the_library_reports_its_version),
        cmocka_unit_test(closing_keeps_the_host_communicator_open),
    };
    enum { CASES = sizeof once / sizeof once[0] };
    static struct CMUnitTest tests[ORDERS * CASES];
    for (size_t i = 0; i < ORDERS * CASES; i++)
        tests[i] = once[i % CASES];
    return ranks_main(tests, ORDERS * CASES, 0);
}
