/*
 * train — tests whole runs on a CUDA device: the loader's batches, a model's steps, checkpoints.
 * They run on the CPU, where streams and threads take any legal order, and on a GPU if there is
 * one.
 */
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/test.h"

#include "ckpt/ckpt.h"
#include "ckpt/tools/diff.h"
#include "convert/dataset/dataset.h"
#include "image/jpeg/jpeg.h"
#include "trainer/plan/dry_run.h"
#include "trainer/plan/memory_plan.h"
#include "trainer/run/run.h"
#include "trainer/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STEPS = 4, STOP_STEP = 2, SETS_MAX = 48, TEXT_BYTES = 700, SIDE = 16, PICTURES = 12 };

/* A folder with a text dataset and an image dataset. */
struct fixture {
    char folder[TEST_PATH_BYTES_MAX];
    struct io *io;
};

static void make_text(const struct fixture *f)
{
    char path[2 * TEST_PATH_BYTES_MAX], target[2 * TEST_PATH_BYTES_MAX], text[TEXT_BYTES];
    struct err err;
    struct convert_result result;
    snprintf(path, sizeof path, "%s/text.txt", f->folder);
    snprintf(target, sizeof target, "%s/text", f->folder);
    for (int i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + i * i / 7 % 19);
    test_write_file(path, text, sizeof text);
    const struct convert_options convert = {
        .source = path, .target = target, .tokenizer = "bytes", .errors_max = -1};
    assert_ok(convert_dataset(f->io, &convert, &result, &err), &err);
}

/* Two classes, red images and blue ones, with some noise. */
static void make_pictures(const struct fixture *f)
{
    char source[2 * TEST_PATH_BYTES_MAX], target[2 * TEST_PATH_BYTES_MAX],
        path[3 * TEST_PATH_BYTES_MAX];
    struct err err;
    struct convert_result result;
    snprintf(source, sizeof source, "%s/photos", f->folder);
    snprintf(target, sizeof target, "%s/pictures", f->folder);
    assert_int_equal(mkdir(source, 0700), 0);
    for (int class = 0; class < 2; class ++) {
        snprintf(path, sizeof path, "%s/%d", source, class);
        assert_int_equal(mkdir(path, 0700), 0);
        for (int n = 0; n < PICTURES / 2; n++) {
            uint8_t rgb[SIDE * SIDE * 3];
            struct str jpeg = {0};
            for (int i = 0; i < SIDE * SIDE * 3; i++)
                rgb[i] = (uint8_t)((i % 3 == 2 * class ? 160 : 40) + (i * 31 + n * 17) % 60);
            assert_ok(jpeg_encode(rgb, SIDE, SIDE, SIDE * 3, 90, 0, &jpeg, &err), &err);
            snprintf(path, sizeof path, "%s/%d/%d.jpg", source, class, n);
            test_write_file(path, jpeg.data, jpeg.bytes);
            str_deinit(&jpeg);
        }
    }
    const struct convert_options convert = {.source = source, .target = target, .errors_max = -1};
    assert_ok(convert_dataset(f->io, &convert, &result, &err), &err);
}

static int set_up(void **state)
{
    static struct fixture f;
    struct err err;
    test_make_folder(f.folder);
    assert_ok(io_open(f.folder, NULL, &f.io, &err), &err);
    make_text(&f);
    make_pictures(&f);
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

/* The results of one run. */
struct outcome {
    double losses[STEPS + 1]; /* indexed by step, from 1 */
    double val_loss;
    struct ckpt_hashes hashes;
    atomic_int stop;
    uint64_t stop_step; /* 0: never */
};

static void record_loss(void *context, const struct trainer_report *report)
{
    struct outcome *outcome = context;
    if (report->event != TRAINER_PROGRESS)
        return;
    outcome->losses[report->step] = report->loss;
    if (report->step == outcome->stop_step)
        atomic_store(&outcome->stop, 1);
}

/* Configures a run in folder/name. extra: NULL-terminated settings that override the small
 * model's. */
static void configure(const struct fixture *f, const char *name, const char *device,
                      const char *const *extra, struct train_config *config)
{
    char dir[2 * TEST_PATH_BYTES_MAX], train[2 * TEST_PATH_BYTES_MAX], val[2 * TEST_PATH_BYTES_MAX],
        on[32];
    bool pictures = strstr(extra[0], "vit") != NULL;
    snprintf(dir, sizeof dir, "run.dir=%s/%s", f->folder, name);
    snprintf(train, sizeof train, "data.train=%s/%s", f->folder, pictures ? "pictures" : "text");
    snprintf(val, sizeof val, "data.val=%s/%s", f->folder, pictures ? "pictures" : "text");
    snprintf(on, sizeof on, "device=%s", device);
    const char *sets[SETS_MAX] = {dir,
                                  train,
                                  val,
                                  on,
                                  "threads=1",
                                  "run.steps=4",
                                  "run.seed=5",
                                  "data.memory=4MiB",
                                  "data.workers=1",
                                  "data.image.size=16",
                                  "data.text.block=24",
                                  "model.layers=2",
                                  "model.width=32",
                                  "model.heads=2",
                                  "model.patch=4",
                                  "batch.global=6",
                                  "batch.micro=2",
                                  "optimizer.lr=1e-2",
                                  "schedule.warmup=2",
                                  "schedule.min_lr=1e-4",
                                  "log.every=1",
                                  "eval.every=0",
                                  "checkpoint.every=1",
                                  "checkpoint.keep.last=1"};
    size_t count = 0;
    while (sets[count])
        count++;
    for (; *extra; extra++)
        sets[count++] = *extra;
    struct err err;
    assert_ok(config_parse("", 0, "none", sets, count, config, &err), &err);
}

static void run(const struct fixture *f, const char *name, const char *device,
                const char *const *extra, struct outcome *outcome)
{
    char ckpt[3 * TEST_PATH_BYTES_MAX];
    struct train_config config;
    struct err err;
    configure(f, name, device, extra, &config);
    const struct trainer_options options = {.config = &config,
                                            .io = f->io,
                                            .stop = &outcome->stop,
                                            .report = record_loss,
                                            .report_context = outcome};
    struct trainer_result result;
    assert_ok(trainer_run(&options, &result, &err), &err);
    assert_int_equal(result.end, outcome->stop_step ? TRAINER_STOPPED : TRAINER_DONE);
    outcome->val_loss = result.val_loss;
    snprintf(ckpt, sizeof ckpt, "%s/%s/ckpt", f->folder, name);
    assert_ok(ckpt_hash(f->io, ckpt, &outcome->hashes, NULL, NULL, &err), &err);
}

static void assert_same_bits(const struct outcome *a, const struct outcome *b)
{
    assert_memory_equal(&a->hashes, &b->hashes, sizeof a->hashes);
    assert_true(a->val_loss == b->val_loss);
    for (int step = 1; step <= STEPS; step++)
        if (a->losses[step] != b->losses[step])
            fail_msg("loss of step %d: %.17g, not %.17g", step, b->losses[step], a->losses[step]);
}

/* Every kind of model, and every option that changes what is queued. Training mixes images;
 * evaluations do not. */
static const char *const VIT[] = {"model.type=vit", "data.image.mixup=0.4", "data.image.cutmix=1",
                                  NULL},
                         *const GPT2[] = {"model.type=gpt2", NULL},
                         *const LLAMA[] = {"model.type=llama", "model.heads=4", "model.kv_heads=2",
                                           NULL},
                         *const QWEN3[] = {"model.type=qwen",
                                           "model.heads=4",
                                           "model.kv_heads=2",
                                           "model.qk_norm=true",
                                           "model.tied=true",
                                           "optimizer.type=lion",
                                           NULL},
                         *const MASKED[] = {"model.type=gpt2", "data.text.mask=document",
                                            "model.recompute=2", NULL};
static const char *const *const MODELS[] = {VIT, MASKED, LLAMA, GPT2, QWEN3};

/* Sanitizers are ten times slower, so they run only the first two models. */
static size_t models_count(void)
{
    return test_is_sanitized() ? 2 : sizeof MODELS / sizeof MODELS[0];
}

/* Appends one setting to extra. */
static const char *const *add_setting(const char *const *extra, const char *setting,
                                      const char *buffer[SETS_MAX])
{
    size_t count = 0;
    for (; extra[count]; count++)
        buffer[count] = extra[count];
    buffer[count] = setting;
    buffer[count + 1] = NULL;
    return buffer;
}

/* Asserts that the tensors of two runs' checkpoints have the same names, types and shapes. */
static void assert_same_tensors(const struct fixture *f, const char *a, const char *b)
{
    char paths[2][2 * TEST_PATH_BYTES_MAX];
    snprintf(paths[0], sizeof paths[0], "%s/%s/ckpt", f->folder, a);
    snprintf(paths[1], sizeof paths[1], "%s/%s/ckpt", f->folder, b);
    const struct diff_side sides[] = {{f->io, paths[0]}, {f->io, paths[1]}};
    const struct diff_options options = {0};
    struct diff *diff;
    struct err err;
    assert_ok(diff_open(&sides[0], &sides[1], &options, &diff, &err), &err);
    for (int i = 0; i < CKPT_LOADER; i++) {
        const struct diff_section *section = &diff->sections[i];
        assert_true(section->compared_count > 0);
        assert_int_equal(section->type_count + section->only_a_count + section->only_b_count, 0);
    }
    diff_close(diff);
}

static void losses_match_the_cpu(void **state)
{
    const struct fixture *f = *state;
    const struct {
        const char *precision;
        /* relative; allows for a different order of sums and for activations of 8 significant
         * bits */
        double tolerance;
    } cases[] = {{"precision.compute=fp32", 2e-5},
                 {"precision.compute=bf16", 3e-2},
                 {"precision.compute=fp16", 6e-3}};
    for (size_t m = 0; m < models_count(); m++) {
        struct outcome cpu = {0};
        char cpu_name[32], name[32];
        snprintf(cpu_name, sizeof cpu_name, "cpu-%zu", m);
        run(f, cpu_name, "cpu", MODELS[m], &cpu);
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            const char *buffer[SETS_MAX];
            struct outcome cuda = {0};
            order_set(c);
            snprintf(name, sizeof name, "cuda-%zu-%zu", m, c);
            run(f, name, "cuda", add_setting(MODELS[m], cases[c].precision, buffer), &cuda);
            for (int step = 1; step <= STEPS; step++)
                if (!(fabs(cuda.losses[step] - cpu.losses[step]) <=
                      cases[c].tolerance * (1 + fabs(cpu.losses[step]))))
                    fail_msg("%s %s: loss %.9g in step %d, the cpu has %.9g", MODELS[m][0],
                             cases[c].precision, cuda.losses[step], step, cpu.losses[step]);
            assert_true(fabs(cuda.val_loss - cpu.val_loss) <=
                        cases[c].tolerance * (1 + cpu.val_loss));
            assert_same_tensors(f, cpu_name, name);
        }
    }
}

static void results_do_not_depend_on_thread_or_stream_order(void **state)
{
    const struct fixture *f = *state;
    for (size_t m = 0; m < models_count(); m++) {
        struct outcome first = {0};
        const char *buffer[SETS_MAX];
        for (size_t order = 0; order < order_count(); order++) {
            struct outcome again = {0};
            char name[64];
            snprintf(name, sizeof name, "order-%zu-%zu", m, order);
            order_set(order);
            run(f, name, "cuda", add_setting(MODELS[m], "precision.compute=bf16", buffer),
                order ? &again : &first);
            if (order)
                assert_same_bits(&first, &again);
        }
    }
}

static void a_resumed_run_is_bit_identical(void **state)
{
    const struct fixture *f = *state;
    for (size_t m = 0; m < models_count(); m++) {
        struct outcome whole = {0}, begun = {.stop_step = STOP_STEP}, ended = {0};
        const char *buffer[SETS_MAX], *const *extra =
                                          add_setting(MODELS[m], "precision.compute=fp16", buffer);
        char name[64];
        order_set(1);
        snprintf(name, sizeof name, "whole-%zu", m);
        run(f, name, "cuda", extra, &whole);
        snprintf(name, sizeof name, "cut-%zu", m);
        run(f, name, "cuda", extra, &begun);
        run(f, name, "cuda", extra, &ended);
        for (int step = 1; step <= STEPS; step++)
            if (begun.losses[step] != 0) /* the request takes effect at the end of a step */
                ended.losses[step] = begun.losses[step];
        assert_same_bits(&whole, &ended);
    }
}

/* A run's memory outside the device, in bytes. */
struct host_memory {
    uint64_t predicted, pinned;      /* offloaded bytes, as predicted; all pinned bytes */
    uint64_t optimizer, activations; /* their shares of `predicted` if both are offloaded */
    /* bytes of activations copied, counted each time a pass is queued or captured */
    uint64_t copied;
};

/* Pinned bytes with that use. */
static uint64_t pinned_of(const struct usage *usage, enum mem_use use)
{
    return usage->peak_bytes[use][MEM_PINNED];
}

/* All memory is predicted exactly, for each use, and a run allocates nothing once it is open. */
static struct host_memory check_memory(const struct fixture *f, const char *name,
                                       const char *const *extra)
{
    struct train_config config;
    struct run run;
    struct device_mem_info opened, stepped, evaluated;
    struct trainer_dry_run predicted;
    struct err err;
    configure(f, name, "cuda", extra, &config);
    const struct trainer_options options = {.config = &config, .io = f->io};
    assert_ok(run_open(&run, &options, memory_plan_check_run, &err), &err);
    run.compute.device->ops->mem_info(run.compute.device, &opened);
    assert_ok(run_step(&run, &err), &err);
    assert_ok(run_step(&run, &err), &err);
    assert_ok(run_drain(&run, 0, &err), &err);
    run.compute.device->ops->mem_info(run.compute.device, &stepped);
    if (config.data.val[0])
        assert_ok(run_evaluate(&run, &err), &err);
    run.compute.device->ops->mem_info(run.compute.device, &evaluated);
    const struct trainer_dry_run_options itself = {
        .config = &config, .io = f->io, .backend = ops_null_cuda(), .ranks = 1, .local_ranks = 1};
    assert_ok(trainer_dry_run(&itself, &predicted, &err), &err);
    for (int use = 0; use < MEM_USE_COUNT; use++)
        for (int kind = 0; kind < MEM_KIND_COUNT; kind++)
            assert_int_equal(evaluated.use_peak_bytes[use][kind],
                             predicted.usage.peak_bytes[use][kind]);
    assert_int_equal(evaluated.used_bytes[MEM_DEVICE], opened.used_bytes[MEM_DEVICE]);
    assert_int_equal(stepped.peak_bytes[MEM_PINNED], opened.used_bytes[MEM_PINNED]);
    const struct offload *offload = run.compute.activations.offload;
    const struct host_memory host_memory = {
        .predicted = pinned_of(&predicted.usage, MEM_FOR_PARAMETERS) +
                     pinned_of(&predicted.usage, MEM_FOR_OPTIMIZER) +
                     pinned_of(&predicted.usage, MEM_FOR_ACTIVATIONS),
        .pinned = opened.used_bytes[MEM_PINNED],
        .optimizer = 3 * run.compute.params->elements * sizeof(float),
        .activations = model_offload_bytes(run.compute.model, &run.compute.stage),
        .copied = offload ? offload_copied_bytes(offload) : 0};
    run_close(&run);
    return host_memory;
}

static void a_run_uses_the_predicted_memory(void **state)
{
    const struct fixture *f = *state;
    order_set(0);
    for (size_t m = 0; m < models_count(); m++) {
        const char *buffer[SETS_MAX];
        char name[64];
        snprintf(name, sizeof name, "memory-%zu", m);
        check_memory(f, name, add_setting(MODELS[m], "precision.compute=bf16", buffer));
    }
}

/* Enough blocks to reuse the ring's slots. All are offloaded, or all but a recomputed one. No
 * evaluation. */
#define DEEP                                                                                       \
    "model.type=gpt2", "model.layers=5", "model.width=8", "model.heads=1", "data.text.block=8",    \
        "batch.global=4", "precision.compute=bf16", "data.val="
static const char *const PLAIN[] = {DEEP, NULL},
                         *const OFFLOADED[] = {DEEP, "model.offload=1",
                                               "parallel.offload.optimizer=true", NULL},
                         *const MIXED[] = {DEEP, "model.offload=1", "model.recompute=5",
                                           "parallel.offload.optimizer=true", NULL};

static void offloaded_state_is_reported_and_copied_once_per_pass(void **state)
{
    const struct fixture *f = *state;
    order_set(0);
    const struct host_memory plain = check_memory(f, "host_memory-plain", PLAIN),
                             moved = check_memory(f, "host_memory-offloaded", OFFLOADED);
    assert_int_equal(plain.predicted, 0);
    assert_int_equal(plain.copied, 0);
    assert_int_equal(moved.predicted, moved.optimizer + moved.activations);
    assert_int_equal(moved.pinned - plain.pinned, moved.predicted);
    assert_true(moved.copied > 0);
    assert_int_equal(moved.copied % (2 * moved.activations),
                     0); /* each byte is copied out and in */
}

static void offloading_is_bit_identical(void **state)
{
    const struct fixture *f = *state;
    struct outcome plain = {0};
    char name[64];
    order_set(0);
    run(f, "plain", "cuda", PLAIN, &plain);
    for (size_t order = 0; order < order_count(); order++) {
        struct outcome moved = {0};
        order_set(order);
        snprintf(name, sizeof name, "moved-%zu", order);
        run(f, name, "cuda", order % 2 ? OFFLOADED : MIXED, &moved);
        assert_same_bits(&plain, &moved);
    }
}

static void a_run_resumes_with_more_or_less_offloaded(void **state)
{
    const struct fixture *f = *state;
    const char *const *const sides[][2] = {{PLAIN, OFFLOADED}, {OFFLOADED, PLAIN}};
    struct outcome plain = {0};
    order_set(1);
    run(f, "at-once", "cuda", PLAIN, &plain);
    for (size_t i = 0; i < 2; i++) {
        struct outcome begun = {.stop_step = STOP_STEP}, ended = {0};
        char name[64];
        snprintf(name, sizeof name, "on-%zu", i);
        run(f, name, "cuda", sides[i][0], &begun);
        run(f, name, "cuda", sides[i][1], &ended);
        for (int step = 1; step <= STEPS; step++)
            if (begun.losses[step] != 0)
                ended.losses[step] = begun.losses[step];
        assert_same_bits(&plain, &ended);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_match_the_cpu),
        cmocka_unit_test(results_do_not_depend_on_thread_or_stream_order),
        cmocka_unit_test(a_resumed_run_is_bit_identical),
        cmocka_unit_test(a_run_uses_the_predicted_memory),
        cmocka_unit_test(offloaded_state_is_reported_and_copied_once_per_pass),
        cmocka_unit_test(offloading_is_bit_identical),
        cmocka_unit_test(a_run_resumes_with_more_or_less_offloaded),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
