/*
 * mpi_op — see mpi_op.h and mpi_engine.h.
 */
#include "comm/mpi/mpi_op.h"

#include "base/bytes.h"
#include "comm/engine/engine_thread.h"
#include "comm/mpi/mpi_thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { NO_PEER = -1 };

int mpi_check(int code, const char *action, struct err *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return 0;
    MPI_Error_string(code, text, &length);
    return err_set(err, -EIO, "MPI failed: %.90s: %.150s", action, text);
}

void mpi_op_deinit(struct engine_op *base)
{
    struct mpi_op *op = mpi_op_of(base);
    free(op->messages);
    free(op->requests);
    free(op->indices);
    free(op->statuses);
}

/* Returns false if out of memory. */
static bool grow_array(void **array, size_t capacity, size_t item_bytes)
{
    void *grown = realloc(*array, capacity * item_bytes);
    if (grown)
        *array = grown;
    return grown != NULL;
}

static int grow_arrays(struct mpi_op *op)
{
    size_t capacity = op->capacity ? op->capacity * 2 : 16;
    if (!grow_array((void **)&op->messages, capacity, sizeof *op->messages) ||
        !grow_array((void **)&op->requests, capacity, sizeof *op->requests) ||
        !grow_array((void **)&op->indices, capacity, sizeof *op->indices) ||
        !grow_array((void **)&op->statuses, capacity, sizeof *op->statuses))
        return -ENOMEM;
    op->capacity = capacity;
    return 0;
}

static int append_message(struct mpi_op *op, const struct engine_message *message,
                          MPI_Request request)
{
    size_t at = op->base.planned_count;
    if (at == op->capacity && grow_arrays(op))
        return -ENOMEM;
    op->messages[at] = *message;
    op->requests[at] = request;
    op->base.planned_count++;
    return 0;
}

int mpi_op_plan(struct engine_op *op, const struct engine_message *message)
{
    struct engine_message part = *message;
    size_t left = message->bytes, max = mpi_engine_of(op->engine)->message_bytes_max;
    int status;
    do {
        part.bytes = bytes_min(left, max);
        status = append_message(mpi_op_of(op), &part, MPI_REQUEST_NULL);
        if (part.bytes > 0)
            part.data = (char *)part.data + part.bytes;
        left -= part.bytes;
    } while (!status && left > 0);
    return status;
}

int mpi_op_add_request(struct engine_op *op, MPI_Request request)
{
    return append_message(mpi_op_of(op), &(struct engine_message){.peer = NO_PEER, .is_send = true},
                          request);
}

int mpi_op_post(struct engine_op *base, struct err *err)
{
    const struct mpi_op *op = mpi_op_of(base);
    MPI_Comm world = mpi_engine_world(base->engine);
    int status = 0;
    for (size_t i = 0; i < base->planned_count && !status; i++) {
        const struct engine_message *message = &op->messages[i];
        MPI_Request *request = &op->requests[i];
        int bytes = (int)message->bytes,
            /* split messages fit in an int; tags are below MPI's limit */
            tag = (int)message->tag;
        if (message->peer == NO_PEER)
            continue;
        if (message->is_send)
            status = mpi_check(
                MPI_Isend(message->data, bytes, MPI_BYTE, message->peer, tag, world, request),
                "sending", err);
        else
            status = mpi_check(
                MPI_Irecv(message->data, bytes, MPI_BYTE, message->peer, tag, world, request),
                "receiving", err);
    }
    return status;
}

/* Checks a completed message. code: its result from MPI_Testsome. */
static int check_message(const struct mpi_op *op, int index, int code, struct err *err)
{
    const struct engine_message *message = &op->messages[op->indices[index]];
    char found[24];
    int bytes = 0, error_class = MPI_SUCCESS;
    if (code == MPI_ERR_IN_STATUS)
        MPI_Error_class(op->statuses[index].MPI_ERROR, &error_class);
    if (error_class == MPI_ERR_TRUNCATE)
        return engine_size_error(&op->base, message->peer, message->bytes, "more", err);
    if (error_class != MPI_SUCCESS)
        return mpi_check(op->statuses[index].MPI_ERROR, op->base.purpose, err);
    if (message->is_send)
        return 0;
    MPI_Get_count(&op->statuses[index], MPI_BYTE, &bytes);
    snprintf(found, sizeof found, "%d", bytes);
    return (size_t)bytes == message->bytes
               ? 0
               : engine_size_error(&op->base, message->peer, message->bytes, found, err);
}

int mpi_op_poll(struct engine_op *base, struct err *err)
{
    const struct mpi_op *op = mpi_op_of(base);
    int count = 0, status = 0;
    int code =
        MPI_Testsome((int)base->planned_count, op->requests, &count, op->indices, op->statuses);
    if (count == MPI_UNDEFINED)
        return 0;
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
        return mpi_check(code, base->purpose, err);
    for (int i = 0; i < count && !status; i++)
        status = check_message(op, i, code, err);
    base->done_count += (size_t)count;
    return status ? status : count;
}

bool mpi_op_has_unfinished(const struct engine_op *base, int peer, bool is_send)
{
    const struct mpi_op *op = (const struct mpi_op *)base;
    for (size_t i = 0; i < base->planned_count; i++)
        if (op->messages[i].peer == peer && op->messages[i].is_send == is_send &&
            op->requests[i] != MPI_REQUEST_NULL)
            return true;
    return false;
}
