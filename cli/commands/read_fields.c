#include "cli/commands/read_fields.h"

#include "shards/format/npy.h"
#include "trainer/config/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const decode_names[] = {
    [LOADER_FIELD_BYTES] = "bytes", [LOADER_FIELD_STR] = "str", [LOADER_FIELD_ARRAY] = "array",
    [LOADER_FIELD_INT] = "int",     [LOADER_FIELD_F32] = "f32", [LOADER_FIELD_F64] = "f64",
    [LOADER_FIELD_BOOL] = "bool"};
enum { DECODES_COUNT = sizeof decode_names / sizeof decode_names[0] };

/* One --field. */
struct parser {
    struct read_fields *fields;
    struct loader_field *field;
    const char *spec; /* NAME=SPEC */
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
    return wrong_spec(parser, "decode: bytes, str, array, int, f32, f64 or bool");
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

static int set_text(const struct parser *parser, const char *text, const char **target)
{
    *target = own_text(parser->fields, text, strlen(text));
    return *target ? 0 : err_set(parser->err, -ENOMEM, "out of memory for a field");
}

static int visit(void *context, const struct yaml_leaf *leaf)
{
    const struct parser *parser = context;
    const char *key = strchr(leaf->path, '.');
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
    return wrong_spec(parser, "the keys from, path, decode, default, dtype and rank");
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
    *field = (struct loader_field){.dtype = DTYPE_F32, .rank = 1};
    field->name = own_text(fields, spec, (size_t)(equals - spec));
    str_add_format(&yaml, "field: %s\n", equals + 1);
    int status = !field->name || str_status(&yaml)
                     ? err_set(err, -ENOMEM, "out of memory for a field")
                     : yaml_walk(yaml.data, yaml.bytes, "--field", visit, &parser, err);
    str_deinit(&yaml);
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

/* A value of a dense field. */
static void write_scalar(const struct batch_field *field, uint32_t n, const char *name,
                         struct jsonx_writer *json)
{
    switch (field->dtype) {
    case DTYPE_I64:
        jsonx_write_i64(json, name, ((const int64_t *)field->data)[n]);
        break;
    case DTYPE_F32:
        jsonx_write_f64(json, name, (double)((const float *)field->data)[n]);
        break;
    case DTYPE_F64:
        jsonx_write_f64(json, name, ((const double *)field->data)[n]);
        break;
    default:
        jsonx_write_bool(json, name, ((const bool *)field->data)[n]);
        break;
    }
}

static const uint8_t *item_values(const struct batch_field *field, uint32_t n, uint64_t *ret_bytes)
{
    *ret_bytes = (uint64_t)((field->offsets[n + 1] - field->offsets[n]) * field->stride_bytes[0]);
    return (const uint8_t *)field->data + field->offsets[n] * field->stride_bytes[0];
}

static const int64_t *item_shape(const struct batch_field *field, uint32_t n)
{
    return &field->shapes[(uint64_t)n * field->item_rank];
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
            text = (const char *)item_values(field, n, &bytes);
            jsonx_write_text(json, name, text, bytes);
            break;
        case LOADER_FIELD_BYTES:
            item_values(field, n, &bytes);
            jsonx_write_u64(json, name, bytes);
            break;
        case LOADER_FIELD_ARRAY:
            jsonx_begin_array(json, name);
            for (uint32_t d = 0; d < field->item_rank; d++)
                jsonx_write_i64(json, NULL, item_shape(field, n)[d]);
            jsonx_end_array(json);
            break;
        default:
            write_scalar(field, n, name, json);
            break;
        }
    }
}

void read_fields_add_file(const struct loader_field *type, const struct batch *batch, uint32_t n,
                          struct str *out)
{
    const struct batch_field *field = batch_field_named(batch, type->name);
    if (!field->offsets) {
        struct jsonx_writer json = {.out = out};
        write_scalar(field, n, NULL, &json);
        str_add(out, "\n", 1);
        return;
    }
    uint64_t bytes;
    const uint8_t *values = item_values(field, n, &bytes);
    if (type->decode == LOADER_FIELD_ARRAY) {
        uint8_t header[NPY_ARRAY_HEADER_BYTES];
        npy_encode_array_header(field->dtype, field->item_rank, item_shape(field, n), header);
        str_add(out, header, sizeof header);
    }
    str_add(out, values, bytes);
}
