/*
 * launch — trainer/ops/cuda/launch.h's three macros for the CPU. C++ only.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_LAUNCH_H
#define MILLRACE_TESTS_CUDA_ON_CPU_LAUNCH_H

#include <cuda_runtime.h>

#include <tuple>
#include <type_traits>

#include "tests/cuda_on_cpu/grid.h"

namespace cuda_on_cpu {

/* A kernel and its arguments, by value. */
template <typename... P> struct closure {
    void (*kernel)(P...);
    std::tuple<P...> arguments;

    static void run(void *self)
    {
        const closure *c = static_cast<const closure *>(self);
        std::apply(c->kernel, c->arguments);
    }

    static void destroy(void *self)
    {
        delete static_cast<closure *>(self);
    }
};

template <typename T> struct non_deduced {
    typedef T type; /* not deduced, so that arguments are converted as in a call */
};

template <typename T> void check_argument(const void *kernel, int number, const T &argument)
{
    if constexpr (std::is_pointer_v<T>)
        shim_check_argument(kernel, number, reinterpret_cast<const void *>(argument));
}

template <typename... P>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, typename non_deduced<P>::type... arguments)
{
    const void *address = reinterpret_cast<const void *>(kernel);
    int number = 0;
    (check_argument(address, ++number, arguments), ...);
    const struct shim_launch wanted = {address,
                                       grid,
                                       block,
                                       shared_bytes,
                                       closure<P...>::run,
                                       closure<P...>::destroy,
                                       new closure<P...>{kernel, std::tuple<P...>(arguments...)}};
    return shim_launch(&wanted, stream);
}

} // namespace cuda_on_cpu

#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                     \
    cuda_on_cpu::launch(kernel, (grid), (block), (shared_bytes), (stream), ##__VA_ARGS__)

#define DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(shim_dynamic_shared())

#define LAUNCH_ALLOW_SHARED(kernel, shared_bytes)                                                  \
    cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),                                   \
                         cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(shared_bytes))

#endif
