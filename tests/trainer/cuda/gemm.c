/*
 * gemm — tests the CUDA ops' products against products in double: every transpose, split sums,
 * shared plans.
 */
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/cuda_case.h"

#include "device/device_cuda.h"
#include "trainer/ops/cuda/gemm/gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
enum { TYPES_COUNT = sizeof TYPES / sizeof TYPES[0] };

/* A device and the products of one type on it. */
struct products {
    struct device *device;
    struct device_stream *stream;
    struct cuda_gemm *gemm;
    enum dtype compute;
};

static void open_products(struct products *p, enum dtype compute)
{
    struct err err;
    p->compute = compute;
    assert_ok(device_open("cuda", &p->device, &err), &err);
    assert_ok(p->device->ops->stream_open(p->device, &p->stream, &err), &err);
    assert_ok(cuda_gemm_open(p->device, device_cuda_stream(p->stream), compute, &p->gemm, &err),
              &err);
}

static void close_products(struct products *p)
{
    cuda_gemm_close(p->gemm);
    p->device->ops->stream_close(p->device, p->stream);
    device_close(p->device);
}

/* One element of row-major op(A) op(B) (+ bias) (+ C). */
static double expected_element(const struct gemm_shape *s, const double *a, const double *b,
                               const double *bias, const double *c, uint64_t i, uint64_t j)
{
    double sum = (s->bias ? bias[j] : 0) + (s->accumulate ? c[i * s->n + j] : 0);
    for (uint64_t l = 0; l < s->k; l++)
        sum += a[s->trans_a ? l * s->m + i : i * s->k + l] *
               b[s->trans_b ? j * s->k + l : l * s->n + j];
    return sum;
}

/* Checks one product against doubles in every order of streams; the bits must always be the
 * same. */
static void check_product(struct products *p, const struct gemm_shape *s)
{
    struct err err;
    struct gemm_plan plan;
    enum dtype out = s->master_output ? DTYPE_F32 : p->compute;
    uint64_t count = s->m * s->n;
    double *a = cuda_case_values(p->compute, 1, s->m * s->k, 1),
           *b = cuda_case_values(p->compute, 2, s->k * s->n, 1);
    double *bias = cuda_case_values(p->compute, 3, s->n, 1),
           *c = cuda_case_values(out, 4, count, 1), *first = NULL;
    void *d_a = cuda_case_array(p->compute, a, s->m * s->k),
         *d_b = cuda_case_array(p->compute, b, s->k * s->n);
    void *d_bias = cuda_case_array(p->compute, bias, s->n);
    assert_ok(cuda_gemm_plan(p->gemm, s, &plan, &err), &err);
    for (int again = 0; again < 2; again++) {
        void *d_c = s->accumulate ? cuda_case_array(out, c, count) : cuda_case_blank(out, count);
        cuda_ok(cudaDeviceSynchronize()); /* the arrays were filled on a different stream */
        assert_ok(cuda_gemm_run(p->gemm, &plan, d_a, d_b, s->bias ? d_bias : NULL, d_c, &err),
                  &err);
        assert_ok(p->device->ops->stream_sync(p->device, p->stream, &err), &err);
        double *found = cuda_case_read(out, d_c, count);
        cuda_case_free(d_c);
        if (first)
            assert_memory_equal(first, found, count * sizeof *found);
        /* one rounding to the type, plus the error of float sums of k terms below 1 */
        double rounding = out == DTYPE_F32    ? 0
                          : out == DTYPE_BF16 ? 0x1p-8
                                              : 0x1p-11,
               sums = 0x1p-22 * sqrt((double)s->k);
        for (uint64_t i = 0; i < count && !first; i++) {
            double expected = expected_element(s, a, b, bias, c, i / s->n, i % s->n);
            if (!(fabs(found[i] - expected) <= rounding * fabs(expected) + 8 * sums))
                fail_msg("%llu x %llu x %llu of %s: element %llu is %.9g, not %.9g",
                         (unsigned long long)s->m, (unsigned long long)s->n,
                         (unsigned long long)s->k, dtype_name(p->compute), (unsigned long long)i,
                         found[i], expected);
        }
        if (first)
            free(found);
        else
            first = found;
    }
    cuda_case_free(d_a), cuda_case_free(d_b), cuda_case_free(d_bias);
    free(a), free(b), free(bias), free(c), free(first);
}

static void products_match_doubles(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES_COUNT; t++) {
        struct products p;
        order_set((size_t)t);
        open_products(&p, TYPES[t]);
        for (int variant = 0; variant < 8; variant++) {
            struct gemm_shape s = {
                .m = 40, .n = 24, .k = 56, .trans_a = variant & 1, .trans_b = variant & 2};
            s.bias = (variant & 4) && !s.trans_a;
            s.master_output = (variant & 4) && s.trans_a;
            check_product(&p, &s);
            s.accumulate = !s.bias;
            check_product(&p, &s);
        }
        close_products(&p);
    }
}

static void small_weight_gradients_are_summed_in_splits(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES_COUNT; t++) {
        struct products p;
        order_set((size_t)t);
        open_products(&p, TYPES[t]);
        for (uint64_t k = 4096; k <= (test_is_sanitized() ? 8192 : 32768); k *= 2) {
            struct gemm_shape s = {
                .m = 24, .n = 40, .k = k, .trans_a = true, .master_output = true};
            assert_int_equal(cuda_gemm_parts(&s), k / 2048);
            check_product(&p, &s);
            s.accumulate = true;
            check_product(&p, &s);
        }
        close_products(&p);
    }
}

static void split_counts_depend_only_on_the_shape(void **state)
{
    (void)state;
    const struct gemm_shape gradient = {
        .m = 768, .n = 768, .k = 65536, .trans_a = true, .master_output = true};
    struct gemm_shape s = gradient;
    /* 36 tiles: twice as many fit on the device, four times as many do not */
    assert_int_equal(cuda_gemm_parts(&s), 2);
    s.k = 65537; /* an odd sum length */
    assert_int_equal(cuda_gemm_parts(&s), 1);
    s = gradient;
    s.k = 2048; /* a sum too short to split */
    assert_int_equal(cuda_gemm_parts(&s), 1);
    s = gradient;
    s.m = 50304; /* enough tiles without splitting */
    assert_int_equal(cuda_gemm_parts(&s), 1);
    s = (struct gemm_shape){.m = 128, .n = 128, .k = 65536, .trans_b = true}; /* the forward pass */
    assert_int_equal(cuda_gemm_parts(&s), 1);
}

static void equal_shapes_share_a_plan(void **state)
{
    (void)state;
    struct products p;
    struct gemm_plan a, b, c;
    struct gemm_shape s = {.m = 16, .n = 16, .k = 16};
    struct err err;
    order_set(0);
    open_products(&p, DTYPE_F32);
    assert_ok(cuda_gemm_plan(p.gemm, &s, &a, &err), &err);
    assert_ok(cuda_gemm_plan(p.gemm, &s, &b, &err), &err);
    s.accumulate = true;
    assert_ok(cuda_gemm_plan(p.gemm, &s, &c, &err), &err);
    assert_ptr_equal(a.algorithm, b.algorithm);
    assert_ptr_not_equal(a.algorithm, c.algorithm);
    close_products(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_match_doubles),
        cmocka_unit_test(small_weight_gradients_are_summed_in_splits),
        cmocka_unit_test(split_counts_depend_only_on_the_shape),
        cmocka_unit_test(equal_shapes_share_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
