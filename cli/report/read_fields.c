#include "cli/report/read_fields.h"

#include "base/json/jsonx_format.h"
#include "base/yaml/yaml.h"
#include "cli/report/augment_args.h"
#include "shards/format/npy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const decode_names[] = {
    [LOADER_FIELD_BYTES] = "bytes",   [LOADER_FIELD_STR] = "str",
    [LOADER_FIELD_JSON] = "json",     [LOADER_FIELD_ARRAY] = "array",
    [LOADER_FIELD_INT] = "int",       [LOADER_FIELD_F32] = "f32",
    [LOADER_FIELD_F64] = "f64",       [LOADER_FIELD_BOOL] = "bool",
    [LOADER_FIELD_TOKENS] = "tokens", [LOADER_FIELD_LABELS] = "labels",
    [LOADER_FIELD_BOXES] = "boxes",   [LOADER_FIELD_KEYPOINTS] = "keypoints",
    [LOADER_FIELD_IMAGE] = "image"};
enum { DECODES_COUNT = sizeof decode_names / sizeof decode_names[0] };

const char *read_field_decode_name(enum loader_field_decode decode)
{
    return decode_names[decode];
}

/* Keys whose values are lists of numbers. */
enum number_list { RANDAUGMENT, JITTER, SCALE, MEAN, STD, NUMBER_LISTS_COUNT };
static const char *const number_list_keys[] = {".randaugment", ".jitter", ".scale", ".mean",
                                               ".std"};
enum { NUMBER_LIST_BYTES_MAX = 200 };

/* One --field. */
struct parser {
    struct read_fields *fields;
    struct loader_field *field;
    bool has_crop, is_normalized; /* the latter: has layout, channels, mean or std */
    bool has_list[NUMBER_LISTS_COUNT];
    char lists[NUMBER_LISTS_COUNT][NUMBER_LIST_BYTES_MAX]; /* separated by commas */
    const char *spec;                                      /* NAME=SPEC */
    struct err *err;
};

static int wrong_spec(const struct parser *parser, const char *expected)
{
    err_set(parser->err, -EINVAL, "--field has an invalid value");
    err_expected(parser->err, "%s", expected);
    err_found(parser->err, "\"%.200s\"", parser->spec);
    err_advise(parser->err, "for example: --field 'caption={from: txt, decode: str}'");
    return -EINVAL;
}

static const char *own_text(struct read_fields *fields, const char *text, size_t bytes)
{
    char *copy = strndup(text, bytes);
    if (copy)
        fields->owned_texts[fields->texts_count++] = copy;
    return copy;
}

static int set_decode(const struct parser *parser, const char *text)
{
    for (int i = 0; i < DECODES_COUNT; i++) {
        if (strcmp(text, decode_names[i]) != 0)
            continue;
        parser->field->decode = (enum loader_field_decode)i;
        return 0;
    }
    return wrong_spec(parser,
                      "decode: bytes, str, json, array, int, f32, f64, bool, tokens, labels, "
                      "boxes, keypoints or image");
}

static int set_box_format(const struct parser *parser, const char *text)
{
    static const char *const names[] = {
        [LOADER_BOX_XYXY] = "xyxy", [LOADER_BOX_XYWH] = "xywh", [LOADER_BOX_CXCYWH] = "cxcywh"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        parser->field->box_format = (enum loader_box_format)i;
        return 0;
    }
    return wrong_spec(parser, "box_format: xyxy, xywh or cxcywh");
}

/* Keeps the flip. */
static void set_crop_kind(struct loader_field *field, enum crop_kind kind)
{
    const bool flip = field->image.crop.flip;
    field->image.crop = crop_options_default(kind);
    field->image.crop.flip = flip;
}

static int set_crop(struct parser *parser, const char *text)
{
    parser->has_crop = true;
    static const char *const names[] = {
        [CROP_NONE] = "none", [CROP_CENTER] = "center", [CROP_RANDOM] = "random"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        set_crop_kind(parser->field, (enum crop_kind)i);
        return 0;
    }
    return wrong_spec(parser, "crop: random, center or none");
}

static int set_bool(const struct parser *parser, const char *text, const char *expected,
                    bool *target)
{
    *target = strcmp(text, "true") == 0;
    return *target || strcmp(text, "false") == 0 ? 0 : wrong_spec(parser, expected);
}

static int set_visible_min(const struct parser *parser, const char *text)
{
    char *end;
    parser->field->visible_min = strtod(text, &end);
    return *text && !*end ? 0 : wrong_spec(parser, "visible_min: a number from 0 to 1");
}

static int set_dtype(const struct parser *parser, const char *text)
{
    char name[8] = "";
    for (size_t i = 0; text[i] && i + 1 < sizeof name; i++)
        name[i] = (char)toupper((unsigned char)text[i]);
    return strlen(text) < sizeof name && dtype_from_name(name, &parser->field->dtype)
               ? 0
               : wrong_spec(parser, "dtype: a type such as f32, i64 or u8");
}

static int set_rank(const struct parser *parser, const char *text)
{
    if (text[0] < '0' || text[0] > '0' + DTYPE_RANK_MAX || text[1])
        return wrong_spec(parser, "rank: 0 to 8 dimensions");
    parser->field->rank = (uint32_t)(text[0] - '0');
    return 0;
}

static int set_count(const struct parser *parser, const char *text, const char *expected,
                     uint32_t *target)
{
    enum { DIGITS_MAX = 9 };
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > DIGITS_MAX || text[digits])
        return wrong_spec(parser, expected);
    *target = (uint32_t)strtoul(text, NULL, 10);
    return 0;
}

/* Of a square. */
static int set_size(const struct parser *parser, const char *text)
{
    int status = set_count(parser, text, "size: a number of pixels", &parser->field->image.width);
    parser->field->image.height = parser->field->image.width;
    return status;
}

static int set_layout(struct parser *parser, const char *text)
{
    parser->is_normalized = true;
    bool is_planar = strcmp(text, "chw") == 0;
    parser->field->normalize.layout = is_planar ? IMAGE_LAYOUT_CHW : IMAGE_LAYOUT_HWC;
    return is_planar || strcmp(text, "hwc") == 0 ? 0 : wrong_spec(parser, "layout: hwc or chw");
}

/* Keeps the numbers for parse_lists. */
static int set_list(struct parser *parser, enum number_list list, const struct yaml_leaf *leaf)
{
    char *text = parser->lists[list];
    size_t bytes = 0;
    parser->has_list[list] = true;
    for (size_t i = 0; i < leaf->values_count && bytes < NUMBER_LIST_BYTES_MAX; i++)
        bytes += (size_t)snprintf(text + bytes, NUMBER_LIST_BYTES_MAX - bytes, "%s%s",
                                  i > 0 ? "," : "", leaf->values[i]);
    return bytes < NUMBER_LIST_BYTES_MAX ? 0 : wrong_spec(parser, "shorter lists of numbers");
}

static int set_channels(struct parser *parser, const char *text)
{
    parser->is_normalized = true;
    parser->field->normalize.channels = text[0] == '1' ? 1 : 3;
    return strcmp(text, "1") == 0 || strcmp(text, "3") == 0
               ? 0
               : wrong_spec(parser, "channels: 3 or 1");
}

static int set_scale(struct parser *parser, const char *text)
{
    double numbers[2] = {0};
    int status = number_list_parse(text, "--field: ", "scale", 2, 2, numbers, parser->err);
    if (!status && !(numbers[0] > 0 && numbers[0] <= numbers[1] && numbers[1] <= 1))
        status = wrong_spec(parser, "scale: [MIN, MAX], fractions of the area above 0, up to 1");
    if (!status && parser->has_crop && parser->field->image.crop.kind != CROP_RANDOM)
        status = wrong_spec(parser, "scale only of random crops");
    parser->field->image.crop.scale_min = numbers[0];
    parser->field->image.crop.scale_max = numbers[1];
    return status;
}

/* After the other keys. */
static int parse_lists(struct parser *parser)
{
    const char *lists[NUMBER_LISTS_COUNT], *const prefix = "--field: ";
    struct loader_field *field = parser->field;
    for (int i = 0; i < NUMBER_LISTS_COUNT; i++)
        lists[i] = parser->has_list[i] ? parser->lists[i] : NULL;
    int status = lists[SCALE] ? set_scale(parser, lists[SCALE]) : 0;
    if (!status)
        status = augment_args_parse(prefix, lists[RANDAUGMENT], lists[JITTER],
                                    &field->image.augment, parser->err);
    if (!status)
        status =
            normalize_args_parse(prefix, lists[MEAN], lists[STD], &field->normalize, parser->err);
    if (lists[MEAN] || lists[STD])
        parser->is_normalized = true;
    return status;
}

static int set_text(const struct parser *parser, const char *text, const char **target)
{
    *target = own_text(parser->fields, text, strlen(text));
    return *target ? 0 : err_set(parser->err, -ENOMEM, "out of memory for a field");
}

/* Returns 1 if the key is none of these, which may be lists. */
static int visit_pixels(struct parser *parser, const char *key, const struct yaml_leaf *leaf)
{
    for (int i = 0; i < NUMBER_LISTS_COUNT; i++)
        if (strcmp(key, number_list_keys[i]) == 0)
            return set_list(parser, (enum number_list)i, leaf);
    if (strcmp(key, ".layout") == 0 && !leaf->is_sequence)
        return set_layout(parser, leaf->values[0]);
    if (strcmp(key, ".channels") == 0 && !leaf->is_sequence)
        return set_channels(parser, leaf->values[0]);
    return 1;
}

static int visit(void *context, const struct yaml_leaf *leaf)
{
    struct parser *parser = context;
    const char *key = strchr(leaf->path, '.');
    int status = key ? visit_pixels(parser, key, leaf) : 1;
    if (status <= 0)
        return status;
    if (leaf->is_sequence)
        return wrong_spec(parser, "no list");
    if (!key || strcmp(key, ".from") == 0)
        return set_text(parser, leaf->values[0], &parser->field->from);
    if (strcmp(key, ".path") == 0)
        return set_text(parser, leaf->values[0], &parser->field->path);
    if (strcmp(key, ".default") == 0)
        return set_text(parser, leaf->values[0], &parser->field->default_value);
    if (strcmp(key, ".decode") == 0)
        return set_decode(parser, leaf->values[0]);
    if (strcmp(key, ".dtype") == 0)
        return set_dtype(parser, leaf->values[0]);
    if (strcmp(key, ".rank") == 0)
        return set_rank(parser, leaf->values[0]);
    if (strcmp(key, ".follows") == 0)
        return set_text(parser, leaf->values[0], &parser->field->follows);
    if (strcmp(key, ".box_format") == 0)
        return set_box_format(parser, leaf->values[0]);
    if (strcmp(key, ".normalized") == 0)
        return set_bool(parser, leaf->values[0], "normalized: true or false",
                        &parser->field->is_normalized);
    if (strcmp(key, ".visible_min") == 0)
        return set_visible_min(parser, leaf->values[0]);
    if (strcmp(key, ".map") == 0)
        return set_text(parser, leaf->values[0], &parser->field->map);
    if (strcmp(key, ".tokenizer") == 0)
        return set_text(parser, leaf->values[0], &parser->field->tokenizer);
    if (strcmp(key, ".begin") == 0)
        return set_text(parser, leaf->values[0], &parser->field->begin_token);
    if (strcmp(key, ".end") == 0)
        return set_text(parser, leaf->values[0], &parser->field->end_token);
    if (strcmp(key, ".length") == 0)
        return set_count(parser, leaf->values[0], "length: a number of tokens",
                         &parser->field->length);
    if (strcmp(key, ".pad") == 0)
        return set_count(parser, leaf->values[0], "pad: the number of a token",
                         &parser->field->pad_token);
    if (strcmp(key, ".size") == 0)
        return set_size(parser, leaf->values[0]);
    if (strcmp(key, ".crop") == 0)
        return set_crop(parser, leaf->values[0]);
    if (strcmp(key, ".flip") == 0)
        return set_bool(parser, leaf->values[0], "flip: true or false",
                        &parser->field->image.crop.flip);
    return wrong_spec(parser, "the keys from, path, decode, default, dtype, rank, follows, "
                              "box_format, normalized, visible_min, map, tokenizer, length, pad, "
                              "begin, end, size, crop, scale, flip, randaugment, jitter, layout, "
                              "channels, mean and std");
}

static int parse_one(struct read_fields *fields, const char *spec, struct err *err)
{
    struct parser parser = {.fields = fields, .spec = spec, .err = err};
    const char *equals = strchr(spec, '=');
    struct str yaml = {0};
    if (!equals || equals == spec)
        return wrong_spec(&parser, "NAME=SPEC");
    if (fields->count == LOADER_FIELDS_MAX)
        return wrong_spec(&parser, "fewer fields");
    struct loader_field *field = parser.field = &fields->list[fields->count++];
    *field = (struct loader_field){
        .dtype = DTYPE_COUNT, .rank = 1, .normalize = normalize_options_default()};
    field->name = own_text(fields, spec, (size_t)(equals - spec));
    str_add_format(&yaml, "field: %s\n", equals + 1);
    int status = !field->name || str_status(&yaml)
                     ? err_set(err, -ENOMEM, "out of memory for a field")
                     : yaml_walk(yaml.data, yaml.bytes, "--field", visit, &parser, err);
    str_deinit(&yaml);
    if (field->decode == LOADER_FIELD_IMAGE && !field->follows && !parser.has_crop)
        set_crop_kind(field, CROP_RANDOM);
    if (!status)
        status = parse_lists(&parser);
    if (field->decode == LOADER_FIELD_IMAGE && field->dtype != DTYPE_COUNT) {
        field->normalize.dtype = field->dtype;
        parser.is_normalized = true;
    }
    if (!parser.is_normalized)
        field->normalize.channels = 0;
    if (field->dtype == DTYPE_COUNT) /* not set */
        field->dtype = field->decode == LOADER_FIELD_LABELS ? DTYPE_U8 : DTYPE_F32;
    return status || field->from ? status : wrong_spec(&parser, "from: the extension of the field");
}

int read_fields_parse(struct read_fields *fields, const struct option_list *specs, struct err *err)
{
    int status = 0;
    for (size_t i = 0; !status && i < specs->count; i++)
        status = parse_one(fields, specs->items[i], err);
    return status;
}

void read_fields_deinit(struct read_fields *fields)
{
    for (uint32_t i = 0; i < fields->texts_count; i++)
        free(fields->owned_texts[i]);
}

int read_fields_check_page(const struct read_fields *fields, struct err *err)
{
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct loader_field *field = &fields->list[i];
        if (field->decode != LOADER_FIELD_IMAGE || read_field_is_picture(field))
            continue;
        err_set(err, -EINVAL, "--html shows images of bytes, but \"%.80s\" is normalized",
                field->name);
        err_advise(err, "remove its layout, dtype, channels, mean and std");
        return -EINVAL;
    }
    return 0;
}

int read_fields_check_files(const struct read_fields *fields, struct err *err)
{
    for (uint32_t i = 0; i < fields->count; i++) {
        if (fields->list[i].decode != LOADER_FIELD_IMAGE || fields->list[i].dtype != DTYPE_BF16)
            continue;
        err_set(err, -EINVAL,
                "--out writes NumPy files, which cannot hold the bf16 of field \"%.80s\"",
                fields->list[i].name);
        err_advise(err, "use dtype: f32, or f16");
        return -EINVAL;
    }
    return 0;
}

/* A value of a dense field. */
static void write_scalar(const struct batch_field *field, uint32_t n, const char *name,
                         struct jsonx_writer *json)
{
    switch (field->dtype) {
    case DTYPE_I64:
        jsonx_write_i64(json, name, ((const int64_t *)field->data)[n]);
        break;
    case DTYPE_F32:
        jsonx_write_f32(json, name, ((const float *)field->data)[n]);
        break;
    case DTYPE_F64:
        jsonx_write_f64(json, name, ((const double *)field->data)[n]);
        break;
    default:
        jsonx_write_bool(json, name, ((const bool *)field->data)[n]);
        break;
    }
}

const uint8_t *read_field_values(const struct batch_field *field, uint32_t n, uint64_t *ret_bytes)
{
    *ret_bytes = (uint64_t)((field->offsets[n + 1] - field->offsets[n]) * field->stride_bytes[0]);
    return (const uint8_t *)field->data + field->offsets[n] * field->stride_bytes[0];
}

static const int64_t *item_shape(const struct batch_field *field, uint32_t n)
{
    return &field->shapes[(uint64_t)n * field->item_rank];
}

/* The dimensions of an item's array: of labels and images, those after the items. */
static void write_shape(const struct batch_field *field, uint32_t n, const char *name,
                        struct jsonx_writer *json)
{
    jsonx_begin_array(json, name);
    for (uint32_t d = 0; field->offsets && d < field->item_rank; d++)
        jsonx_write_i64(json, NULL, item_shape(field, n)[d]);
    for (uint32_t d = 1; !field->offsets && d < field->rank; d++)
        jsonx_write_u64(json, NULL, field->shape[d]);
    jsonx_end_array(json);
}

void read_field_write_tokens(const struct batch_field *field, uint32_t n, const char *name,
                             struct jsonx_writer *json)
{
    uint64_t count = field->shape[1], at = n * count;
    if (field->offsets) {
        at = (uint64_t)field->offsets[n];
        count = (uint64_t)field->offsets[n + 1] - at;
    }
    jsonx_begin_array(json, name);
    for (uint64_t i = 0; i < count; i++)
        jsonx_write_i64(json, NULL, ((const int32_t *)field->data)[at + i]);
    jsonx_end_array(json);
}

/* Of padded tokens. */
static void write_length(const struct batch *batch, uint32_t n, const char *name,
                         struct jsonx_writer *json)
{
    struct str key = {0};
    str_add_format(&key, "%s_length", name);
    const struct batch_field *field = batch_field_named(batch, str_text(&key));
    if (field && field->dtype == DTYPE_I32 && !field->offsets)
        jsonx_write_i64(json, str_text(&key), ((const int32_t *)field->data)[n]);
    str_merge_status(json->out, &key);
    str_deinit(&key);
}

/* On one line, however it is stored. The loader has checked it. */
static void write_json_value(const struct batch_field *field, uint32_t n, const char *name,
                             struct jsonx_writer *json)
{
    uint64_t bytes;
    struct json_t *node = NULL;
    const char *text = (const char *)read_field_values(field, n, &bytes);
    if (jsonx_parse_value(text, bytes, "", ERR_NO_OFFSET, &node, NULL))
        str_merge_status(json->out, &(struct str){.status = -ENOMEM});
    jsonx_copy(json, name, node);
    jsonx_free(node);
}

void read_fields_write_json(const struct read_fields *fields, const struct batch *batch, uint32_t n,
                            struct jsonx_writer *json)
{
    for (uint32_t f = 0; f < fields->count; f++) {
        const char *name = fields->list[f].name;
        const struct batch_field *field = batch_field_named(batch, name);
        uint64_t bytes;
        const char *text;
        switch (fields->list[f].decode) {
        case LOADER_FIELD_STR:
            text = (const char *)read_field_values(field, n, &bytes);
            jsonx_write_text(json, name, text, bytes);
            break;
        case LOADER_FIELD_JSON:
            write_json_value(field, n, name, json);
            break;
        case LOADER_FIELD_BYTES:
            read_field_values(field, n, &bytes);
            jsonx_write_u64(json, name, bytes);
            break;
        case LOADER_FIELD_TOKENS:
            read_field_write_tokens(field, n, name, json);
            write_length(batch, n, name, json);
            break;
        case LOADER_FIELD_ARRAY:
        case LOADER_FIELD_LABELS:
        case LOADER_FIELD_BOXES:
        case LOADER_FIELD_KEYPOINTS:
        case LOADER_FIELD_IMAGE:
            write_shape(field, n, name, json);
            break;
        default:
            write_scalar(field, n, name, json);
            break;
        }
    }
}

bool read_field_is_picture(const struct loader_field *type)
{
    return type->decode == LOADER_FIELD_IMAGE &&
           (type->normalize.channels == 0 || !normalize_is_on(&type->normalize));
}

const char *read_field_file_suffix(const struct loader_field *type)
{
    if (read_field_is_picture(type))
        return ".ppm";
    return type->decode == LOADER_FIELD_ARRAY || type->decode >= LOADER_FIELD_TOKENS ? ".npy" : "";
}

void read_field_add_ppm(const struct batch_field *field, uint32_t n, struct str *out)
{
    const uint8_t *row = (const uint8_t *)field->data + (int64_t)n * field->stride_bytes[0];
    str_add_format(out, "P6\n%" PRIu64 " %" PRIu64 "\n255\n", field->shape[2], field->shape[1]);
    for (uint64_t y = 0; y < field->shape[1]; y++, row += field->stride_bytes[1])
        str_add(out, row, field->shape[2] * 3);
}

static void add_array(const struct batch_field *field, uint32_t n, struct str *out)
{
    uint8_t header[NPY_ARRAY_HEADER_BYTES];
    uint64_t bytes = (uint64_t)field->stride_bytes[0];
    const uint8_t *values = (const uint8_t *)field->data + n * bytes;
    int64_t shape[DTYPE_RANK_MAX];
    uint32_t rank = field->offsets ? field->item_rank : field->rank - 1;
    if (field->offsets)
        values = read_field_values(field, n, &bytes);
    for (uint32_t d = 0; d < rank; d++)
        shape[d] = field->offsets ? item_shape(field, n)[d] : (int64_t)field->shape[d + 1];
    npy_encode_array_header(field->dtype, rank, shape, header);
    str_add(out, header, sizeof header);
    str_add(out, values, bytes);
}

void read_fields_add_file(const struct loader_field *type, const struct batch *batch, uint32_t n,
                          struct str *out)
{
    const struct batch_field *field = batch_field_named(batch, type->name);
    uint64_t bytes;
    if (read_field_is_picture(type)) {
        read_field_add_ppm(field, n, out);
    } else if (read_field_file_suffix(type)[0]) {
        add_array(field, n, out);
    } else if (field->offsets) {
        const uint8_t *values = read_field_values(field, n, &bytes);
        str_add(out, values, bytes);
    } else {
        struct jsonx_writer json = {.out = out};
        write_scalar(field, n, NULL, &json);
        str_add(out, "\n", 1);
    }
}
