/*
 * cuda_libraries — see cuda_libraries.h.
 */
#include "device/cuda_libraries.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifndef MR_CUDA_LIBRARY_FOLDER
#define MR_CUDA_LIBRARY_FOLDER "/usr/local/cuda/lib64"
#endif

enum { VERSION_IN_ARGUMENT, VERSION_RETURNED };

/* All three count 10000 * major + 100 * minor + patch, in the versions that are looked for. */
static const struct {
    const char *name, *use;
    const char *files[2]; /* the newest first */
    const char *function;
    int kind;
} known[] = {
    {"cuBLASLt",
     "products of matrices",
     {"libcublasLt.so.13", "libcublasLt.so.12"},
     "cublasLtGetVersion",
     VERSION_RETURNED},
    {"cuDNN",
     "not used, its attention is what ours is measured by",
     {"libcudnn.so.9", NULL},
     "cudnnGetVersion",
     VERSION_RETURNED},
    {"NCCL",
     "weights and gradients between GPUs",
     {"libnccl.so.2", NULL},
     "ncclGetVersion",
     VERSION_IN_ARGUMENT},
};

static_assert(sizeof known / sizeof known[0] == CUDA_LIBRARIES_MAX, "there is room for all");

/* They stay loaded: what their beginnings allocate is theirs to find again, and not lost when the last handle goes. */
static void *open_library(const char *const files[2])
{
    void *library = NULL;
    for (int i = 0; i < 2 && files[i] && !library; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", MR_CUDA_LIBRARY_FOLDER, files[i]);
        library = dlopen(files[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
        if (!library)
            library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    }
    return library;
}

/* 0 where it does not tell. */
static int ask_version(void *library, const char *function, int kind)
{
    size_t (*returned)(void) = NULL;
    int (*in_argument)(int *version) = NULL;
    int version = 0;
    void *address = dlsym(library, function);
    if (!address)
        return 0;
    if (kind == VERSION_RETURNED) {
        memcpy(&returned, &address, sizeof address); /* a function's address, as POSIX has it */
        return (int)returned();
    }
    memcpy(&in_argument, &address, sizeof address);
    return in_argument(&version) == 0 ? version : 0;
}

size_t cuda_libraries_find(struct cuda_library libraries[CUDA_LIBRARIES_MAX])
{
    for (size_t i = 0; i < CUDA_LIBRARIES_MAX; i++) {
        void *library = open_library(known[i].files);
        int version = library ? ask_version(library, known[i].function, known[i].kind) : 0;
        libraries[i] = (struct cuda_library){.name = known[i].name,
                                             .use = known[i].use,
                                             .major = version / 10000,
                                             .minor = version / 100 % 100,
                                             .patch = version % 100};
        if (library)
            dlclose(library);
    }
    return CUDA_LIBRARIES_MAX;
}
