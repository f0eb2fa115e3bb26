/*
 * roster — see roster.h.
 *
 * What a rank tells, in memory only: u64 bytes of all of it, u64 file_bytes, u64 chunks, then for each chunk its record and its
 * name with a NUL, padded to 8 bytes.
 */
#include "ckpt/roster.h"

#include "base/bytes.h"
#include "ckpt/collective.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char planning[] = "planning the checkpoint";

struct told_head {
    uint64_t bytes, file_bytes, chunks_count;
};

struct told_chunk {
    uint64_t name_bytes, dtype, rank, replicated;
    uint64_t shape[DTYPE_RANK_MAX], start[DTYPE_RANK_MAX], extent[DTYPE_RANK_MAX];
    uint64_t offset_bytes;
};

/* A chunk of the whole run, to be sorted by name. */
struct listed {
    const char *name;
    const struct told_chunk *chunk;
    uint32_t file;
    bool is_copy; /* of another node: its folder's manifest has it, not ours */
};

const char *roster_file_name(int rank, char name[ROSTER_NAME_BYTES_MAX])
{
    snprintf(name, ROSTER_NAME_BYTES_MAX, "rank-%05d.safetensors", rank);
    return name;
}

static int tell(const struct layout *layout, struct str *out)
{
    struct told_head head = {.file_bytes = layout->file_bytes, .chunks_count = layout->chunks_count};
    str_add(out, &head, sizeof head);
    for (uint64_t i = 0; i < layout->chunks_count; i++) {
        const struct layout_chunk *chunk = &layout->chunks[i];
        const struct ckpt_tensor *tensor = chunk->tensor;
        size_t name_bytes = strlen(tensor->name) + 1;
        struct told_chunk told = {bytes_round_up(name_bytes, 8), tensor->dtype, tensor->rank,
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
    if (str_status(out))
        return str_status(out);
    bytes_put_u64(out->data, out->bytes);
    return 0;
}

/* The most bytes that any rank tells. status: of this rank so far. */
static int exchange_sizes(struct comm *comm, int status, size_t own_bytes, size_t *ret_bytes_max,
                          struct err *err)
{
    uint64_t *sizes = calloc((size_t)comm->ranks, sizeof *sizes);
    if (!sizes)
        status = -ENOMEM;
    if (status)
        err_set(err, status, "out of memory to plan a checkpoint");
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

/* Everybody's telling, each in bytes_max bytes. */
static int exchange(struct roster *roster, const struct str *own, size_t bytes_max, struct comm *comm,
                    struct err *err)
{
    char *told = calloc((size_t)comm->ranks, bytes_max);
    int status = 0;
    if (told)
        memcpy(told + (size_t)comm->rank * bytes_max, own->data, own->bytes);
    else
        status = err_set(err, -ENOMEM, "out of memory to plan a checkpoint of %d ranks", comm->ranks);
    status = collective_agree(comm, status, planning, err);
    if (status) {
        free(told);
        return status;
    }
    status = collective_gather(comm, told, bytes_max, planning, err);
    if (status)
        comm_retain(told);
    else
        roster->told = told;
    return status;
}

static int compare_listed(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->name, ((const struct listed *)b)->name);
}

static bool is_same_array(const struct manifest_tensor *tensor, const struct told_chunk *chunk)
{
    return tensor->dtype == (enum dtype)chunk->dtype && tensor->rank == chunk->rank &&
           memcmp(tensor->shape, chunk->shape, sizeof tensor->shape) == 0;
}

/* Tensors and chunks from the list, which is sorted by name. */
static int fill_tensors(struct manifest *manifest, const struct listed *listed, uint64_t count,
                        struct err *err)
{
    struct manifest_chunk *chunk = manifest->chunks;
    for (uint64_t i = 0; i < count; i++) {
        const struct told_chunk *told = listed[i].chunk;
        struct manifest_tensor *tensor = manifest->tensors + manifest->tensors_count;
        if (i > 0 && strcmp(listed[i - 1].name, listed[i].name) == 0) {
            tensor--;
            if (!is_same_array(tensor, told))
                return err_set(err, -EINVAL, "checkpoint: ranks disagree on dtype or shape of \"%.100s\"",
                               tensor->name);
        } else {
            *tensor = (struct manifest_tensor){.name = listed[i].name,
                                               .dtype = (enum dtype)told->dtype,
                                               .rank = (uint32_t)told->rank,
                                               .chunks = chunk};
            memcpy(tensor->shape, told->shape, sizeof tensor->shape);
            manifest->tensors_count++;
        }
        if (listed[i].is_copy)
            continue;
        tensor->chunks_count++;
        *chunk = (struct manifest_chunk){.file = listed[i].file, .offset_bytes = told->offset_bytes};
        memcpy(chunk->start, told->start, sizeof chunk->start);
        memcpy(chunk->extent, told->extent, sizeof chunk->extent);
        chunk++;
    }
    return 0;
}

static int alloc_all(struct roster *roster, uint64_t chunks_count, int ranks, struct listed **ret_listed,
                     struct err *err)
{
    struct manifest *manifest = &roster->manifest;
    size_t count = (size_t)chunks_count + 1, files = (size_t)ranks;
    manifest->tensors = calloc(count, sizeof *manifest->tensors);
    manifest->chunks = calloc(count, sizeof *manifest->chunks);
    manifest->files = calloc(files, sizeof *manifest->files);
    roster->file_names = calloc(files, sizeof *roster->file_names);
    roster->gathered = calloc(files * (size_t)roster->blocks_max, sizeof *roster->gathered);
    *ret_listed = calloc(count, sizeof **ret_listed);
    if (manifest->tensors && manifest->chunks && manifest->files && roster->file_names && roster->gathered &&
        *ret_listed)
        return 0;
    return err_set(err, -ENOMEM, "out of memory to plan a checkpoint of %" PRIu64 " chunks", chunks_count);
}

static void list_rank(struct roster *roster, const struct nodes *nodes, int rank, const char *told,
                      struct listed *listed)
{
    struct told_head head;
    memcpy(&head, told, sizeof head);
    bool elsewhere = !nodes_is_here(nodes, rank);
    struct manifest_file *file = &roster->manifest.files[rank];
    *file = (struct manifest_file){.name = roster_file_name(rank, roster->file_names[rank]),
                                   .size_bytes = head.file_bytes,
                                   .blocks_count = manifest_blocks_count(head.file_bytes),
                                   .block_crc32c = roster_checksums(roster, rank),
                                   .elsewhere = elsewhere};
    told += sizeof head;
    for (uint64_t i = 0; i < head.chunks_count; i++) {
        const struct told_chunk *chunk = (const void *)told; /* aligned: all parts are multiples of 8 */
        listed[i] =
            (struct listed){told + sizeof *chunk, chunk, (uint32_t)rank, elsewhere && chunk->replicated};
        told += sizeof *chunk + chunk->name_bytes;
    }
}

static int assemble(struct roster *roster, const struct nodes *nodes, size_t bytes_max, struct err *err)
{
    int ranks = nodes->all->ranks;
    struct listed *listed = NULL;
    uint64_t chunks_count = 0;
    for (int r = 0; r < ranks; r++) {
        struct told_head head;
        memcpy(&head, roster->told + (size_t)r * bytes_max, sizeof head);
        uint64_t blocks = manifest_blocks_count(head.file_bytes);
        chunks_count += head.chunks_count;
        roster->blocks_max = blocks > roster->blocks_max ? blocks : roster->blocks_max;
    }
    int status = alloc_all(roster, chunks_count, ranks, &listed, err);
    if (status)
        goto out;
    struct listed *next = listed;
    for (int r = 0; r < ranks; r++) {
        const char *told = roster->told + (size_t)r * bytes_max;
        list_rank(roster, nodes, r, told, next);
        next += ((const struct told_head *)(const void *)told)->chunks_count;
    }
    qsort(listed, chunks_count, sizeof *listed, compare_listed);
    roster->manifest.files_count = (uint64_t)ranks;
    roster->manifest.ranks = (uint32_t)ranks;
    status = fill_tensors(&roster->manifest, listed, chunks_count, err);
    if (!status && manifest_check_tensors(&roster->manifest, "the ranks' arrays", err))
        status = -EINVAL;
    if (status)
        goto out;
    manifest_encode_tensors(&roster->manifest, &roster->tensors_text);
    status = str_status(&roster->tensors_text);
    if (status)
        err_set(err, status, "out of memory for a manifest of %" PRIu64 " chunks", chunks_count);
out:
    free(listed);
    return status;
}

int roster_init(struct roster *roster, const struct layout *layout, const struct nodes *nodes,
                struct err *err)
{
    struct comm *comm = nodes->all;
    *roster = (struct roster){0};
    struct str own = {0};
    size_t bytes_max = 0;
    int status = tell(layout, &own);
    status = exchange_sizes(comm, status, own.bytes, &bytes_max, err);
    if (!status)
        status = exchange(roster, &own, bytes_max, comm, err);
    str_deinit(&own);
    if (!status) /* all compute the same from the same */
        status = collective_agree(comm, assemble(roster, nodes, bytes_max, err), planning, err);
    if (status)
        roster_deinit(roster);
    return status;
}

void roster_deinit(struct roster *roster)
{
    manifest_deinit(&roster->manifest);
    str_deinit(&roster->tensors_text);
    free(roster->file_names);
    free(roster->told);
    if (roster->gather_failed)
        comm_retain(roster->gathered);
    else
        free(roster->gathered);
    *roster = (struct roster){0};
}

uint32_t *roster_checksums(struct roster *roster, int rank)
{
    return roster->gathered + (uint64_t)rank * roster->blocks_max;
}

int roster_gather(struct roster *roster, struct comm *comm, struct err *err)
{
    size_t bytes = (size_t)roster->blocks_max * sizeof *roster->gathered;
    int status = collective_gather(comm, roster->gathered, bytes, "gathering what the ranks save", err);
    if (status)
        roster->gather_failed = true;
    return status;
}
