/*
 * status — the calling thread's last error, as cudaGetLastError returns it.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_STATUS_H
#define MILLRACE_TESTS_CUDA_ON_CPU_STATUS_H

#include <driver_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores status if it is a failure (cudaErrorNotReady is not). Returns status. */
cudaError_t status_set(cudaError_t status);

#ifdef __cplusplus
}
#endif

#endif
