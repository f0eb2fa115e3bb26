/*
 * cublaslt_library — see cublaslt_library.h.
 */
#include "trainer/ops/cuda/gemm/cublaslt_library.h"

#include "base/os/dynlib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

/* Guarded by the mutex; the table is constant once is_loaded. */
static struct {
    pthread_mutex_t mutex;
    bool is_loaded;
    struct cublaslt_library table;
} loaded = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int find_functions(void *library, struct cublaslt_library *ret_table, struct err *err)
{
    struct cublaslt_library t = {0};
    const struct dynlib_function functions[] = {
        {"cublasLtCreate", &t.Create},
        {"cublasLtDestroy", &t.Destroy},
        {"cublasLtGetVersion", &t.GetVersion},
        {"cublasLtMatmulDescCreate", &t.MatmulDescCreate},
        {"cublasLtMatmulDescDestroy", &t.MatmulDescDestroy},
        {"cublasLtMatmulDescSetAttribute", &t.MatmulDescSetAttribute},
        {"cublasLtMatrixLayoutCreate", &t.MatrixLayoutCreate},
        {"cublasLtMatrixLayoutDestroy", &t.MatrixLayoutDestroy},
        {"cublasLtMatrixLayoutSetAttribute", &t.MatrixLayoutSetAttribute},
        {"cublasLtMatmulPreferenceCreate", &t.MatmulPreferenceCreate},
        {"cublasLtMatmulPreferenceDestroy", &t.MatmulPreferenceDestroy},
        {"cublasLtMatmulPreferenceSetAttribute", &t.MatmulPreferenceSetAttribute},
        {"cublasLtMatmulAlgoGetHeuristic", &t.MatmulAlgoGetHeuristic},
        {"cublasLtMatmulAlgoConfigGetAttribute", &t.MatmulAlgoConfigGetAttribute},
        {"cublasLtMatmul", &t.Matmul},
    };
    const char *missing = dynlib_find(library, functions, sizeof functions / sizeof functions[0]);
    if (missing) {
        err_set(err, -ELIBACC, "this cuBLASLt lacks %s", missing);
        err_advise(err, "install the one from CUDA 12 or 13");
        return -ELIBACC;
    }
    *ret_table = t;
    return 0;
}

static int load(struct cublaslt_library *ret_table, struct err *err)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                        MR_CUDA_LIBRARY_FOLDER "/libcublasLt.so.13",
                                        MR_CUDA_LIBRARY_FOLDER "/libcublasLt.so.12"};
    void *library = dynlib_open(names, sizeof names / sizeof names[0]);
    if (!library) {
        err_set(err, -ELIBACC, "could not load cuBLASLt: %s", dlerror());
        err_advise(err,
                   "install the CUDA toolkit's libcublas, or add its folder to LD_LIBRARY_PATH");
        return -ELIBACC;
    }
    return find_functions(library, ret_table, err);
}

int cublaslt_library_load(const struct cublaslt_library **ret_library, struct err *err)
{
    pthread_mutex_lock(&loaded.mutex);
    int status = loaded.is_loaded ? 0 : load(&loaded.table, err);
    loaded.is_loaded = status == 0;
    pthread_mutex_unlock(&loaded.mutex);
    if (!status)
        *ret_library = &loaded.table;
    return status;
}
