/*
 * Tests ranks that write a shared file from arrays on a device that queues work: the exchanged
 * boundary bytes have their values at the save, although updates are queued right after it.
 */
#include "tests/ckpt/fixture.h"
#include "tests/ckpt/steps.h"
#include "tests/ckpt/thread_comm.h"
#include "tests/cuda_on_cpu/order.h"

#include <string.h>

enum { RANKS = 3, ARRAYS = 4, STEPS = 3 };

/* The parts end within pages. */
static const struct array_spec specs[ARRAYS] = {{"a", DTYPE_F32, "301x101", 0},
                                                {"b", DTYPE_U8, "7x333", 1},
                                                {"c", DTYPE_BF16, "1000x777", 2},
                                                {"optimizer.m", DTYPE_F32, "301x101", 0}};
enum { GROUPS = 3 };

struct rank {
    struct device *device;
    struct device_stream *updates;
    struct ckpt_tensor tensors[ARRAYS];
    /* Device copies of this rank's parts after each step; NULL for step 0. */
    void *contents[STEPS + 2][ARRAYS];
};

/* Returns device memory holding the bytes (NULL: zeros). */
static void *make_memory(const struct rank *rank, const void *bytes, uint64_t bytes_count)
{
    struct err err;
    void *memory = NULL;
    const struct device_ops *ops = rank->device->ops;
    assert_ok(ops->mem_alloc(rank->device, MEM_DEVICE, (size_t)bytes_count, &memory, &err), &err);
    if (bytes)
        assert_ok(ops->copy(rank->device, rank->updates, memory, bytes, (size_t)bytes_count, &err),
                  &err);
    return memory;
}

/* steps: each step's whole arrays. */
static void take_part(struct rank *rank, const struct arrays *steps, const struct comm *comm)
{
    memcpy(rank->tensors, steps[1].tensors, sizeof rank->tensors);
    for (int i = 0; i < ARRAYS; i++) {
        struct ckpt_tensor *tensor = &rank->tensors[i];
        uint64_t rows = tensor->shape[0], r = (uint64_t)comm->rank, n = (uint64_t)comm->ranks;
        tensor->replicated = false;
        tensor->start[0] = rows * r / n;
        tensor->extent[0] = rows * (r + 1) / n - tensor->start[0];
        tensor->data = make_memory(rank, NULL, array_bytes(tensor));
        for (uint64_t step = 1; step <= STEPS + 1; step++) {
            const struct ckpt_tensor *all = &steps[step].tensors[i];
            const char *part =
                (const char *)all->data + tensor->start[0] * (array_bytes(all) / rows);
            rank->contents[step][i] = make_memory(rank, part, array_bytes(tensor));
        }
    }
}

/* Queues an update of all groups to the contents that arrays_fill gives for the step. */
static void update(const struct rank *rank, struct ckpt_saver *saver, uint64_t step)
{
    struct err err;
    for (uint32_t g = 0; g < GROUPS; g++) {
        if (saver)
            ckpt_saver_before_update(saver, g);
        for (int i = 0; i < ARRAYS; i++) {
            const struct ckpt_tensor *tensor = &rank->tensors[i];
            if (tensor->group == g)
                assert_ok(rank->device->ops->copy(rank->device, rank->updates, tensor->data,
                                                  rank->contents[step][i],
                                                  (size_t)array_bytes(tensor), &err),
                          &err);
        }
    }
}

static void wait_for_updates(const struct rank *rank)
{
    struct err err;
    assert_ok(rank->device->ops->stream_sync(rank->device, rank->updates, &err), &err);
}

static void save_and_update(void *context, struct comm *comm)
{
    struct rank rank = {0};
    struct ckpt_saver *saver = NULL;
    struct err err;
    assert_ok(device_open("cuda", &rank.device, &err), &err);
    assert_ok(rank.device->ops->stream_open(rank.device, &rank.updates, &err), &err);
    take_part(&rank, context, comm);
    const struct ckpt_saver_options options = {.folder = folder,
                                               .io = io,
                                               .comm = comm,
                                               .device = rank.device,
                                               .updates = rank.updates,
                                               .layout = CKPT_CONSOLIDATED,
                                               .groups_count = GROUPS,
                                               .run_id = "device",
                                               .numerics_id = "any"};
    assert_ok(ckpt_saver_open(&options, rank.tensors, ARRAYS, &saver, &err), &err);
    update(&rank, NULL, 1);
    for (uint64_t step = 1; step <= STEPS; step++) {
        wait_for_updates(&rank);
        assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
        update(&rank, saver, step + 1);
        assert_ok(ckpt_saver_wait(saver, &err), &err);
    }
    wait_for_updates(&rank);
    ckpt_saver_close(saver);
    for (int i = 0; i < ARRAYS; i++) {
        size_t bytes = (size_t)array_bytes(&rank.tensors[i]);
        rank.device->ops->mem_free(rank.device, MEM_DEVICE, rank.tensors[i].data, bytes);
        for (uint64_t step = 1; step <= STEPS + 1; step++)
            rank.device->ops->mem_free(rank.device, MEM_DEVICE, rank.contents[step][i], bytes);
    }
    rank.device->ops->stream_close(rank.device, rank.updates);
    device_close(rank.device);
}

static void boundary_bytes_have_their_values_at_the_save(void **state)
{
    (void)state;
    struct arrays steps[STEPS + 2] = {0};
    char path[FIXTURE_PATH_BYTES];
    for (uint64_t step = 1; step <= STEPS + 1; step++) {
        steps[step] = arrays_make(specs, ARRAYS);
        arrays_fill(&steps[step], step);
    }
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        thread_comm_run(RANKS, save_and_update, steps);
        for (uint64_t step = 1; step <= STEPS; step++) {
            snprintf(path, sizeof path, "%s/step-%08llu", folder, (unsigned long long)step);
            assert_true(fixture_step_equals(io, path, &steps[step]));
            assert_int_equal(test_run("rm -r '%s'", path), 0);
        }
    }
    order_set(0);
    for (uint64_t step = 1; step <= STEPS + 1; step++)
        arrays_free(&steps[step]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(boundary_bytes_have_their_values_at_the_save,
                                        scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
