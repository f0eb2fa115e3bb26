/*
 * nccl_library — see nccl_library.h.
 */
#include "comm/nccl/nccl_library.h"

#include "base/os/dynlib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

/* Process-wide, like the library, which is never unloaded. Guarded by the mutex; immutable once
 * is_loaded is set. */
static struct {
    pthread_mutex_t mutex;
    bool is_loaded;
    struct nccl_library table;
} loaded = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int find_functions(void *library, struct nccl_library *ret_table, struct err *err)
{
    struct nccl_library t = {0};
    const struct dynlib_function wanted[] = {
        {"ncclGetVersion", &t.GetVersion},
        {"ncclGetUniqueId", &t.GetUniqueId},
        {"ncclCommInitRankConfig", &t.CommInitRankConfig},
        {"ncclCommGetAsyncError", &t.CommGetAsyncError},
        {"ncclCommFinalize", &t.CommFinalize},
        {"ncclCommDestroy", &t.CommDestroy},
        {"ncclCommAbort", &t.CommAbort},
        {"ncclGetErrorString", &t.GetErrorString},
        {"ncclGetLastError", &t.GetLastError},
        {"ncclGroupStart", &t.GroupStart},
        {"ncclGroupEnd", &t.GroupEnd},
        {"ncclSend", &t.Send},
        {"ncclRecv", &t.Recv},
        {"ncclAllGather", &t.AllGather},
        {"ncclReduceScatter", &t.ReduceScatter},
    };
    const char *lacking = dynlib_find(library, wanted, sizeof wanted / sizeof wanted[0]);
    if (lacking)
        return err_set(err, -ENOTSUP, "this NCCL lacks %s", lacking);
    *ret_table = t;
    return 0;
}

static int load_functions(struct nccl_library *ret_table, struct err *err)
{
    static const char *const names[] = {"libnccl.so.2", MR_CUDA_LIBRARY_FOLDER "/libnccl.so.2"};
    void *library = dynlib_open(names, sizeof names / sizeof names[0]);
    if (!library) {
        err_set(err, -ENOTSUP, "could not load NCCL: %.200s", dlerror());
        err_advise(err, "install libnccl2, or add its folder to LD_LIBRARY_PATH");
        return -ENOTSUP;
    }
    return find_functions(library, ret_table, err);
}

int nccl_library_load(const struct nccl_library **ret_library, struct err *err)
{
    pthread_mutex_lock(&loaded.mutex);
    int status = loaded.is_loaded ? 0 : load_functions(&loaded.table, err);
    loaded.is_loaded = status == 0;
    pthread_mutex_unlock(&loaded.mutex);
    if (!status)
        *ret_library = &loaded.table;
    return status;
}
