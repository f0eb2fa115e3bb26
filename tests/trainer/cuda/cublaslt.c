/*
 * cublaslt — tests the calls that the cuBLASLt adapter makes, with a substitute library that
 * rejects what the real one rejects, and whose choice of algorithms tests control. gemm.c checks
 * results.
 */
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/test.h"

#include "device/device_cuda.h"
#include "trainer/ops/cuda/gemm/cublaslt.h"

#include <errno.h>

enum { SIDE = 16, BIAS_AT = 8 /* in elements: 16 bytes */, WORKSPACE_BYTES = 1 << 20 };

static const struct shim_gemms USUAL = {.has_algorithms = true};

struct products {
    struct device *device;
    struct device_stream *stream;
    void *workspace, *matrices; /* A, B, C and the bias */
    struct cublaslt *lt;
};

static size_t matrices_bytes(void)
{
    return (3 * SIDE * SIDE + BIAS_AT + SIDE) * sizeof(uint16_t);
}

static uint16_t *matrix(const struct products *p, int which)
{
    return (uint16_t *)p->matrices + which * SIDE * SIDE;
}

static void open_products(struct products *p)
{
    struct err err;
    order_set(0);
    assert_ok(device_open("cuda", &p->device, &err), &err);
    const struct device_ops *ops = p->device->ops;
    assert_ok(ops->stream_open(p->device, &p->stream, &err), &err);
    assert_ok(ops->mem_alloc(p->device, MEM_DEVICE, WORKSPACE_BYTES, &p->workspace, &err), &err);
    assert_ok(ops->mem_alloc(p->device, MEM_DEVICE, matrices_bytes(), &p->matrices, &err), &err);
    assert_ok(
        cublaslt_open(device_cuda_stream(p->stream), p->workspace, WORKSPACE_BYTES, &p->lt, &err),
        &err);
}

static void close_products(struct products *p)
{
    const struct device_ops *ops = p->device->ops;
    assert_ok(ops->stream_sync(p->device, p->stream, NULL), NULL);
    cublaslt_close(p->lt);
    ops->mem_free(p->device, MEM_DEVICE, p->matrices, matrices_bytes());
    ops->mem_free(p->device, MEM_DEVICE, p->workspace, WORKSPACE_BYTES);
    ops->stream_close(p->device, p->stream);
    device_close(p->device);
    shim_set_products(USUAL);
}

static const struct cublaslt_product PRODUCT = {.m = SIDE,
                                                .n = SIDE,
                                                .k = SIDE,
                                                .bias = true,
                                                .input = DTYPE_BF16,
                                                .output = DTYPE_BF16,
                                                .batch = 1};

static uint32_t id_for_cluster_shape(const struct products *p, uint16_t shape)
{
    struct cublaslt_plan *plan;
    struct err err;
    uint32_t id;
    shim_set_products((struct shim_gemms){.cluster_shape = shape, .has_algorithms = true});
    assert_ok(cublaslt_plan(p->lt, &PRODUCT, &plan, &id, &err), &err);
    cublaslt_plan_free(plan);
    return id;
}

static void algorithms_that_differ_only_in_clusters_have_different_ids(void **state)
{
    (void)state;
    struct products p;
    open_products(&p);
    assert_int_equal(id_for_cluster_shape(&p, 2), id_for_cluster_shape(&p, 2));
    assert_int_not_equal(id_for_cluster_shape(&p, 2), id_for_cluster_shape(&p, 4));
    close_products(&p);
}

/* The algorithm is chosen before the bias is known. */
static void a_bias_needs_only_its_declared_alignment(void **state)
{
    (void)state;
    struct products p;
    struct cublaslt_plan *plan;
    struct err err;
    uint32_t id;
    open_products(&p);
    const uint16_t *bias = matrix(&p, 3) + BIAS_AT;
    assert_int_equal((uintptr_t)bias % 32, 16);
    assert_ok(cublaslt_plan(p.lt, &PRODUCT, &plan, &id, &err), &err);
    assert_ok(cublaslt_run(p.lt, plan, matrix(&p, 0), matrix(&p, 1), bias, matrix(&p, 2), &err),
              &err);
    close_products(&p);
    cublaslt_plan_free(plan);
}

static void an_unsupported_product_is_reported_with_its_shape(void **state)
{
    (void)state;
    struct products p;
    struct cublaslt_plan *plan;
    struct err err;
    uint32_t id;
    open_products(&p);
    shim_set_products((struct shim_gemms){0});
    assert_int_equal(cublaslt_plan(p.lt, &PRODUCT, &plan, &id, &err), -ENOTSUP);
    assert_string_equal(err.expected, "16 x 16 x 16 of BF16");
    close_products(&p);
}

/* A refusal is reported, and the device remains usable. */
static void a_misaligned_matrix_is_refused(void **state)
{
    (void)state;
    struct products p;
    struct cublaslt_plan *plan;
    struct err err;
    uint32_t id;
    open_products(&p);
    const uint16_t *bias = matrix(&p, 3);
    assert_ok(cublaslt_plan(p.lt, &PRODUCT, &plan, &id, &err), &err);
    assert_int_equal(
        cublaslt_run(p.lt, plan, matrix(&p, 0) + 1, matrix(&p, 1), bias, matrix(&p, 2), &err),
        -EIO);
    assert_ok(cublaslt_run(p.lt, plan, matrix(&p, 0), matrix(&p, 1), bias, matrix(&p, 2), &err),
              &err);
    close_products(&p);
    cublaslt_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(algorithms_that_differ_only_in_clusters_have_different_ids),
        cmocka_unit_test(a_bias_needs_only_its_declared_alignment),
        cmocka_unit_test(an_unsupported_product_is_reported_with_its_shape),
        cmocka_unit_test(a_misaligned_matrix_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
