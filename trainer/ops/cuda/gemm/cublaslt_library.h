/*
 * cublaslt_library — the cuBLASLt functions in use, named without their prefix. Tests on the CPU
 * provide a substitute.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_GEMM_CUBLASLT_LIBRARY_H
#define MILLRACE_TRAINER_OPS_CUDA_GEMM_CUBLASLT_LIBRARY_H

#include "base/err.h"

#include <cublasLt.h>

struct cublaslt_library {
    cublasStatus_t (*Create)(cublasLtHandle_t *handle);
    cublasStatus_t (*Destroy)(cublasLtHandle_t handle);
    size_t (*GetVersion)(void);
    cublasStatus_t (*MatmulDescCreate)(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                       cudaDataType_t scale);
    cublasStatus_t (*MatmulDescDestroy)(cublasLtMatmulDesc_t desc);
    cublasStatus_t (*MatmulDescSetAttribute)(cublasLtMatmulDesc_t desc,
                                             cublasLtMatmulDescAttributes_t name, const void *value,
                                             size_t bytes);
    cublasStatus_t (*MatrixLayoutCreate)(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                         uint64_t rows, uint64_t cols, int64_t ld);
    cublasStatus_t (*MatrixLayoutDestroy)(cublasLtMatrixLayout_t layout);
    cublasStatus_t (*MatrixLayoutSetAttribute)(cublasLtMatrixLayout_t layout,
                                               cublasLtMatrixLayoutAttribute_t name,
                                               const void *value, size_t bytes);
    cublasStatus_t (*MatmulPreferenceCreate)(cublasLtMatmulPreference_t *preference);
    cublasStatus_t (*MatmulPreferenceDestroy)(cublasLtMatmulPreference_t preference);
    cublasStatus_t (*MatmulPreferenceSetAttribute)(cublasLtMatmulPreference_t preference,
                                                   cublasLtMatmulPreferenceAttributes_t name,
                                                   const void *value, size_t bytes);
    cublasStatus_t (*MatmulAlgoGetHeuristic)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                             cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                             cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                             cublasLtMatmulPreference_t preference,
                                             int requested_count,
                                             cublasLtMatmulHeuristicResult_t results[],
                                             int *ret_count);
    cublasStatus_t (*MatmulAlgoConfigGetAttribute)(const cublasLtMatmulAlgo_t *algorithm,
                                                   cublasLtMatmulAlgoConfigAttributes_t name,
                                                   void *value, size_t bytes, size_t *ret_bytes);
    cublasStatus_t (*Matmul)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                             const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                             cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                             cublasLtMatrixLayout_t c_layout, void *d,
                             cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm,
                             void *workspace, size_t workspace_bytes, cudaStream_t stream);
};

/* Loads the library on the first call. *ret_library is never freed. -ELIBACC names what to install.
 * Thread-safe. */
int cublaslt_library_load(const struct cublaslt_library **ret_library, struct err *err);

#endif
