#include "ckpt/save/local_plan.h"

#include "base/bytes.h"
#include "ckpt/collective.h"
#include "ckpt/format/box.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char operation[] = "planning the checkpoint";

const struct local_plan_head *local_plan_get(const struct local_plan *local, int rank)
{
    return (const void *)(local->texts + (size_t)rank * local->bytes_max);
}

const struct local_plan_chunk *local_plan_first(const struct local_plan_head *head)
{
    return (const void *)(head + 1);
}

const char *local_plan_name(const struct local_plan_chunk *chunk)
{
    return (const char *)(chunk + 1);
}

const struct local_plan_chunk *local_plan_next(const struct local_plan_chunk *chunk)
{
    return (const void *)(local_plan_name(chunk) + chunk->name_bytes);
}

static int encode_plan(const struct layout_chunk *chunks, uint64_t chunks_count,
                       uint64_t file_bytes, struct str *out)
{
    struct local_plan_head head = {.file_bytes = file_bytes, .chunks_count = chunks_count};
    str_add(out, &head, sizeof head);
    for (uint64_t i = 0; i < chunks_count; i++) {
        const struct layout_chunk *chunk = &chunks[i];
        const struct ckpt_tensor *tensor = chunk->tensor;
        size_t name_bytes = strlen(tensor->name) + 1;
        struct local_plan_chunk received = {bytes_round_up(name_bytes, 8), tensor->dtype,
                                            tensor->rank, tensor->replicated};
        for (uint32_t d = 0; d < tensor->rank; d++) {
            received.shape[d] = tensor->shape[d];
            received.start[d] = chunk->box.start[d];
            received.extent[d] = chunk->box.extent[d];
        }
        received.offset_bytes = chunk->offset_bytes;
        str_add(out, &received, sizeof received);
        str_add(out, tensor->name, name_bytes);
        str_add_fill(out, '\0', received.name_bytes - name_bytes);
    }
    return str_status(out);
}

static int plan_error(int rank, const char *problem, struct err *err)
{
    err_set(err, -EPROTO, "the save plan of rank %d is invalid: %s", rank, problem);
    err_advise(err, "start the same version of millrace on all ranks");
    return -EPROTO;
}

/* Adds the chunk's size to *sum_bytes. */
static bool is_valid_chunk(const struct local_plan_chunk *chunk, uint64_t *sum_bytes)
{
    uint64_t shape_bytes, bytes;
    if (chunk->dtype >= DTYPE_COUNT || chunk->rank > DTYPE_RANK_MAX || chunk->replicated > 1)
        return false;
    for (uint64_t d = 0; d < DTYPE_RANK_MAX; d++) {
        bool fits = chunk->start[d] <= chunk->shape[d] &&
                    chunk->extent[d] <= chunk->shape[d] - chunk->start[d];
        if (!fits || (d >= chunk->rank && chunk->shape[d] > 0))
            return false;
    }
    enum dtype dtype = (enum dtype)chunk->dtype;
    if (box_shape_bytes(chunk->shape, (uint32_t)chunk->rank, dtype, &shape_bytes) ||
        box_shape_bytes(chunk->extent, (uint32_t)chunk->rank, dtype, &bytes) ||
        bytes > LOCAL_PLAN_ARRAYS_BYTES_MAX - *sum_bytes)
        return false;
    *sum_bytes += bytes;
    return true;
}

int local_plan_check(const char *text, size_t bytes, int rank, struct err *err)
{
    const struct local_plan_head *head = (const void *)text;
    uint64_t sum_bytes = 0;
    if (bytes < sizeof *head)
        return plan_error(rank, "it has no header", err);
    if (head->file_bytes > 2 * LOCAL_PLAN_ARRAYS_BYTES_MAX)
        return plan_error(rank, "its file is too large", err);
    size_t at = sizeof *head;
    for (uint64_t i = 0; i < head->chunks_count; i++) {
        const struct local_plan_chunk *chunk = (const void *)(text + at);
        if (bytes - at < sizeof *chunk || chunk->name_bytes > bytes - at - sizeof *chunk ||
            chunk->name_bytes % 8 != 0)
            return plan_error(rank, "it ends within an array", err);
        if (!memchr(local_plan_name(chunk), '\0', chunk->name_bytes))
            return plan_error(rank, "a name is not terminated", err);
        if (!is_valid_chunk(chunk, &sum_bytes))
            return plan_error(rank, "an array has an invalid type, shape or part", err);
        at += sizeof *chunk + chunk->name_bytes;
    }
    return at == bytes ? 0 : plan_error(rank, "it continues after its arrays", err);
}

static int exchange_sizes(struct comm *comm, int status, size_t own_bytes, uint64_t **ret_sizes,
                          struct err *err)
{
    uint64_t *sizes = NULL;
    if (!status && !(sizes = calloc((size_t)comm->ranks, sizeof *sizes)))
        status = err_set(err, -ENOMEM, "not enough memory to plan a checkpoint");
    status = collective_agree(comm, status, operation, err);
    if (status) {
        free(sizes);
        return status;
    }
    sizes[comm->rank] = own_bytes;
    status = collective_gather(comm, sizes, sizeof *sizes, operation, err);
    if (status) {
        comm_retain(sizes);
        return status;
    }
    for (int r = 0; r < comm->ranks && !status; r++)
        if (sizes[r] < sizeof(struct local_plan_head) || sizes[r] > LOCAL_PLAN_TEXT_BYTES_MAX ||
            sizes[r] % 8 != 0)
            status = plan_error(r, "its size is invalid", err);
    if (status)
        free(sizes);
    else
        *ret_sizes = sizes;
    return status;
}

/* Pads each text to bytes_max. */
static int exchange_texts(struct comm *comm, const struct str *own, const uint64_t *sizes,
                          size_t bytes_max, char **ret_all, struct err *err)
{
    char *all = calloc((size_t)comm->ranks, bytes_max);
    int status = 0;
    if (all)
        memcpy(all + (size_t)comm->rank * bytes_max, own->data, own->bytes);
    else
        status = err_set(err, -ENOMEM, "not enough memory to plan a checkpoint of %d ranks",
                         comm->ranks);
    status = collective_agree(comm, status, operation, err);
    if (status) {
        free(all);
        return status;
    }
    status = collective_gather(comm, all, bytes_max, operation, err);
    if (status) {
        comm_retain(all);
        return status;
    }
    for (int r = 0; r < comm->ranks && !status; r++)
        status = local_plan_check(all + (size_t)r * bytes_max, (size_t)sizes[r], r, err);
    if (status)
        free(all);
    else
        *ret_all = all;
    return status;
}

int local_plan_exchange(struct comm *comm, int status, const struct layout_chunk *chunks,
                        uint64_t chunks_count, uint64_t file_bytes, struct local_plan *ret_plan,
                        struct err *err)
{
    struct str own = {0};
    struct local_plan received = {0};
    if (!status && encode_plan(chunks, chunks_count, file_bytes, &own))
        status = err_set(err, -ENOMEM, "not enough memory to plan a checkpoint");
    uint64_t *sizes = NULL;
    status = exchange_sizes(comm, status, own.bytes, &sizes, err);
    for (int r = 0; r < comm->ranks && !status; r++)
        received.bytes_max = sizes[r] > received.bytes_max ? sizes[r] : received.bytes_max;
    if (!status)
        status = exchange_texts(comm, &own, sizes, received.bytes_max, &received.texts, err);
    free(sizes);
    str_deinit(&own);
    if (!status)
        *ret_plan = received;
    return status;
}

static int encode_plans(const struct local_plan_input *parts, int ranks, struct str *texts,
                        struct local_plan *ret_plan)
{
    size_t bytes_max = 0;
    for (int r = 0; r < ranks; r++) {
        int status =
            encode_plan(parts[r].chunks, parts[r].chunks_count, parts[r].file_bytes, &texts[r]);
        if (status)
            return status;
        bytes_max = texts[r].bytes > bytes_max ? texts[r].bytes : bytes_max;
    }
    char *all = calloc((size_t)ranks, bytes_max);
    if (!all)
        return -ENOMEM;
    for (int r = 0; r < ranks; r++)
        memcpy(all + (size_t)r * bytes_max, texts[r].data, texts[r].bytes);
    *ret_plan = (struct local_plan){all, bytes_max};
    return 0;
}

int local_plan_collect(const struct local_plan_input *parts, int ranks, struct local_plan *ret_plan,
                       struct err *err)
{
    struct str *texts = calloc((size_t)ranks, sizeof *texts);
    int status = texts ? encode_plans(parts, ranks, texts, ret_plan) : -ENOMEM;
    for (int r = 0; texts && r < ranks; r++)
        str_deinit(&texts[r]);
    free(texts);
    return status
               ? err_set(err, -ENOMEM, "not enough memory to plan a checkpoint of %d ranks", ranks)
               : 0;
}
