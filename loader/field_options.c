/*
 * field_options — checks and copies options.fields.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "base/json/jsonx_path.h"
#include "shards/format/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Whether a name is that of the lengths of tokens. */
static bool is_length_of(const char *name, const struct loader_field *tokens)
{
    size_t bytes = tokens->name ? strlen(tokens->name) : 0;
    return tokens->decode == LOADER_FIELD_TOKENS && tokens->length > 0 && bytes > 0 &&
           strncmp(name, tokens->name, bytes) == 0 && strcmp(name + bytes, "_length") == 0;
}

static bool is_taken(const struct loader_options *options, uint32_t number)
{
    static const char *const others[] = {"image", "label", "partner_label", "label_weight",
                                         "valid"};
    const char *name = options->fields[number].name;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(name, others[i]) == 0)
            return options->decode == LOADER_IMAGE || strcmp(name, "valid") == 0;
    for (uint32_t i = 0; i < options->fields_count; i++)
        if ((i < number && strcmp(name, options->fields[i].name) == 0) ||
            is_length_of(name, &options->fields[i]))
            return true;
    return false;
}

static int check_array(const struct loader_field *field, struct err *err)
{
    if (field->decode != LOADER_FIELD_ARRAY ||
        (field->rank <= DTYPE_RANK_MAX && npy_has_dtype(field->dtype)))
        return 0;
    err_set(err, -EINVAL, "field \"%.80s\" cannot be an array of that type", field->name);
    err_expected(err, "a type that NumPy has, of at most %d dimensions", DTYPE_RANK_MAX);
    err_found(err, "%s, %" PRIu32 " dimensions", dtype_name(field->dtype), field->rank);
    err_advise(err, "set dtype and rank to those of the stored arrays");
    return -EINVAL;
}

/* From .npy, or with a path, from a JSON array. */
static bool is_numbers(const struct loader_field *field)
{
    return field->decode == LOADER_FIELD_ARRAY || field->decode == LOADER_FIELD_BOXES ||
           field->decode == LOADER_FIELD_KEYPOINTS;
}

static int check_path(const struct loader_field *field, struct err *err)
{
    if (!field->path && !field->default_value)
        return 0;
    if (field->decode == LOADER_FIELD_BYTES || field_is_large(field) ||
        (is_numbers(field) && !field->path)) {
        err_set(err, -EINVAL, "field \"%.80s\" has a path or a default, but is not JSON",
                field->name);
        err_advise(err, is_numbers(field) ? "give a path too: arrays without one are NumPy files"
                                          : "remove it, or decode the field as another type");
        return -EINVAL;
    }
    if (field->decode == LOADER_FIELD_ARRAY && (field->rank != 1 || field->dtype == DTYPE_F16)) {
        err_set(err, -EINVAL, "field \"%.80s\" cannot be an array from JSON", field->name);
        err_expected(err, "one dimension, and another type than F16");
        err_found(err, "%" PRIu32 " dimensions, %s", field->rank, dtype_name(field->dtype));
        err_advise(err, "set dtype and rank to those of a JSON array of numbers");
        return -EINVAL;
    }
    if (!field->path)
        return 0;
    return is_numbers(field) ? jsonx_path_check_list(field->path, err)
                             : jsonx_path_check(field->path, err);
}

static int check_default(const struct loader_field *field, struct err *err)
{
    if (!field->default_value || field->decode == LOADER_FIELD_STR ||
        field->decode == LOADER_FIELD_TOKENS ||
        (field->map && field->decode == LOADER_FIELD_INT)) /* field_maps_open checks it */
        return 0;
    if (is_numbers(field)) {
        if (strcmp(field->default_value, "[]") == 0)
            return 0;
        err_set(err, -EINVAL, "the default of field \"%.80s\" is not empty", field->name);
        err_expected(err, "[]");
        err_found(err, "%.80s", field->default_value);
        return -EINVAL;
    }
    uint8_t value[sizeof(uint64_t)];
    struct json_t *node = NULL;
    int status = field->decode == LOADER_FIELD_JSON
                     ? jsonx_parse_value(field->default_value, strlen(field->default_value), "",
                                         ERR_NO_OFFSET, &node, err)
                     : field_scalar_parse(field->decode, field->default_value, value, err);
    jsonx_free(node);
    if (status == -EBADMSG) {
        err_set(err, -EINVAL, "the default of field \"%.80s\" has the wrong type", field->name);
        err_advise(err, "give a JSON value of the field's type");
        status = -EINVAL;
    }
    return status;
}

static int check_normalize(const struct loader_field *field, struct err *err)
{
    if (field->normalize.channels == 0)
        return 0;
    if (field->decode != LOADER_FIELD_IMAGE) {
        err_set(err, -EINVAL,
                "field \"%.80s\" is no image, but has a layout, channels, mean or std",
                field->name);
        err_advise(err, "remove them");
        return -EINVAL;
    }
    int status = normalize_options_check(&field->normalize, err);
    if (status)
        image_name_error(field->name, err);
    return status;
}

/* ---- All options. ---- */

int fields_check(const struct loader_options *options, struct err *err)
{
    bool has_more = options->decode == LOADER_IMAGE || options->decode == LOADER_RECORD;
    if (options->fields_count == 0 && options->decode != LOADER_RECORD)
        return 0;
    if (options->fields_count == 0 || !has_more) {
        err_set(err, -EINVAL,
                has_more ? "a record has no fields"
                         : "only images and records can have more fields");
        err_advise(err, "set decode to LOADER_RECORD or LOADER_IMAGE, and list the fields");
        return -EINVAL;
    }
    if (options->fields_count > LOADER_FIELDS_MAX) {
        err_set(err, -EINVAL, "too many fields");
        err_expected(err, "at most %d", LOADER_FIELDS_MAX);
        err_found(err, "%" PRIu32, options->fields_count);
        err_advise(err, "request fewer fields");
        return -EINVAL;
    }
    int status = 0;
    for (uint32_t i = 0; !status && i < options->fields_count; i++) {
        const struct loader_field *field = &options->fields[i];
        if (!field->name || !field->name[0] || !field->from || !field->from[0]) {
            err_set(err, -EINVAL, "field %" PRIu32 " has no name or no extensions", i);
            err_advise(err, "set its name and from");
            return -EINVAL;
        }
        if (is_taken(options, i)) {
            err_set(err, -EINVAL, "two fields have the name \"%.80s\"", field->name);
            err_advise(err, "give each field a unique name");
            return -EINVAL;
        }
        status = check_array(field, err);
        if (!status)
            status = check_path(field, err);
        if (!status)
            status = check_default(field, err);
        if (!status)
            status = field_check_tokens(field, err);
        if (!status)
            status = field_check_map(field, err);
        if (!status)
            status = field_check_follows(options, field, err);
        if (!status)
            status = check_normalize(field, err);
    }
    return status;
}

static size_t string_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static char *copy_string(char **at, const char *text)
{
    size_t bytes = string_bytes(text);
    if (!text)
        return NULL;
    char *copy = memcpy(*at, text, bytes);
    *at += bytes;
    return copy;
}

int fields_copy(const struct loader_options *options, const struct loader_field **ret_fields,
                void **ret_memory)
{
    uint32_t count = options->fields_count;
    size_t bytes = count * sizeof(struct loader_field);
    for (uint32_t i = 0; i < count; i++) {
        const struct loader_field *field = &options->fields[i];
        bytes += string_bytes(field->name) + string_bytes(field->from) + string_bytes(field->path) +
                 string_bytes(field->default_value) + string_bytes(field->follows) +
                 string_bytes(field->map) + string_bytes(field->tokenizer) +
                 string_bytes(field->begin_token) + string_bytes(field->end_token);
    }
    *ret_fields = NULL;
    if (count == 0)
        return 0;
    struct loader_field *fields = *ret_memory = malloc(bytes);
    if (!fields)
        return -ENOMEM;
    char *text = (char *)(fields + count);
    for (uint32_t i = 0; i < count; i++) {
        fields[i] = options->fields[i];
        fields[i].name = copy_string(&text, options->fields[i].name);
        fields[i].from = copy_string(&text, options->fields[i].from);
        fields[i].path = copy_string(&text, options->fields[i].path);
        fields[i].default_value = copy_string(&text, options->fields[i].default_value);
        fields[i].follows = copy_string(&text, options->fields[i].follows);
        fields[i].map = copy_string(&text, options->fields[i].map);
        fields[i].tokenizer = copy_string(&text, options->fields[i].tokenizer);
        fields[i].begin_token = copy_string(&text, options->fields[i].begin_token);
        fields[i].end_token = copy_string(&text, options->fields[i].end_token);
        if (fields[i].normalize.channels == 0)
            fields[i].normalize = normalize_options_default();
    }
    *ret_fields = fields;
    return 0;
}

/* ---- Layout. ---- */

enum dtype field_dtype(const struct loader_field *field)
{
    switch (field->decode) {
    case LOADER_FIELD_BYTES:
    case LOADER_FIELD_STR:
    case LOADER_FIELD_JSON:
        return DTYPE_U8;
    case LOADER_FIELD_IMAGE:
        return field->normalize.dtype;
    case LOADER_FIELD_ARRAY:
        return field->dtype;
    case LOADER_FIELD_INT:
        return DTYPE_I64;
    case LOADER_FIELD_TOKENS:
        return DTYPE_I32;
    case LOADER_FIELD_F32:
        return DTYPE_F32;
    case LOADER_FIELD_F64:
        return DTYPE_F64;
    case LOADER_FIELD_LABELS:
        return field->dtype;
    case LOADER_FIELD_BOXES:
    case LOADER_FIELD_KEYPOINTS:
        return DTYPE_F32;
    case LOADER_FIELD_BOOL:
        break;
    }
    return DTYPE_BOOL;
}

/* Bytes per item of a dense field: of tokens with their length. */
static uint64_t dense_bytes(const struct loader_field *field)
{
    uint64_t count = field->decode == LOADER_FIELD_TOKENS ? (uint64_t)field->length + 1 : 1;
    return count * dtype_bytes(field_dtype(field));
}

uint64_t fields_offset(const struct loader *loader, uint32_t field)
{
    const struct loader_options *options = &loader->options;
    uint64_t items = options->batching.micro;
    uint64_t at = options->decode == LOADER_IMAGE ? items * loader_labels_bytes(loader) : 0;
    for (uint32_t f = 0; f <= field; f++) {
        at = bytes_round_up(at, sizeof(uint64_t));
        if (f < field && !field_is_ragged(&options->fields[f]) &&
            !field_is_large(&options->fields[f]))
            at += items * dense_bytes(&options->fields[f]);
    }
    return at;
}

uint64_t fields_large_offset(const struct loader *loader, uint32_t field)
{
    const struct loader_options *options = &loader->options;
    uint64_t items = options->batching.micro, at = 0;
    if (options->decode == LOADER_IMAGE &&
        (__builtin_mul_overflow(items, loader_image_bytes(loader), &at) ||
         at > UINT64_MAX / 16 / LOADER_FIELDS_MAX))
        return UINT64_MAX;
    for (uint32_t f = 0; f <= field; f++) {
        at = bytes_round_up(at, RAGGED_ALIGN_BYTES);
        if (f < field && field_is_large(&options->fields[f])) {
            const struct field_size size = field_target_size(loader, f);
            const uint64_t channels = options->fields[f].decode == LOADER_FIELD_IMAGE
                                          ? options->fields[f].normalize.channels
                                          : 1;
            at += items * size.width * size.height * channels *
                  dtype_bytes(field_dtype(&options->fields[f]));
        }
    }
    return at;
}
