/*
 * peak — peak rates of devices compared with their data sheets, at the clock rates that the data
 * sheets assume.
 */
#include "device/peak.h"

#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

static void peaks_match_the_data_sheets(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int major, minor, multiprocessors;
        double clock_mhz, fp32_tflops, bf16_tflops;
    } sheets[] = {
        {"A100 SXM", 8, 0, 108, 1410, 19.5, 312},
        {"RTX A6000", 8, 6, 84, 1800, 38.7, 154.8},
        {"L40S", 8, 9, 142, 2520, 91.6, 362},
        {"H100 SXM, tensor cores", 9, 0, 132, 1830, 0, 989.4},
        {"H100 SXM, fp32", 9, 0, 132, 1980, 67, 0},
        {"B200", 10, 0, 148, 1850, 0, 2250},
        {"NVIDIA GeForce RTX 3090 Ti", 8, 6, 84, 1860, 40, 80},
        {"NVIDIA GeForce RTX 4090", 8, 9, 128, 2520, 82.6, 165.2},
    };
    for (size_t i = 0; i < sizeof sheets / sizeof sheets[0]; i++) {
        struct device_cuda_info info = {.capability_major = sheets[i].major,
                                        .capability_minor = sheets[i].minor,
                                        .multiprocessors = sheets[i].multiprocessors,
                                        .clock_hz = (uint64_t)(sheets[i].clock_mhz * 1e6)};
        snprintf(info.name, sizeof info.name, "%s", sheets[i].name);
        const double sheet[] = {sheets[i].fp32_tflops, sheets[i].bf16_tflops,
                                sheets[i].bf16_tflops};
        const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            double found = peak_flops(&info, types[t]) / 1e12;
            if (sheet[t] > 0 && !(fabs(found - sheet[t]) <= 0.02 * sheet[t]))
                fail_msg("%s in %s: %g TFLOP/s, its data sheet has %g", sheets[i].name,
                         dtype_name(types[t]), found, sheet[t]);
        }
    }
}

static void an_unknown_device_has_no_peak(void **state)
{
    (void)state;
    const struct device_cuda_info info = {.capability_major = 7,
                                          .capability_minor = 5,
                                          .multiprocessors = 40,
                                          .clock_hz = 1000000000};
    assert_true(peak_flops(&info, DTYPE_BF16) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_match_the_data_sheets),
        cmocka_unit_test(an_unknown_device_has_no_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
