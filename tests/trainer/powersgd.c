/*
 * powersgd — tests that compressed gradients of real ranks equal those of powersgd.py, a numpy
 * reference, and that incompressible shapes are sent uncompressed.
 */
#include "trainer/parallel/reduction/powersgd.h"

#include "tests/support/ranks.h"
#include "tests/trainer/reduction_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 7, MICROS = 7 };

/* A low-rank part plus noise. */
static float gradient(uint64_t step, uint64_t micro, uint64_t element)
{
    uint64_t bits = ((step * 64 + micro) * 1000003 + element) * UINT64_C(0x9E3779B97F4A7C15);
    double noise = (double)(bits >> 40) * 0x1p-24 - 0.5;
    return (float)(sin((double)element * 0.7) + 0.3 * cos((double)(element * step)) + noise);
}

static void write_floats(const char *folder, const char *name, const float *values, uint64_t count,
                         bool more)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    snprintf(path, sizeof path, "%s/%s.f32", folder, name);
    FILE *file = fopen(path, more ? "ab" : "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(values, sizeof *values, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Writes all trained tensors, one after another. */
static void write_tensors(const struct sum_case *sum_case, const char *folder, const char *name,
                          const float *arena)
{
    bool more = false;
    for (uint64_t i = 0; i < sum_case->params.count; i++) {
        const struct param *param = &sum_case->params.list[i];
        if (!param->frozen)
            write_floats(folder, name, arena + param->trained_offset, param->count, more);
        more = more || !param->frozen;
    }
}

static void write_shapes(const struct sum_case *sum_case, const char *folder)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    snprintf(path, sizeof path, "%s/shapes.txt", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (uint64_t i = 0; i < sum_case->params.count; i++) {
        const struct param *param = &sum_case->params.list[i];
        if (!param->frozen)
            fprintf(file, "%d %d %d\n", (int)param->shape[0], (int)(param->count / param->shape[0]),
                    (int)powersgd_compression_rank(&sum_case->plan.powersgd, param));
    }
    assert_int_equal(fclose(file), 0);
}

static void write_q(const struct sum_case *sum_case, const char *folder, uint64_t step)
{
    char name[32];
    bool more = false;
    snprintf(name, sizeof name, "q-%d", (int)step);
    for (uint64_t i = 0; i < sum_case->params.count; i++) {
        const struct param *param = &sum_case->params.list[i];
        uint64_t rank = powersgd_compression_rank(&sum_case->plan.powersgd, param);
        float q[48 * 4];
        if (rank == 0)
            continue;
        powersgd_init_q(&sum_case->plan.powersgd, param, step, rank, q);
        write_floats(folder, name, q, param->shape[1] * rank, more);
        more = true;
    }
    assert_true(more);
}

static void write_own_gradients(const struct sum_case *sum_case, const char *folder, uint64_t step)
{
    const struct batching *batching = &sum_case->reduction->options.batching;
    uint64_t elements = sum_case->params.trained_elements, count = batching_owned_count(batching);
    float *sums = calloc(elements, sizeof *sums);
    char name[48];
    assert_non_null(sums);
    for (uint64_t n = 0; n < count; n++)
        for (uint64_t i = 0; i < elements; i++)
            sums[i] += gradient(step, batching_owned_micro(batching, n), i);
    snprintf(name, sizeof name, "gradients-%d-%d", (int)step, world->rank);
    write_tensors(sum_case, folder, name, sums);
    free(sums);
}

static void compare(const struct powersgd_options *options)
{
    const struct sum_case_plan plan = {.kind = REDUCTION_POWERSGD,
                                       .shards = 1,
                                       .micros = MICROS,
                                       .bucket_bytes = 1000,
                                       .wire = DTYPE_F32,
                                       .powersgd = *options,
                                       .gradient = gradient};
    const char *python = test_need_python("numpy");
    char folder[TEST_PATH_BYTES_MAX];
    struct sum_case sum_case;
    ranks_make_folder(folder);
    sum_case_open(&sum_case, &plan);
    for (uint64_t step = 0; step < STEPS; step++) {
        char name[48];
        sum_case_step(&sum_case, step);
        write_own_gradients(&sum_case, folder, step);
        /* the sums of the first group, followed by those of all others: each rank has all groups */
        const void *sums;
        struct err err;
        assert_ok(reduction_shard(sum_case.reduction, 0, &sums, &err), &err);
        snprintf(name, sizeof name, "sums-%d-%d", (int)step, world->rank);
        write_tensors(&sum_case, folder, name, sums);
        if (world->rank > 0)
            continue;
        write_q(&sum_case, folder, step);
    }
    if (world->rank == 0)
        write_shapes(&sum_case, folder);
    ranks_barrier();
    if (world->rank == 0)
        assert_int_equal(test_run("'%s' '%s/tests/oracle/powersgd.py' '%s' %d %d %d %d %d >&2",
                                  python, TEST_SOURCE_DIR, folder, world->ranks, STEPS,
                                  (int)options->start_step, options->error_feedback,
                                  options->warm_start),
                         0);
    sum_case_close(&sum_case);
    ranks_remove_folder(folder);
}

static void compressed_gradients_match_numpy(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        compare(&(struct powersgd_options){.rank = i & 1 ? 3 : 1,
                                           .start_step = 2,
                                           .min_rate = 2,
                                           .error_feedback = i & 2,
                                           .warm_start = i & 4,
                                           .seed = 7});
}

static void incompressible_gradients_are_sent_uncompressed(void **state)
{
    (void)state;
    const struct powersgd_options options = {.rank = 2, .min_rate = 2};
    struct param matrix = {.rank = 2, .shape = {100, 50}}, row = {.rank = 1, .shape = {100}};
    assert_int_equal(powersgd_compression_rank(&options, &matrix), 2);
    assert_int_equal(powersgd_compression_rank(&options, &row), 0);
    matrix.shape[1] = 4; /* (100 + 4) * 2 * 2 > 400 */
    assert_int_equal(powersgd_compression_rank(&options, &matrix), 0);
    matrix.shape[0] = 12, matrix.shape[1] = 6; /* 18 * 2 * 2 = 72: no gain */
    assert_int_equal(powersgd_compression_rank(&options, &matrix), 0);
    matrix.shape[1] = 50, matrix.frozen = true;
    assert_int_equal(powersgd_compression_rank(&options, &matrix), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_gradients_match_numpy),
        cmocka_unit_test(incompressible_gradients_are_sent_uncompressed),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
