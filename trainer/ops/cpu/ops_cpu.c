/*
 * ops_cpu — see ops_cpu.h.
 */
#include "trainer/ops/cpu/ops_cpu.h"

#include "base/numeric/exact_sum.h"
#include "base/os/dynlib.h"
#include "base/os/machine.h"
#include "trainer/ops/cpu/math.h"
#include "trainer/ops/gradient_clip.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char CORETYPE[] = "OPENBLAS_CORETYPE", NUM_THREADS[] = "OPENBLAS_NUM_THREADS";

/* The OpenBLAS kernels for this instruction set; NULL: OpenBLAS chooses. */
static const char *preferred_blas_core(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

static void *blas_load(void)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    const char *core = getenv(CORETYPE) ? NULL : preferred_blas_core();
    bool sets_threads = !getenv(NUM_THREADS);
    if (core)
        setenv(CORETYPE, core, 1);
    if (sets_threads)
        setenv(NUM_THREADS, "1", 1);
    void *library = dynlib_open(names, sizeof names / sizeof names[0]);
    if (core)
        unsetenv(CORETYPE);
    if (sets_threads)
        unsetenv(NUM_THREADS);
    return library;
}

int blas_open(struct blas *ret_blas, struct err *err)
{
    struct blas blas = {0};
    void (*set_num_threads)(int count) = NULL;
    const char *(*get_config)(void) = NULL, *(*get_corename)(void) = NULL;
    const struct dynlib_function functions[] = {{"cblas_sgemm", &blas.sgemm},
                                                {"cblas_dgemm", &blas.dgemm},
                                                {"openblas_set_num_threads", &set_num_threads},
                                                {"openblas_get_config", &get_config},
                                                {"openblas_get_corename", &get_corename}};
    void *library = blas_load();
    if (!library) {
        err_set(err, -ELIBACC, "could not load OpenBLAS: %s", dlerror());
        err_advise(err, "install it (Debian: libopenblas0)");
        return -ELIBACC;
    }
    const char *missing = dynlib_find(library, functions, sizeof functions / sizeof functions[0]);
    if (missing) {
        err_set(err, -ELIBACC, "this OpenBLAS lacks %s", missing);
        err_advise(err, "install one with the C interface (Debian: libopenblas0)");
        return -ELIBACC;
    }
    set_num_threads(1);
    blas.config = get_config();
    blas.core = get_corename();
    *ret_blas = blas;
    return 0;
}

void blas_describe(const struct blas *blas, struct str *out)
{
    str_add_format(out, "%s (%s)", blas->config, blas->core);
}

static void *allocate(size_t bytes)
{
    return aligned_alloc(OPS_CPU_ALIGN_BYTES, (bytes + OPS_CPU_ALIGN_BYTES - 1) /
                                                  OPS_CPU_ALIGN_BYTES * OPS_CPU_ALIGN_BYTES);
}

int ops_cpu_reserve(struct ops_cpu_scratch *scratch, size_t bytes, struct err *err)
{
    if (bytes <= scratch->bytes)
        return 0;
    void *memory = allocate(bytes);
    if (!memory)
        return err_set(err, -ENOMEM, "out of memory for %zu bytes of scratch memory", bytes);
    free(scratch->memory);
    *scratch = (struct ops_cpu_scratch){memory, bytes};
    return 0;
}

void ops_cpu_fail(struct ops_cpu *cpu, int code, const char *format, ...)
{
    if (cpu->status)
        return;
    char text[ERR_TEXT_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cpu->status = err_set(&cpu->failure, code, "%s", text);
}

int ops_cpu_status(const struct ops *ops, struct err *err)
{
    const struct ops_cpu *cpu = (const struct ops_cpu *)ops;
    if (cpu->status && err)
        *err = cpu->failure;
    return cpu->status;
}

int ops_cpu_sync(struct ops *ops, struct err *err)
{
    int status = ops_cpu_status(ops, err);
    ops_cpu_of(ops)->status = 0;
    return status;
}

int ops_cpu_plan_rows(struct ops *ops, uint64_t rows, uint64_t cols, struct err *err)
{
    (void)ops, (void)rows, (void)cols, (void)err;
    return 0;
}

int ops_cpu_plan_rope(struct ops *ops, const struct attn_shape *shape, const struct rope_spec *spec,
                      struct err *err)
{
    (void)ops, (void)shape, (void)spec, (void)err;
    return 0;
}

int ops_cpu_plan_attn(struct ops *ops, const struct attn_shape *shape, struct err *err)
{
    struct ops_cpu *cpu = ops_cpu_of(ops);
    if (!attn_shape_is_valid(shape))
        return err_set(err, -EINVAL,
                       "cannot compute attention of %llu tokens, %llu heads, %llu key-value heads, "
                       "head dimension %llu",
                       (unsigned long long)shape->tokens, (unsigned long long)shape->heads,
                       (unsigned long long)shape->kv_heads, (unsigned long long)shape->head_dim);
    uint64_t width_max = BLAS_SIZE_MAX / 3;
    if (shape->tokens > width_max || shape->heads > width_max ||
        shape->head_dim > width_max / shape->heads)
        return err_set(err, -EINVAL, "attention of %llu tokens and width %llu is too large",
                       (unsigned long long)shape->tokens,
                       (unsigned long long)(shape->heads * shape->head_dim));
    size_t worker_bytes = ops_cpu_attn_elements(shape) * dtype_bytes(ops->compute);
    worker_bytes =
        (worker_bytes + OPS_CPU_ALIGN_BYTES - 1) / OPS_CPU_ALIGN_BYTES * OPS_CPU_ALIGN_BYTES;
    int status = ops_cpu_reserve(&cpu->attention, worker_bytes * thread_pool_count(cpu->pool), err);
    if (status == 0 && worker_bytes > cpu->attention_worker_bytes)
        cpu->attention_worker_bytes = worker_bytes;
    return status;
}

uint64_t ops_cpu_attn_bwd_scratch_elements(struct ops *ops, const struct attn_shape *shape)
{
    (void)ops, (void)shape;
    return 0;
}

void ops_cpu_convert_to_compute(struct ops *ops, void *compute, const void *master, uint64_t count)
{
    memcpy(compute, master, count * ops_master_bytes(ops)); /* both types are the same on the cpu */
}

void ops_cpu_add_to_exact_sum(struct ops *ops, int64_t *words, const double *terms, uint64_t count)
{
    (void)ops;
    struct exact_sum *sum = (struct exact_sum *)words;
    for (uint64_t i = 0; i < count; i++)
        exact_sum_add(sum, terms[i]);
}

void ops_cpu_add_flag_count(struct ops *ops, int64_t *word, const uint8_t *flags, uint64_t count)
{
    (void)ops;
    for (uint64_t i = 0; i < count; i++)
        *word += flags[i];
}

void ops_cpu_clip_gradients(struct ops *ops, struct gradient_clip *clip, const int64_t *losses,
                            const int64_t *squares, const struct gradient_clip_input *input)
{
    (void)ops;
    gradient_clip_compute(clip, losses, squares, input);
}

void ops_cpu_add_tracks(struct ops *ops, struct trace *trace)
{
    thread_pool_add_tracks(ops_cpu_of(ops)->pool, trace);
}

void ops_cpu_numerics_id(struct ops *ops, struct str *out)
{
    char model[MACHINE_TEXT_BYTES];
    str_add_format(out, "cpu: %s; ", machine_cpu_model(model, sizeof model));
    blas_describe(&ops_cpu_of(ops)->blas, out);
    str_add_format(out, "; glibc %s; kernels %d; %s", gnu_get_libc_version(),
                   OPS_CPU_KERNELS_VERSION, dtype_name(ops->compute));
}

const char *ops_cpu_kernels(void)
{
    return kernel_isa();
}

void ops_cpu_close(struct ops *ops)
{
    struct ops_cpu *cpu = ops_cpu_of(ops);
    if (ops->stream)
        ops->device->ops->stream_close(ops->device, ops->stream);
    thread_pool_close(cpu->pool);
    free(cpu->partials);
    free(cpu->split.memory);
    free(cpu->attention.memory);
    free(cpu);
}

int ops_cpu_open(struct device *device, enum dtype compute, unsigned threads, struct ops **ret_ops,
                 struct err *err)
{
    if (compute != DTYPE_F32 && compute != DTYPE_F64) {
        err_set(err, -EINVAL, "the cpu computes in F32, not in %s", dtype_name(compute));
        err_advise(err, "set precision.compute: fp32, or use device: cuda on a machine with a GPU");
        return -EINVAL;
    }
    struct ops_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return err_set(err, -ENOMEM, "out of memory for compute ops");
    cpu->ops = (struct ops){.table = compute == DTYPE_F32 ? &ops_cpu_table_f32 : &ops_cpu_table_f64,
                            .device = device,
                            .compute = compute,
                            .master = compute};
    int status = device ? device->ops->stream_open(device, &cpu->ops.stream, err) : 0;
    if (status == 0)
        status = blas_open(&cpu->blas, err);
    if (status == 0)
        status = thread_pool_open(threads, &cpu->pool, err);
    if (status == 0) {
        cpu->partials = allocate(OPS_CPU_PARTIALS * dtype_bytes(compute));
        if (!cpu->partials)
            status = err_set(err, -ENOMEM, "out of memory for partial sums");
    }
    if (status) {
        ops_cpu_close(&cpu->ops);
        return status;
    }
    *ret_ops = &cpu->ops;
    return 0;
}
