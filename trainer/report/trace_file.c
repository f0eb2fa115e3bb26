/*
 * trace_file — see trace_file.h.
 */
#include "trainer/report/trace_file.h"

#include "base/clock.h"
#include "io/file_util.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MESSAGE_TAG = 0, HOST_BYTES = 65 };
static_assert((int)MESSAGE_TAG < (int)COMM_MESSAGE_TAGS, "every backend supports the tag");

/* After a failure, added text is dropped. */
struct trace_output {
    struct io *io;
    const char *path;
    struct io_queue *queue;
    struct io_transaction *transaction;
    struct io_file *file;
    uint64_t bytes;
    int status;
    struct err detail;
};

static void begin_output(struct trace_output *output)
{
    const struct io_ops *ops = output->io->ops;
    const struct io_transaction_options options = {
        .path = output->path, .single_file = true, .replace = true};
    output->status = ops->queue_open(output->io, 1, &output->queue, &output->detail);
    if (!output->status)
        output->status = output->io->transactions->begin(output->io, &options, &output->transaction,
                                                         &output->detail);
    if (!output->status)
        output->status = output->io->transactions->create(output->transaction, "", 0, &output->file,
                                                          &output->detail);
}

static void add_output(struct trace_output *output, const struct str *text)
{
    if (!output->status && str_status(text))
        output->status = err_set(&output->detail, -ENOMEM, "out of memory for a trace");
    if (!output->status)
        output->status = io_write_exact(output->queue, output->io, output->file, output->path,
                                        output->bytes, text->data, text->bytes, &output->detail);
    output->bytes += text->bytes;
}

static int end_output(struct trace_output *output, struct err *err)
{
    const struct io_ops *ops = output->io->ops;
    if (!output->status)
        output->status = output->io->transactions->finalize(output->transaction, output->file,
                                                            output->bytes, &output->detail);
    if (output->status)
        output->io->transactions->abort(output->transaction);
    else
        output->status = output->io->transactions->commit(output->transaction, &output->detail);
    if (output->queue)
        ops->queue_close(output->queue);
    if (output->status && err)
        *err = output->detail;
    return output->status;
}

/* ranks: the number of ranks to wait for in turn */
static struct comm_options make_comm_options(const struct trace_file *file, unsigned ranks)
{
    uint64_t timeout_ns = file->timeout_ns * ranks;
    return (struct comm_options){.deadline_ns = timeout_ns ? clock_now_ns() + timeout_ns : 0,
                                 .purpose = "the trace of --profile"};
}

/* In ns since 1970. */
static int agree_on_origin(const struct trace_file *file, uint64_t *ret_origin_ns, struct err *err)
{
    int64_t latest = -(int64_t)trace_started_ns(file->trace);
    struct comm_options options = make_comm_options(file, 1);
    struct comm_work work;
    int status =
        file->comm->ops->all_reduce_i64(file->comm, &latest, 1, COMM_MAX, &options, &work, err);
    if (!status)
        status = comm_wait(file->comm, &work, err);
    *ret_origin_ns = (uint64_t)-latest;
    return status;
}

static void format_process(const struct trace_file *file, struct str *out)
{
    char name[HOST_BYTES + 64], host[HOST_BYTES] = "";
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "rank %d on %s, process %ld", file->comm->rank, host,
             (long)getpid());
    trace_format_process((unsigned)file->comm->rank, name, out);
}

/* the process name, then the tracks */
static unsigned parts_count(const struct trace_file *file)
{
    return 1 + trace_tracks_count(file->trace);
}

static void format_part(const struct trace_file *file, unsigned part, uint64_t origin_ns,
                        struct str *out)
{
    str_clear(out);
    if (part == 0)
        format_process(file, out);
    else
        trace_format_track(file->trace, part - 1, (unsigned)file->comm->rank, origin_ns, out);
}

static int send_bytes(const struct trace_file *file, const void *data, size_t bytes, int to,
                      struct err *err)
{
    struct comm_options options = make_comm_options(file, 1);
    struct comm_work work;
    int status =
        file->comm->ops->send(file->comm, data, bytes, to, MESSAGE_TAG, &options, &work, err);
    return status ? status : comm_wait(file->comm, &work, err);
}

/* ranks: as for make_comm_options */
static int receive_bytes(const struct trace_file *file, void *data, size_t bytes, int from,
                         unsigned ranks, struct err *err)
{
    struct comm_options options = make_comm_options(file, ranks);
    struct comm_work work;
    int status =
        file->comm->ops->receive(file->comm, data, bytes, from, MESSAGE_TAG, &options, &work, err);
    return status ? status : comm_wait(file->comm, &work, err);
}

/* Sends each part's size and text, then 0. Stops early if memory runs out. After a failure, size
 * must stay valid. */
static int send_parts(const struct trace_file *file, uint64_t origin_ns, struct str *text,
                      uint64_t *size, struct err *err)
{
    unsigned count = parts_count(file);
    /* the first rank receives texts in rank order */
    int status = receive_bytes(file, size, sizeof *size, 0, (unsigned)file->comm->rank, err);
    for (unsigned part = 0; part < count && !status; part++) {
        format_part(file, part, origin_ns, text);
        if (str_status(text))
            break;
        *size = text->bytes;
        status = send_bytes(file, size, sizeof *size, 0, err);
        if (!status)
            status = send_bytes(file, text->data, text->bytes, 0, err);
    }
    if (status)
        return status;
    *size = 0;
    return send_bytes(file, size, sizeof *size, 0, err);
}

static int receive_parts(const struct trace_file *file, int from, struct trace_output *output,
                         struct str *text, uint64_t *size, struct err *err)
{
    *size = 0;
    int status = send_bytes(file, size, sizeof *size, from, err);
    while (!status) {
        status = receive_bytes(file, size, sizeof *size, from, 1, err);
        if (status || *size == 0)
            break;
        str_clear(text);
        str_add_fill(text, ' ', *size);
        if (str_status(text))
            return err_set(err, -ENOMEM, "out of memory for %llu bytes of a trace",
                           (unsigned long long)*size);
        status = receive_bytes(file, text->data, *size, from, 1, err);
        if (!status)
            add_output(output, text);
    }
    return status;
}

static int write_all_ranks(const struct trace_file *file, uint64_t origin_ns, struct str *text,
                           uint64_t *size, int *ret_write_status, struct err *err)
{
    struct trace_output output = {.io = file->io, .path = file->path};
    unsigned count = parts_count(file);
    int status = 0;
    begin_output(&output);
    trace_format_begin(text);
    add_output(&output, text);
    for (unsigned part = 0; part < count; part++) {
        format_part(file, part, origin_ns, text);
        add_output(&output, text);
    }
    for (int rank = 1; rank < file->comm->ranks && !status; rank++)
        status = receive_parts(file, rank, &output, text, size, err);
    str_clear(text);
    trace_format_end(text);
    add_output(&output, text);
    if (status)
        output.status = status; /* prevents the commit of an incomplete file */
    *ret_write_status = end_output(&output, status ? NULL : err);
    return status;
}

int trace_file_write(const struct trace_file *file, int *ret_write_status, struct err *err)
{
    struct str text = {0};
    uint64_t origin_ns = 0, *size = malloc(sizeof *size);
    *ret_write_status = 0;
    int status = size ? agree_on_origin(file, &origin_ns, err)
                      : err_set(err, -ENOMEM, "out of memory for a trace");
    if (!status && file->comm->rank == 0)
        status = write_all_ranks(file, origin_ns, &text, size, ret_write_status, err);
    else if (!status)
        status = send_parts(file, origin_ns, &text, size, err);
    if (status) { /* the communicator may still use these buffers */
        comm_retain(text.data);
        comm_retain(size);
        return status;
    }
    str_deinit(&text);
    free(size);
    return 0;
}
