/*
 * mpi_op — see mpi_op.h and mpi_engine.h.
 */
#include "comm/mpi_op.h"

#include "base/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { NO_PEER = -1, LATE_NAMED_MAX = 8 };

int mpi_check(int code, const char *what, struct err *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return 0;
    MPI_Error_string(code, text, &length);
    return err_set(err, -EIO, "MPI failed: %.90s: %.150s", what, text);
}

void mpi_op_deinit(struct mpi_op *op)
{
    free(op->messages);
    free(op->requests);
    free(op->indices);
    free(op->statuses);
    free(op->scratch);
}

void mpi_op_clear(struct mpi_op *op)
{
    op->planned_count = op->posted_count = op->done_count = 0;
    op->advance = NULL;
    op->deadline_ns = op->traced_ns = op->sent_bytes = 0;
    op->is_done = false;
    op->status = 0;
    err_clear(&op->detail);
}

void *mpi_op_scratch(struct mpi_op *op, size_t bytes)
{
    if (bytes > op->scratch_bytes) {
        void *scratch = realloc(op->scratch, bytes);
        if (!scratch)
            return NULL;
        op->scratch = scratch;
        op->scratch_bytes = bytes;
    }
    return op->scratch;
}

static int grow(struct mpi_op *op)
{
    size_t capacity = op->capacity ? op->capacity * 2 : 16;
    void *messages = realloc(op->messages, capacity * sizeof *op->messages);
    if (messages)
        op->messages = messages;
    void *requests = realloc(op->requests, capacity * sizeof *op->requests);
    if (requests)
        op->requests = requests;
    void *indices = realloc(op->indices, capacity * sizeof *op->indices);
    if (indices)
        op->indices = indices;
    void *statuses = realloc(op->statuses, capacity * sizeof *op->statuses);
    if (statuses)
        op->statuses = statuses;
    if (!messages || !requests || !indices || !statuses)
        return -ENOMEM;
    op->capacity = capacity;
    return 0;
}

static int add(struct mpi_op *op, const struct mpi_message *message, MPI_Request request)
{
    if (op->planned_count == op->capacity && grow(op))
        return -ENOMEM;
    op->messages[op->planned_count] = *message;
    op->requests[op->planned_count++] = request;
    return 0;
}

int mpi_op_plan(struct mpi_op *op, const struct mpi_message *message)
{
    struct mpi_message part = *message;
    size_t left = message->bytes, most = mpi_engine_message_bytes_max(op->engine);
    int status;
    do {
        part.bytes = bytes_min(left, most);
        status = add(op, &part, MPI_REQUEST_NULL);
        if (part.bytes > 0)
            part.data = (char *)part.data + part.bytes;
        left -= part.bytes;
    } while (!status && left > 0);
    return status;
}

int mpi_op_adopt(struct mpi_op *op, MPI_Request request)
{
    return add(op, &(struct mpi_message){.peer = NO_PEER, .is_send = true}, request);
}

int mpi_op_post(struct mpi_op *op, MPI_Comm world, struct err *err)
{
    int status = 0;
    while (op->posted_count < op->planned_count && !status) {
        const struct mpi_message *message = &op->messages[op->posted_count];
        MPI_Request *request = &op->requests[op->posted_count++];
        int bytes = (int)message->bytes; /* cut to fit */
        if (message->peer == NO_PEER)
            continue;
        op->sent_bytes += message->is_send ? message->bytes : 0;
        if (message->is_send)
            status = mpi_check(
                MPI_Isend(message->data, bytes, MPI_BYTE, message->peer, message->tag, world, request),
                "sending", err);
        else
            status = mpi_check(
                MPI_Irecv(message->data, bytes, MPI_BYTE, message->peer, message->tag, world, request),
                "receiving", err);
    }
    return status;
}

/* Other bytes than were expected: the ranks make different calls. */
static int other_size(const struct mpi_op *op, const struct mpi_message *message, const char *found,
                      struct err *err)
{
    err_set(err, -EIO, "%s: rank %d of the run sent a message of another size", op->what, message->peer);
    err_expected(err, "%zu bytes", message->bytes);
    err_found(err, "%s", found);
    err_advise(err, "all ranks must make the same calls in the same order");
    return -EIO;
}

/* Of a message that is done. code: MPI's own. */
static int check_message(const struct mpi_op *op, int index, int code, struct err *err)
{
    const struct mpi_message *message = &op->messages[op->indices[index]];
    char found[24];
    int bytes = 0, error_class = MPI_SUCCESS;
    if (code == MPI_ERR_IN_STATUS)
        MPI_Error_class(op->statuses[index].MPI_ERROR, &error_class);
    if (error_class == MPI_ERR_TRUNCATE)
        return other_size(op, message, "more", err);
    if (error_class != MPI_SUCCESS)
        return mpi_check(op->statuses[index].MPI_ERROR, op->what, err);
    if (message->is_send)
        return 0;
    MPI_Get_count(&op->statuses[index], MPI_BYTE, &bytes);
    snprintf(found, sizeof found, "%d", bytes);
    return (size_t)bytes == message->bytes ? 0 : other_size(op, message, found, err);
}

int mpi_op_ask(struct mpi_op *op, struct err *err)
{
    int count = 0, status = 0;
    int code = MPI_Testsome((int)op->posted_count, op->requests, &count, op->indices, op->statuses);
    if (count == MPI_UNDEFINED)
        return 0;
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
        return mpi_check(code, op->what, err);
    for (int i = 0; i < count && !status; i++)
        status = check_message(op, i, code, err);
    op->done_count += (size_t)count;
    return status ? status : count;
}

bool mpi_op_round_is_done(const struct mpi_op *op)
{
    return op->done_count == op->planned_count;
}

void mpi_op_next_round(struct mpi_op *op)
{
    op->planned_count = op->posted_count = op->done_count = 0;
}

/* Whether a message to or from the peer is not done. */
static bool is_awaited(const struct mpi_op *op, int peer, bool is_send)
{
    for (size_t i = 0; i < op->posted_count; i++)
        if (op->messages[i].peer == peer && op->messages[i].is_send == is_send &&
            op->requests[i] != MPI_REQUEST_NULL)
            return true;
    return false;
}

static int list_peers(const struct mpi_op *op, bool is_send, int *ranks, int most)
{
    int count = 0;
    for (int r = 0; r < op->ranks && count < most; r++)
        if (is_awaited(op, op->world_ranks[r], is_send))
            ranks[count++] = r;
    return count;
}

int mpi_op_list_late(const struct mpi_op *op, int *ranks, int most)
{
    int count = list_peers(op, false, ranks, most);
    return count > 0 ? count : list_peers(op, true, ranks, most);
}

static int list_awaited(const struct mpi_op *op, bool is_send, char *text, size_t bytes)
{
    int named = 0;
    size_t used = 0;
    for (int r = 0; r < op->ranks && used < bytes; r++) {
        if (!is_awaited(op, op->world_ranks[r], is_send))
            continue;
        if (named < LATE_NAMED_MAX)
            used += (size_t)snprintf(text + used, bytes - used, "%s%d", named ? ", " : "", r);
        else if (named == LATE_NAMED_MAX)
            used += (size_t)snprintf(text + used, bytes - used, ", ...");
        named++;
    }
    return named;
}

void mpi_op_tell_late(const struct mpi_op *op, char *text, size_t bytes)
{
    char ranks[80] = "";
    int count = list_awaited(op, false, ranks, sizeof ranks);
    if (count > 0) {
        snprintf(text, bytes, "nothing from rank%s %s", count > 1 ? "s" : "", ranks);
        return;
    }
    count = list_awaited(op, true, ranks, sizeof ranks);
    if (count > 0)
        snprintf(text, bytes, "rank%s %s took nothing", count > 1 ? "s" : "", ranks);
    else
        snprintf(text, bytes, "the library's own reduction, which does not tell who is late");
}
