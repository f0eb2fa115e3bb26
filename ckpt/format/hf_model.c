#include "ckpt/format/hf_model.h"

#include "base/json/jsonx.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPT2_VOCABULARY = 50257 };

/* Splits "blocks.N.REST". False for other names. */
static bool split_block(const char *name, unsigned long *ret_block, const char **ret_rest)
{
    static const char prefix[] = "blocks.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *digits = name + sizeof prefix - 1;
    char *end;
    if (*digits < '0' || *digits > '9')
        return false;
    *ret_block = strtoul(digits, &end, 10);
    *ret_rest = end + 1;
    return *end == '.';
}

bool hf_locate(const struct hf_model *model, const char *ours, struct hf_location *ret_location)
{
    unsigned long block = 0;
    const char *rest = ours;
    bool inside = split_block(ours, &block, &rest);
    const struct hf_tensor_map *row = inside ? model->block_tensors : model->model_tensors;
    while (row->ours && strcmp(row->ours, rest) != 0)
        row++;
    if (!row->ours)
        return false;
    *ret_location = (struct hf_location){
        .transposed = row->transposed, .part = row->part, .parts = row->parts ? row->parts : 1};
    if (inside)
        snprintf(ret_location->name, sizeof ret_location->name, "%s.%lu.%s", model->block_prefix,
                 block, row->theirs);
    else
        snprintf(ret_location->name, sizeof ret_location->name, "%s", row->theirs);
    return true;
}

static uint64_t get_count(const struct hf_entry *entry, const struct hf_config *config)
{
    return *(const uint64_t *)((const char *)config + entry->field);
}

static double get_real(const struct hf_entry *entry, const struct hf_config *config)
{
    return *(const double *)((const char *)config + entry->field);
}

static void write_rope_scaling(const struct hf_config *config, struct jsonx_writer *w)
{
    if (config->rope_factor == 1)
        return;
    jsonx_begin_object(w, "rope_scaling");
    jsonx_write_f64(w, "factor", config->rope_factor);
    jsonx_write_f64(w, "high_freq_factor", config->rope_high_freq_factor);
    jsonx_write_f64(w, "low_freq_factor", config->rope_low_freq_factor);
    jsonx_write_u64(w, "original_max_position_embeddings", config->rope_original_positions);
    jsonx_write_string(w, "rope_type", "llama3");
    jsonx_end_object(w);
}

static void write_entry(const struct hf_entry *entry, const struct hf_config *config,
                        struct jsonx_writer *w)
{
    switch (entry->kind) {
    case HF_TEXT:
        jsonx_write_string(w, entry->name, entry->text);
        break;
    case HF_FLAG:
        jsonx_write_bool(w, entry->name, entry->flag);
        break;
    case HF_COUNT:
        jsonx_write_u64(w, entry->name, get_count(entry, config));
        break;
    case HF_REAL:
        jsonx_write_f64(w, entry->name, get_real(entry, config));
        break;
    case HF_HEAD_DIM:
        if (config->head_dim * config->heads != config->width)
            jsonx_write_u64(w, entry->name, config->head_dim);
        break;
    case HF_TIED:
        jsonx_write_bool(w, entry->name, config->tied);
        break;
    case HF_ROPE_SCALING:
        write_rope_scaling(config, w);
        break;
    case HF_DOCUMENT_END:
        if (config->vocabulary != GPT2_VOCABULARY)
            jsonx_write_null(w, entry->name);
        break;
    case HF_NULL:
        jsonx_write_null(w, entry->name);
        break;
    case HF_END:
        break;
    }
}

void hf_write_entries(const struct hf_model *model, const struct hf_config *config,
                      struct jsonx_writer *w)
{
    for (const struct hf_entry *entry = model->entries; entry->kind != HF_END; entry++)
        write_entry(entry, config, w);
}

struct config_check {
    const struct json_t *root;
    const char *path;
    struct err *err;
};

static int mismatch_error(const struct config_check *check, const char *name)
{
    err_set(check->err, -EINVAL, "the weights are of another model: \"%s\" differs", name);
    err_at(check->err, check->path, ERR_NO_OFFSET);
    err_advise(check->err, "describe that model under `model:`");
    return -EINVAL;
}

static int check_number(const struct config_check *check, const struct json_t *node,
                        const char *name, double value, double default_value)
{
    double found = default_value;
    int status = jsonx_kind(node) == JSON_KIND_NULL ? 0 : jsonx_f64(node, &found);
    if (!status && fabs(found - value) <= 1e-6 * fabs(value))
        return 0;
    mismatch_error(check, name);
    err_expected(check->err, "%.9g", value);
    if (status)
        err_found(check->err, "no number");
    else
        err_found(check->err, "%.9g", found);
    return -EINVAL;
}

static int check_text(const struct config_check *check, const struct json_t *node, const char *name,
                      const char *value)
{
    const char *found = value;
    if (jsonx_text(node, &found) || strcmp(found, value) == 0)
        return 0;
    mismatch_error(check, name);
    err_expected(check->err, "%s", value);
    err_found(check->err, "%.64s", found);
    return -EINVAL;
}

static int check_flag(const struct config_check *check, const char *name, bool value,
                      bool default_value)
{
    bool found = default_value;
    if (jsonx_bool(jsonx_get(check->root, name), &found) || found == value)
        return 0;
    mismatch_error(check, name);
    err_expected(check->err, "%s", value ? "true" : "false");
    err_found(check->err, "%s", found ? "true" : "false");
    return -EINVAL;
}

/* transformers 5 stores rope_theta and rope_scaling in one object, rope_parameters. */
static const struct json_t *rope_parameters(const struct config_check *check)
{
    return jsonx_get(check->root, "rope_parameters");
}

static int check_rope_scaling(const struct config_check *check, const struct hf_config *config)
{
    const struct json_t *node = jsonx_get(check->root, "rope_scaling");
    if (jsonx_kind(node) == JSON_KIND_NULL)
        node = rope_parameters(check);
    const struct json_t *type = jsonx_get(node, "rope_type");
    if (jsonx_kind(type) == JSON_KIND_NULL)
        type = jsonx_get(node, "type");
    const char *found = "default", *expected = config->rope_factor == 1 ? "default" : "llama3";
    jsonx_text(type, &found);
    if (strcmp(found, expected) != 0) {
        mismatch_error(check, "rope_scaling");
        err_expected(check->err, "rope_type %s", expected);
        err_found(check->err, "rope_type %.64s", found);
        return -EINVAL;
    }
    if (config->rope_factor == 1)
        return 0;
    int status = check_number(check, jsonx_get(node, "factor"), "factor", config->rope_factor, 1);
    if (!status)
        status = check_number(check, jsonx_get(node, "low_freq_factor"), "low_freq_factor",
                              config->rope_low_freq_factor, 1);
    if (!status)
        status = check_number(check, jsonx_get(node, "high_freq_factor"), "high_freq_factor",
                              config->rope_high_freq_factor, 4);
    return status ? status
                  : check_number(check, jsonx_get(node, "original_max_position_embeddings"),
                                 "original_max_position_embeddings",
                                 (double)config->rope_original_positions, 8192);
}

static int check_entry(const struct config_check *check, const struct hf_entry *entry,
                       const struct hf_config *config)
{
    const struct json_t *node = jsonx_get(check->root, entry->name);
    double usual_head_dim = (double)config->width / (double)config->heads;
    switch (entry->kind) {
    case HF_TEXT:
        return check_text(check, node, entry->name, entry->text);
    case HF_FLAG:
        return check_flag(check, entry->name, entry->flag, entry->flag);
    case HF_COUNT:
        return entry->is_checked
                   ? check_number(check, node, entry->name, (double)get_count(entry, config),
                                  entry->default_value > 0 ? entry->default_value
                                                           : (double)config->heads)
                   : 0;
    case HF_REAL:
        if (jsonx_kind(node) == JSON_KIND_NULL)
            node = jsonx_get(rope_parameters(check), entry->name);
        return check_number(check, node, entry->name, get_real(entry, config),
                            entry->default_value);
    case HF_HEAD_DIM:
        return check_number(check, node, entry->name, (double)config->head_dim, usual_head_dim);
    case HF_TIED:
        return config->tied ? check_flag(check, entry->name, true, entry->flag) : 0;
    case HF_ROPE_SCALING:
        return check_rope_scaling(check, config);
    case HF_DOCUMENT_END:
    case HF_NULL:
    case HF_END:
        break;
    }
    return 0;
}

int hf_check_entries(const struct hf_model *model, const struct hf_config *config,
                     const struct json_t *root, const char *path, struct err *err)
{
    const struct config_check check = {root, path, err};
    int status = check_text(&check, jsonx_get(root, "model_type"), "model_type", model->type);
    for (const struct hf_entry *entry = model->entries; entry->kind != HF_END && !status; entry++)
        status = check_entry(&check, entry, config);
    return status;
}
