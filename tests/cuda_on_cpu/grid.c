/*
 * grid — see grid.h.
 *
 * Static shared memory is thread-local memory (see shim.h) in the thread that runs kernels. That
 * thread has no other thread-local data, so all its thread-local memory is filled with NaN before
 * each block.
 */
#include "tests/cuda_on_cpu/grid.h"

#include "tests/cuda_on_cpu/block.h"
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/order_choice.h"
#include "tests/cuda_on_cpu/queue.h"
#include "tests/cuda_on_cpu/status.h"
#include "tests/cuda_on_cpu/violation.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRID_X_MAX = INT32_MAX,
    GRID_YZ_MAX = 65535,
    BLOCK_XY_MAX = 1024,
    BLOCK_Z_MAX = 64,
    SHARED_BYTES = 48 << 10,
    SHARED_ALIGN_BYTES = 128,
    UNWRITTEN = 0xff, /* a NaN in every floating type */
    KERNELS_MAX = 1024,
};

/* Provided by the C++ library: returns a demangled name, which the caller frees. */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *bytes, int *status);

/* The limits set by LAUNCH_ALLOW_SHARED. Guarded by lock. */
static struct {
    pthread_mutex_t lock;
    struct {
        const void *kernel;
        size_t shared_bytes;
    } kernels[KERNELS_MAX];
    size_t count;
} allowed = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The kernels launched so far. Guarded by lock. */
static struct {
    pthread_mutex_t lock;
    const void *kernels[KERNELS_MAX];
    size_t count;
    int spinning;
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The running grid. Used only by the thread that runs kernels. */
static struct {
    char *bytes;
    size_t count;
    char *static_bytes;
    size_t static_count;
} shared;

static size_t allowed_shared_bytes(const void *kernel)
{
    size_t bytes = SHARED_BYTES;
    pthread_mutex_lock(&allowed.lock);
    for (size_t i = 0; i < allowed.count; i++)
        if (allowed.kernels[i].kernel == kernel)
            bytes = allowed.kernels[i].shared_bytes;
    pthread_mutex_unlock(&allowed.lock);
    return bytes;
}

cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute,
                                           int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        (size_t)value > shim_architecture().shared_bytes_max)
        return status_set(cudaErrorInvalidValue);
    pthread_mutex_lock(&allowed.lock);
    size_t i = 0;
    while (i < allowed.count && allowed.kernels[i].kernel != kernel)
        i++;
    if (i == KERNELS_MAX)
        shim_violation("more than %d kernels have an attribute set", KERNELS_MAX);
    allowed.count += i == allowed.count;
    allowed.kernels[i].kernel = kernel;
    allowed.kernels[i].shared_bytes = (size_t)value;
    pthread_mutex_unlock(&allowed.lock);
    return cudaSuccess;
}

const char *shim_kernel_name(const void *kernel, char text[SHIM_NAME_BYTES_MAX])
{
    Dl_info info;
    char *name = NULL;
    int status = 0;
    if (dladdr(kernel, &info) && info.dli_sname)
        name = __cxa_demangle(info.dli_sname, NULL, NULL, &status);
    snprintf(text, SHIM_NAME_BYTES_MAX, "%s", name ? name : "?");
    free(name);
    return text;
}

static int find_static_shared(struct dl_phdr_info *info, size_t info_bytes, void *unused)
{
    (void)info_bytes, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            shared.static_bytes = info->dlpi_tls_data;
            shared.static_count = info->dlpi_phdr[i].p_memsz;
        }
    return 1; /* the program itself is the first entry */
}

static cudaError_t check_launch(const struct shim_launch *launch)
{
    char name[SHIM_NAME_BYTES_MAX];
    dim3 grid = launch->grid, block = launch->block;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > GRID_X_MAX || grid.y > GRID_YZ_MAX ||
        grid.z > GRID_YZ_MAX)
        return cudaErrorInvalidConfiguration;
    if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > BLOCK_XY_MAX ||
        block.y > BLOCK_XY_MAX || block.z > BLOCK_Z_MAX ||
        (size_t)block.x * block.y * block.z > BLOCK_THREADS_MAX)
        return cudaErrorInvalidConfiguration;
    if (block.x * block.y * block.z % BLOCK_WARP_THREADS)
        shim_violation("kernel %s: a block of %u x %u x %u threads is not a multiple of %d",
                       shim_kernel_name(launch->kernel, name), block.x, block.y, block.z,
                       BLOCK_WARP_THREADS);
    return launch->shared_bytes > allowed_shared_bytes(launch->kernel) ? cudaErrorInvalidValue
                                                                       : cudaSuccess;
}

static void run_launch(void *data)
{
    const struct shim_launch *launch = data;
    dim3 grid = launch->grid;
    uint64_t count = (uint64_t)grid.x * grid.y * grid.z;
    shared.count = launch->shared_bytes;
    if (posix_memalign((void **)&shared.bytes, SHARED_ALIGN_BYTES, shared.count ? shared.count : 1))
        abort();
    dl_iterate_phdr(find_static_shared, NULL);
    shim_index.block_dim = launch->block;
    shim_index.grid_dim = grid;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = order_pick_block(i, count);
        shim_index.block.x = (unsigned)(at % grid.x);
        shim_index.block.y = (unsigned)(at / grid.x % grid.y);
        shim_index.block.z = (unsigned)(at / grid.x / grid.y);
        memset(shared.bytes, UNWRITTEN, shared.count);
        if (shared.static_bytes)
            memset(shared.static_bytes, UNWRITTEN, shared.static_count);
        block_run(launch->kernel, launch->main, launch->closure);
    }
    free(shared.bytes);
}

static void destroy_launch(void *data)
{
    struct shim_launch *launch = data;
    launch->destroy(launch->closure);
    free(launch);
}

void shim_add_spinning_comms(int change)
{
    pthread_mutex_lock(&loaded.lock);
    loaded.spinning += change;
    pthread_mutex_unlock(&loaded.lock);
}

static void load_kernel(const void *kernel)
{
    char name[SHIM_NAME_BYTES_MAX];
    size_t i = 0;
    pthread_mutex_lock(&loaded.lock);
    while (i < loaded.count && loaded.kernels[i] != kernel)
        i++;
    if (i == loaded.count && loaded.spinning > 0)
        shim_violation("kernel %s: is loaded while %d communicators wait for other ranks",
                       shim_kernel_name(kernel, name), loaded.spinning);
    if (i == KERNELS_MAX)
        shim_violation("more than %d kernels are launched", KERNELS_MAX);
    loaded.count += i == loaded.count;
    loaded.kernels[i] = kernel;
    pthread_mutex_unlock(&loaded.lock);
}

cudaError_t shim_launch(const struct shim_launch *launch, cudaStream_t stream)
{
    load_kernel(launch->kernel);
    cudaError_t status = check_launch(launch);
    if (status != cudaSuccess) {
        launch->destroy(launch->closure);
        return status_set(status);
    }
    struct shim_launch *copy = malloc(sizeof *copy);
    if (!copy)
        abort();
    *copy = *launch;
    return status_set(queue_add(stream, (struct queue_work){run_launch, destroy_launch, copy}));
}

void shim_check_argument(const void *kernel, int number, const void *memory)
{
    char name[SHIM_NAME_BYTES_MAX];
    if (memory && memory_kind_of(memory, 0, "an argument of a kernel") == MEMORY_PAGEABLE)
        shim_violation("kernel %s: argument %d points to memory that a device can't read",
                       shim_kernel_name(kernel, name), number);
}

void *shim_dynamic_shared(void)
{
    return shared.bytes;
}

bool shim_is_shared(const void *memory, size_t bytes)
{
    uintptr_t at = (uintptr_t)memory, dynamic = (uintptr_t)shared.bytes,
              fixed = (uintptr_t)shared.static_bytes;
    return (at >= dynamic && at + bytes <= dynamic + shared.count) ||
           (at >= fixed && at + bytes <= fixed + shared.static_count);
}
