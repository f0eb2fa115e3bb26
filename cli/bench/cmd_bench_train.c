/*
 * cmd_bench_train — `millrace bench train [CONFIG.yaml]`: measures training steps, compares them
 * with their matrix products, and shows where the time goes.
 */
#include "base/clock.h"
#include "base/os/thread_pool.h"
#include "cli/bench/bench_models.h"
#include "cli/bench/trainer_benchmark.h"
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/core/storage.h"
#include "cli/ranks/local_ranks.h"
#include "cli/ranks/rank_session.h"
#include "cli/verbs/verbs.h"
#include "io/file_util.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

enum { RANKS_MAX = 512, STEPS_MAX = 1000000, BATCH_MAX = 65536 };
#define PRODUCTS_NS (CLOCK_NS_PER_S / 2)

struct bench_train_args {
    struct common_args common;
    uint32_t model;
    uint64_t steps, warmup_steps, ranks, batch, accumulation;
    struct option_list set;
};

enum { MODEL_ALL = BENCH_MODEL_COUNT };
static const char *const model_choices[] = {"gpt2", "llama", "vit", "all", NULL};

#define AT(member) offsetof(struct bench_train_args, member)
static const struct option option_rows[] = {
    {"model", 0, OPTION_CHOICE, AT(model), NULL, "all", "built-in model to train", model_choices},
    {"steps", 0, OPTION_COUNT, AT(steps), "N", "10", "steps to measure", .min = 1,
     .max = STEPS_MAX},
    {"warm-up", 0, OPTION_COUNT, AT(warmup_steps), "N", "2", "steps before the measurement",
     .max = STEPS_MAX},
    {"batch", 0, OPTION_COUNT, AT(batch), "N", "8", "built-in models: samples per micro-batch",
     .min = 1, .max = BATCH_MAX},
    {"accumulation", 0, OPTION_COUNT, AT(accumulation), "N", "1",
     "built-in models: micro-batches per rank and step", .min = 1, .max = BATCH_MAX},
    {"ranks", 'n', OPTION_COUNT, AT(ranks), "N", "1",
     "number of processes to start with mpirun; ignored under a launcher", .min = 1,
     .max = RANKS_MAX},
    {"set", 0, OPTION_REPEAT, AT(set), "KEY=VALUE", NULL,
     "set a key of the configuration, for example threads=1"},
};

struct measurement {
    const char *what;
    uint64_t global;
    struct trainer_benchmark result;
};

struct bench {
    const struct invocation *invocation;
    const struct bench_train_args *args;
    struct comm *comm;
    int local_rank;
    struct io *io;
    atomic_int *stop;
    char folder[IO_PATH_BYTES_MAX]; /* temporary */
    struct measurement measurements[BENCH_MODEL_COUNT];
    size_t measurements_count;
};

static int measure(struct bench *bench, const char *what, const struct train_config *config,
                   struct err *err)
{
    const struct trainer_options options = {.config = config,
                                            .comm = bench->comm,
                                            .local_rank = bench->local_rank,
                                            .resume = CONFIG_RESUME_NEVER,
                                            .io = bench->io,
                                            .stop = bench->stop,
                                            .log = bench->invocation->log};
    const struct trainer_benchmark_job job = {.warmup_steps = bench->args->warmup_steps,
                                              .steps = bench->args->steps,
                                              .products_ns = PRODUCTS_NS};
    struct measurement *m = &bench->measurements[bench->measurements_count];
    *m = (struct measurement){.what = what, .global = config->batch.global};
    int status = trainer_benchmark_run(&options, &job, &m->result, err);
    bench->measurements_count += !status;
    progress_update(bench->invocation->console, bench->measurements_count, 0);
    return status;
}

static int measure_model(struct bench *bench, enum bench_model model, struct err *err)
{
    struct train_config config;
    const struct bench_model_options options = {.folder = bench->folder,
                                                .batch = bench->args->batch,
                                                .accumulation = bench->args->accumulation,
                                                .ranks = (uint64_t)bench->comm->ranks,
                                                .sets = (const char *const *)bench->args->set.items,
                                                .sets_count = bench->args->set.count};
    int status = bench_model_configure(model, &options, &config, err);
    if (!status)
        status = config_resolve_batch(&config, (uint32_t)bench->comm->ranks, err);
    if (!status && bench->comm->rank == 0)
        status = bench_model_generate_data(model, bench->io, bench->folder, bench->stop,
                                           bench->invocation->log, err);
    status = rank_session_agree(bench->comm, status, err);
    return status ? status : measure(bench, bench_model_name(model), &config, err);
}

static int measure_models(struct bench *bench, struct err *err)
{
    int status = 0;
    for (int model = 0; model < BENCH_MODEL_COUNT && !status; model++)
        if (bench->args->model == MODEL_ALL || bench->args->model == (uint32_t)model)
            status = measure_model(bench, (enum bench_model)model, err);
    return status;
}

/* Leaves no files behind. */
static int measure_config(struct bench *bench, const char *path, struct err *err)
{
    struct train_config config;
    int status = config_load(path, (const char *const *)bench->args->set.items,
                             bench->args->set.count, &config, err);
    if (!status)
        status = config_resolve_batch(&config, (uint32_t)bench->comm->ranks, err);
    if (!status)
        status = io_join_path(bench->folder, "run", config.run.dir, err);
    config.checkpoint.dir[0] = config.log.jsonl[0] = config.log.tensorboard[0] = '\0';
    status = rank_session_agree(bench->comm, status, err);
    return status ? status : measure(bench, path, &config, err);
}

/* The steps' total time is measured separately, so that unaccounted time is visible. */
static void print_time(struct jsonx_writer *json, const struct trainer_benchmark *result)
{
    static const enum time_category categories[] = {TIME_LOAD,   TIME_FORWARD, TIME_BACKWARD,
                                                    TIME_REDUCE, TIME_UPDATE,  TIME_QUEUE,
                                                    TIME_DEVICE, TIME_SAVE,    TIME_OTHER};
    double all_ns = (double)result->totals.elapsed_ns;
    jsonx_begin_object(json, "time");
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++) {
        char key[32];
        bool is_device_time = categories[i] == TIME_QUEUE || categories[i] == TIME_DEVICE;
        bool is_host_time = categories[i] == TIME_FORWARD || categories[i] == TIME_BACKWARD ||
                            categories[i] == TIME_UPDATE;
        if (result->is_async ? is_host_time : is_device_time)
            continue;
        snprintf(key, sizeof key, "%s_share", time_category_name(categories[i]));
        jsonx_write_f64(json, key, (double)result->time.ns[categories[i]] / all_ns);
    }
    jsonx_end_object(json);
}

static void print_exchange(struct jsonx_writer *json, const struct trainer_benchmark *result)
{
    double alone_seconds = clock_seconds(result->exchange_ns),
           waited_seconds = clock_seconds(result->exchange_waited_ns);
    jsonx_begin_object(json, "exchange");
    jsonx_write_f64(json, "alone_seconds", alone_seconds);
    jsonx_write_f64(json, "waited_seconds", waited_seconds);
    jsonx_write_f64(json, "hidden_share",
                    waited_seconds < alone_seconds ? 1 - waited_seconds / alone_seconds : 0);
    jsonx_end_object(json);
}

static void print_measurement(struct jsonx_writer *json, const struct measurement *m, int ranks)
{
    const struct trainer_benchmark *result = &m->result;
    double seconds = clock_seconds(result->totals.elapsed_ns), rate = result->flops / seconds;
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "what", m->what);
    jsonx_write_u64(json, "batch_samples_count", m->global);
    jsonx_write_f64(json, "samples_per_second", (double)result->samples_count / seconds);
    jsonx_write_f64(json, "tokens_per_second",
                    result->tokens_count > 0 ? (double)result->tokens_count / seconds : NAN);
    jsonx_write_f64(
        json, "samples_per_cpu_second",
        io_benchmark_per_cpu_second(&result->totals, (double)result->samples_count / ranks));
    jsonx_write_f64(json, "median_step_seconds", clock_seconds(result->median_ns));
    jsonx_write_f64(json, "gigaflops_per_second", rate / 1e9);
    jsonx_write_f64(json, "limit_gigaflops_per_second", result->limit_flops_per_second / 1e9);
    jsonx_write_f64(json, "of_limit_fraction",
                    result->limit_flops_per_second > 0 ? rate / result->limit_flops_per_second
                                                       : NAN);
    print_time(json, result);
    if (result->exchange_ns > 0)
        print_exchange(json, result);
    jsonx_write_u64(json, "peak_process_bytes", result->peak_process_bytes);
    jsonx_end_object(json);
}

static int print(const struct bench *bench, struct err *err)
{
    struct output output;
    struct jsonx_writer *json = &output.json;
    output_begin(&output);
    jsonx_write_u64(json, "ranks_count", (uint64_t)bench->comm->ranks);
    jsonx_write_u64(json, "cpus_count", thread_pool_cpu_count());
    jsonx_write_u64(json, "threads_count", bench->measurements[0].result.threads);
    jsonx_write_u64(json, "steps_count", bench->args->steps);
    jsonx_begin_array(json, "measurements");
    for (size_t i = 0; i < bench->measurements_count; i++)
        print_measurement(json, &bench->measurements[i], bench->comm->ranks);
    jsonx_end_array(json);
    return output_end(&output, bench->args->common.json, stdout, err);
}

static int make_folder(struct bench *bench, struct err *err)
{
    struct io_stat info;
    int status = io_join_path(".", "millrace-bench-train", bench->folder, err);
    if (status || bench->comm->rank > 0)
        return status;
    if (bench->io->names->stat(bench->io, bench->folder, &info, NULL) == 0) {
        err_set(err, -EEXIST, "the temporary folder already exists");
        err_at(err, bench->folder, ERR_NO_OFFSET);
        err_advise(err, "remove it if it was left by an interrupted measurement");
        return -EEXIST;
    }
    return bench->io->names->make_folder(bench->io, bench->folder, err);
}

static int measure_in_folder(struct bench *bench, struct err *err)
{
    const struct invocation *invocation = bench->invocation;
    int folder_status = make_folder(bench, err);
    int status = rank_session_agree(bench->comm, folder_status, err);
    progress_begin(invocation->console, "measuring", PROGRESS_ITEMS);
    if (!status)
        status = invocation->positional_count
                     ? measure_config(bench, invocation->positional[0], err)
                     : measure_models(bench, err);
    progress_end(invocation->console);
    if (!folder_status && bench->comm->rank == 0)
        bench->io->names->remove(bench->io, bench->folder, NULL);
    return status;
}

static int run(const struct invocation *invocation, struct err *err)
{
    struct bench bench = {.invocation = invocation, .args = invocation->args};
    bool is_done;
    bench.stop = signals_install();
    int status = local_ranks_run(invocation, (unsigned)bench.args->ranks, &is_done, err);
    if (status || is_done)
        return status;
    status = rank_session_open(invocation, &bench.comm, &bench.local_rank, err);
    if (status)
        return status;
    status = rank_session_agree(bench.comm, storage_open(".", NULL, &bench.io, err), err);
    if (!status)
        status = measure_in_folder(&bench, err);
    if (!status && bench.comm->rank == 0)
        status = print(&bench, err);
    io_close(bench.io);
    return rank_session_close(invocation, bench.comm, status, err);
}

static const char *const examples[] = {
    "millrace bench train --model gpt2 --steps 1 --warm-up 0 --batch 1",
    "millrace bench train --model vit --steps 1 --warm-up 0 --batch 1 -n 2 --set threads=1 --json",
    "millrace bench train train.yaml --steps 2",
    NULL,
};

const struct verb verb_bench_train = {
    .name = "bench train",
    .arguments = {"[CONFIG.yaml]", 0, 1},
    .summary = "Compare the speed of training steps with matrix products and show where the time "
               "goes.",
    .details =

        "Without CONFIG.yaml, three small models are trained on generated data: a GPT-2 and a "
        "Llama of 6 blocks x 384 on windows of 256 bytes, and a ViT of the same size on "
        "photos of 224 x 224. With CONFIG.yaml, its model is trained on its data. A step "
        "includes everything from loading to the update, as in `millrace train`. The folder "
        "millrace-bench-train is created in the current folder and removed. On several ranks, "
        "rates are totals, and all other figures are those of the first rank. The exchange of "
        "a step's gradients is measured separately; its hidden share is the part that no step "
        "waited for. The limit is the rate of OpenBLAS for square matrices with the same "
        "number of threads, on all ranks at once, or the GPU's peak rate. Only a step's "
        "matrix products count as operations (docs/reference/models.md). Run nothing else "
        "during the measurement.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct bench_train_args),
    .run = run,
};
