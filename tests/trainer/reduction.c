/*
 * reduction — tests on real ranks: every reduction gives the sum over all micro-batches, for any
 * distribution of micro-batches and shards, and uses the memory that it reports.
 *
 * Gradients are small integers, whose sums are exact in any order, so every bit of the result is
 * known. If they are sent in fewer bits, the result is the sum of rounded values.
 */
#include "tests/trainer/reduction_case.h"

#include "tests/support/ranks.h"

#include <math.h>

static float gradient(uint64_t step, uint64_t micro, uint64_t element)
{
    uint64_t bits = ((step * 64 + micro) * 1000003 + element) * UINT64_C(0x9E3779B97F4A7C15);
    return 37 * ((float)(bits >> 52) - 2048);
}

/* Rounds to that many significant bits, ties to even. */
static double rounded(double value, int bits)
{
    int exponent;
    double part = frexp(value, &exponent);
    return ldexp(nearbyint(ldexp(part, bits)), exponent - bits);
}

static double sum_gradients(uint64_t step, uint64_t first, uint64_t end, uint64_t element)
{
    double sum = 0;
    for (uint64_t micro = first; micro < end; micro++)
        sum += gradient(step, micro, element);
    return sum;
}

/* Returns the end of the piece that starts at micro-batch `first`. end: of the rank's
 * micro-batches. */
static uint64_t piece_end(const struct reduction_options *options, uint64_t first, uint64_t end)
{
    uint64_t size = 1;
    if (options->kind == REDUCTION_FAST)
        return end;
    while (first % (2 * size) == 0 && first + 2 * size <= end)
        size *= 2;
    return first + size;
}

static double expected(const struct sum_case *sum_case, uint64_t step, uint64_t element)
{
    const struct reduction_options *options = &sum_case->reduction->options;
    int bits = options->batching.ranks == 1 ? 53 : options->wire.type == DTYPE_BF16 ? 8 : 11;
    double sum = 0;
    if (options->wire.type == DTYPE_F32)
        return sum_gradients(step, 0, sum_case->plan.micros, element);
    for (uint64_t micro = 0; options->batching.interleaved && micro < sum_case->plan.micros;
         micro++)
        sum += rounded(gradient(step, micro, element), bits);
    for (uint32_t rank = 0; !options->batching.interleaved && rank < options->batching.ranks;
         rank++) {
        uint64_t end = (rank + 1) * sum_case->plan.micros / options->batching.ranks;
        for (uint64_t next, first = rank * sum_case->plan.micros / options->batching.ranks;
             first < end; first = next) {
            next = piece_end(options, first, end);
            sum += rounded(sum_gradients(step, first, next, element), bits);
        }
    }
    return sum;
}

/* gradients: of the elements in span. */
static void check_gradients(const struct sum_case *sum_case, uint64_t step, uint64_t group,
                            struct span span, const float *gradients)
{
    const struct param_group *g = &sum_case->params.groups[group];
    for (uint64_t p = g->first; p < g->first + g->count; p++) {
        const struct param *param = &sum_case->params.list[p];
        for (uint64_t i = 0; i < param->count && !param->frozen; i++) {
            uint64_t element = param->trained_offset + i;
            if (element >= span.offset && element < span.offset + span.elements)
                assert_true((double)gradients[element - span.offset] ==
                            expected(sum_case, step, element));
        }
    }
}

static void check_step(const struct sum_case *sum_case, uint64_t step)
{
    struct reduction *r = sum_case->reduction;
    uint32_t rank = (uint32_t)world->rank;
    struct err err;
    for (uint64_t g = 0; g < sum_case->params.groups_count; g++) {
        const void *shard;
        if (sum_case->params.groups[g].trained_elements == 0)
            continue;
        check_gradients(sum_case, step, g, partition_trained_part(&sum_case->partition, g, rank),
                        reduction_part(r, g));
        assert_ok(reduction_shard(r, g, &shard, &err), &err);
        check_gradients(sum_case, step, g, partition_trained_shard(&sum_case->partition, g, rank),
                        shard);
    }
}

static void try_plan(const struct sum_case_plan *plan)
{
    struct sum_case sum_case;
    sum_case_open(&sum_case, plan);
    for (uint64_t step = 0; step < 3; step++) {
        sum_case_step(&sum_case, step);
        check_step(&sum_case, step);
    }
    sum_case_close(&sum_case);
}

static void try_kind(enum reduction_kind kind, enum dtype wire)
{
    uint32_t ranks = (uint32_t)world->ranks;
    const uint64_t buckets[] = {1, 4096, 8 << 20}, keeps[] = {0, 3000};
    uint64_t stride = ranks > 1 ? ranks / 2 : 1;
    if (test_is_sanitized()) /* tests only `ranks` and 2 * ranks + 1 micro-batches */
        stride = ranks + 1;
    for (uint64_t micros = ranks; micros <= 2 * ranks + 1; micros += stride)
        for (int each = 0; each < 2; each++)
            for (uint32_t shards = 1; shards <= ranks; shards++)
                for (int i = 0; i < 3 && ranks % shards == 0; i++)
                    try_plan(&(struct sum_case_plan){.kind = kind,
                                                     .each = each,
                                                     .shards = shards,
                                                     .micros = micros,
                                                     .bucket_bytes = buckets[i],
                                                     .keep_below = keeps[i % 2],
                                                     .wire = wire,
                                                     .gradient = gradient});
}

static void canonical_reduction_sums_all_micro_batches(void **state)
{
    (void)state;
    try_kind(REDUCTION_CANONICAL, DTYPE_F32);
}

static void fast_reduction_sums_all_micro_batches(void **state)
{
    (void)state;
    try_kind(REDUCTION_FAST, DTYPE_F32);
}

static void reduced_precision_messages_are_summed_in_fp32(void **state)
{
    (void)state;
    for (int kind = REDUCTION_CANONICAL; kind <= REDUCTION_FAST; kind++) {
        try_kind((enum reduction_kind)kind, DTYPE_BF16);
        try_kind((enum reduction_kind)kind, DTYPE_F16);
    }
}

/* The number of bytes used for gradients. */
static uint64_t gradient_bytes(enum reduction_kind kind, bool each, uint32_t *ret_buffers)
{
    struct sum_case sum_case;
    const struct sum_case_plan plan = {.kind = kind,
                                       .each = each,
                                       .shards = 1,
                                       .micros = 4 * (uint64_t)world->ranks,
                                       .bucket_bytes = 4096,
                                       .wire = DTYPE_F32};
    sum_case_open(&sum_case, &plan);
    struct device_mem_info info;
    sum_case.device->ops->mem_info(sum_case.device, &info);
    *ret_buffers = reduction_buffers_count(&sum_case.reduction->options);
    sum_case_close(&sum_case);
    return info.use_peak_bytes[MEM_FOR_GRADIENTS][MEM_DEVICE];
}

static void fast_reduction_holds_one_gradient_buffer(void **state)
{
    (void)state;
    uint32_t buffers, others;
    for (int each = 0; each < 2; each++) {
        assert_true(gradient_bytes(REDUCTION_FAST, each, &buffers) <
                    gradient_bytes(REDUCTION_CANONICAL, each, &others));
        assert_true(each || buffers == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_reduction_sums_all_micro_batches),
        cmocka_unit_test(fast_reduction_sums_all_micro_batches),
        cmocka_unit_test(reduced_precision_messages_are_summed_in_fp32),
        cmocka_unit_test(fast_reduction_holds_one_gradient_buffer),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
