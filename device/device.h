/*
 * device — memory by kind, streams, events and asynchronous copies; one table of operations a
 * backend.
 *
 * A `struct device` is one CPU or one GPU. `cpu` runs a copy when it is asked for, so its streams
 * are always idle and its events always done; `null` gives no memory at all and counts what was
 * asked for (it serves estimates); `cuda` queues. Code above this line is written for the queueing
 * one: it never reads the target of a copy before the event after it.
 *
 *     device_open("cpu", &device, err);
 *     device->ops->mem_alloc(device, MEM_PINNED, bytes, &memory, err);
 *     device->ops->copy(device, stream, target, source, bytes, err);
 *     device->ops->event_record(device, event, stream, err);
 *     device->ops->event_wait(device, event, err);
 *
 * Threads: operations may be called from any thread; one stream is used by one thread at a time.
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
    MEM_PLAIN, /* host memory, page-aligned */
    MEM_HUGE,  /* host memory in huge pages where the kernel offers them, plain otherwise */
    /* host memory that the device's copy engine reads; plain where there is no such engine */
    MEM_PINNED,
    MEM_DEVICE, /* the device's own; on the cpu backend plain */
    MEM_KIND_COUNT
};

/* What memory is for: each is counted by itself. A hook's kind is an enum mem_kind, or
 * mem_for(kind, use); alone it is MEM_FOR_WORK. */
enum mem_use {
    MEM_FOR_WORK, /* what the rest is computed in */
    MEM_FOR_PARAMETERS,
    MEM_FOR_GRADIENTS,
    MEM_FOR_OPTIMIZER,
    MEM_FOR_ACTIVATIONS,
    MEM_FOR_COMMUNICATION,
    MEM_FOR_STAGING, /* of checkpoints */
    MEM_FOR_LOADER,  /* up to the batches on the device */
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
    DEVICE_MEM_ALIGN_BYTES = 4096,       /* of the host's kinds */
    DEVICE_MEM_ALIGN_DEVICE_BYTES = 256, /* of MEM_DEVICE, at least */
};

struct device_stream; /* copies and kernels in the order they were queued */
struct device_event;  /* a point in a stream */
struct device_graph;  /* what was recorded of a stream */
struct device;

struct device_mem_info {
    uint64_t used_bytes[MEM_KIND_COUNT]; /* allocated here and not yet freed */
    uint64_t peak_bytes[MEM_KIND_COUNT];
    uint64_t use_peak_bytes[MEM_USE_COUNT][MEM_KIND_COUNT];
    uint64_t free_bytes, total_bytes; /* of the device's own memory, 0 where unknown */
};

/* All hooks are required but those of graphs. Errors: -ENOMEM, -EIO (the device failed), always
 * with detail. */
struct device_ops {
    const char *name; /* "cpu", "null", "cuda" */
    /* Device memory is the host's own, and everything is done when a call returns: nothing needs
     * copying there. */
    bool is_host;

    /* bytes > 0; memory is zeroed and aligned as above; it is freed as the kind that it was asked
     * for. `null` gives an address that must not be read; nor may the host read MEM_DEVICE of
     * `cuda`. */
    int (*mem_alloc)(struct device *device, unsigned kind, size_t bytes, void **ret_memory,
                     struct err *err);
    void (*mem_free)(struct device *device, unsigned kind, void *memory,
                     size_t bytes); /* NULL is fine */
    void (*mem_info)(struct device *device, struct device_mem_info *ret_info);

    int (*stream_open)(struct device *device, struct device_stream **ret_stream, struct err *err);
    void (*stream_close)(struct device *device, struct device_stream *stream);
    int (*stream_wait_event)(struct device *device, struct device_stream *stream,
                             struct device_event *event,
                             struct err *err); /* what is queued later waits; the caller does not */
    int (*stream_sync)(struct device *device, struct device_stream *stream,
                       struct err *err); /* blocks */

    int (*event_open)(struct device *device, struct device_event **ret_event, struct err *err);
    void (*event_close)(struct device *device, struct device_event *event);
    int (*event_record)(struct device *device, struct device_event *event,
                        struct device_stream *stream, struct err *err);
    int (*event_done)(struct device *device, struct device_event *event, bool *ret_done,
                      struct err *err);
    int (*event_wait)(struct device *device, struct device_event *event,
                      struct err *err); /* blocks */

    /* Between any kinds of memory, queued on stream. Both stay borrowed until the stream has passed
     * it. */
    int (*copy)(struct device *device, struct device_stream *stream, void *target,
                const void *source, size_t bytes, struct err *err);
    int (*fill)(struct device *device, struct device_stream *stream, void *target, int byte,
                size_t bytes, struct err *err);

    /* Recording what is queued, so that it is queued again by one call; all four, or NULL where
     * that would save nothing. From begin to end, by one thread, what is queued on the stream does
     * not run but becomes part of the graph, with the addresses and numbers that it has then.
     * Another stream takes part from where it waits for an event recorded on this one since begin,
     * and this one waits for it before end. In between the thread asks the device for nothing else:
     * neither memory nor whether something is done. -EIO at the end where it did. */
    int (*graph_begin)(struct device *device, struct device_stream *stream, struct err *err);
    int (*graph_end)(struct device *device, struct device_stream *stream,
                     struct device_graph **ret_graph, struct err *err);
    int (*graph_launch)(struct device *device, struct device_graph *graph,
                        struct device_stream *stream, struct err *err);
    void (*graph_close)(struct device *device, struct device_graph *graph); /* NULL is fine */

    void (*close)(struct device *device);
};

/* Backends embed it first. */
struct device {
    const struct device_ops *ops;
};

/* name: "cpu", "null", "cuda" (the first GPU), "cuda:N" or "auto": the first GPU, or the CPU
 * where device_auto_count finds none. Gives the device. -ENODEV with what to do where it is
 * absent or can't be used. */
int device_open(const char *name, struct device **ret_device, struct err *err);
void device_close(struct device *device); /* NULL is fine */
/* How many GPUs "auto" can use; 0 if this process was given none (gpu_probe.h), or
 * CUDA_VISIBLE_DEVICES hides all of them. -ENODEV if it was given one that CUDA can't use: the
 * driver is absent or too old, the device file may not be opened, or this build has no CUDA.
 * root: as gpu_probe_given's; "" but in tests. */
int device_auto_count(const char *root, int *ret_gpus, struct err *err);
/* Copies from host memory and waits until it is there. Not for what happens often. */
int device_upload(struct device *device, void *target, const void *source, size_t bytes,
                  struct err *err);

/* The backends, one file each; device_cuda.h has that of a GPU. */
int device_cpu_open(struct device **ret_device, struct err *err);
int device_null_open(struct device **ret_device, struct err *err);

#ifdef __cplusplus
}
#endif

#endif
