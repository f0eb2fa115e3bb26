/*
 * ranks — tests that runs of several ranks on GPUs are bit-identical to a single rank, whether
 * weights and gradients pass through NCCL or, by MPI, through the host. The shim simulates GPUs,
 * streams and NCCL.
 */
#include "tests/support/ranks.h"
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/order.h"

#include "ckpt/ckpt.h"
#include "convert/dataset/dataset.h"
#include "trainer/parallel/reduction/reduction.h"
#include "trainer/plan/dry_run.h"
#include "trainer/trainer.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SETS_MAX = 48, TEXT_BYTES = 3000, GPUS = 4, ORDER_LATE = 1, ORDER_RANDOM = 2 };

static char folder[TEST_PATH_BYTES_MAX];
static struct io *io;
static struct ckpt_hashes single_rank_hashes; /* of a run on a single rank */
static uint64_t runs_count;

static void configure(const char *name, const char *const *extra, struct train_config *ret_config)
{
    char dir[2 * TEST_PATH_BYTES_MAX], train[2 * TEST_PATH_BYTES_MAX];
    struct err err;
    snprintf(dir, sizeof dir, "run.dir=%s/%s", folder, name);
    snprintf(train, sizeof train, "data.train=%s/text", folder);
    const char *sets[SETS_MAX] = {dir,
                                  train,
                                  "device=cuda",
                                  "threads=1",
                                  "run.steps=2",
                                  "run.seed=5",
                                  "data.memory=4MiB",
                                  "data.workers=1",
                                  "data.text.block=8",
                                  "model.type=gpt2",
                                  "model.layers=2",
                                  "model.width=16",
                                  "model.heads=1",
                                  "precision.compute=bf16",
                                  "batch.global=4",
                                  "batch.micro=1",
                                  "optimizer.lr=1e-2",
                                  "optimizer.clip_norm=0.5",
                                  "log.every=1000",
                                  "eval.every=0",
                                  "checkpoint.every=0",
                                  "parallel.timeout=60s"};
    size_t count = 0;
    while (sets[count])
        count++;
    for (; *extra; extra++)
        sets[count++] = *extra;
    assert_ok(config_parse("", 0, "none", sets, count, ret_config, &err), &err);
}

/* the latest run's configuration, and its ranks' memory and traffic as reported to the first
 * rank */
static struct train_config config;
static struct usage used[GPUS];
/* The message about how weights are exchanged; "" if there was none. */
static char said[256];
static char warned[1024]; /* the first warning */

static void keep_warning(void *context, enum log_level level, const char *line)
{
    (void)context;
    if (level == LOG_WARN && !warned[0])
        snprintf(warned, sizeof warned, "%s", line);
}

static void note_report(void *context, const struct trainer_report *report)
{
    (void)context;
    if (report->event == TRAINER_STARTED && report->text &&
        strncmp(report->text, "ranks: weights", 14) == 0)
        snprintf(said, sizeof said, "%s", report->text);
    if (report->event == TRAINER_USAGE)
        used[report->rank] = *report->usage;
}

static int train(struct comm *comm, const char *name, const char *const *extra, struct err *err)
{
    struct trainer_result result = {0};
    said[0] = warned[0] = '\0';
    configure(name, extra, &config);
    const struct log log = {.write = keep_warning, .level_min = LOG_WARN};
    const struct trainer_options options = {.config = &config,
                                            .comm = comm,
                                            .local_rank = comm ? comm->rank : 0,
                                            .io = io,
                                            .log = &log,
                                            .report = note_report};
    return trainer_run(&options, &result, err);
}

static void read_hashes(const char *name, struct ckpt_hashes *ret_hashes)
{
    char path[3 * TEST_PATH_BYTES_MAX];
    struct err err;
    snprintf(path, sizeof path, "%s/%s/ckpt", folder, name);
    assert_ok(ckpt_hash(io, path, ret_hashes, NULL, NULL, &err), &err);
}

static void one_rank_computes_the_reference_hashes(void **state)
{
    (void)state;
    char path[2 * TEST_PATH_BYTES_MAX], target[2 * TEST_PATH_BYTES_MAX], text[TEXT_BYTES];
    static const char *const none[] = {NULL};
    struct convert_result result;
    struct err err = {0};
    shim_set_driver(CUDART_VERSION, GPUS);
    order_set(0);
    ranks_make_folder(folder);
    assert_ok(io_open(folder, NULL, &io, &err), &err);
    if (world->rank == 0) {
        snprintf(path, sizeof path, "%s/text.txt", folder);
        snprintf(target, sizeof target, "%s/text", folder);
        for (int i = 0; i < TEXT_BYTES; i++)
            text[i] = (char)('a' + i * i / 7 % 19);
        test_write_file(path, text, sizeof text);
        const struct convert_options convert = {
            .source = path, .target = target, .tokenizer = "bytes", .errors_max = -1};
        assert_ok(convert_dataset(io, &convert, &result, &err), &err);
        assert_ok(train(NULL, "alone", none, &err), &err);
    }
    ranks_barrier();
    read_hashes("alone", &single_rank_hashes);
}

/* A dry run of the latest run predicts each rank's peak memory and traffic exactly. */
static void check_dry_run(bool uses_nccl)
{
    struct trainer_dry_run_options options = {.config = &config,
                                              .io = io,
                                              .backend = ops_null_cuda(),
                                              .ranks = (uint32_t)world->ranks,
                                              .local_ranks = (uint32_t)world->ranks,
                                              .uses_nccl = uses_nccl};
    for (int r = 0; r < world->ranks; r++) {
        struct trainer_dry_run predicted;
        struct err err = {0};
        options.rank = (uint32_t)r;
        assert_ok(trainer_dry_run(&options, &predicted, &err), &err);
        assert_memory_equal(&predicted.usage.traffic, &used[r].traffic, sizeof used[r].traffic);
        for (int use = MEM_FOR_PARAMETERS; use <= MEM_FOR_COMMUNICATION; use++)
            assert_memory_equal(predicted.usage.peak_bytes[use], used[r].peak_bytes[use],
                                sizeof used[r].peak_bytes[use]);
        if (uses_nccl && config.parallel.reduction == REDUCTION_CANONICAL) /* nothing is staged */
            assert_int_equal(predicted.usage.peak_bytes[MEM_FOR_COMMUNICATION][MEM_PINNED], 0);
    }
}

/* uses_nccl: each rank has a GPU with this order of streams; else data goes through the host. */
static void check_bits(bool uses_nccl, size_t order, const char *const *extra)
{
    char name[64];
    struct ckpt_hashes found;
    struct err err = {0};
    order_set(order);
    snprintf(name, sizeof name, "run-%llu", (unsigned long long)runs_count++);
    assert_ok(train(world, name, extra, &err), &err);
    if (world->rank == 0 && world->ranks > 1)
        assert_true((strstr(said, "weights and gradients are sent from GPU to GPU with NCCL") !=
                     NULL) == uses_nccl);
    if (world->rank == 0)
        check_dry_run(uses_nccl);
    ranks_barrier();
    read_hashes(name, &found);
    assert_memory_equal(&found, &single_rank_hashes, sizeof found);
    ranks_barrier();
}

static void ddp_is_bit_identical_to_one_rank(void **state)
{
    (void)state;
    check_bits(true, ORDER_RANDOM,
               (const char *const[]){"parallel.strategy=ddp", "parallel.bucket=8KiB", NULL});
}

static void zero2_is_bit_identical_to_one_rank(void **state)
{
    (void)state;
    check_bits(true, 0,
               (const char *const[]){"parallel.strategy=zero2", "parallel.comm=nccl", NULL});
}

static const char *const zero3[] = {"parallel.strategy=zero3",
                                    "parallel.bucket=8KiB",
                                    "parallel.prefetch=2",
                                    "parallel.offload.optimizer=true",
                                    NULL,
                                    NULL};

static void zero3_is_bit_identical_to_one_rank(void **state)
{
    (void)state;
    check_bits(true, ORDER_LATE, zero3);
}

static void zero3_through_the_host_is_bit_identical_to_one_rank(void **state)
{
    const char *sets[sizeof zero3 / sizeof zero3[0]];
    (void)state;
    memcpy(sets, zero3, sizeof zero3);
    sets[sizeof zero3 / sizeof zero3[0] - 2] = "parallel.comm=host";
    check_bits(false, ORDER_RANDOM, sets);
}

/* Weights are gathered from each rank's pinned memory, on a separate stream. */
static void offloaded_weights_are_bit_identical_to_one_rank(void **state)
{
    (void)state;
    check_bits(
        true, ORDER_RANDOM,
        (const char *const[]){"parallel.strategy=zero3", "parallel.offload.params=true", NULL});
}

/* Non-canonical sums go through the host, weights through NCCL. */
static void fast_sums_can_pass_through_the_host(void **state)
{
    (void)state;
    static const char *const sets[] = {"parallel.strategy=zero1", "parallel.reduction=fast",
                                       "parallel.comm=nccl", NULL};
    struct err err = {0};
    if (world->ranks == 1)
        return;
    order_set(0);
    assert_ok(train(world, "fast", sets, &err), &err);
    if (world->rank == 0) {
        assert_non_null(strstr(said, "weights are sent from GPU to GPU with NCCL"));
        assert_non_null(strstr(said, "sums go through the host"));
        check_dry_run(true);
    }
    ranks_barrier();
}

/* Some groups are sharded and others are not, and ranks compare their calls. */
static void checked_communicators_are_bit_identical_to_one_rank(void **state)
{
    (void)state;
    check_bits(true, ORDER_RANDOM,
               (const char *const[]){"parallel.strategy=zero3", "parallel.keep_below_params=3500",
                                     "parallel.debug=true", NULL});
}

static void ranks_that_share_a_gpu_communicate_through_the_host(void **state)
{
    (void)state;
    static const char *const by_itself[] = {NULL}, *const nccl[] = {"parallel.comm=nccl", NULL};
    struct err err = {0};
    if (world->ranks == 1)
        return;
    shim_set_driver(CUDART_VERSION, 1);
    order_set(0);
    assert_ok(train(world, "shared", by_itself, &err), &err);
    if (world->rank == 0)
        assert_string_equal(
            said,
            "ranks: weights and gradients go through the host because ranks 0 and 1 share a GPU");
    assert_int_equal(train(world, "refused", nccl, &err), -ENOTSUP);
    assert_string_equal(err.what, "ranks 0 and 1 share a GPU");
    shim_set_driver(CUDART_VERSION, GPUS);
    ranks_barrier();
}

static void an_nccl_older_than_the_builds_causes_a_warning(void **state)
{
    (void)state;
    static const char *const by_itself[] = {NULL}, *const nccl[] = {"parallel.comm=nccl", NULL};
    struct err err = {0};
    if (world->ranks == 1)
        return;
    order_set(0);
    shim_set_nccl(20000);
    assert_ok(train(world, "older", by_itself, &err), &err);
    assert_string_equal(said, "");
    if (world->rank == 0) {
        assert_non_null(strstr(warned, "go through the host, which is much slower"));
        assert_non_null(strstr(warned, "rank 0 has no usable NCCL; NCCL is older than the one"));
        assert_non_null(strstr(warned, "found 2.0.0; put the newer one first in LD_LIBRARY_PATH"));
    }
    assert_int_equal(train(world, "refused", nccl, &err), -ENOTSUP);
    assert_string_equal(err.what, "rank 0 has no usable NCCL");
    shim_set_nccl(0);
    ranks_barrier();
}

static void the_test_folder_is_removed(void **state)
{
    (void)state;
    io_close(io);
    ranks_remove_folder(folder);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_computes_the_reference_hashes),
        cmocka_unit_test(ddp_is_bit_identical_to_one_rank),
        cmocka_unit_test(zero2_is_bit_identical_to_one_rank),
        cmocka_unit_test(zero3_is_bit_identical_to_one_rank),
        cmocka_unit_test(zero3_through_the_host_is_bit_identical_to_one_rank),
        cmocka_unit_test(offloaded_weights_are_bit_identical_to_one_rank),
        cmocka_unit_test(fast_sums_can_pass_through_the_host),
        cmocka_unit_test(checked_communicators_are_bit_identical_to_one_rank),
        cmocka_unit_test(ranks_that_share_a_gpu_communicate_through_the_host),
        cmocka_unit_test(an_nccl_older_than_the_builds_causes_a_warning),
        cmocka_unit_test(the_test_folder_is_removed),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
