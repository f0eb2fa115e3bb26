/*
 * cuda_case — helpers for the CUDA kernel tests: arrays of F32, BF16 and F16 in device memory,
 * written and read as doubles. Guard bytes follow each array. Reading the array fails the test if a
 * kernel has overwritten them.
 */
#ifndef MILLRACE_TESTS_TRAINER_CUDA_CUDA_CASE_H
#define MILLRACE_TESTS_TRAINER_CUDA_CUDA_CASE_H

#include "base/dtype.h"
#include "tests/support/test.h"
#include "trainer/ops/ops.h"

#include <cuda_runtime_api.h>

void cuda_case_ok(cudaError_t status, const char *call, const char *file, int line);
#define cuda_ok(call) cuda_case_ok((call), #call, __FILE__, __LINE__)

/* count numbers in [-scale, scale), determined by seed and rounded to dtype; malloc'ed. */
double *cuda_case_values(enum dtype dtype, uint64_t seed, size_t count, double scale);
/* Rounds x to the nearest F32, BF16 or F16 number, ties to even; returns x for other types. x must
 * be in range. */
double cuda_case_round(enum dtype dtype, double x);

/* Device memory that holds values rounded to dtype, bytes, or NaN. Free it with cuda_case_free. */
void *cuda_case_array(enum dtype dtype, const double *values, size_t count);
void *cuda_case_bytes(const void *bytes, size_t byte_count);
void *cuda_case_blank(enum dtype dtype, size_t count);
void cuda_case_free(void *array);

/* Wait for the device; malloc'ed. */
double *cuda_case_read(enum dtype dtype, const void *array, size_t count);
void *cuda_case_read_bytes(const void *array, size_t byte_count);

/* The largest |found - expected|; infinity if any number is not finite. */
double cuda_case_max_error(const double *found, const double *expected, size_t count);
/* Fails the test, naming `what`, unless each number found differs from the expected one by at most
 * float_loss plus one rounding to dtype. */
void cuda_case_near(const char *what, enum dtype dtype, const double *found, const double *expected,
                    size_t count, double float_loss);

/* Open and close the CPU ops in double. */
struct ops *cuda_case_cpu_open(void);
void cuda_case_cpu_close(struct ops *ops);

#endif
