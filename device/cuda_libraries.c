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

/* All supported libraries encode their version as 10000 * major + 100 * minor + patch. */
static const struct {
    const char *name, *use;
    /* tried in this order: newest first */
    const char *files[4];
    size_t files_count;
    const char *function;
    int kind;
} known_libraries[] = {
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

static_assert(sizeof known_libraries / sizeof known_libraries[0] == CUDA_LIBRARIES_MAX,
              "one slot per library");

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
        void *library = dynlib_open(known_libraries[i].files, known_libraries[i].files_count);
        int version =
            library ? query_version(library, known_libraries[i].function, known_libraries[i].kind)
                    : 0;
        libraries[i] = (struct cuda_library){.name = known_libraries[i].name,
                                             .use = known_libraries[i].use,
                                             .major = version / 10000,
                                             .minor = version / 100 % 100,
                                             .patch = version % 100};
    }
    return CUDA_LIBRARIES_MAX;
}
