/*
 * steps — tests the host while a device runs steps: it waits for no step, allocates nothing, queues
 * each step as a few graphs, and reads the results later. The shim simulates streams and their
 * orders.
 */
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/test.h"

#include "ckpt/ckpt.h"
#include "convert/dataset/dataset.h"
#include "trainer/plan/memory_plan.h"
#include "trainer/run/run.h"
#include "trainer/trainer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SETS_MAX = 48, TEXT_BYTES = 3000, MICROS = 3, ORDER_LATE = 1 };

/* A folder with a text dataset. */
struct fixture {
    char folder[TEST_PATH_BYTES_MAX];
    struct io *io;
};

static int set_up(void **state)
{
    static struct fixture f;
    char path[2 * TEST_PATH_BYTES_MAX], target[2 * TEST_PATH_BYTES_MAX], text[TEXT_BYTES];
    struct err err;
    struct convert_result result;
    test_make_folder(f.folder);
    assert_ok(io_open(f.folder, NULL, &f.io, &err), &err);
    snprintf(path, sizeof path, "%s/text.txt", f.folder);
    snprintf(target, sizeof target, "%s/text", f.folder);
    for (int i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + i * i / 7 % 19);
    test_write_file(path, text, sizeof text);
    const struct convert_options convert = {
        .source = path, .target = target, .tokenizer = "bytes", .errors_max = -1};
    assert_ok(convert_dataset(f.io, &convert, &result, &err), &err);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    io_close(f->io);
    test_remove_folder(f->folder);
    return 0;
}

/* Configures a run in folder/name that reads no results until its end. extra: NULL-terminated
 * settings. */
static void configure(const struct fixture *f, const char *name, const char *const *extra,
                      struct train_config *config)
{
    char dir[2 * TEST_PATH_BYTES_MAX], train[2 * TEST_PATH_BYTES_MAX];
    struct err err;
    snprintf(dir, sizeof dir, "run.dir=%s/%s", f->folder, name);
    snprintf(train, sizeof train, "data.train=%s/text", f->folder);
    const char *sets[SETS_MAX] = {dir,
                                  train,
                                  "device=cuda",
                                  "threads=1",
                                  "run.steps=7",
                                  "run.seed=5",
                                  "data.memory=4MiB",
                                  "data.workers=1",
                                  "data.text.block=16",
                                  "model.type=gpt2",
                                  "model.layers=1",
                                  "model.width=16",
                                  "model.heads=2",
                                  "batch.global=3",
                                  "batch.micro=1",
                                  "optimizer.lr=1e-2",
                                  "schedule.warmup=2",
                                  "schedule.min_lr=1e-4",
                                  "log.every=1000",
                                  "eval.every=0",
                                  "checkpoint.every=0"};
    size_t count = 0;
    while (sets[count])
        count++;
    for (; *extra; extra++)
        sets[count++] = *extra;
    assert_ok(config_parse("", 0, "none", sets, count, config, &err), &err);
}

/* A run that the test steps, with its configuration and options. */
struct manual_run {
    struct train_config config;
    struct trainer_options options;
    struct run run;
};

static struct manual_run *manual_run_open(const struct fixture *f, const char *name,
                                          const char *const *extra)
{
    struct manual_run *s = calloc(1, sizeof *s);
    struct err err;
    assert_non_null(s);
    configure(f, name, extra, &s->config);
    s->options = (struct trainer_options){.config = &s->config, .io = f->io};
    assert_ok(run_open(&s->run, &s->options, memory_plan_check_run, &err), &err);
    return s;
}

static void manual_run_close(struct manual_run *s)
{
    run_close(&s->run);
    free(s);
}

static void steps_neither_block_nor_allocate(void **state)
{
    const struct fixture *f = *state;
    static const char *const models[][4] = {
        {"precision.compute=bf16", NULL},
        {"precision.compute=fp16", "model.type=llama", "data.text.mask=document", NULL},
        {"model.layers=4", "model.offload=1", NULL},
    };
    enum { WARM = 3, STEPS = 7 };
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        char name[32];
        struct err err;
        order_set(ORDER_LATE); /* work runs only when it is waited for */
        snprintf(name, sizeof name, "waits-%zu", m);
        struct manual_run *s = manual_run_open(f, name, models[m]);
        struct shim_counts before = {0};
        for (int step = 1; step <= STEPS; step++) {
            assert_ok(run_step(&s->run, &err), &err);
            struct shim_counts counts = shim_counts();
            /* the latest steps are pending, and so are their updates */
            if (step > UNREAD_STEPS_MAX)
                assert_true(counts.waiting >
                            UNREAD_STEPS_MAX * s->run.compute.params->groups_count);
            if (step == WARM)
                before = counts;
        }
        const struct shim_counts after = shim_counts();
        uint64_t steps = STEPS - WARM, groups = s->run.compute.params->groups_count;
        assert_int_equal(after.stream_waits, before.stream_waits);
        assert_int_equal(after.allocations, before.allocations);
        /* waits: for each micro-batch's buffer to return to the loader, and for the step two before
         * the latest */
        assert_int_equal(after.event_waits - before.event_waits, steps * (MICROS + 1));
        /* per micro-batch: two copies, a graph and a reading of the device's clock; then two sums
         * of the tree; words, squares, clipping, record, and four more clock readings */
        assert_int_equal(after.queued - before.queued, steps * (4 * MICROS + 2 + groups + 4 + 4));
        assert_int_equal(s->run.queue.count, UNREAD_STEPS_MAX);
        assert_ok(run_drain(&s->run, 0, &err), &err);
        assert_int_equal(s->run.update.optimizer.updates, STEPS);
        assert_int_equal(s->run.queue.window.samples_count, STEPS * MICROS);
        manual_run_close(s);
    }
}

/* The clock ticks once per reading, in graphs and outside, so a category's time counts its
 * readings. */
static void device_time_is_reported_by_category(void **state)
{
    enum { STEPS = 5, TICK_NS = 1000 };
    for (size_t order = 0; order < order_count(); order++) {
        struct err err;
        char name[32];
        order_set(order);
        shim_set_clock(TICK_NS);
        snprintf(name, sizeof name, "times-%zu", order);
        struct manual_run *s =
            manual_run_open(*state, name, (const char *const[]){"precision.compute=bf16", NULL});
        for (int step = 1; step <= STEPS; step++)
            assert_ok(run_step(&s->run, &err), &err);
        assert_ok(run_drain(&s->run, 0, &err), &err);
        const uint64_t *ns = s->run.queue.device_times.ns;
        assert_int_equal(ns[TIME_FORWARD], STEPS * MICROS * TICK_NS);
        assert_int_equal(ns[TIME_BACKWARD], STEPS * MICROS * TICK_NS);
        assert_int_equal(ns[TIME_REDUCE], STEPS * (MICROS + 1) * TICK_NS);
        assert_int_equal(ns[TIME_UPDATE], STEPS * TICK_NS);
        manual_run_close(s);
        shim_set_clock(0);
    }
}

/* The results of one run. */
struct outcome {
    struct ckpt_hashes hashes;
    uint64_t step, skipped_count;
    struct step_totals totals;
    struct err err;
    int status;
};

static void count_skipped(void *context, enum log_level level, const char *line)
{
    struct outcome *outcome = context;
    (void)level;
    outcome->skipped_count += strstr(line, "was skipped") != NULL;
}

/* stops_at_once: requests a stop before the run, which then takes a single step. */
static void run(const struct fixture *f, const char *name, const char *const *extra,
                bool stops_at_once, struct outcome *outcome)
{
    char ckpt[3 * TEST_PATH_BYTES_MAX];
    struct train_config config;
    struct trainer_result result = {0};
    atomic_int stop = stops_at_once;
    const struct log log = {.write = count_skipped, .context = outcome, .level_min = LOG_INFO};
    configure(f, name, extra, &config);
    const struct trainer_options options = {
        .config = &config, .io = f->io, .stop = &stop, .log = &log};
    outcome->status = trainer_run(&options, &result, &outcome->err);
    outcome->step = result.step;
    if (outcome->status)
        return;
    snprintf(ckpt, sizeof ckpt, "%s/%s/ckpt", f->folder, name);
    assert_ok(ckpt_hash(f->io, ckpt, &outcome->hashes, NULL, NULL, &outcome->err), &outcome->err);
}

static void graph_launches_are_bit_identical_to_direct_ones(void **state)
{
    const struct fixture *f = *state;
    /* the first pass of a run is not a graph, so each run takes one step of one micro-batch */
    static const char *const extra[] = {"precision.compute=bf16", "batch.micro=3", NULL};
    enum { STEPS = 7 };
    order_set(0);
    struct outcome single = {0};
    for (int step = 1; step <= STEPS; step++) {
        run(f, "single", extra, true, &single);
        assert_ok(single.status, &single.err);
        assert_int_equal(single.step, step);
    }
    for (size_t order = 0; order < order_count(); order++) {
        char name[32];
        struct outcome replayed = {0};
        order_set(order);
        snprintf(name, sizeof name, "replayed-%zu", order);
        run(f, name, extra, false, &replayed);
        assert_ok(replayed.status, &replayed.err);
        assert_int_equal(replayed.step, STEPS);
        assert_memory_equal(&replayed.hashes, &single.hashes, sizeof single.hashes);
    }
}

static void queued_steps_are_bit_identical_to_synchronous_ones(void **state)
{
    const struct fixture *f = *state;
    /* updates so large that gradients overflow in half precision */
    static const char *const late[] = {"precision.compute=fp16", "optimizer.lr=3",
                                       "optimizer.clip_norm=0", "run.steps=12", NULL},
                             *const at_once[] = {"precision.compute=fp16",
                                                 "optimizer.lr=3",
                                                 "optimizer.clip_norm=0",
                                                 "run.steps=12",
                                                 "log.every=1",
                                                 NULL};
    struct outcome expected = {0};
    order_set(0);
    run(f, "at-once", at_once, false, &expected);
    assert_ok(expected.status, &expected.err);
    assert_in_range(expected.skipped_count, 1, 11);
    for (size_t order = 0; order < order_count(); order++) {
        char name[32];
        struct outcome found = {0};
        order_set(order);
        snprintf(name, sizeof name, "late-%zu", order);
        run(f, name, late, false, &found);
        assert_ok(found.status, &found.err);
        assert_int_equal(found.skipped_count, expected.skipped_count);
        assert_memory_equal(&found.hashes, &expected.hashes, sizeof found.hashes);
    }
}

static void offloaded_weights_are_bit_identical_in_any_order(void **state)
{
    const struct fixture *f = *state;
    static const char *const precisions[] = {"precision.compute=fp32", "precision.compute=bf16"};
    for (size_t p = 0; p < sizeof precisions / sizeof precisions[0]; p++) {
        const char *const plain[] = {precisions[p], "model.layers=3", "run.steps=3", NULL};
        const char *const offloaded[] = {precisions[p],
                                         "model.layers=3",
                                         "run.steps=3",
                                         "parallel.strategy=zero3",
                                         "parallel.prefetch=2",
                                         "parallel.groups_at_once=3",
                                         "parallel.offload.params=true",
                                         p > 0 ? "parallel.offload.optimizer=true" : NULL,
                                         NULL};
        struct outcome expected = {0};
        char name[48];
        order_set(0);
        snprintf(name, sizeof name, "on-device-%zu", p);
        run(f, name, plain, false, &expected);
        assert_ok(expected.status, &expected.err);
        for (size_t order = 0; order < order_count(); order++) {
            struct outcome found = {0};
            order_set(order);
            snprintf(name, sizeof name, "from-host-%zu-%zu", p, order);
            run(f, name, offloaded, false, &found);
            assert_ok(found.status, &found.err);
            assert_memory_equal(&found.hashes, &expected.hashes, sizeof found.hashes);
        }
    }
}

/* Returns a copy of a single-rank run's weights, malloc'ed. */
static void *copy_weights(struct run *run)
{
    struct device *device = run->compute.device;
    size_t bytes = run->compute.params->elements * ops_master_bytes(run->compute.ops);
    void *pinned, *copy = malloc(bytes);
    struct err err;
    assert_non_null(copy);
    assert_ok(device->ops->mem_alloc(device, MEM_PINNED, bytes, &pinned, &err), &err);
    assert_ok(device->ops->copy(device, run->compute.ops->stream, pinned,
                                run->compute.weights.master, bytes, &err),
              &err);
    assert_ok(device->ops->stream_sync(device, run->compute.ops->stream, &err), &err);
    memcpy(copy, pinned, bytes);
    device->ops->mem_free(device, MEM_PINNED, pinned, bytes);
    return copy;
}

static void a_non_finite_step_is_reported_late_and_changes_nothing(void **state)
{
    const struct fixture *f = *state;
    /* weights that decay past zero grow with each step */
    static const char *const far[] = {"optimizer.lr=1000", "optimizer.weight_decay=1",
                                      "schedule.warmup=200", "run.steps=50", NULL};
    struct err expected_err = {0}, err = {0};
    void *expected = NULL;
    order_set(0);
    struct manual_run *once = manual_run_open(f, "far-once", far);
    size_t bytes = once->run.compute.params->elements * ops_master_bytes(once->run.compute.ops);
    int status = 0;
    uint64_t last = 0;
    while (!status) {
        free(expected);
        expected = copy_weights(&once->run);
        last++;
        status = run_step(&once->run, &err);
        assert_ok(status, &err);
        status = run_drain(&once->run, 0, &expected_err);
    }
    manual_run_close(once);
    assert_int_equal(status, -EDOM);
    print_message("not finite in step %llu\n", (unsigned long long)last);
    assert_true(last > 2);
    for (size_t order = 0; order < order_count(); order++) {
        char name[32];
        order_set(order);
        snprintf(name, sizeof name, "far-%zu", order);
        struct manual_run *s = manual_run_open(f, name, far);
        for (uint64_t step = 1; step < last + UNREAD_STEPS_MAX; step++)
            assert_ok(run_step(&s->run, &err), &err);
        assert_int_equal(run_step(&s->run, &err), -EDOM);
        assert_string_equal(err.what, expected_err.what);
        void *found = copy_weights(&s->run);
        assert_memory_equal(found, expected, bytes);
        free(found);
        manual_run_close(s);
    }
    free(expected);
}

/* The device's function table, with copies that fail while a stream is captured. */
static struct device_ops cut;
static const struct device_ops *whole;
static bool is_recording;

static int begin_capture(struct device *device, struct device_stream *stream, struct err *err)
{
    is_recording = true;
    return whole->graph_begin(device, stream, err);
}

static int end_capture(struct device *device, struct device_stream *stream,
                       struct device_graph **ret_graph, struct err *err)
{
    is_recording = false;
    return whole->graph_end(device, stream, ret_graph, err);
}

static int copy_or_fail(struct device *device, struct device_stream *stream, void *target,
                        const void *source, size_t bytes, struct err *err)
{
    return is_recording ? err_set(err, -EIO, "the link is broken")
                        : whole->copy(device, stream, target, source, bytes, err);
}

static void a_failed_offload_copy_is_reported_from_a_capture(void **state)
{
    static const char *const offloads[] = {"model.layers=4", "model.offload=1", NULL};
    struct err err = {0};
    int status = 0;
    order_set(0);
    struct manual_run *s = manual_run_open(*state, "cut", offloads);
    struct device *device = s->run.compute.device;
    whole = device->ops;
    cut = *whole;
    cut.graph_begin = begin_capture;
    cut.graph_end = end_capture;
    cut.copy = copy_or_fail;
    device->ops = &cut;
    for (int step = 0; step < 3 && !status; step++)
        status = run_step(&s->run, &err);
    assert_int_equal(status, -EIO);
    assert_string_equal(err.what, "the link is broken");
    device->ops = whole;
    manual_run_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_neither_block_nor_allocate),
        cmocka_unit_test(device_time_is_reported_by_category),
        cmocka_unit_test(graph_launches_are_bit_identical_to_direct_ones),
        cmocka_unit_test(queued_steps_are_bit_identical_to_synchronous_ones),
        cmocka_unit_test(offloaded_weights_are_bit_identical_in_any_order),
        cmocka_unit_test(a_non_finite_step_is_reported_late_and_changes_nothing),
        cmocka_unit_test(a_failed_offload_copy_is_reported_from_a_capture),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
