/*
 * checkpoint_hf_plan — see checkpoint_hf_plan.h.
 */
#include "convert/checkpoint/checkpoint_hf_plan.h"

#include "ckpt/load/hash.h"
#include "convert/checkpoint/pieces.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int reject_tensor(const struct hf_plan_options *options, const char *name, const char *what,
                         struct err *err)
{
    err_set(err, -ENOTSUP, "tensor \"%.100s\" %s", name, what);
    err_at(err, options->reader->path, ERR_NO_OFFSET);
    err_advise(err, "convert it with `--to full`");
    return -ENOTSUP;
}

static struct hf_tensor *find_or_add_tensor(struct hf_plan *plan,
                                            const struct hf_location *location)
{
    for (uint64_t i = plan->tensors_count; i-- > 0;)
        if (strcmp(plan->names[i], location->name) == 0)
            return &plan->tensors[i];
    struct hf_tensor *tensor = &plan->tensors[plan->tensors_count];
    memcpy(plan->names[plan->tensors_count], location->name, sizeof location->name);
    tensor->entry.name = plan->names[plan->tensors_count++];
    tensor->location = *location;
    return tensor;
}

static int add_tensor(struct hf_plan *plan, const struct hf_plan_options *options,
                      const struct manifest_tensor *source, struct err *err)
{
    struct hf_location location;
    if (!hf_locate(options->model, source->name, &location))
        return reject_tensor(options, source->name, "does not exist in the transformers model",
                             err);
    if (source->rank != 1 && source->rank != 2)
        return reject_tensor(options, source->name, "is neither a vector nor a matrix", err);
    struct hf_tensor *tensor = find_or_add_tensor(plan, &location);
    const struct manifest_tensor *other = tensor->source[0] ? tensor->source[0] : source;
    if (other->rank != source->rank || other->dtype != source->dtype ||
        memcmp(other->shape, source->shape, source->rank * sizeof source->shape[0]) != 0)
        return reject_tensor(options, source->name,
                             "differs in shape or dtype from the tensors it is joined with", err);
    tensor->source[location.part] = source;
    tensor->entry.dtype = tensor_stream_dtype(options->cast, source->dtype);
    tensor->entry.rank = source->rank;
    uint64_t out = source->shape[0] * location.parts; /* no overflow: the parts fit in a file */
    tensor->entry.shape[0] = location.transposed ? source->shape[1] : out;
    tensor->entry.shape[1] = location.transposed ? out : source->shape[1];
    tensor->bytes =
        out * (source->rank == 2 ? source->shape[1] : 1) * dtype_bytes(tensor->entry.dtype);
    return 0;
}

static int add_tensors(struct hf_plan *plan, const struct hf_plan_options *options, struct err *err)
{
    const struct manifest *manifest = &options->reader->manifest;
    int status = 0;
    plan->tensors = calloc(manifest->tensors_count + 1, sizeof *plan->tensors);
    plan->names = calloc(manifest->tensors_count + 1, sizeof *plan->names);
    if (!plan->tensors || !plan->names)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu64 " tensors",
                       manifest->tensors_count);
    for (uint64_t i = 0; i < manifest->tensors_count && !status; i++)
        if (!hash_is_optimizer(manifest->tensors[i].name))
            status = add_tensor(plan, options, &manifest->tensors[i], err);
    for (uint64_t i = 0; i < plan->tensors_count && !status; i++)
        for (uint32_t p = 0; p < plan->tensors[i].location.parts && !status; p++)
            if (!plan->tensors[i].source[p])
                status = reject_tensor(options, plan->tensors[i].entry.name, "is incomplete", err);
    return status;
}

static int compare_tensors(const void *a, const void *b)
{
    return safetensors_compare(&((const struct hf_tensor *)a)->entry,
                               &((const struct hf_tensor *)b)->entry);
}

static void divide_into_files(struct hf_plan *plan, const struct hf_plan_options *options)
{
    uint64_t file_bytes = 0;
    qsort(plan->tensors, plan->tensors_count, sizeof *plan->tensors, compare_tensors);
    for (uint64_t i = 0; i < plan->tensors_count; i++) {
        struct hf_tensor *tensor = &plan->tensors[i];
        if (i > 0 && options->max_file_bytes > 0 &&
            file_bytes + tensor->bytes > options->max_file_bytes) {
            plan->files_count++;
            file_bytes = 0;
        }
        tensor->file = plan->files_count;
        file_bytes += tensor->bytes;
        plan->bytes += tensor->bytes;
    }
    plan->files_count++;
}

static void count_casts(struct hf_plan *plan, const struct hf_plan_options *options)
{
    for (uint64_t i = 0; i < plan->tensors_count; i++) {
        const struct hf_tensor *tensor = &plan->tensors[i];
        if (tensor->entry.dtype == tensor->source[0]->dtype)
            continue;
        plan->cast_count++;
        log_line(options->log, LOG_DEBUG, "%s: converting %s to %s", tensor->entry.name,
                 dtype_name(tensor->source[0]->dtype), dtype_name(tensor->entry.dtype));
    }
}

uint64_t hf_tensor_row_bytes(const struct hf_tensor *tensor)
{
    const struct safetensors_entry *entry = &tensor->entry;
    return entry->shape[entry->rank - 1] * dtype_bytes(entry->dtype);
}

static uint64_t count_rows(const struct hf_tensor *tensor)
{
    return tensor->entry.rank == 2 ? tensor->entry.shape[0] : 1;
}

static uint64_t rows_per_piece(const struct hf_plan *plan, const struct hf_tensor *tensor)
{
    uint64_t row_bytes = hf_tensor_row_bytes(tensor);
    return row_bytes > 0 ? plan->buffer_bytes / row_bytes : 1;
}

static int cut_into_pieces(struct hf_plan *plan, struct err *err)
{
    plan->buffer_bytes = PIECE_BYTES;
    for (uint64_t i = 0; i < plan->tensors_count; i++)
        if (hf_tensor_row_bytes(&plan->tensors[i]) > plan->buffer_bytes)
            plan->buffer_bytes = hf_tensor_row_bytes(&plan->tensors[i]);
    for (uint64_t i = 0; i < plan->tensors_count; i++) {
        uint64_t step = rows_per_piece(plan, &plan->tensors[i]);
        plan->pieces_count += (count_rows(&plan->tensors[i]) + step - 1) / step;
    }
    plan->rows = calloc(plan->pieces_count + 1, sizeof *plan->rows);
    if (!plan->rows)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu64 " pieces", plan->pieces_count);
    uint64_t piece = 0;
    for (uint64_t i = 0; i < plan->tensors_count; i++) {
        const struct hf_tensor *tensor = &plan->tensors[i];
        uint64_t rows = count_rows(tensor), step = rows_per_piece(plan, tensor);
        for (uint64_t first = 0; first < rows; first += step, piece++)
            plan->rows[piece] =
                (struct hf_rows){tensor, first, rows - first < step ? rows - first : step};
    }
    return 0;
}

int hf_plan_init(struct hf_plan *plan, const struct hf_plan_options *options, struct err *err)
{
    *plan = (struct hf_plan){0};
    int status = add_tensors(plan, options, err);
    if (!status) {
        divide_into_files(plan, options);
        count_casts(plan, options);
        status = cut_into_pieces(plan, err);
    }
    if (status)
        hf_plan_deinit(plan);
    return status;
}

void hf_plan_deinit(struct hf_plan *plan)
{
    free(plan->tensors);
    free(plan->names);
    free(plan->rows);
    *plan = (struct hf_plan){0};
}

const char *hf_plan_file_name(const struct hf_plan *plan, uint64_t file,
                              char name[HF_FILE_NAME_BYTES])
{
    if (plan->files_count == 1)
        snprintf(name, HF_FILE_NAME_BYTES, "model.safetensors");
    else
        snprintf(name, HF_FILE_NAME_BYTES, "model-%05" PRIu64 "-of-%05" PRIu64 ".safetensors",
                 file + 1, plan->files_count);
    return name;
}
