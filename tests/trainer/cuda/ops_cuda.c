/*
 * ops_cuda — tests what a GPU's ops report: unsupported operations, and what result bits depend
 * on.
 */
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/test.h"

#include "trainer/ops/ops.h"

#include <errno.h>
#include <string.h>

static const struct shim_architecture ADA = {8, 9, 99 << 10};

static struct ops *open_ops(struct shim_architecture architecture, enum dtype compute,
                            struct device **ret_device)
{
    struct ops *ops;
    struct err err;
    order_set(0);
    shim_set_architecture(architecture);
    assert_ok(device_open("cuda", ret_device, &err), &err);
    assert_ok(ops_open(*ret_device, compute, 0, &ops, &err), &err);
    return ops;
}

static void close_ops(struct ops *ops, struct device *device)
{
    ops_close(ops);
    device_close(device);
    shim_set_architecture(SHIM_HOPPER);
}

static void a_head_too_wide_for_the_device_is_refused_with_advice(void **state)
{
    (void)state;
    static const struct attn_shape wide = {1, 16, 1, 1, 128, true},
                                   narrow = {1, 16, 1, 1, 64, true};
    struct device *device;
    struct err err = {0};
    struct ops *ops = open_ops(ADA, DTYPE_BF16, &device);
    assert_ok(ops->table->plan_attn(ops, &narrow, &err), &err);
    assert_int_equal(ops->table->plan_attn(ops, &wide, &err), -EINVAL);
    assert_non_null(strstr(err.what, "head dimension 128"));
    assert_string_equal(err.found, "101376 bytes per block");
    assert_non_null(strstr(err.advice, "more and narrower heads"));
    assert_ok(ops->table->sync(ops, &err), &err); /* the error leaves no state behind */
    close_ops(ops, device);

    static const struct attn_shape widest = {1, 16, 1, 1, 256, true};
    ops = open_ops(ADA, DTYPE_F32, &device);
    assert_ok(ops->table->plan_attn(ops, &widest, &err), &err);
    close_ops(ops, device);

    ops = open_ops(SHIM_HOPPER, DTYPE_BF16, &device);
    assert_ok(ops->table->plan_attn(ops, &widest, &err), &err);
    close_ops(ops, device);
}

/* Result bits depend on the compiler: this build's, or the driver's if it compiles the kernels. */
static void numerics_id_names_the_driver_if_it_compiles_the_kernels(void **state)
{
    (void)state;
    struct device *device;
    for (int is_ada = 0; is_ada < 2; is_ada++) {
        struct str text = {0};
        struct ops *ops = open_ops(is_ada ? ADA : SHIM_HOPPER, DTYPE_F32, &device);
        ops->table->numerics_id(ops, &text);
        assert_int_equal(str_status(&text), 0);
        assert_non_null(strstr(text.data, "4 multiprocessors"));
        assert_int_equal(strstr(text.data, "compiled by driver") != NULL, is_ada);
        str_deinit(&text);
        close_ops(ops, device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_too_wide_for_the_device_is_refused_with_advice),
        cmocka_unit_test(numerics_id_names_the_driver_if_it_compiles_the_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
