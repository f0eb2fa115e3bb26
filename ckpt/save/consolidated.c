/*
 * consolidated — gathers which parts each rank holds, and encodes the header. consolidated_pages.c
 * decides which pages each rank writes.
 */
#include "ckpt/save/consolidated.h"

#include "ckpt/collective.h"
#include "ckpt/load/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct held_part {
    const char *name;
    const struct local_plan_chunk *chunk;
    int rank;
    const struct ckpt_tensor *tensor; /* NULL: another rank's part */
    uint64_t begin_bytes, size_bytes; /* within the array */
};

/* An array of the file, and its parts held[first..first + count). */
struct array {
    struct safetensors_entry entry;
    uint64_t first, count;
    bool is_replicated;
};

struct file_plan {
    struct consolidated *consolidated;
    struct local_plan_input own;
    struct held_part *held; /* parts of all ranks, sorted by name, then by offset */
    uint64_t held_count;
    struct array *arrays; /* in file order */
    uint64_t arrays_count;
};

int consolidated_encode_header(struct safetensors_entry *entries, uint64_t count, struct str *out,
                               uint64_t *ret_file_bytes, struct err *err)
{
    /* transformers requires this key */
    static const char *const metadata[][2] = {{"format", "pt"}};
    return safetensors_encode(entries, count, metadata, 1, SAFETENSORS_ALIGN_BYTES, out,
                              ret_file_bytes, err);
}

const struct manifest_file *consolidated_find_file(const struct manifest *manifest)
{
    for (uint64_t i = 0; i < manifest->files_count; i++)
        if (strcmp(manifest->files[i].name, CONSOLIDATED_FILE_NAME) == 0)
            return &manifest->files[i];
    return NULL;
}

/* Locates a box in its array. False if it is not contiguous there. */
static bool find_run(const uint64_t *shape, const struct box *box, enum dtype dtype,
                     uint64_t *ret_begin, uint64_t *ret_bytes)
{
    struct box whole = box_from_shape(shape, box->rank);
    struct box_runs runs;
    uint64_t elements;
    *ret_begin = *ret_bytes = 0;
    if (box_shape_volume(box->extent, box->rank, &elements) || elements == 0 ||
        !box_runs_init(&runs, &whole, box, dtype))
        return true;
    *ret_begin = runs.source;
    *ret_bytes = runs.run_bytes;
    return runs.runs_count == 1;
}

/* Selects a rank's parts of the model section, and arrays without elements. The caller frees the
 * chunks, even on failure. */
static int select_chunks(const struct consolidated_tensors *holding, uint32_t groups_count,
                         struct local_plan_input *ret_part, struct err *err)
{
    *ret_part = (struct local_plan_input){
        .chunks = calloc(holding->tensors_count + 1, sizeof *ret_part->chunks)};
    if (!ret_part->chunks)
        return err_set(err, -ENOMEM, "not enough memory to plan %" PRIu64 " arrays",
                       holding->tensors_count);
    for (uint64_t i = 0; i < holding->tensors_count; i++) {
        const struct ckpt_tensor *tensor = &holding->tensors[i];
        struct box box = box_make(tensor->start, tensor->extent, tensor->rank);
        uint64_t bytes, begin, elements = 0;
        int status = layout_check_tensor(tensor, groups_count, &bytes, err);
        if (status)
            return status;
        if (hash_is_optimizer(tensor->name))
            continue;
        if (!find_run(tensor->shape, &box, tensor->dtype, &begin, &bytes)) {
            err_set(err, -ENOTSUP,
                    "checkpoint: array \"%.100s\": a rank's part of it is not contiguous",
                    tensor->name);
            err_advise(err, "split it along its first dimension, or use the sharded layout");
            return -ENOTSUP;
        }
        box_shape_volume(tensor->shape, tensor->rank, &elements);
        if (bytes > 0 || elements == 0)
            ret_part->chunks[ret_part->chunks_count++] =
                (struct layout_chunk){.tensor = tensor, .box = box};
    }
    return layout_check_names(ret_part->chunks, ret_part->chunks_count, err);
}

static int compare_held(const void *a, const void *b)
{
    const struct held_part *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order != 0)
        return order;
    if (x->begin_bytes != y->begin_bytes)
        return x->begin_bytes < y->begin_bytes ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int list_held(struct file_plan *plan, struct err *err)
{
    struct consolidated *consolidated = plan->consolidated;
    for (int r = 0; r < consolidated->ranks; r++)
        plan->held_count += local_plan_get(&consolidated->local, r)->chunks_count;
    plan->held = calloc(plan->held_count + 1, sizeof *plan->held);
    plan->arrays = calloc(plan->held_count + 1, sizeof *plan->arrays);
    if (!plan->held || !plan->arrays)
        return err_set(err, -ENOMEM, "not enough memory to plan %" PRIu64 " arrays",
                       plan->held_count);
    struct held_part *next = plan->held;
    for (int r = 0; r < consolidated->ranks; r++) {
        const struct local_plan_head *head = local_plan_get(&consolidated->local, r);
        const struct local_plan_chunk *chunk = local_plan_first(head);
        for (uint64_t i = 0; i < head->chunks_count; i++, chunk = local_plan_next(chunk), next++) {
            struct box box = box_make(chunk->start, chunk->extent, (uint32_t)chunk->rank);
            *next = (struct held_part){
                .name = local_plan_name(chunk),
                .chunk = chunk,
                .rank = r,
                .tensor = r == consolidated->rank ? plan->own.chunks[i].tensor : NULL};
            find_run(chunk->shape, &box, (enum dtype)chunk->dtype, &next->begin_bytes,
                     &next->size_bytes);
        }
    }
    qsort(plan->held, plan->held_count, sizeof *plan->held, compare_held);
    return 0;
}

static int array_error(const struct array *array, const char *problem, struct err *err)
{
    return err_set(err, -EINVAL, "checkpoint: array \"%.100s\": %s", array->entry.name, problem);
}

static bool is_same_array(const struct local_plan_chunk *a, const struct local_plan_chunk *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && a->replicated == b->replicated &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

/* Checks that the ranks hold all of the array, without overlap unless it is replicated. */
static int check_array(const struct file_plan *plan, const struct array *array, struct err *err)
{
    const struct held_part *held = &plan->held[array->first];
    uint64_t bytes = 0, at = 0;
    for (uint64_t i = 1; i < array->count; i++)
        if (!is_same_array(held[i].chunk, held[0].chunk))
            return array_error(array, "ranks disagree on its dtype or shape", err);
    box_shape_bytes(array->entry.shape, array->entry.rank, array->entry.dtype, &bytes);
    if (array->is_replicated) {
        bool is_everywhere = array->count == (uint64_t)plan->consolidated->ranks;
        for (uint64_t i = 0; i < array->count && is_everywhere; i++)
            is_everywhere = held[i].rank == (int)i;
        return is_everywhere ? 0 : array_error(array, "each rank must pass it exactly once", err);
    }
    for (uint64_t i = 0; i < array->count; i++) {
        if (held[i].begin_bytes != at)
            return array_error(array,
                               held[i].begin_bytes < at
                                   ? "the ranks' parts overlap"
                                   : "the ranks' parts do not cover all of its elements",
                               err);
        at += held[i].size_bytes;
    }
    return at == bytes
               ? 0
               : array_error(array, "the ranks' parts do not cover all of its elements", err);
}

static int compare_arrays(const void *a, const void *b)
{
    return safetensors_compare(&((const struct array *)a)->entry,
                               &((const struct array *)b)->entry);
}

static int list_arrays(struct file_plan *plan, struct err *err)
{
    for (uint64_t i = 0; i < plan->held_count;) {
        const struct held_part *held = &plan->held[i];
        struct array *array = &plan->arrays[plan->arrays_count++];
        *array = (struct array){.entry = {.name = held->name,
                                          .dtype = (enum dtype)held->chunk->dtype,
                                          .rank = (uint32_t)held->chunk->rank},
                                .first = i,
                                .is_replicated = held->chunk->replicated};
        memcpy(array->entry.shape, held->chunk->shape, sizeof array->entry.shape);
        while (i < plan->held_count && strcmp(plan->held[i].name, held->name) == 0)
            i++;
        array->count = i - array->first;
        int status = check_array(plan, array, err);
        if (status)
            return status;
    }
    qsort(plan->arrays, plan->arrays_count, sizeof *plan->arrays, compare_arrays);
    return 0;
}

static int encode_header(struct file_plan *plan, struct err *err)
{
    struct consolidated *consolidated = plan->consolidated;
    consolidated->entries = calloc(plan->arrays_count + 1, sizeof *consolidated->entries);
    if (!consolidated->entries)
        return err_set(err, -ENOMEM, "out of memory for a header of %" PRIu64 " arrays",
                       plan->arrays_count);
    consolidated->entries_count = plan->arrays_count;
    for (uint64_t i = 0; i < plan->arrays_count; i++)
        consolidated->entries[i] = plan->arrays[i].entry;
    int status = consolidated_encode_header(consolidated->entries, consolidated->entries_count,
                                            &consolidated->header, &consolidated->file_bytes, err);
    if (!status)
        status = layout_check_header(&consolidated->header, consolidated->file_bytes,
                                     consolidated->entries, consolidated->entries_count, err);
    return status;
}

static struct consolidated_span make_span(const struct file_plan *plan,
                                          const struct held_part *held, uint64_t offset_bytes,
                                          bool is_replicated)
{
    struct consolidated_span span = {.offset_bytes = offset_bytes + held->begin_bytes,
                                     .size_bytes = held->size_bytes,
                                     .holder = is_replicated ? CONSOLIDATED_ALL_RANKS : held->rank,
                                     .source = LAYOUT_ARRAY};
    /* Parts of a replicated array are in rank order. */
    const struct held_part *own = is_replicated ? held + plan->consolidated->rank : held;
    if (own->tensor) {
        span.data = own->tensor->data;
        span.group = own->tensor->group;
    }
    return span;
}

static int build_pages(struct file_plan *plan, struct err *err)
{
    struct consolidated *consolidated = plan->consolidated;
    struct consolidated_span *spans = calloc(plan->held_count + 1, sizeof *spans), *next = spans;
    if (!spans)
        return err_set(err, -ENOMEM, "not enough memory to plan %" PRIu64 " arrays",
                       plan->held_count);
    *next++ = (struct consolidated_span){.size_bytes = consolidated->header.bytes,
                                         .holder = CONSOLIDATED_ALL_RANKS,
                                         .data = consolidated->header.data,
                                         .source = LAYOUT_HEADER};
    for (uint64_t i = 0; i < plan->arrays_count; i++) {
        const struct array *array = &plan->arrays[i];
        uint64_t parts_count = array->is_replicated ? 1 : array->count;
        for (uint64_t p = 0; p < parts_count && consolidated->entries[i].size_bytes > 0; p++)
            *next++ = make_span(plan, &plan->held[array->first + p],
                                consolidated->entries[i].offset_bytes, array->is_replicated);
    }
    int status = consolidated_plan_pages(consolidated, spans, (uint64_t)(next - spans), err);
    free(spans);
    return status;
}

/* All ranks compute the same plan, except for pointers to their own parts. */
static int plan_file(struct file_plan *plan, struct err *err)
{
    int status = list_held(plan, err);
    if (!status)
        status = list_arrays(plan, err);
    if (!status)
        status = encode_header(plan, err);
    return status ? status : build_pages(plan, err);
}

/* Frees the plan except for its own part. */
static void deinit_plan(struct file_plan *plan, int status)
{
    free(plan->held);
    free(plan->arrays);
    if (status)
        consolidated_deinit(plan->consolidated);
}

int consolidated_init(struct consolidated *consolidated, const struct consolidated_tensors *own,
                      uint32_t groups_count, struct comm *comm, struct err *err)
{
    *consolidated = (struct consolidated){.rank = comm->rank, .ranks = comm->ranks};
    struct file_plan plan = {.consolidated = consolidated};
    int status = select_chunks(own, groups_count, &plan.own, err);
    status = local_plan_exchange(comm, status, plan.own.chunks, plan.own.chunks_count, 0,
                                 &consolidated->local, err);
    if (!status)
        status = collective_agree(comm, plan_file(&plan, err), "planning the checkpoint", err);
    deinit_plan(&plan, status);
    free(plan.own.chunks);
    return status;
}

int consolidated_simulate(struct consolidated *consolidated,
                          const struct consolidated_tensors *ranks_tensors, int rank, int ranks,
                          uint32_t groups_count, struct err *err)
{
    *consolidated = (struct consolidated){.rank = rank, .ranks = ranks};
    struct file_plan plan = {.consolidated = consolidated};
    struct local_plan_input *parts = calloc((size_t)ranks, sizeof *parts);
    int status =
        parts ? 0
              : err_set(err, -ENOMEM, "not enough memory to plan a checkpoint of %d ranks", ranks);
    for (int r = 0; r < ranks && !status; r++)
        status = select_chunks(&ranks_tensors[r], groups_count, &parts[r], err);
    if (!status)
        status = local_plan_collect(parts, ranks, &consolidated->local, err);
    if (!status) {
        plan.own = parts[rank];
        status = plan_file(&plan, err);
    }
    deinit_plan(&plan, status);
    for (int r = 0; parts && r < ranks; r++)
        free(parts[r].chunks);
    free(parts);
    return status;
}

static void free_traffic(struct consolidated_traffic *traffic, bool is_borrowed)
{
    if (is_borrowed)
        comm_retain(traffic->memory);
    else
        free(traffic->memory);
    free(traffic->offsets);
    free(traffic->bytes);
}

void consolidated_deinit(struct consolidated *consolidated)
{
    free_traffic(&consolidated->sent, consolidated->exchange_failed);
    free_traffic(&consolidated->received, consolidated->exchange_failed);
    free(consolidated->local.texts);
    free(consolidated->entries);
    str_deinit(&consolidated->header);
    free(consolidated->slices);
    free(consolidated->slices_per_rank);
    free(consolidated->segments);
    free(consolidated->boundaries);
    *consolidated = (struct consolidated){0};
}

int consolidated_exchange(struct consolidated *consolidated, struct comm *comm, struct err *err)
{
    struct comm_options options = collective_options("exchanging boundary bytes");
    struct comm_work work;
    int status = comm->ops->all_to_all(comm, consolidated->sent.memory, consolidated->sent.offsets,
                                       consolidated->sent.bytes, consolidated->received.memory,
                                       consolidated->received.offsets, consolidated->received.bytes,
                                       &options, &work, err);
    if (!status)
        status = comm_wait(comm, &work, err);
    consolidated->exchange_failed |= status != 0;
    return status;
}
