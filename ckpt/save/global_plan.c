#include "ckpt/save/global_plan.h"

#include "base/crc.h"
#include "ckpt/collective.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char operation[] = "planning the checkpoint";

/* A chunk of any rank, to be sorted by name. */
struct listed_chunk {
    const char *name;
    const struct local_plan_chunk *chunk;
    uint32_t file;
    bool is_elsewhere; /* only in another node's manifest */
};

const char *global_plan_file_name(int rank, char name[GLOBAL_PLAN_NAME_BYTES_MAX])
{
    snprintf(name, GLOBAL_PLAN_NAME_BYTES_MAX, "rank-%05d.safetensors", rank);
    return name;
}

static int compare_listed(const void *a, const void *b)
{
    return strcmp(((const struct listed_chunk *)a)->name, ((const struct listed_chunk *)b)->name);
}

static bool is_same_array(const struct manifest_tensor *tensor,
                          const struct local_plan_chunk *chunk)
{
    return tensor->dtype == (enum dtype)chunk->dtype && tensor->rank == chunk->rank &&
           memcmp(tensor->shape, chunk->shape, sizeof tensor->shape) == 0;
}

/* The list must be sorted by name. */
static int fill_tensors(struct manifest *manifest, const struct listed_chunk *listed,
                        uint64_t count, struct err *err)
{
    struct manifest_chunk *chunk = manifest->chunks;
    for (uint64_t i = 0; i < count; i++) {
        const struct local_plan_chunk *received = listed[i].chunk;
        struct manifest_tensor *tensor = manifest->tensors + manifest->tensors_count;
        if (i > 0 && strcmp(listed[i - 1].name, listed[i].name) == 0) {
            tensor--;
            if (!is_same_array(tensor, received))
                return err_set(err, -EINVAL,
                               "checkpoint: ranks disagree on dtype or shape of \"%.100s\"",
                               tensor->name);
        } else {
            *tensor = (struct manifest_tensor){.name = listed[i].name,
                                               .dtype = (enum dtype)received->dtype,
                                               .rank = (uint32_t)received->rank,
                                               .chunks = chunk};
            memcpy(tensor->shape, received->shape, sizeof tensor->shape);
            manifest->tensors_count++;
        }
        if (listed[i].is_elsewhere)
            continue;
        tensor->chunks_count++;
        *chunk =
            (struct manifest_chunk){.file = listed[i].file, .offset_bytes = received->offset_bytes};
        memcpy(chunk->start, received->start, sizeof chunk->start);
        memcpy(chunk->extent, received->extent, sizeof chunk->extent);
        chunk++;
    }
    return 0;
}

static int alloc_plan(struct global_plan *global, uint64_t chunks_count, int ranks,
                      struct listed_chunk **ret_listed, struct err *err)
{
    struct manifest *manifest = &global->manifest;
    const struct consolidated *consolidated = global->consolidated;
    size_t count = (size_t)chunks_count + 1, files = (size_t)ranks + 1;
    size_t consolidated_blocks =
        consolidated ? (size_t)manifest_blocks_count(consolidated->file_bytes) : 0;
    manifest->tensors = calloc(count, sizeof *manifest->tensors);
    manifest->chunks = calloc(count, sizeof *manifest->chunks);
    manifest->files = calloc(files, sizeof *manifest->files);
    global->file_names = calloc(files, sizeof *global->file_names);
    global->gathered = calloc((size_t)ranks * (size_t)global->blocks_max, sizeof *global->gathered);
    global->consolidated_crc32c =
        calloc(consolidated_blocks + 1, sizeof *global->consolidated_crc32c);
    global->consolidated_chunks = calloc((consolidated ? consolidated->entries_count : 0) + 1,
                                         sizeof *global->consolidated_chunks);
    *ret_listed = calloc(count, sizeof **ret_listed);
    if (manifest->tensors && manifest->chunks && manifest->files && global->file_names &&
        global->gathered && global->consolidated_crc32c && global->consolidated_chunks &&
        *ret_listed)
        return 0;
    return err_set(err, -ENOMEM, "not enough memory to plan a checkpoint of %" PRIu64 " chunks",
                   chunks_count);
}

/* Adds a rank's file and chunks; returns the end of the list. */
static struct listed_chunk *list_rank(struct global_plan *global, const struct nodes *nodes,
                                      int rank, struct listed_chunk *listed)
{
    const struct local_plan_head *head = local_plan_get(&global->received, rank);
    const struct local_plan_chunk *chunk = local_plan_first(head);
    bool elsewhere = !nodes_rank_shares_folder(nodes, rank);
    struct manifest_file *file = &global->manifest.files[rank];
    *file = (struct manifest_file){.name = global_plan_file_name(rank, global->file_names[rank]),
                                   .size_bytes = head->file_bytes,
                                   .blocks_count = manifest_blocks_count(head->file_bytes),
                                   .block_crc32c = global_plan_checksums(global, rank),
                                   .is_elsewhere = elsewhere};
    for (uint64_t i = 0; i < head->chunks_count; i++, chunk = local_plan_next(chunk))
        *listed++ = (struct listed_chunk){local_plan_name(chunk), chunk, (uint32_t)rank,
                                          elsewhere && chunk->replicated};
    return listed;
}

static struct listed_chunk *list_consolidated(struct global_plan *global, int ranks,
                                              struct listed_chunk *listed)
{
    const struct consolidated *consolidated = global->consolidated;
    global->manifest.files[ranks] =
        (struct manifest_file){.name = CONSOLIDATED_FILE_NAME,
                               .size_bytes = consolidated->file_bytes,
                               .blocks_count = manifest_blocks_count(consolidated->file_bytes),
                               .block_crc32c = global->consolidated_crc32c};
    for (uint64_t i = 0; i < consolidated->entries_count; i++) {
        const struct safetensors_entry *entry = &consolidated->entries[i];
        struct local_plan_chunk *chunk = &global->consolidated_chunks[i];
        *chunk = (struct local_plan_chunk){
            .dtype = entry->dtype, .rank = entry->rank, .offset_bytes = entry->offset_bytes};
        memcpy(chunk->shape, entry->shape, sizeof chunk->shape);
        memcpy(chunk->extent, entry->shape, sizeof chunk->extent);
        *listed++ = (struct listed_chunk){entry->name, chunk, (uint32_t)ranks, false};
    }
    return listed;
}

/* Also sets blocks_max. */
static uint64_t count_chunks(struct global_plan *global, int ranks)
{
    const struct consolidated *consolidated = global->consolidated;
    uint64_t chunks_count = consolidated ? consolidated->entries_count : 0;
    for (int r = 0; r < ranks; r++) {
        const struct local_plan_head *head = local_plan_get(&global->received, r);
        uint64_t blocks = manifest_blocks_count(head->file_bytes) +
                          (consolidated ? consolidated->slices_per_rank[r] : 0);
        chunks_count += head->chunks_count;
        global->blocks_max = blocks > global->blocks_max ? blocks : global->blocks_max;
    }
    return chunks_count;
}

static int build_manifest(struct global_plan *global, const struct nodes *nodes, struct err *err)
{
    int ranks = nodes->all->ranks;
    struct listed_chunk *listed = NULL;
    uint64_t chunks_count = count_chunks(global, ranks);
    int status = alloc_plan(global, chunks_count, ranks, &listed, err);
    if (status)
        goto out;
    struct listed_chunk *next = listed;
    for (int r = 0; r < ranks; r++)
        next = list_rank(global, nodes, r, next);
    if (global->consolidated)
        list_consolidated(global, ranks, next);
    qsort(listed, chunks_count, sizeof *listed, compare_listed);
    global->manifest.files_count = (uint64_t)ranks + (global->consolidated != NULL);
    global->manifest.ranks = (uint32_t)ranks;
    status = fill_tensors(&global->manifest, listed, chunks_count, err);
    if (!status && manifest_check_tensors(&global->manifest, "the ranks' arrays", err))
        status = -EINVAL;
    if (status)
        goto out;
    manifest_encode_tensors(&global->manifest, &global->tensors_text);
    status = str_status(&global->tensors_text);
    if (status)
        err_set(err, status, "out of memory for a manifest of %" PRIu64 " chunks", chunks_count);
out:
    free(listed);
    return status;
}

int global_plan_init(struct global_plan *global, const struct layout *layout,
                     const struct nodes *nodes, struct err *err)
{
    struct comm *comm = nodes->all;
    *global = (struct global_plan){.consolidated = layout->consolidated};
    int status = local_plan_exchange(comm, 0, layout->chunks, layout->chunks_count,
                                     layout->file_bytes, &global->received, err);
    if (!status) /* all ranks get the same result */
        status = collective_agree(comm, build_manifest(global, nodes, err), operation, err);
    if (status)
        global_plan_deinit(global);
    return status;
}

void global_plan_deinit(struct global_plan *global)
{
    manifest_deinit(&global->manifest);
    str_deinit(&global->tensors_text);
    free(global->file_names);
    free(global->received.texts);
    free(global->consolidated_chunks);
    free(global->consolidated_crc32c);
    if (global->gather_failed)
        comm_retain(global->gathered);
    else
        free(global->gathered);
    *global = (struct global_plan){0};
}

uint32_t *global_plan_checksums(struct global_plan *global, int rank)
{
    return global->gathered + (uint64_t)rank * global->blocks_max;
}

/* Combines slice checksums into checksums of the consolidated file's blocks. A rank's slice
 * checksums follow those of its own file. */
static void join_checksums(struct global_plan *global)
{
    const struct consolidated *consolidated = global->consolidated;
    for (uint64_t i = 0; i < consolidated->slices_count; i++) {
        const struct consolidated_slice *slice = &consolidated->slices[i];
        const struct manifest_file *own = &global->manifest.files[slice->writer];
        uint32_t crc = own->block_crc32c[own->blocks_count + slice->number];
        uint32_t *block = &global->consolidated_crc32c[slice->offset_bytes / CKPT_BLOCK_BYTES];
        bool is_first = slice->offset_bytes % CKPT_BLOCK_BYTES == 0;
        *block = is_first ? crc : crc32c_join(*block, crc, slice->size_bytes);
    }
}

int global_plan_gather(struct global_plan *global, struct comm *comm, struct err *err)
{
    size_t bytes = (size_t)global->blocks_max * sizeof *global->gathered;
    int status = collective_gather(comm, global->gathered, bytes, "gathering the save plans", err);
    if (status)
        global->gather_failed = true;
    else if (global->consolidated)
        join_checksums(global);
    return status;
}
