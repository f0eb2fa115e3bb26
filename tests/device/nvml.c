/*
 * nvml — how the adapter interprets the management library's answers. The library is nvml_fake.c,
 * found through LD_LIBRARY_PATH.
 */
#include "device/nvml.h"

#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char BUS[] = "0000:01:00.0";

static struct nvml *open_fake_nvml(const char *what)
{
    struct nvml *nvml;
    struct err err = {0};
    setenv("NVML_FAKE", what, 1);
    assert_ok(nvml_open(&nvml, &err), &err);
    return nvml;
}

static void utilization_is_that_of_the_gpu_at_the_pci_address(void **state)
{
    (void)state;
    struct nvml *nvml = open_fake_nvml("37");
    struct nvmlDevice_st *gpu;
    struct err err = {0};
    char version[NVML_TEXT_BYTES];
    double share = -1;
    assert_ok(nvml_driver_version(nvml, version, &err), &err);
    assert_string_equal(version, "999.12.34");
    assert_int_equal(nvml_find(nvml, "0000:02:00.0", &gpu, &err), -ENODEV);
    assert_non_null(strstr(err.what, "Not Found"));
    assert_ok(nvml_find(nvml, BUS, &gpu, &err), &err);
    assert_ok(nvml_utilization(nvml, gpu, &share, &err), &err);
    assert_true(share == 0.37);
    nvml_close(nvml);
}

static void a_gpu_without_nvml_metrics_is_reported_as_such(void **state)
{
    (void)state;
    struct nvml *nvml = open_fake_nvml("silent");
    struct nvmlDevice_st *gpu;
    struct err err = {0};
    double share = -1;
    assert_ok(nvml_find(nvml, BUS, &gpu, &err), &err);
    assert_int_equal(nvml_utilization(nvml, gpu, &share, &err), -ENOTSUP);
    assert_true(share == -1);
    nvml_close(nvml);
}

static void a_missing_driver_is_reported(void **state)
{
    (void)state;
    struct nvml *nvml;
    struct err err = {0};
    setenv("NVML_FAKE", "no-driver", 1);
    assert_int_equal(nvml_open(&nvml, &err), -ENODEV);
    assert_non_null(strstr(err.what, "Driver Not Loaded"));
    assert_non_null(strstr(err.advice, "nvidia-smi"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utilization_is_that_of_the_gpu_at_the_pci_address),
        cmocka_unit_test(a_gpu_without_nvml_metrics_is_reported_as_such),
        cmocka_unit_test(a_missing_driver_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
