/*
 * cuda_case — see cuda_case.h.
 */
#include "tests/trainer/cuda/cuda_case.h"

#include "base/numeric/half.h"
#include "base/philox.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 256 };

/* The number of significand bits of dtype, and the exponent of its smallest normal number as frexp
 * returns it. */
struct precision {
    int bits, exponent_min;
};

static struct precision precision_of(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return (struct precision){24, -125};
    case DTYPE_BF16:
        return (struct precision){8, -125};
    case DTYPE_F16:
        return (struct precision){11, -13};
    default:
        return (struct precision){53, -1021};
    }
}

void cuda_case_ok(cudaError_t status, const char *call, const char *file, int line)
{
    if (status == cudaSuccess)
        return;
    print_error("%s: %s\n", call, cudaGetErrorString(status));
    _fail(file, line);
}

double cuda_case_round(enum dtype dtype, double x)
{
    struct precision precision = precision_of(dtype);
    if (x == 0 || !isfinite(x))
        return x;
    int exponent;
    frexp(x, &exponent);
    if (exponent < precision.exponent_min)
        exponent = precision.exponent_min;
    double ulp = ldexp(1, exponent - precision.bits);
    return rint(x / ulp) * ulp;
}

double *cuda_case_values(enum dtype dtype, uint64_t seed, size_t count, double scale)
{
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] =
            cuda_case_round(dtype, (2 * philox_uniform(philox(seed, 0, i).word[0]) - 1) * scale);
    return values;
}

static uint16_t bits_of_f16(double x)
{
    int exponent;
    double fraction = frexp(fabs(x), &exponent);
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (x == 0 || exponent < -13)
        return sign | (uint16_t)ldexp(fabs(x), 24);
    return sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)(ldexp(fraction, 11) - 1024);
}

static void set_element(enum dtype dtype, void *array, size_t i, double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (dtype == DTYPE_F32)
        ((float *)array)[i] = f;
    else
        ((uint16_t *)array)[i] = dtype == DTYPE_BF16 ? (uint16_t)(bits >> 16) : bits_of_f16(x);
}

static double get_element(enum dtype dtype, const void *array, size_t i)
{
    if (dtype == DTYPE_F32)
        return ((const float *)array)[i];
    uint16_t bits = ((const uint16_t *)array)[i];
    return dtype == DTYPE_BF16 ? half_from_bf16(bits) : half_from_f16(bits);
}

static void *device_memory(size_t bytes)
{
    void *memory = NULL;
    cuda_ok(cudaMalloc(&memory, bytes + GUARD_BYTES));
    cuda_ok(cudaMemset(memory, 0xff, bytes + GUARD_BYTES));
    return memory;
}

void *cuda_case_array(enum dtype dtype, const double *values, size_t count)
{
    void *array = malloc(count * dtype_bytes(dtype) + 1);
    assert_non_null(array);
    for (size_t i = 0; i < count; i++)
        set_element(dtype, array, i, cuda_case_round(dtype, values[i]));
    void *memory = cuda_case_bytes(array, count * dtype_bytes(dtype));
    free(array);
    return memory;
}

void *cuda_case_bytes(const void *bytes, size_t byte_count)
{
    void *memory = device_memory(byte_count);
    cuda_ok(cudaMemcpy(memory, bytes, byte_count, cudaMemcpyHostToDevice));
    return memory;
}

void *cuda_case_blank(enum dtype dtype, size_t count)
{
    return device_memory(count * dtype_bytes(dtype));
}

void cuda_case_free(void *array)
{
    cuda_ok(cudaFree(array));
}

void *cuda_case_read_bytes(const void *array, size_t byte_count)
{
    unsigned char *bytes = malloc(byte_count + GUARD_BYTES);
    assert_non_null(bytes);
    cuda_ok(cudaMemcpy(bytes, array, byte_count + GUARD_BYTES, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (bytes[byte_count + i] != 0xff)
            fail_msg("byte %zu past the end of an array of %zu was written", i, byte_count);
    return bytes;
}

double *cuda_case_read(enum dtype dtype, const void *array, size_t count)
{
    void *bytes = cuda_case_read_bytes(array, count * dtype_bytes(dtype));
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = get_element(dtype, bytes, i);
    free(bytes);
    return values;
}

double cuda_case_max_error(const double *found, const double *expected, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double distance = fabs(found[i] - expected[i]);
        if (!(distance <= largest))
            largest = isfinite(distance) ? distance : (double)INFINITY;
    }
    return largest;
}

void cuda_case_near(const char *what, enum dtype dtype, const double *found, const double *expected,
                    size_t count, double float_loss)
{
    struct precision precision = precision_of(dtype);
    for (size_t i = 0; i < count; i++) {
        double half_unit = ldexp(fabs(expected[i]) + float_loss, -precision.bits) +
                           ldexp(1, precision.exponent_min - precision.bits - 1);
        if (!(fabs(found[i] - expected[i]) <= half_unit + float_loss))
            fail_msg("%s, %s: number %zu of %zu is %.9g, not %.9g within %.3g", what,
                     dtype_name(dtype), i, count, found[i], expected[i], half_unit + float_loss);
    }
}

struct ops *cuda_case_cpu_open(void)
{
    struct ops *ops;
    struct err err;
    assert_ok(ops_cpu_open(NULL, DTYPE_F64, 1, &ops, &err), &err);
    return ops;
}

void cuda_case_cpu_close(struct ops *ops)
{
    struct err err;
    assert_ok(ops->table->sync(ops, &err), &err);
    ops_close(ops);
}
