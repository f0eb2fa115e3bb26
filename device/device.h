/*
 * device — memory by kind, streams, events and asynchronous copies, behind one table of operations
 * per backend.
 *
 * A `struct device` is one CPU or GPU. `cpu` executes each call immediately, so its streams are
 * always idle and its events always done. `null` allocates nothing and counts requests, for
 * estimates. `cuda` queues operations: do not read the target of a copy until an event recorded
 * after the copy is done.
 *
 *     device_open("cpu", &device, err);
 *     device->ops->mem_alloc(device, MEM_PINNED, bytes, &memory, err);
 *     device->ops->copy(device, stream, target, source, bytes, err);
 *     device->ops->event_record(device, event, stream, err);
 *     device->ops->event_wait(device, event, err);
 *
 * Threads: operations may be called from any thread; a stream is used by one thread at a time.
 */
#ifndef MILLRACE_DEVICE_DEVICE_H
#define MILLRACE_DEVICE_DEVICE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum mem_kind {
    MEM_PAGEABLE, /* host memory, page-aligned */
    MEM_HUGE,     /* host memory, in huge pages if the kernel offers them */
    MEM_PINNED,   /* host memory that the device can copy asynchronously */
    MEM_DEVICE,   /* the device's own memory; host memory on the cpu backend */
    MEM_KIND_COUNT
};

/* What memory is used for; each use is counted separately. A hook's `kind` argument is
 * mem_for(kind, use), or an enum mem_kind, which implies MEM_FOR_WORK. */
enum mem_use {
    MEM_FOR_WORK, /* scratch memory and all other uses */
    MEM_FOR_PARAMETERS,
    MEM_FOR_GRADIENTS,
    MEM_FOR_OPTIMIZER,
    MEM_FOR_ACTIVATIONS,
    MEM_FOR_COMMUNICATION,
    MEM_FOR_STAGING, /* for checkpoints */
    MEM_FOR_LOADER,  /* including the batches on the device */
    MEM_USE_COUNT
};

enum { MEM_USE_SHIFT = 8 };

static inline unsigned mem_for(enum mem_kind kind, enum mem_use use)
{
    return (unsigned)kind | (unsigned)use << MEM_USE_SHIFT;
}

static inline enum mem_kind mem_kind_of(unsigned kind)
{
    return (enum mem_kind)(kind & ((1U << MEM_USE_SHIFT) - 1));
}

static inline enum mem_use mem_use_of(unsigned kind)
{
    return (enum mem_use)(kind >> MEM_USE_SHIFT);
}

enum {
    DEVICE_MEM_ALIGN_BYTES = 4096,       /* host memory */
    DEVICE_MEM_ALIGN_DEVICE_BYTES = 256, /* MEM_DEVICE, at least */
};

struct device_stream; /* copies and kernels, in queueing order */
struct device_event;  /* a point in a stream */
struct device_graph;  /* recorded operations of a stream */
struct device;

struct device_mem_info {
    uint64_t used_bytes[MEM_KIND_COUNT]; /* allocated and not yet freed */
    uint64_t peak_bytes[MEM_KIND_COUNT];
    uint64_t use_peak_bytes[MEM_USE_COUNT][MEM_KIND_COUNT];
    uint64_t free_bytes, total_bytes; /* of the device's own memory; 0 if unknown */
};

/* All hooks are required except the graph hooks. Errors: -ENOMEM, -EIO (the device failed), always
 * with detail. */
struct device_ops {
    const char *name; /* "cpu", "null", "cuda" */
    /* Device memory is host memory, and calls complete before they return. */
    bool is_host;

    /* bytes > 0. Memory is zeroed and aligned as above; free it with the same kind. The host must
     * not access memory from `null`, or MEM_DEVICE memory from `cuda`. */
    int (*mem_alloc)(struct device *device, unsigned kind, size_t bytes, void **ret_memory,
                     struct err *err);
    /* NULL is fine. */
    void (*mem_free)(struct device *device, unsigned kind, void *memory, size_t bytes);
    void (*mem_info)(struct device *device, struct device_mem_info *ret_info);

    int (*stream_open)(struct device *device, struct device_stream **ret_stream, struct err *err);
    void (*stream_close)(struct device *device, struct device_stream *stream);
    /* Delays operations queued later; does not block the caller. */
    int (*stream_wait_event)(struct device *device, struct device_stream *stream,
                             struct device_event *event, struct err *err);
    /* Blocks. */
    int (*stream_sync)(struct device *device, struct device_stream *stream, struct err *err);

    int (*event_open)(struct device *device, struct device_event **ret_event, struct err *err);
    void (*event_close)(struct device *device, struct device_event *event);
    int (*event_record)(struct device *device, struct device_event *event,
                        struct device_stream *stream, struct err *err);
    int (*event_done)(struct device *device, struct device_event *event, bool *ret_done,
                      struct err *err);
    /* Blocks. */
    int (*event_wait)(struct device *device, struct device_event *event, struct err *err);

    /* Queues a copy between any kinds of memory. Borrows both ranges until the stream has executed
     * it. */
    int (*copy)(struct device *device, struct device_stream *stream, void *target,
                const void *source, size_t bytes, struct err *err);
    int (*fill)(struct device *device, struct device_stream *stream, void *target, int byte,
                size_t bytes, struct err *err);

    /* All four are optional. They record operations, so that one call can queue them again. One
     * thread must call begin and end. In between, operations queued on the stream do not run; the
     * graph records them with their current arguments. Another stream joins by waiting for an event
     * recorded on this stream since begin; this stream must wait for it before end. While
     * recording, the thread must not allocate memory or query the device; if it does, end returns
     * -EIO. */
    int (*graph_begin)(struct device *device, struct device_stream *stream, struct err *err);
    int (*graph_end)(struct device *device, struct device_stream *stream,
                     struct device_graph **ret_graph, struct err *err);
    int (*graph_launch)(struct device *device, struct device_graph *graph,
                        struct device_stream *stream, struct err *err);
    void (*graph_close)(struct device *device, struct device_graph *graph); /* NULL is fine */

    void (*close)(struct device *device);
};

/* Backends embed it as the first member. */
struct device {
    const struct device_ops *ops;
};

/* name: "cpu", "null", "cuda" (the first GPU), "cuda:N", or "auto" (the first GPU, or the CPU if
 * device_auto_gpu_count finds none). -ENODEV, with advice: it is absent or unusable. */
int device_open(const char *name, struct device **ret_device, struct err *err);
void device_close(struct device *device); /* NULL is fine */
/* Counts the GPUs that "auto" can use: 0 if the process has none (gpu_probe.h) or
 * CUDA_VISIBLE_DEVICES hides them all. -ENODEV: there is a GPU, but CUDA cannot use it: the driver
 * is absent or too old, the device file cannot be opened, or this build has no CUDA. root prefixes
 * all paths. */
int device_auto_gpu_count(const char *root, int *ret_gpus, struct err *err);
/* Copies from host memory and waits; slow. */
int device_upload(struct device *device, void *target, const void *source, size_t bytes,
                  struct err *err);

/* Backends; see device_cuda.h for GPUs. */
int device_cpu_open(struct device **ret_device, struct err *err);
int device_null_open(struct device **ret_device, struct err *err);

#ifdef __cplusplus
}
#endif

#endif
