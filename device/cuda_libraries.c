/*
 * cuda_libraries — see cuda_libraries.h.
 */
#include "device/cuda_libraries.h"

#include "base/os/dynlib.h"

#include <assert.h>

#ifndef MR_CUDA_LIBRARY_FOLDER
#define MR_CUDA_LIBRARY_FOLDER "/usr/local/cuda/lib64"
#endif

enum { VERSION_IN_ARGUMENT, VERSION_RETURNED };

/* Supported versions of all libraries encode their version as 10000 * major + 100 * minor +
 * patch. */
static const struct {
    const char *name, *use;
    /* newest first, the order in which callers try them */
    const char *files[4];
    size_t files_count;
    const char *function;
    int kind;
} known[] = {
    {"cuBLASLt",
     "matrix products",
     {"libcublasLt.so.13", "libcublasLt.so.12", MR_CUDA_LIBRARY_FOLDER "/libcublasLt.so.13",
      MR_CUDA_LIBRARY_FOLDER "/libcublasLt.so.12"},
     4,
     "cublasLtGetVersion",
     VERSION_RETURNED},
    {"cuDNN",
     "not used; its attention is a baseline for measurements",
     {"libcudnn.so.9", MR_CUDA_LIBRARY_FOLDER "/libcudnn.so.9"},
     2,
     "cudnnGetVersion",
     VERSION_RETURNED},
    {"NCCL",
     "weights and gradients between GPUs",
     {"libnccl.so.2", MR_CUDA_LIBRARY_FOLDER "/libnccl.so.2"},
     2,
     "ncclGetVersion",
     VERSION_IN_ARGUMENT},
};

static_assert(sizeof known / sizeof known[0] == CUDA_LIBRARIES_MAX, "there is room for all");

/* 0 if the version is unknown. */
static int query_version(void *library, const char *function, int kind)
{
    size_t (*returned)(void) = NULL;
    int (*in_argument)(int *version) = NULL;
    int version = 0;
    const struct dynlib_function wanted = {
        function, kind == VERSION_RETURNED ? (void *)&returned : (void *)&in_argument};
    if (dynlib_find(library, &wanted, 1))
        return 0;
    if (kind == VERSION_RETURNED)
        return (int)returned();
    return in_argument(&version) == 0 ? version : 0;
}

size_t cuda_libraries_find(struct cuda_library libraries[CUDA_LIBRARIES_MAX])
{
    for (size_t i = 0; i < CUDA_LIBRARIES_MAX; i++) {
        void *library = dynlib_open(known[i].files, known[i].files_count);
        int version = library ? query_version(library, known[i].function, known[i].kind) : 0;
        libraries[i] = (struct cuda_library){.name = known[i].name,
                                             .use = known[i].use,
                                             .major = version / 10000,
                                             .minor = version / 100 % 100,
                                             .patch = version % 100};
    }
    return CUDA_LIBRARIES_MAX;
}
