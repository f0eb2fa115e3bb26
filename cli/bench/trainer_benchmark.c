#include "cli/bench/trainer_benchmark.h"
#include "cli/bench/io_benchmark.h"

#include "base/clock.h"
#include "base/os/thread_pool.h"
#include "trainer/ops/cpu/blas.h"
#include "trainer/plan/memory_plan.h"
#include "trainer/report/device_metrics.h"
#include "trainer/run/run.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { MATRIX_SIDE = 1024 }; /* larger matrices are hardly faster */

struct products {
    struct blas blas;
    float *matrices; /* three per thread */
};

static void multiply(void *context, size_t tile, unsigned worker)
{
    const struct products *products = context;
    const struct blas_product product = {.m = MATRIX_SIDE,
                                         .n = MATRIX_SIDE,
                                         .k = MATRIX_SIDE,
                                         .lda = MATRIX_SIDE,
                                         .ldb = MATRIX_SIDE,
                                         .ldc = MATRIX_SIDE,
                                         .alpha = 1};
    float *a = products->matrices + worker * 3 * (size_t)MATRIX_SIDE * MATRIX_SIDE;
    (void)tile;
    blas_multiply_f32(&products->blas, &product, a, a + (size_t)MATRIX_SIDE * MATRIX_SIDE,
                      a + 2 * (size_t)MATRIX_SIDE * MATRIX_SIDE);
}

/* Measures CPU time, so other load on the machine does not affect the result. */
static double repeat_products(struct thread_pool *pool, struct products *products, uint64_t ns)
{
    unsigned threads = thread_pool_count(pool);
    struct io_benchmark result = {0};
    thread_pool_run(pool, threads, multiply, products); /* warm-up: allocates memory */
    uint64_t until_ns = clock_now_ns() + ns;
    io_benchmark_begin(&result);
    do {
        thread_pool_run(pool, threads, multiply, products);
        result.operations_count += threads;
    } while (clock_now_ns() < until_ns);
    io_benchmark_end(&result);
    double flops = 2.0 * MATRIX_SIDE * MATRIX_SIDE * MATRIX_SIDE * (double)result.operations_count;
    return io_benchmark_per_cpu_second(&result, flops) * threads;
}

static int measure_products(unsigned threads, uint64_t ns, double *ret_flops_per_second,
                            struct err *err)
{
    struct thread_pool *pool;
    struct products products;
    int status = thread_pool_open(threads, &pool, err);
    if (status)
        return status;
    size_t elements = thread_pool_count(pool) * 3 * (size_t)MATRIX_SIDE * MATRIX_SIDE;
    products.matrices = malloc(elements * sizeof *products.matrices);
    status = products.matrices ? blas_open(&products.blas, err)
                               : err_set(err, -ENOMEM, "out of memory for matrices of %d x %d",
                                         MATRIX_SIDE, MATRIX_SIDE);
    for (size_t i = 0; i < elements && !status; i++)
        products.matrices[i] = 1.0f / MATRIX_SIDE;
    if (!status)
        *ret_flops_per_second = repeat_products(pool, &products, ns);
    free(products.matrices);
    thread_pool_close(pool);
    return status;
}

static int check_stop(const struct run *run, struct err *err)
{
    return run->control.stop_requested ? err_set(err, -EINTR, "stopped on request") : 0;
}

static int run_one_step(struct run *run, struct err *err)
{
    range_begin(&run->ranges, RANGE_STEP);
    int status = run_step(run, err);
    if (!status)
        status = run_average_weights(run, false, err);
    range_end(&run->ranges);
    if (!status)
        status = run_drain_all(run, err);
    return status ? status : check_stop(run, err);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* negated_waits: each step's wait for gradients, negated: the maximum over ranks is the
 * shortest wait. */
static int run_steps(struct run *run, const struct trainer_benchmark_job *job, uint64_t *step_ns,
                     int64_t *negated_waits, struct trainer_benchmark *result, struct err *err)
{
    int status = 0;
    category_timer_start(&run->ranges.timer, clock_now_ns());
    for (uint64_t i = 0; i < job->warmup_steps && !status; i++)
        status = run_one_step(run, err);
    run->queue.window = (struct step_totals){0};
    io_benchmark_begin(
        &result->totals); /* includes all parts, so that their sum cannot exceed it */
    category_timer_take(&run->ranges.timer, clock_now_ns());
    uint64_t began_ns = run->ranges.timer.switched_ns;
    for (uint64_t i = 0; i < job->steps && !status; i++) {
        uint64_t waited_ns = reduction_waited_ns(run->update.reduction);
        status = run_one_step(run, err);
        uint64_t now_ns = clock_now_ns();
        step_ns[i] = now_ns - began_ns;
        negated_waits[i] = (int64_t)(waited_ns - reduction_waited_ns(run->update.reduction));
        began_ns = now_ns;
    }
    if (status)
        return status;
    io_benchmark_end(&result->totals);
    result->time = category_timer_take(&run->ranges.timer, began_ns);
    qsort(step_ns, job->steps, sizeof *step_ns, compare_u64);
    result->median_ns = step_ns[job->steps / 2];
    return 0;
}

enum { EXCHANGE_RUNS = 5 };

static void acquire_gradients(void *context, uint64_t group, enum pass_direction direction)
{
    struct run *run = context;
    (void)direction;
    reduction_acquire(run->update.reduction, group);
}

static void release_gradients(void *context, uint64_t group, enum pass_direction direction)
{
    struct run *run = context;
    (void)direction;
    reduction_release(run->update.reduction, group);
}

/* Exchanges gradients as a step does, with arbitrary values. */
static int exchange_gradients(struct run *run, struct err *err)
{
    struct reduction *reduction = run->update.reduction;
    struct model_memory memory = {
        .acquire = acquire_gradients, .release = release_gradients, .context = run};
    int status = reduction_begin(reduction, run->step, err);
    for (uint64_t round = 0; round < reduction_rounds(reduction) && !status; round++) {
        reduction_set_memory(reduction, round, &memory);
        if (!reduction_is_hookless(reduction, round))
            model_walk(run->compute.model, &run->compute.stage, &memory, MODEL_BACKWARD);
        status = reduction_end_round(reduction, round, err);
    }
    if (!status)
        status = reduction_finish(reduction, err);
    for (uint64_t group = 0; group < run->compute.params->groups_count && !status; group++) {
        const void *gradients;
        if (run->compute.params->groups[group].trained_elements > 0)
            status = reduction_shard(reduction, group, &gradients, err);
    }
    return status ? status : run->compute.ops->table->sync(run->compute.ops, err);
}

/* negated_waits: from run_steps. */
static int measure_exchanges(struct run *run, const struct trainer_benchmark_job *job,
                             int64_t *negated_waits, struct trainer_benchmark *result,
                             struct err *err)
{
    int status =
        run_ranks_reduce(&run->ranks, negated_waits, job->steps, COMM_MAX, "comparing waits", err);
    for (uint64_t i = 0; i < job->steps && !status; i++)
        result->exchange_waited_ns += (uint64_t)-negated_waits[i] / job->steps;
    for (int i = 0; i < EXCHANGE_RUNS && !status; i++) {
        status = run_ranks_agree(&run->ranks, 0, "beginning together", err);
        uint64_t began_ns = clock_now_ns();
        if (!status)
            status = exchange_gradients(run, err);
        result->exchange_ns += (clock_now_ns() - began_ns) / EXCHANGE_RUNS;
    }
    return status;
}

static void describe_run(const struct run *run, const struct trainer_benchmark_job *job,
                         struct trainer_benchmark *result)
{
    bool is_text = run->config->model.type != MODEL_VIT,
         is_host = run->compute.device->ops->is_host;
    struct device_metrics metrics;
    struct rusage used;
    result->samples_count = run->queue.window.samples_count;
    result->tokens_count = is_text ? run->queue.window.valid_count : 0;
    result->is_async = !is_host;
    result->flops = model_flops(run->compute.model) *
                    (double)batching_owned_count(&run->data.batching) * (double)job->steps;
    getrusage(RUSAGE_SELF, &used);
    result->peak_process_bytes = (uint64_t)used.ru_maxrss * 1024;
    device_metrics_open(&metrics, run->compute.ops);
    if (!is_host)
        result->limit_flops_per_second = metrics.peak_flops;
    device_metrics_close(&metrics);
}

static int measure_steps(struct run *run, const struct trainer_benchmark_job *job,
                         struct trainer_benchmark *result, struct err *err)
{
    uint64_t *step_ns = malloc(job->steps * sizeof *step_ns);
    int64_t *negated_waits = malloc(job->steps * sizeof *negated_waits);
    int status =
        step_ns && negated_waits ? 0 : err_set(err, -ENOMEM, "out of memory for the step times");
    run->ranges.is_async = !run->compute.device->ops->is_host;
    status = run_ranks_agree(&run->ranks, status, "beginning together", err);
    if (!status)
        status = run_steps(run, job, step_ns, negated_waits, result, err);
    if (!status)
        status = weights_drain(&run->compute.weights, err);
    if (!status)
        describe_run(run, job, result);
    if (!status && run->ranks.comm->ranks > 1)
        status = measure_exchanges(run, job, negated_waits, result, err);
    free(step_ns);
    free(negated_waits);
    return status;
}

int trainer_benchmark_run(const struct trainer_options *options,
                          const struct trainer_benchmark_job *job,
                          struct trainer_benchmark *ret_result, struct err *err)
{
    struct trainer_benchmark result = {0};
    struct run run;
    struct err detail = {0};
    int status = run_open(&run, options, memory_plan_check_run, err);
    if (status)
        return status;
    bool is_host = run.compute.device->ops->is_host;
    result.threads = run_threads_count(&run);
    if (result.threads == 0)
        result.threads = thread_pool_cpu_count();
    if (is_host)
        status = measure_products(result.threads, job->products_ns, &result.limit_flops_per_second,
                                  &detail);
    else
        result.threads = 0;
    status = run_ranks_agree(&run.ranks, status, "measuring products", &detail);
    if (!status)
        status = measure_steps(&run, job, &result, &detail);
    if (status && status != -EINTR)
        run_abort(&run, status, &detail);
    if (status && err)
        *err = detail;
    run_close(&run);
    if (!status)
        *ret_result = result;
    return status;
}
