/*
 * cuda_case — what the tests of CUDA kernels share: arrays of F32, BF16 and F16 in device memory,
 * given and read as doubles.
 *
 * Behind every array lie guard bytes; reading it fails the test where a kernel wrote on them.
 */
#ifndef MILLRACE_TESTS_TRAINER_CUDA_CUDA_CASE_H
#define MILLRACE_TESTS_TRAINER_CUDA_CUDA_CASE_H

#include "base/dtype.h"
#include "tests/support/test.h"
#include "trainer/ops/ops.h"

#include <cuda_runtime_api.h>

void cuda_case_ok(cudaError_t status, const char *call, const char *file, int line);
#define cuda_ok(call) cuda_case_ok((call), #call, __FILE__, __LINE__)

/* count numbers of [-scale, scale), a function of seed, as dtype rounds them; of malloc. */
double *cuda_case_values(enum dtype dtype, uint64_t seed, size_t count, double scale);
/* To the nearest number of F32, BF16 or F16, ties to even; of another dtype x itself. Not for
 * numbers beyond the largest. */
double cuda_case_round(enum dtype dtype, double x);

/* Device memory, freed by cuda_case_free: values rounded to dtype, bytes of any kind, or NaN
 * everywhere. */
void *cuda_case_array(enum dtype dtype, const double *values, size_t count);
void *cuda_case_bytes(const void *bytes, size_t byte_count);
void *cuda_case_blank(enum dtype dtype, size_t count);
void cuda_case_free(void *array);

/* Waits for the device; of malloc. */
double *cuda_case_read(enum dtype dtype, const void *array, size_t count);
void *cuda_case_read_bytes(const void *array, size_t byte_count);

/* The largest |found - expected|; infinity where a number is not finite. */
double cuda_case_distance(const double *found, const double *expected, size_t count);
/* Fails the test, with subject, unless each number found is as near to what is expected as one
 * rounding to dtype and a loss of float_loss before it allow. */
void cuda_case_near(const char *subject, enum dtype dtype, const double *found,
                    const double *expected, size_t count, double float_loss);

/* The cpu's ops in double, and their end once all is done. */
struct ops *cuda_case_cpu_open(void);
void cuda_case_cpu_close(struct ops *ops);

#endif
