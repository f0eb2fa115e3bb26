/*
 * memory_io — see fuzz.h. Requests complete on submission, one at a time.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct io_file {
    struct memory_io *memory;
};

struct memory_queue {
    struct io_request *done;
};

static int file_open(struct io *io, const char *path, struct io_file **ret_file, struct err *err)
{
    (void)path;
    struct io_file *file = malloc(sizeof *file);
    if (!file)
        return err_set(err, -ENOMEM, "out of memory for a file");
    file->memory = (struct memory_io *)io;
    *ret_file = file;
    return 0;
}

static void file_close(struct io_file *file)
{
    free(file);
}

static uint64_t file_size(const struct io_file *file)
{
    return file->memory->bytes;
}

static int queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err)
{
    (void)io;
    (void)depth;
    struct memory_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return err_set(err, -ENOMEM, "out of memory for a queue");
    *ret_queue = (struct io_queue *)queue;
    return 0;
}

static void queue_close(struct io_queue *queue)
{
    free(queue);
}

static int submit(struct io_queue *base, struct io_request *const *requests, unsigned count)
{
    struct memory_queue *queue = (struct memory_queue *)base;
    if (count == 0 || queue->done)
        return 0;
    struct io_request *request = requests[0];
    const struct memory_io *memory = request->file->memory;
    size_t left = request->offset < memory->bytes ? memory->bytes - (size_t)request->offset : 0;
    size_t bytes = request->bytes < left ? request->bytes : left;
    if (bytes > 0)
        memcpy(request->data, memory->data + request->offset, bytes);
    request->result = (ssize_t)bytes;
    queue->done = request;
    return 1;
}

static int reap(struct io_queue *base, struct io_request **done, unsigned count_max,
                unsigned count_min, int timeout_ms)
{
    struct memory_queue *queue = (struct memory_queue *)base;
    (void)count_min;
    (void)timeout_ms;
    if (count_max == 0 || !queue->done)
        return 0;
    done[0] = queue->done;
    queue->done = NULL;
    return 1;
}

static int stat_file(struct io *io, const char *path, struct io_stat *ret_stat, struct err *err)
{
    (void)path;
    (void)err;
    *ret_stat = (struct io_stat){.kind = IO_ENTRY_FILE,
                                 .size_bytes = ((const struct memory_io *)io)->bytes};
    return 0;
}

static int file_identity(const struct io_file *file, struct io_identity *ret_identity,
                         struct err *err)
{
    (void)file;
    (void)err;
    *ret_identity = (struct io_identity){0};
    return 0;
}

/* The operations that parsers need. A target that uses any other crashes, which shows what is
 * missing. */
static const struct io_ops memory_ops = {
    .name = "memory",
    .scheme = "memory",
    .file_open = file_open,
    .file_close = file_close,
    .file_size = file_size,
    .file_identity = file_identity,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .submit = submit,
    .reap = reap,
};
static const struct io_name_ops memory_names = {.stat = stat_file};
static const struct io_lock_ops memory_locks = {0};

void memory_io_init(struct memory_io *memory, const uint8_t *data, size_t bytes)
{
    *memory = (struct memory_io){
        .io = {&memory_ops, &memory_names, NULL, &memory_locks}, .data = data, .bytes = bytes};
}
