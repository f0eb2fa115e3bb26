/*
 * diff — see diff.h.
 *
 * The tensors with the same dtype and shape on both sides form two streams (tensor_stream.h). The
 * streams' buffers always hold corresponding elements. Other tensors are only reported.
 */
#include "ckpt/tools/diff.h"

#include "base/bytes.h"
#include "ckpt/format/box.h"
#include "ckpt/load/hash.h"
#include "ckpt/load/tensor_filter.h"
#include "ckpt/load/tensor_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIFF_BUFFER_BYTES = 8 << 20,
    COMPARE_BYTES = 4096, /* compared as a whole before its elements are */
};

struct diff_job {
    struct diff *diff;
    const struct diff_options *options;
    struct diff_tensor *common; /* same dtype and shape on both sides; sorted by name */
    const struct manifest_tensor **common_a, **common_b;
    uint64_t common_count;
    uint64_t total_bytes;
    struct tensor_stream stream_a, stream_b;
    char *buffer_a, *buffer_b;
};

static struct diff_section *section_of(struct diff *diff, const char *name)
{
    return &diff->sections[hash_is_optimizer(name) ? CKPT_OPTIMIZER : CKPT_MODEL];
}

static bool has_same_type(const struct manifest_tensor *a, const struct manifest_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

static uint64_t tensor_bytes(const struct manifest_tensor *tensor)
{
    return manifest_tensor_elements(tensor) * dtype_bytes(tensor->dtype);
}

static void add_common(struct diff_job *job, const struct manifest_tensor *a,
                       const struct manifest_tensor *b)
{
    struct diff_section *section = section_of(job->diff, a->name);
    uint64_t bytes = tensor_bytes(a);
    section->compared_count++;
    section->compared_bytes += bytes;
    job->total_bytes += 2 * bytes;
    job->common[job->common_count] = (struct diff_tensor){.kind = DIFF_NONE, .a = a, .b = b};
    job->common_a[job->common_count] = a;
    job->common_b[job->common_count++] = b;
}

static void add_unmatched(struct diff_job *job, const struct manifest_tensor *a,
                          const struct manifest_tensor *b)
{
    struct diff_tensor *tensor = &job->diff->tensors[job->diff->tensors_count++];
    struct diff_section *section = section_of(job->diff, a ? a->name : b->name);
    *tensor = (struct diff_tensor){.kind = !b   ? DIFF_ONLY_A
                                           : !a ? DIFF_ONLY_B
                                                : DIFF_TYPE,
                                   .a = a,
                                   .b = b};
    section->type_count += tensor->kind == DIFF_TYPE;
    section->only_a_count += tensor->kind == DIFF_ONLY_A;
    section->only_b_count += tensor->kind == DIFF_ONLY_B;
}

static void pair_tensors(struct diff_job *job)
{
    const struct manifest *of_a = &job->diff->a->manifest, *of_b = &job->diff->b->manifest;
    uint64_t i = 0, k = 0;
    while (i < of_a->tensors_count || k < of_b->tensors_count) {
        int order = i == of_a->tensors_count ? 1
                    : k == of_b->tensors_count
                        ? -1
                        : strcmp(of_a->tensors[i].name, of_b->tensors[k].name);
        const struct manifest_tensor *a = order <= 0 ? &of_a->tensors[i++] : NULL;
        const struct manifest_tensor *b = order >= 0 ? &of_b->tensors[k++] : NULL;
        if (job->options->only && !tensor_filter_matches(job->options->only, a ? a->name : b->name))
            continue;
        if (a && b && has_same_type(a, b))
            add_common(job, a, b);
        else
            add_unmatched(job, a, b);
    }
}

static void count_difference(struct diff_tensor *tensor, uint64_t at, const char *a, const char *b)
{
    struct element of_a = element_get(tensor->a->dtype, a), of_b = element_get(tensor->a->dtype, b);
    struct element distance = element_distance(of_a, of_b);
    tensor->nan_count += element_is_nan(distance);
    if (tensor->different_count++ == 0 || element_exceeds(distance, tensor->largest)) {
        tensor->largest = distance;
        tensor->largest_at = at;
        tensor->largest_a = of_a;
        tensor->largest_b = of_b;
    }
}

/* Compares bytes of the tensor, from element `first` on. */
static void compare_elements(struct diff_tensor *tensor, uint64_t first, const char *a,
                             const char *b, size_t bytes)
{
    size_t size = dtype_bytes(tensor->a->dtype);
    for (size_t at = 0; at < bytes; at += COMPARE_BYTES) {
        size_t end = at + bytes_min(COMPARE_BYTES, bytes - at);
        if (memcmp(a + at, b + at, end - at) == 0)
            continue;
        for (size_t i = at; i < end; i += size)
            if (memcmp(a + i, b + i, size) != 0)
                count_difference(tensor, first + i / size, a + i, b + i);
    }
}

/* Stream position: done_bytes of common[index]. */
struct position {
    uint64_t index, done_bytes;
};

/* Compares the next bytes of both streams. They may span several tensors. */
static void compare_block(struct diff_job *job, struct position *position, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        struct diff_tensor *tensor = &job->common[position->index];
        size_t part = bytes_min(bytes - at, tensor_bytes(tensor->a) - position->done_bytes);
        compare_elements(tensor, position->done_bytes / dtype_bytes(tensor->a->dtype),
                         job->buffer_a + at, job->buffer_b + at, part);
        at += part;
        position->done_bytes += part;
        if (position->done_bytes == tensor_bytes(tensor->a)) {
            position->index++;
            position->done_bytes = 0;
        }
    }
}

static int compare_common(struct diff_job *job, struct err *err)
{
    struct position position = {0};
    uint64_t done_bytes = 0;
    size_t bytes_a = 0, bytes_b = 0;
    int status = 0;
    do {
        status =
            tensor_stream_read(&job->stream_a, job->buffer_a, DIFF_BUFFER_BYTES, &bytes_a, err);
        if (!status)
            status =
                tensor_stream_read(&job->stream_b, job->buffer_b, DIFF_BUFFER_BYTES, &bytes_b, err);
        if (status)
            return status;
        assert(bytes_a == bytes_b);
        compare_block(job, &position, bytes_a);
        done_bytes += bytes_a + bytes_b;
        if (job->options->progress)
            job->options->progress(job->options->progress_context, done_bytes, job->total_bytes);
    } while (bytes_a > 0);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    const struct diff_tensor *x = a, *y = b;
    return strcmp((x->a ? x->a : x->b)->name, (y->a ? y->a : y->b)->name);
}

static void collect_different(struct diff_job *job)
{
    struct diff *diff = job->diff;
    for (uint64_t i = 0; i < job->common_count; i++) {
        if (job->common[i].different_count == 0)
            continue;
        section_of(diff, job->common[i].a->name)->different_count++;
        job->common[i].kind = DIFF_VALUES;
        diff->tensors[diff->tensors_count++] = job->common[i];
    }
    qsort(diff->tensors, diff->tensors_count, sizeof *diff->tensors, compare_names);
}

static int prepare(struct diff_job *job, struct err *err)
{
    uint64_t count_max =
        job->diff->a->manifest.tensors_count + job->diff->b->manifest.tensors_count;
    job->diff->tensors = calloc(count_max + 1, sizeof *job->diff->tensors);
    job->common = calloc(count_max + 1, sizeof *job->common);
    job->common_a = calloc(count_max + 1, sizeof(const struct manifest_tensor *));
    job->common_b = calloc(count_max + 1, sizeof(const struct manifest_tensor *));
    job->buffer_a = malloc(DIFF_BUFFER_BYTES);
    job->buffer_b = malloc(DIFF_BUFFER_BYTES);
    if (!job->diff->tensors || !job->common || !job->common_a || !job->common_b || !job->buffer_a ||
        !job->buffer_b)
        return err_set(err, -ENOMEM, "not enough memory to compare %llu tensors",
                       (unsigned long long)count_max);
    pair_tensors(job);
    int status = tensor_stream_init(&job->stream_a, job->diff->a, job->common_a, job->common_count,
                                    NULL, err);
    return status ? status
                  : tensor_stream_init(&job->stream_b, job->diff->b, job->common_b,
                                       job->common_count, NULL, err);
}

static bool selects_loader(const char *only)
{
    return !only || strcmp(only, "all") == 0 || strcmp(only, ckpt_section_name(CKPT_LOADER)) == 0;
}

static int compare_loaders(struct diff *diff, struct err *err)
{
    struct json_t *a = reader_loader_state(diff->a), *b = reader_loader_state(diff->b);
    diff->has_loader[0] = a != NULL;
    diff->has_loader[1] = b != NULL;
    int status = jsonx_diff_collect(&diff->loader, ckpt_section_name(CKPT_LOADER), a, b);
    return status ? err_set(err, status, "not enough memory to compare the loaders' states") : 0;
}

/* Rejects a pattern that selects nothing, since the comparison would always succeed. */
static int check_selection(const struct diff_job *job, const struct diff_side *a, struct err *err)
{
    const struct diff *diff = job->diff;
    const char *only = job->options->only;
    bool any = job->common_count > 0 || diff->tensors_count > 0 || diff->has_loader[0] ||
               diff->has_loader[1];
    if (any || !only || strcmp(only, "all") == 0)
        return 0;
    err_set(err, -ENOENT, "nothing to compare in either checkpoint");
    err_at(err, a->path, ERR_NO_OFFSET);
    err_expected(err, "the section or tensors \"%.100s\"", only);
    err_advise(err, "list the names with `millrace inspect`");
    return -ENOENT;
}

static int compare(struct diff_job *job, const struct diff_side *a, struct err *err)
{
    int status = prepare(job, err);
    if (!status && selects_loader(job->options->only))
        status = compare_loaders(job->diff, err);
    if (!status)
        status = check_selection(job, a, err);
    if (!status)
        status = compare_common(job, err);
    if (!status)
        collect_different(job);
    return status;
}

int diff_open(const struct diff_side *a, const struct diff_side *b,
              const struct diff_options *options, struct diff **ret_diff, struct err *err)
{
    struct diff_job job = {.diff = calloc(1, sizeof *job.diff), .options = options};
    if (!job.diff)
        return err_set(err, -ENOMEM, "not enough memory to compare checkpoints");
    int status = reader_open_path(a->io, a->path, &job.diff->a, options->log, err);
    if (!status)
        status = reader_open_path(b->io, b->path, &job.diff->b, options->log, err);
    if (!status)
        status = compare(&job, a, err);
    tensor_stream_deinit(&job.stream_a);
    tensor_stream_deinit(&job.stream_b);
    free(job.common);
    free(job.common_a);
    free(job.common_b);
    free(job.buffer_a);
    free(job.buffer_b);
    if (status)
        diff_close(job.diff);
    else
        *ret_diff = job.diff;
    return status;
}

void diff_close(struct diff *diff)
{
    if (!diff)
        return;
    jsonx_diff_deinit(&diff->loader);
    free(diff->tensors);
    ckpt_reader_close(diff->a);
    ckpt_reader_close(diff->b);
    free(diff);
}

bool diff_is_empty(const struct diff *diff)
{
    return diff->tensors_count == 0 && diff->loader.count == 0;
}
