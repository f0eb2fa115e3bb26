/*
 * cmd_ckpt_diff — `millrace ckpt diff A B`: shows how two checkpoints differ; exit status 1 if they
 * do.
 */
#include "ckpt/tools/diff.h"

#include "base/dtype.h"
#include "cli/core/output.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct diff_args {
    struct common_args common;
    const char *only;
    uint64_t limit;
};

#define AT(member) offsetof(struct diff_args, member)
static const struct option option_rows[] = {
    {"only", 0, OPTION_TEXT, AT(only), "all|model|optimizer|loader|GLOB", "all",
     "what to compare: everything, one section, or tensors with matching names"},
    {"limit", 0, OPTION_COUNT, AT(limit), "N", "20",
     "maximum lines per list; the rest are only counted; 0: all"},
};

/* Writes nan, inf and integers above INT64_MAX as text, because JSON has no numbers for them. */
static void write_element(struct jsonx_writer *json, const char *key, struct element value)
{
    char digits[24];
    switch (value.kind) {
    case ELEMENT_SIGNED:
        jsonx_write_i64(json, key, value.integer);
        return;
    case ELEMENT_UNSIGNED:
        snprintf(digits, sizeof digits, "%" PRIu64, value.unsigned_value);
        if (value.unsigned_value <= INT64_MAX)
            jsonx_write_u64(json, key, value.unsigned_value);
        else
            jsonx_write_string(json, key, digits);
        return;
    case ELEMENT_REAL:
        if (isfinite(value.real))
            jsonx_write_f64(json, key, value.real);
        else
            jsonx_write_string(json, key,
                               isnan(value.real) ? "nan"
                               : value.real < 0  ? "-inf"
                                                 : "inf");
    }
}

/* Writes the coordinates of element `number` in row-major order. */
static void write_index(struct jsonx_writer *json, const char *key,
                        const struct manifest_tensor *tensor, uint64_t number)
{
    uint64_t index[DTYPE_RANK_MAX];
    for (uint32_t d = tensor->rank; d-- > 0; number /= tensor->shape[d])
        index[d] = number % tensor->shape[d];
    jsonx_write_u64_array(json, key, index, tensor->rank);
}

static void write_values(struct jsonx_writer *json, const struct diff_tensor *tensor)
{
    jsonx_write_string(json, "name", tensor->a->name);
    jsonx_write_string(json, "dtype", dtype_name(tensor->a->dtype));
    jsonx_write_u64_array(json, "shape", tensor->a->shape, tensor->a->rank);
    jsonx_write_u64(json, "elements_count", manifest_tensor_elements(tensor->a));
    jsonx_write_u64(json, "different_count", tensor->different_count);
    jsonx_write_u64(json, "nan_count", tensor->nan_count);
    write_element(json, "largest_difference", tensor->largest);
    write_index(json, "at", tensor->a, tensor->largest_at);
    write_element(json, "a", tensor->largest_a);
    write_element(json, "b", tensor->largest_b);
}

static void write_types(struct jsonx_writer *json, const struct diff_tensor *tensor)
{
    jsonx_write_string(json, "name", tensor->a->name);
    jsonx_write_string(json, "dtype_a", dtype_name(tensor->a->dtype));
    jsonx_write_u64_array(json, "shape_a", tensor->a->shape, tensor->a->rank);
    jsonx_write_string(json, "dtype_b", dtype_name(tensor->b->dtype));
    jsonx_write_u64_array(json, "shape_b", tensor->b->shape, tensor->b->rank);
}

static void write_unpaired(struct jsonx_writer *json, const struct diff_tensor *tensor)
{
    const struct manifest_tensor *present = tensor->a ? tensor->a : tensor->b;
    jsonx_write_string(json, "name", present->name);
    jsonx_write_string(json, "dtype", dtype_name(present->dtype));
    jsonx_write_u64_array(json, "shape", present->shape, present->rank);
}

struct diff_report {
    const struct diff *diff;
    struct jsonx_writer *json;
    uint64_t limit; /* UINT64_MAX: none */
    bool writes_empty_lists;
};

static void write_unlisted_count(const struct diff_report *report, const char *key, uint64_t count)
{
    char name[64];
    if (count <= report->limit)
        return;
    snprintf(name, sizeof name, "%s_not_listed_count", key);
    jsonx_write_u64(report->json, name, count - report->limit);
}

static void write_list(const struct diff_report *report, const char *key, enum diff_kind kind,
                       void (*write)(struct jsonx_writer *json, const struct diff_tensor *tensor))
{
    const struct diff *diff = report->diff;
    uint64_t count = 0;
    for (uint64_t i = 0; i < diff->tensors_count; i++)
        count += diff->tensors[i].kind == kind;
    if (count == 0 && !report->writes_empty_lists)
        return;
    jsonx_begin_array(report->json, key);
    for (uint64_t i = 0, listed = 0; i < diff->tensors_count && listed < report->limit; i++) {
        if (diff->tensors[i].kind != kind)
            continue;
        jsonx_begin_object(report->json, NULL);
        write(report->json, &diff->tensors[i]);
        jsonx_end_object(report->json);
        listed++;
    }
    jsonx_end_array(report->json);
    write_unlisted_count(report, key, count);
}

static void write_text_or_null(struct jsonx_writer *json, const char *key, const char *text)
{
    if (text)
        jsonx_write_string(json, key, text);
    else
        jsonx_write_null(json, key);
}

static void write_loader(const struct diff_report *report)
{
    const struct jsonx_diff *loader = &report->diff->loader;
    if (loader->count == 0 && !report->writes_empty_lists)
        return;
    jsonx_begin_array(report->json, "loader");
    for (uint64_t i = 0; i < loader->count && i < report->limit; i++) {
        jsonx_begin_object(report->json, NULL);
        jsonx_write_string(report->json, "entry", loader->entries[i].path);
        write_text_or_null(report->json, "a", loader->entries[i].a);
        write_text_or_null(report->json, "b", loader->entries[i].b);
        jsonx_end_object(report->json);
    }
    jsonx_end_array(report->json);
    write_unlisted_count(report, "loader", loader->count);
}

static void write_side(struct jsonx_writer *json, const char *key, const struct ckpt_reader *reader)
{
    jsonx_begin_object(json, key);
    jsonx_write_string(json, "path", reader->path);
    if (reader->manifest.state) { /* a step, not a single file */
        jsonx_write_u64(json, "step", reader->manifest.step);
        jsonx_write_u64(json, "ranks_count", reader->manifest.ranks);
    }
    jsonx_end_object(json);
}

static void write_sections(struct jsonx_writer *json, const struct diff *diff)
{
    jsonx_begin_array(json, "sections");
    for (int i = 0; i < CKPT_LOADER; i++) {
        const struct diff_section *section = &diff->sections[i];
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "section", ckpt_section_name((enum ckpt_section)i));
        jsonx_write_u64(json, "compared_tensors_count", section->compared_count);
        jsonx_write_u64(json, "compared_bytes", section->compared_bytes);
        jsonx_write_u64(json, "different_count", section->different_count);
        jsonx_write_u64(json, "other_type_count", section->type_count);
        jsonx_write_u64(json, "only_in_a_count", section->only_a_count);
        jsonx_write_u64(json, "only_in_b_count", section->only_b_count);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

static void write_diff(const struct diff_report *report)
{
    const struct diff *diff = report->diff;
    struct jsonx_writer *json = report->json;
    uint64_t tensors = 0, bytes = 0;
    for (int i = 0; i < CKPT_LOADER; i++) {
        tensors += diff->sections[i].compared_count;
        bytes += diff->sections[i].compared_bytes;
    }
    write_side(json, "a", diff->a);
    write_side(json, "b", diff->b);
    jsonx_write_bool(json, "same", diff_is_empty(diff));
    jsonx_write_u64(json, "compared_tensors_count", tensors);
    jsonx_write_u64(json, "compared_bytes", bytes);
    jsonx_write_bool(json, "compared_loader", diff->has_loader[0] && diff->has_loader[1]);
    write_sections(json, diff);
    write_list(report, "different", DIFF_VALUES, write_values);
    write_list(report, "other_type", DIFF_TYPE, write_types);
    write_list(report, "only_in_a", DIFF_ONLY_A, write_unpaired);
    write_list(report, "only_in_b", DIFF_ONLY_B, write_unpaired);
    write_loader(report);
}

static int compare(const struct invocation *invocation, struct diff **ret_diff, struct io *ios[2],
                   struct err *err)
{
    const struct diff_args *args = invocation->args;
    struct diff_options options = {.only = args->only,
                                   .log = invocation->log,
                                   .progress = progress_update,
                                   .progress_context = invocation->console};
    for (int i = 0; i < 2; i++) {
        int status = storage_open(invocation->positional[i], NULL, &ios[i], err);
        if (status)
            return status;
    }
    struct diff_side a = {ios[0], invocation->positional[0]},
                     b = {ios[1], invocation->positional[1]};
    progress_begin(invocation->console, "comparing", PROGRESS_BYTES);
    int status = diff_open(&a, &b, &options, ret_diff, err);
    progress_end(invocation->console);
    return status;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct diff_args *args = invocation->args;
    struct io *ios[2] = {NULL, NULL};
    struct diff *diff = NULL;
    int status = compare(invocation, &diff, ios, err);
    if (!status) {
        struct output output;
        struct diff_report report = {.diff = diff,
                                     .json = &output.json,
                                     .limit = args->limit ? args->limit : UINT64_MAX,
                                     .writes_empty_lists = args->common.json};
        output_begin(&output);
        write_diff(&report);
        status = output_end(&output, args->common.json, stdout, err);
    }
    if (!status)
        status = diff_is_empty(diff) ? EXIT_DONE : EXIT_FAILED;
    diff_close(diff);
    io_close(ios[0]);
    io_close(ios[1]);
    return status;
}

static const char *const examples[] = {
    "millrace ckpt diff runs/a/ckpt model.safetensors --only model",
    "millrace ckpt diff runs/a/ckpt runs/a/ckpt --limit 0 --json", NULL};

const struct verb verb_ckpt_diff = {
    .name = "ckpt diff",
    .arguments = {"A B", 2, 2},
    .summary =
        "Show which tensors differ between two checkpoints, in how many elements and by how much.",
    .details =

        "A and B are checkpoints or safetensors files; a checkpoint folder means its newest "
        "complete checkpoint. The status is 0 if nothing differs, otherwise 1.\n"
        "The comparison is bitwise, as for `millrace ckpt hash`, so -0 and 0 differ (by 0). "
        "Names, types, shapes and the state of the loader are compared; ranks, files, "
        "layouts, steps and times are not. The largest difference is shown with the index of "
        "its element and both values; nan means that only one of the values is a number. "
        "Every block is verified as it is read, and memory use does not depend on the size of "
        "the model.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct diff_args),
    .run = run,
};
