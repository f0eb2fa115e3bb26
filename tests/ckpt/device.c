/*
 * Tests copy before update of arrays on a device that queues work: the update waits for the copies,
 * the caller does not, and every checkpoint holds the arrays as they were at its save, in every
 * order of the streams.
 */
#include "ckpt/format/manifest.h"
#include "tests/ckpt/blocked_disk.h"
#include "tests/ckpt/fixture.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/scratch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 5, PARTS = 3, ARRAYS = GROUPS * PARTS, STEPS = 3 };

/* Arrays in device memory, and the expected contents in host arrays of the same shapes. */
struct fixture {
    struct device *device;
    struct device_stream *updates;
    struct arrays expected, on_device;
};

/* Arrays adjacent in the file belong to different groups and have unaligned sizes: 9 MB. */
static struct arrays make_arrays(void)
{
    static const char *const shapes[PARTS] = {"99991", "11x31777", "3"};
    struct array_spec specs[ARRAYS];
    char names[ARRAYS][32];
    for (int i = 0; i < ARRAYS; i++) {
        snprintf(names[i], sizeof names[i], "part%d.group%d", i / GROUPS, i % GROUPS);
        specs[i] =
            (struct array_spec){names[i], DTYPE_F32, shapes[i / GROUPS], (uint32_t)(i % GROUPS)};
    }
    return arrays_make(specs, ARRAYS);
}

/* The device's function table, wrapped: counts the caller's waits, and stops the writer's waits for
 * a copy at a gate. */
static struct device_ops counting_ops;
static const struct device_ops *inner_ops;
static pthread_t caller;
static atomic_int caller_waits_count;
static struct gate arrival = GATE_OPEN;

static bool count_wait(void)
{
    bool is_caller = pthread_equal(pthread_self(), caller);
    caller_waits_count += is_caller;
    return is_caller;
}

static int counting_event_wait(struct device *device, struct device_event *event, struct err *err)
{
    if (!count_wait())
        gate_pass(&arrival);
    return inner_ops->event_wait(device, event, err);
}

static int counting_stream_sync(struct device *device, struct device_stream *stream,
                                struct err *err)
{
    count_wait();
    return inner_ops->stream_sync(device, stream, err);
}

static void set_up(struct fixture *f)
{
    struct err err;
    *f = (struct fixture){.expected = make_arrays()};
    assert_ok(device_open("cuda", &f->device, &err), &err);
    inner_ops = f->device->ops;
    counting_ops = *inner_ops;
    counting_ops.event_wait = counting_event_wait;
    counting_ops.stream_sync = counting_stream_sync;
    f->device->ops = &counting_ops;
    caller = pthread_self();
    assert_ok(inner_ops->stream_open(f->device, &f->updates, &err), &err);
    f->on_device = f->expected;
    f->on_device.tensors = malloc(ARRAYS * sizeof *f->on_device.tensors);
    assert_non_null(f->on_device.tensors);
    for (int i = 0; i < ARRAYS; i++) {
        struct ckpt_tensor *tensor = &f->on_device.tensors[i];
        *tensor = f->expected.tensors[i];
        assert_ok(inner_ops->mem_alloc(f->device, MEM_DEVICE, (size_t)array_bytes(tensor),
                                       &tensor->data, &err),
                  &err);
    }
}

static void tear_down(struct fixture *f)
{
    for (int i = 0; i < ARRAYS; i++)
        inner_ops->mem_free(f->device, MEM_DEVICE, f->on_device.tensors[i].data,
                            (size_t)array_bytes(&f->on_device.tensors[i]));
    inner_ops->stream_close(f->device, f->updates);
    device_close(f->device);
    free(f->on_device.tensors);
    arrays_free(&f->expected);
}

static struct ckpt_saver *open_saver(const struct fixture *f, uint64_t staging_bytes,
                                     struct device_stream *updates)
{
    const struct ckpt_saver_options options = {.folder = folder,
                                               .io = io,
                                               .device = f->device,
                                               .updates = updates,
                                               .groups_count = GROUPS,
                                               .staging_bytes = staging_bytes,
                                               .run_id = "device",
                                               .numerics_id = "any"};
    struct ckpt_saver *saver = NULL;
    struct err err;
    assert_ok(ckpt_saver_open(&options, f->on_device.tensors, ARRAYS, &saver, &err), &err);
    return saver;
}

/* Queues an update of all groups that sets every byte to the step's value. */
static void update(const struct fixture *f, struct ckpt_saver *saver, uint64_t step)
{
    struct err err;
    for (uint32_t g = 0; g < GROUPS; g++) {
        if (saver)
            ckpt_saver_before_update(saver, g);
        for (int i = 0; i < ARRAYS; i++)
            if (f->on_device.tensors[i].group == g)
                assert_ok(inner_ops->fill(f->device, f->updates, f->on_device.tensors[i].data,
                                          (int)step, (size_t)array_bytes(&f->on_device.tensors[i]),
                                          &err),
                          &err);
    }
}

static void wait_for_updates(const struct fixture *f)
{
    struct err err;
    assert_ok(inner_ops->stream_sync(f->device, f->updates, &err), &err);
}

static int count_equal_steps(const struct fixture *f)
{
    char path[FIXTURE_PATH_BYTES];
    int equal = 0;
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (int i = 0; i < ARRAYS; i++)
            memset(f->expected.tensors[i].data, (int)step, array_bytes(&f->expected.tensors[i]));
        snprintf(path, sizeof path, "%s/step-%08llu", folder, (unsigned long long)step);
        equal += fixture_step_equals(io, path, &f->expected);
        assert_int_equal(test_run("rm -r '%s'", path), 0);
    }
    return equal;
}

static void updates_wait_for_copies_and_the_caller_does_not_wait(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        struct fixture f;
        struct err err;
        order_set(order);
        set_up(&f);
        struct ckpt_saver *saver = open_saver(&f, 64 << 20, f.updates);
        update(&f, NULL, 1);
        for (uint64_t step = 1; step <= STEPS; step++) {
            wait_for_updates(&f);
            gate_shut(&arrival);
            assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
            gate_wait_for_threads(&arrival,
                                  1); /* the first block's copy is queued but not awaited */
            caller_waits_count = 0;
            update(&f, saver, step + 1);
            assert_int_equal(caller_waits_count, 0);
            wait_for_updates(&f);
            gate_open(&arrival);
            assert_ok(ckpt_saver_wait(saver, &err), &err);
        }
        assert_int_equal(count_equal_steps(&f), STEPS);
        struct ckpt_saver_stats stats = ckpt_saver_stats(saver);
        assert_int_equal(stats.buffer_waits_count, 0);
        /* all but the block that the writer took */
        assert_int_equal(stats.copied_bytes, stats.written_bytes - STEPS * CKPT_BLOCK_BYTES);
        ckpt_saver_close(saver);
        tear_down(&f);
    }
}

/* Releases the disk once this many blocks have waited for a buffer. */
struct release {
    struct ckpt_saver *saver;
    uint64_t waits_count;
};

static void *release_when_caller_waits(void *context)
{
    const struct release *release = context;
    while (ckpt_saver_stats(release->saver).buffer_waits_count < release->waits_count)
        gate_pause();
    gate_open(&disk);
    return NULL;
}

static void with_a_slow_disk_and_little_staging_saves_are_consistent(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        struct fixture f;
        struct err err;
        blocked_disk_install(io, 300);
        order_set(order);
        set_up(&f);
        struct ckpt_saver *saver = open_saver(&f, 4 << 20, f.updates);
        update(&f, NULL, 1);
        for (uint64_t step = 1; step <= STEPS; step++) {
            struct release release = {saver, ckpt_saver_stats(saver).buffer_waits_count + 1};
            pthread_t helper;
            wait_for_updates(&f);
            gate_shut(&disk);
            assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
            gate_wait_for_threads(&disk, 1);
            assert_int_equal(pthread_create(&helper, NULL, release_when_caller_waits, &release), 0);
            update(&f, saver, step + 1);
            pthread_join(helper, NULL);
            assert_ok(ckpt_saver_wait(saver, &err), &err);
        }
        wait_for_updates(&f);
        assert_true(ckpt_saver_stats(saver).buffer_waits_count >= STEPS);
        assert_int_equal(count_equal_steps(&f), STEPS);
        ckpt_saver_close(saver);
        tear_down(&f);
    }
}

static void without_an_update_stream_the_caller_waits_for_the_copies(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        struct fixture f;
        struct err err;
        blocked_disk_install(io, 0);
        order_set(order);
        set_up(&f);
        struct ckpt_saver *saver = open_saver(&f, 64 << 20, NULL);
        update(&f, NULL, 1);
        for (uint64_t step = 1; step <= STEPS; step++) {
            wait_for_updates(&f);
            gate_shut(&disk);
            assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
            gate_wait_for_threads(&disk, 1);
            caller_waits_count = 0;
            update(&f, saver, step + 1);
            assert_true(caller_waits_count > 0);
            wait_for_updates(&f);
            gate_open(&disk);
            assert_ok(ckpt_saver_wait(saver, &err), &err);
        }
        assert_int_equal(count_equal_steps(&f), STEPS);
        ckpt_saver_close(saver);
        tear_down(&f);
    }
}

static void without_before_update_saves_are_inconsistent(void **state)
{
    (void)state;
    struct fixture f;
    struct err err;
    blocked_disk_install(io, 0);
    order_set(0);
    set_up(&f);
    struct ckpt_saver *saver = open_saver(&f, 64 << 20, f.updates);
    update(&f, NULL, 1);
    for (uint64_t step = 1; step <= STEPS; step++) {
        wait_for_updates(&f);
        gate_shut(&disk);
        assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
        gate_wait_for_threads(&disk, 1);
        update(&f, NULL, step + 1);
        wait_for_updates(&f);
        gate_open(&disk);
        assert_ok(ckpt_saver_wait(saver, &err), &err);
    }
    assert_int_equal(count_equal_steps(&f), 0);
    ckpt_saver_close(saver);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(updates_wait_for_copies_and_the_caller_does_not_wait,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(with_a_slow_disk_and_little_staging_saves_are_consistent,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(without_an_update_stream_the_caller_waits_for_the_copies,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(without_before_update_saves_are_inconsistent,
                                        scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
