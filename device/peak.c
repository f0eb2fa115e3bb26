/*
 * peak — see peak.h.
 */
#include "device/peak.h"

#include <string.h>

/* Operations per cycle per multiprocessor, counting a multiply-add as two: on the fp32 units, and
 * on the tensor cores with 16-bit operands. From NVIDIA's architecture white papers: A100, GA102,
 * Ada, H100, Blackwell. With float accumulation, GeForce cards (8.6, 8.9, 12.0) reach half the
 * tensor rate. */
static const struct {
    int major, minor;
    double fp32, tensor;
} rates[] = {
    {8, 0, 128, 2048},  {8, 6, 256, 1024},  {8, 9, 256, 1024},  {9, 0, 256, 4096},
    {10, 0, 256, 8192}, {10, 3, 256, 8192}, {12, 0, 256, 1024},
};

double peak_flops(const struct device_cuda_info *info, enum dtype compute)
{
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        if (rates[i].major != info->capability_major || rates[i].minor != info->capability_minor)
            continue;
        double tensor = strstr(info->name, "GeForce") ? rates[i].tensor / 2 : rates[i].tensor;
        double a_cycle = compute == DTYPE_F32 ? rates[i].fp32 : tensor;
        return a_cycle * info->multiprocessors * (double)info->clock_hz;
    }
    return 0;
}
