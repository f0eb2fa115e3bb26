/*
 * cublaslt_library — trainer/ops/cuda/gemm/cublaslt_library.h for tests on the CPU: loads the
 * cuBLASLt stand-in (cublaslt.c).
 */
#include "trainer/ops/cuda/gemm/cublaslt_library.h"

int cublaslt_library_load(const struct cublaslt_library **ret_library, struct err *err)
{
    static const struct cublaslt_library table = {
        .Create = cublasLtCreate,
        .Destroy = cublasLtDestroy,
        .GetVersion = cublasLtGetVersion,
        .MatmulDescCreate = cublasLtMatmulDescCreate,
        .MatmulDescDestroy = cublasLtMatmulDescDestroy,
        .MatmulDescSetAttribute = cublasLtMatmulDescSetAttribute,
        .MatrixLayoutCreate = cublasLtMatrixLayoutCreate,
        .MatrixLayoutDestroy = cublasLtMatrixLayoutDestroy,
        .MatrixLayoutSetAttribute = cublasLtMatrixLayoutSetAttribute,
        .MatmulPreferenceCreate = cublasLtMatmulPreferenceCreate,
        .MatmulPreferenceDestroy = cublasLtMatmulPreferenceDestroy,
        .MatmulPreferenceSetAttribute = cublasLtMatmulPreferenceSetAttribute,
        .MatmulAlgoGetHeuristic = cublasLtMatmulAlgoGetHeuristic,
        .MatmulAlgoConfigGetAttribute = cublasLtMatmulAlgoConfigGetAttribute,
        .Matmul = cublasLtMatmul,
    };
    (void)err;
    *ret_library = &table;
    return 0;
}
