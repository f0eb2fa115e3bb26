/*
 * Tests the writer before an update arrives: it takes blocks in update order, stages ahead while
 * the disk is busy, and gives priority to what the caller waits for.
 */
#include "ckpt/save/image_writer.h"
#include "tests/ckpt/fixture.h"
#include "tests/support/gate.h"
#include "tests/support/scratch.h"

#include <pthread.h>
#include <string.h>

enum { GROUPS = 6, WRITES_MAX = 64 };

/* The backend's writes in submission order, and a gate that delays their completion. */
static uint64_t written_block[WRITES_MAX];
static unsigned written_count;
static struct gate completions = GATE_OPEN;
static const struct io_ops *real_ops;
static struct io_ops watched_ops;

static int submit_watched(struct io_queue *queue, struct io_request *const *requests,
                          unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (requests[i]->kind == IO_WRITE && written_count < WRITES_MAX)
            written_block[written_count++] = requests[i]->offset / CKPT_BLOCK_BYTES;
    return real_ops->submit(queue, requests, count);
}

/* While the gate is shut, a non-blocking call returns no completions. */
static int reap_behind_gate(struct io_queue *queue, struct io_request **done, unsigned count_max,
                            unsigned count_min, int timeout_ms)
{
    pthread_mutex_lock(&completions.mutex);
    bool is_shut = completions.is_shut;
    pthread_mutex_unlock(&completions.mutex);
    if (is_shut && count_min == 0)
        return 0;
    gate_pass(&completions);
    return real_ops->reap(queue, done, count_max, count_min, timeout_ms);
}

static void install_watched_ops(void)
{
    real_ops = io->ops;
    watched_ops = *real_ops;
    watched_ops.submit = submit_watched;
    watched_ops.reap = reap_behind_gate;
    io->ops = &watched_ops;
    written_count = 0;
}

/* One array of the given shape per group. The last group's array is first in the file. */
static struct arrays make_arrays(const char *shape)
{
    struct array_spec specs[GROUPS];
    char names[GROUPS][16];
    for (unsigned g = 0; g < GROUPS; g++) {
        snprintf(names[g], sizeof names[g], "array.%u", GROUPS - g);
        specs[g] = (struct array_spec){names[g], DTYPE_F32, shape, g};
    }
    struct arrays arrays = arrays_make(specs, GROUPS);
    arrays_fill(&arrays, 1);
    return arrays;
}

static struct ckpt_saver *open_saver(const struct arrays *arrays, uint64_t staging_bytes)
{
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = io,
                                         .groups_count = GROUPS,
                                         .staging_bytes = staging_bytes,
                                         .run_id = "ahead",
                                         .numerics_id = "any"};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(ckpt_saver_open(&options, arrays->tensors, arrays->count, &saver, &err), &err);
    return saver;
}

static bool step_matches(struct arrays *arrays, uint64_t seed)
{
    char path[FIXTURE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/step-00000001", folder);
    arrays_fill(arrays, seed);
    return fixture_step_equals(io, path, arrays);
}

static void a_busy_disk_does_not_delay_updates_while_staging_has_space(void **state)
{
    (void)state;
    struct arrays arrays = make_arrays("8x262144");
    struct err err = {0};
    install_watched_ops();
    struct ckpt_saver *saver = open_saver(&arrays, 64 << 20);
    gate_shut(&completions);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    gate_wait_for_threads(&completions, 1); /* now the writer can only wait for the disk */
    for (uint32_t g = 0; g < GROUPS; g++) {
        ckpt_saver_before_update(saver, g);
        arrays_fill_group(&arrays, g, 2);
    }
    struct ckpt_saver_stats stats = ckpt_saver_stats(saver);
    gate_open(&completions);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    assert_int_equal(stats.copied_bytes, 0);
    assert_int_equal(stats.buffer_waits_count, 0);
    /* everything that the writer did not take at once, including the short block at the file's
     * end */
    uint64_t blocks = manifest_blocks_count(ckpt_saver_stats(saver).written_bytes);
    assert_int_equal(stats.ahead_bytes, (blocks - IMAGE_WRITES_MAX) * CKPT_BLOCK_BYTES);
    ckpt_saver_close(saver);
    assert_true(step_matches(&arrays, 1));
    arrays_free(&arrays);
}

static void blocks_are_copied_in_the_order_of_the_updates(void **state)
{
    (void)state;
    struct arrays arrays = make_arrays("262144");
    struct err err = {0};
    install_watched_ops();
    struct ckpt_saver *saver = open_saver(&arrays, 64 << 20);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_close(saver);
    /* the header shifts each array by part of a block: two blocks for group 0, then one more per
     * group */
    static const uint64_t expected[GROUPS + 1] = {5, 6, 4, 3, 2, 1, 0};
    assert_true(written_count >= GROUPS + 1);
    assert_memory_equal(written_block, expected, sizeof expected);
    assert_true(step_matches(&arrays, 1));
    arrays_free(&arrays);
}

static void *update_last_group(void *context)
{
    snapshot_before_update(context, GROUPS - 1);
    return NULL;
}

static void awaited_blocks_are_copied_first(void **state)
{
    (void)state;
    struct arrays arrays = make_arrays("262144");
    struct layout_options options = {.tensors = arrays.tensors,
                                     .tensors_count = arrays.count,
                                     .groups_count = GROUPS,
                                     .ranks = 1,
                                     .node_ranks = 1};
    struct layout layout;
    struct snapshot snapshot;
    struct err err = {0};
    pthread_t caller;
    unsigned buffer;
    uint64_t block;
    assert_ok(layout_init(&layout, &options, &err), &err);
    assert_ok(snapshot_init(&snapshot, &layout, NULL, NULL, SNAPSHOT_BUFFERS_MIN, &err), &err);
    snapshot_begin(&snapshot);
    for (int i = 0; i < SNAPSHOT_BUFFERS_MIN; i++)
        assert_int_equal(snapshot_take(&snapshot, &buffer, &block), SNAPSHOT_TAKEN);
    assert_int_equal(snapshot_take(&snapshot, &buffer, &block), SNAPSHOT_AGAIN);
    assert_int_equal(pthread_create(&caller, NULL, update_last_group, &snapshot), 0);
    while (snapshot_stats(&snapshot).buffer_waits_count == 0)
        gate_pause();
    snapshot_release(&snapshot, 0); /* the caller leaves this buffer to the writer */
    assert_int_equal(snapshot_take(&snapshot, &buffer, &block), SNAPSHOT_TAKEN);
    assert_int_equal(block, 0); /* the block contains only the last group */
    for (enum snapshot_next next = SNAPSHOT_TAKEN; next != SNAPSHOT_DONE;) {
        snapshot_release(&snapshot, buffer);
        next = snapshot_take(&snapshot, &buffer, &block);
    }
    pthread_join(caller, NULL);
    snapshot_end(&snapshot);
    snapshot_deinit(&snapshot);
    layout_deinit(&layout);
    arrays_free(&arrays);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_busy_disk_does_not_delay_updates_while_staging_has_space),
        CASE(blocks_are_copied_in_the_order_of_the_updates),
        CASE(awaited_blocks_are_copied_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
