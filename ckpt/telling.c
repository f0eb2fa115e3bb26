/*
 * telling — see telling.h.
 */
#include "ckpt/telling.h"

#include "base/bytes.h"
#include "ckpt/collective.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char planning[] = "planning the checkpoint";

const struct telling_head *telling_of(const struct telling *telling, int rank)
{
    return (const void *)(telling->all + (size_t)rank * telling->bytes_max);
}

const struct telling_chunk *telling_first(const struct telling_head *head)
{
    return (const void *)(head + 1);
}

const char *telling_name(const struct telling_chunk *chunk)
{
    return (const char *)(chunk + 1);
}

const struct telling_chunk *telling_next(const struct telling_chunk *chunk)
{
    return (const void *)(telling_name(chunk) + chunk->name_bytes);
}

static int tell(const struct layout_chunk *chunks, uint64_t chunks_count, uint64_t file_bytes,
                struct str *out)
{
    struct telling_head head = {.file_bytes = file_bytes, .chunks_count = chunks_count};
    str_add(out, &head, sizeof head);
    for (uint64_t i = 0; i < chunks_count; i++) {
        const struct layout_chunk *chunk = &chunks[i];
        const struct ckpt_tensor *tensor = chunk->tensor;
        size_t name_bytes = strlen(tensor->name) + 1;
        struct telling_chunk told = {bytes_round_up(name_bytes, 8), tensor->dtype, tensor->rank,
                                     tensor->replicated};
        for (uint32_t d = 0; d < tensor->rank; d++) {
            told.shape[d] = tensor->shape[d];
            told.start[d] = chunk->box.start[d];
            told.extent[d] = chunk->box.extent[d];
        }
        told.offset_bytes = chunk->offset_bytes;
        str_add(out, &told, sizeof told);
        str_add(out, tensor->name, name_bytes);
        str_add_fill(out, '\0', told.name_bytes - name_bytes);
    }
    return str_status(out);
}

/* The most bytes that any rank tells. status: of this rank so far. */
static int exchange_sizes(struct comm *comm, int status, size_t own_bytes, size_t *ret_bytes_max,
                          struct err *err)
{
    uint64_t *sizes = NULL;
    if (!status && !(sizes = calloc((size_t)comm->ranks, sizeof *sizes)))
        status = err_set(err, -ENOMEM, "out of memory to plan a checkpoint");
    status = collective_agree(comm, status, planning, err);
    if (status)
        goto out;
    sizes[comm->rank] = own_bytes;
    status = collective_gather(comm, sizes, sizeof *sizes, planning, err);
    if (status) {
        comm_retain(sizes);
        return status;
    }
    *ret_bytes_max = 0;
    for (int r = 0; r < comm->ranks; r++)
        *ret_bytes_max = sizes[r] > *ret_bytes_max ? sizes[r] : *ret_bytes_max;
out:
    free(sizes);
    return status;
}

/* Everybody's, each in bytes_max bytes. */
static int exchange_texts(struct comm *comm, const struct str *own, size_t bytes_max, char **ret_all,
                          struct err *err)
{
    char *all = calloc((size_t)comm->ranks, bytes_max);
    int status = 0;
    if (all)
        memcpy(all + (size_t)comm->rank * bytes_max, own->data, own->bytes);
    else
        status = err_set(err, -ENOMEM, "out of memory to plan a checkpoint of %d ranks", comm->ranks);
    status = collective_agree(comm, status, planning, err);
    if (status) {
        free(all);
        return status;
    }
    status = collective_gather(comm, all, bytes_max, planning, err);
    if (status)
        comm_retain(all);
    else
        *ret_all = all;
    return status;
}

int telling_exchange(struct comm *comm, int status, const struct layout_chunk *chunks, uint64_t chunks_count,
                     uint64_t file_bytes, struct telling *ret_telling, struct err *err)
{
    struct str own = {0};
    struct telling told = {0};
    if (!status && tell(chunks, chunks_count, file_bytes, &own))
        status = err_set(err, -ENOMEM, "out of memory to plan a checkpoint");
    status = exchange_sizes(comm, status, own.bytes, &told.bytes_max, err);
    if (!status)
        status = exchange_texts(comm, &own, told.bytes_max, &told.all, err);
    str_deinit(&own);
    if (!status)
        *ret_telling = told;
    return status;
}

static int tell_all(const struct telling_part *parts, int ranks, struct str *texts,
                    struct telling *ret_telling)
{
    size_t bytes_max = 0;
    for (int r = 0; r < ranks; r++) {
        int status = tell(parts[r].chunks, parts[r].chunks_count, parts[r].file_bytes, &texts[r]);
        if (status)
            return status;
        bytes_max = texts[r].bytes > bytes_max ? texts[r].bytes : bytes_max;
    }
    char *all = calloc((size_t)ranks, bytes_max);
    if (!all)
        return -ENOMEM;
    for (int r = 0; r < ranks; r++)
        memcpy(all + (size_t)r * bytes_max, texts[r].data, texts[r].bytes);
    *ret_telling = (struct telling){all, bytes_max};
    return 0;
}

int telling_collect(const struct telling_part *parts, int ranks, struct telling *ret_telling, struct err *err)
{
    struct str *texts = calloc((size_t)ranks, sizeof *texts);
    int status = texts ? tell_all(parts, ranks, texts, ret_telling) : -ENOMEM;
    for (int r = 0; texts && r < ranks; r++)
        str_deinit(&texts[r]);
    free(texts);
    return status ? err_set(err, -ENOMEM, "out of memory to plan a checkpoint of %d ranks", ranks) : 0;
}
