/*
 * device_metrics — tests the device metrics of a progress line, with the device of
 * tests/cuda_on_cpu and the simulated NVML (tests/device/nvml_fake.c).
 */
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/test.h"

#include "trainer/report/device_metrics.h"

#include <stdlib.h>

static void metrics_are_read_on_request(void **state)
{
    (void)state;
    struct device *device;
    struct ops *ops;
    struct device_metrics metrics;
    struct err err = {0};
    order_set(0);
    assert_ok(device_open("cuda", &device, &err), &err);
    assert_ok(ops_open(device, DTYPE_BF16, 0, &ops, &err), &err);
    setenv("NVML_FAKE", "64", 1);
    device_metrics_open(&metrics, ops);
    struct device_mem_info info;
    device->ops->mem_info(device, &info);
    /* 4 multiprocessors of compute capability 9.0 at 1 GHz */
    struct trainer_device_metrics values = device_metrics_read(&metrics, 4096e9);
    assert_true(values.flops_per_second == 4096e9);
    assert_true(values.peak_share == 0.25);
    assert_true(values.utilization_share == 0.64);
    assert_int_equal(values.device_used_bytes, info.used_bytes[MEM_DEVICE]);
    assert_true(values.device_taken_bytes >= values.device_used_bytes);
    assert_true(values.device_taken_bytes < info.total_bytes);
    assert_true(values.process_bytes > 0);
    setenv("NVML_FAKE", "silent", 1);
    assert_true(device_metrics_read(&metrics, 1).utilization_share < 0);
    device_metrics_close(&metrics);
    ops_close(ops);
    device_close(device);
}

static void a_device_without_nvml_reports_the_other_metrics(void **state)
{
    (void)state;
    struct device *device;
    struct ops *ops;
    struct device_metrics metrics;
    struct err err = {0};
    order_set(0);
    assert_ok(device_open("cuda", &device, &err), &err);
    assert_ok(ops_open(device, DTYPE_F32, 0, &ops, &err), &err);
    setenv("NVML_FAKE", "no-driver", 1);
    device_metrics_open(&metrics, ops);
    struct trainer_device_metrics values = device_metrics_read(&metrics, 256e9);
    assert_true(values.utilization_share < 0);
    assert_true(values.peak_share == 0.25);
    assert_true(values.device_used_bytes > 0);
    device_metrics_close(&metrics);
    ops_close(ops);
    device_close(device);
}

static void the_cpu_reports_only_process_metrics(void **state)
{
    (void)state;
    struct device *device;
    struct ops *ops;
    struct device_metrics metrics;
    struct err err = {0};
    assert_ok(device_open("cpu", &device, &err), &err);
    assert_ok(ops_open(device, DTYPE_F32, 1, &ops, &err), &err);
    device_metrics_open(&metrics, ops);
    struct trainer_device_metrics values = device_metrics_read(&metrics, 1e9);
    assert_true(values.process_bytes > 0);
    assert_true(values.peak_share == 0 && values.utilization_share < 0);
    assert_int_equal(values.device_used_bytes + values.device_taken_bytes, 0);
    device_metrics_close(&metrics);
    ops_close(ops);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_are_read_on_request),
        cmocka_unit_test(a_device_without_nvml_reports_the_other_metrics),
        cmocka_unit_test(the_cpu_reports_only_process_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
