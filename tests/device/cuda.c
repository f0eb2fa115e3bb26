/*
 * cuda — the GPU as a device: the contract of all backends, and the ordering of several streams by
 * events.
 */
#include "device/device_cuda.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/device/contract.h"
#include "tests/support/test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* Runs a contract case with every order of streams. */
#define ON_CUDA(name)                                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        for (size_t order = 0; order < order_count(); order++) {                                   \
            order_set(order);                                                                      \
            contract_##name("cuda");                                                               \
        }                                                                                          \
    }

ON_CUDA(memory_and_its_peak_are_counted_by_kind)
ON_CUDA(allocations_are_aligned_and_disjoint)
ON_CUDA(memory_is_zeroed_and_writable)
ON_CUDA(refused_allocations_are_not_counted)
ON_CUDA(copies_are_complete_after_their_event)
ON_CUDA(threads_share_a_device)

static void the_device_describes_itself(void **state)
{
    (void)state;
    struct err err = {0};
    struct device_cuda_info described;
    int count = 0;
    assert_ok(device_cuda_count(&count, &err), &err);
    assert_true(count > 0);
    assert_ok(device_cuda_describe(0, &described, &err), &err);
    assert_int_equal(device_cuda_describe(count, &described, &err), -ENODEV);
    struct device *device = contract_open("cuda:0");
    const struct device_cuda_info *info = device_cuda_info(device);
    assert_string_equal(device->ops->name, "cuda");
    assert_string_equal(info->name, described.name);
    assert_int_equal(info->ordinal, 0);
    assert_true(info->capability_major >= 8);
    assert_true(info->driver_version >= 12000 && info->runtime_version >= 12000);
    assert_true(info->shared_bytes_max >= 96 << 10);
    struct device_mem_info memory;
    device->ops->mem_info(device, &memory);
    assert_true(memory.free_bytes > 0 && memory.free_bytes <= memory.total_bytes);
    device_close(device);
    device = NULL;
    assert_int_equal(device_open("cuda:999999999999", &device, &err), -ENODEV);
    assert_null(device);
}

enum { STREAMS = 3, STEPS = 40, BYTES = 4096 };

/* Numbers pass through buffers of three streams. Each step waits for the previous step and for the
 * last reader of its target, so the result is correct only if every wait works. Two pinned buffers
 * are reused, as in a loader. */
static void events_order_streams(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        struct err err = {0};
        struct device *device = contract_open("cuda");
        struct device_stream *streams[STREAMS];
        struct device_event *written[STREAMS], *read[STREAMS], *copied[2];
        unsigned char *pinned[2], *buffers[STREAMS],
            *out = contract_allocate(device, MEM_PINNED, BYTES);
        for (int i = 0; i < STREAMS; i++) {
            assert_ok(device->ops->stream_open(device, &streams[i], &err), &err);
            assert_ok(device->ops->event_open(device, &written[i], &err), &err);
            assert_ok(device->ops->event_open(device, &read[i], &err), &err);
            buffers[i] = contract_allocate(device, MEM_DEVICE, BYTES);
        }
        for (int i = 0; i < 2; i++) {
            assert_ok(device->ops->event_open(device, &copied[i], &err), &err);
            pinned[i] = contract_allocate(device, MEM_PINNED, BYTES);
        }
        for (int step = 0; step < STEPS; step++) {
            unsigned char *source = pinned[step % 2];
            /* the host rewrites this buffer: its last copy, two steps ago, must be complete */
            assert_ok(device->ops->event_wait(device, copied[step % 2], &err), &err);
            memset(source, step + 1, BYTES);
            assert_ok(device->ops->stream_wait_event(device, streams[0], read[0], &err), &err);
            assert_ok(device->ops->copy(device, streams[0], buffers[0], source, BYTES, &err), &err);
            assert_ok(device->ops->event_record(device, copied[step % 2], streams[0], &err), &err);
            assert_ok(device->ops->event_record(device, written[0], streams[0], &err), &err);
            for (int i = 1; i < STREAMS; i++) {
                assert_ok(device->ops->stream_wait_event(device, streams[i], written[i - 1], &err),
                          &err);
                assert_ok(device->ops->stream_wait_event(device, streams[i], read[i], &err), &err);
                assert_ok(
                    device->ops->copy(device, streams[i], buffers[i], buffers[i - 1], BYTES, &err),
                    &err);
                assert_ok(device->ops->event_record(device, read[i - 1], streams[i], &err), &err);
                assert_ok(device->ops->event_record(device, written[i], streams[i], &err), &err);
            }
            if (step % 7 == 6) {
                assert_ok(device->ops->copy(device, streams[STREAMS - 1], out, buffers[STREAMS - 1],
                                            BYTES, &err),
                          &err);
                assert_ok(device->ops->stream_sync(device, streams[STREAMS - 1], &err), &err);
                for (int at = 0; at < BYTES; at++)
                    assert_int_equal(out[at], step + 1);
            }
        }
        for (int i = 0; i < STREAMS; i++) {
            assert_ok(device->ops->stream_sync(device, streams[i], &err), &err);
            device->ops->mem_free(device, MEM_DEVICE, buffers[i], BYTES);
            device->ops->stream_close(device, streams[i]);
            device->ops->event_close(device, written[i]);
            device->ops->event_close(device, read[i]);
        }
        for (int i = 0; i < 2; i++) {
            device->ops->mem_free(device, MEM_PINNED, pinned[i], BYTES);
            device->ops->event_close(device, copied[i]);
        }
        device->ops->mem_free(device, MEM_PINNED, out, BYTES);
        device_close(device);
    }
}

enum { THREADS = 3, ROUNDS = 30 };

struct worker {
    struct device *device;
    int number;
    bool failed;
};

/* Sends numbers to the device and back; each thread has its own stream. */
static void *send_and_fetch(void *argument)
{
    struct worker *worker = argument;
    struct device *device = worker->device;
    const struct device_ops *ops = device->ops;
    struct device_stream *stream = NULL;
    struct device_event *event = NULL;
    void *out = NULL, *memory = NULL, *back = NULL;
    worker->failed = ops->stream_open(device, &stream, NULL) ||
                     ops->event_open(device, &event, NULL) ||
                     ops->mem_alloc(device, MEM_PINNED, BYTES, &out, NULL) ||
                     ops->mem_alloc(device, MEM_DEVICE, BYTES, &memory, NULL) ||
                     ops->mem_alloc(device, MEM_PINNED, BYTES, &back, NULL);
    for (int round = 0; round < ROUNDS && !worker->failed; round++) {
        memset(out, worker->number * ROUNDS + round, BYTES);
        worker->failed = ops->copy(device, stream, memory, out, BYTES, NULL) ||
                         ops->copy(device, stream, back, memory, BYTES, NULL) ||
                         ops->event_record(device, event, stream, NULL) ||
                         ops->event_wait(device, event, NULL) || memcmp(out, back, BYTES) != 0;
    }
    ops->mem_free(device, MEM_PINNED, out, BYTES);
    ops->mem_free(device, MEM_DEVICE, memory, BYTES);
    ops->mem_free(device, MEM_PINNED, back, BYTES);
    ops->event_close(device, event);
    ops->stream_close(device, stream);
    return NULL;
}

static void threads_have_their_own_streams(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        struct device *device = contract_open("cuda");
        pthread_t threads[THREADS];
        struct worker workers[THREADS];
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){.device = device, .number = i};
            assert_int_equal(pthread_create(&threads[i], NULL, send_and_fetch, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_false(workers[i].failed);
        }
        device_close(device);
    }
}

/* A query does not wait, and repeated queries eventually succeed. */
static void a_recorded_event_completes(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        struct err err = {0};
        struct device *device = contract_open("cuda");
        struct device_stream *stream;
        struct device_event *event;
        bool done = false;
        assert_ok(device->ops->stream_open(device, &stream, &err), &err);
        assert_ok(device->ops->event_open(device, &event, &err), &err);
        assert_ok(device->ops->event_done(device, event, &done, &err), &err);
        assert_true(done); /* no event was recorded */
        char *memory = contract_allocate(device, MEM_DEVICE, BYTES);
        for (int i = 0; i < STEPS; i++)
            assert_ok(device->ops->fill(device, stream, memory, i, BYTES, &err), &err);
        assert_ok(device->ops->event_record(device, event, stream, &err), &err);
        do
            assert_ok(device->ops->event_done(device, event, &done, &err), &err);
        while (!done);
        device->ops->mem_free(device, MEM_DEVICE, memory, BYTES);
        device->ops->event_close(device, event);
        device->ops->stream_close(device, stream);
        device_close(device);
    }
}

/* Copies b = a, then c = b on a side stream that joins the recording. */
static void a_graph_runs_in_stream_order_at_each_launch(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        struct err err;
        struct device *device = contract_open("cuda");
        const struct device_ops *ops = device->ops;
        struct device_stream *stream, *side;
        struct device_event *fork, *join;
        struct device_graph *graph = NULL;
        assert_ok(ops->stream_open(device, &stream, &err), &err);
        assert_ok(ops->stream_open(device, &side, &err), &err);
        assert_ok(ops->event_open(device, &fork, &err), &err);
        assert_ok(ops->event_open(device, &join, &err), &err);
        char *a = contract_allocate(device, MEM_PINNED, BYTES),
             *c = contract_allocate(device, MEM_PINNED, BYTES);
        void *b = contract_allocate(device, MEM_DEVICE, BYTES);
        assert_ok(ops->graph_begin(device, stream, &err), &err);
        assert_ok(ops->copy(device, stream, b, a, BYTES, &err), &err);
        assert_ok(ops->event_record(device, fork, stream, &err), &err);
        assert_ok(ops->stream_wait_event(device, side, fork, &err), &err);
        assert_ok(ops->copy(device, side, c, b, BYTES, &err), &err);
        assert_ok(ops->event_record(device, join, side, &err), &err);
        assert_ok(ops->stream_wait_event(device, stream, join, &err), &err);
        assert_ok(ops->graph_end(device, stream, &graph, &err), &err);
        assert_ok(ops->stream_sync(device, stream, &err), &err);
        assert_int_equal(c[0], 0); /* recorded work does not run */
        for (int round = 1; round <= STREAMS; round++) {
            memset(a, round, BYTES);
            assert_ok(ops->graph_launch(device, graph, stream, &err), &err);
            assert_ok(ops->stream_sync(device, stream, &err), &err);
            assert_memory_equal(c, a, BYTES);
        }
        ops->graph_close(device, graph);
        ops->graph_close(device, NULL);
        ops->event_close(device, fork);
        ops->event_close(device, join);
        ops->stream_close(device, side);
        ops->stream_close(device, stream);
        ops->mem_free(device, MEM_PINNED, a, BYTES);
        ops->mem_free(device, MEM_PINNED, c, BYTES);
        ops->mem_free(device, MEM_DEVICE, b, BYTES);
        device_close(device);
    }
}

/* An allocation during a recording invalidates only the recording; the stream remains usable. */
static void uncapturable_work_is_reported_when_the_capture_ends(void **state)
{
    (void)state;
    order_set(0);
    struct err err;
    struct device *device = contract_open("cuda");
    const struct device_ops *ops = device->ops;
    struct device_stream *stream;
    struct device_graph *graph = NULL;
    void *memory = NULL, *more = NULL;
    assert_ok(ops->stream_open(device, &stream, &err), &err);
    memory = contract_allocate(device, MEM_DEVICE, BYTES);
    assert_ok(ops->graph_begin(device, stream, &err), &err);
    assert_int_equal(ops->mem_alloc(device, MEM_DEVICE, BYTES, &more, &err), -EIO);
    assert_int_equal(ops->graph_end(device, stream, &graph, &err), -EIO);
    assert_null(graph);
    assert_null(more);
    assert_ok(ops->fill(device, stream, memory, 1, BYTES, &err), &err);
    assert_ok(ops->stream_sync(device, stream, &err), &err);
    ops->mem_free(device, MEM_DEVICE, memory, BYTES);
    ops->stream_close(device, stream);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_and_its_peak_are_counted_by_kind),
        cmocka_unit_test(allocations_are_aligned_and_disjoint),
        cmocka_unit_test(memory_is_zeroed_and_writable),
        cmocka_unit_test(refused_allocations_are_not_counted),
        cmocka_unit_test(copies_are_complete_after_their_event),
        cmocka_unit_test(threads_share_a_device),
        cmocka_unit_test(the_device_describes_itself),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(threads_have_their_own_streams),
        cmocka_unit_test(a_recorded_event_completes),
        cmocka_unit_test(a_graph_runs_in_stream_order_at_each_launch),
        cmocka_unit_test(uncapturable_work_is_reported_when_the_capture_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
