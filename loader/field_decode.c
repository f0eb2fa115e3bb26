/*
 * field_decode — decodes stored fields to those of options.fields: text, bytes and single values.
 */
#include "loader/field_values.h"

#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "base/json/jsonx_path.h"
#include "base/utf8.h"
#include "shards/format/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* ---- Ragged fields. ---- */

static int check_utf8(const struct shard *shard, const struct view_piece *piece, struct err *err)
{
    const uint8_t *text = view_data(piece);
    size_t valid = utf8_valid_bytes(text, piece->want_bytes);
    if (valid == piece->want_bytes)
        return 0;
    err_set(err, -EBADMSG, "field \"%s\" is not UTF-8", piece->extension);
    err_at(err, shard->path, (int64_t)(piece->want_offset + valid));
    err_expected(err, "UTF-8");
    err_found(err, "byte 0x%02x", text[valid]);
    return -EBADMSG;
}

int field_wrong_array(const struct loader_field *field, const struct shard *shard,
                      const struct view_piece *piece, const struct npy *npy, struct err *err)
{
    err_set(err, -EBADMSG, "the array in field \"%s\" has another type", piece->extension);
    err_at(err, shard->path, (int64_t)piece->want_offset);
    err_expected(err, "%s, %" PRIu32 " dimensions", dtype_name(field->dtype), field->rank);
    err_found(err, "%s, %" PRIu32 " dimensions", dtype_name(npy->dtype), npy->rank);
    return -EBADMSG;
}

int field_decode_array(const struct shard *shard, const struct view_piece *piece,
                       struct npy *ret_npy, struct err *err)
{
    int status = npy_decode_array(view_data(piece), piece->want_bytes, piece->want_bytes,
                                  shard->path, ret_npy, err);
    if (status) {
        err->offset = (int64_t)piece->want_offset + (err->offset > 0 ? err->offset : 0);
        return status;
    }
    return 0;
}

/* ---- JSON. ---- */

static const char *expected_kind(enum loader_field_decode decode)
{
    switch (decode) {
    case LOADER_FIELD_INT:
        return "an integer from -2^63 to 2^63 - 1";
    case LOADER_FIELD_F32:
        return "a number within the range of a float";
    case LOADER_FIELD_F64:
        return "a number";
    case LOADER_FIELD_BOOL:
        return "true or false";
    case LOADER_FIELD_ARRAY:
        return "an array of numbers of the field's type";
    case LOADER_FIELD_BOXES:
        return "an array of arrays of 4 numbers";
    case LOADER_FIELD_KEYPOINTS:
        return "an array of arrays of 3 numbers, or of 3 numbers for each point";
    case LOADER_FIELD_STR:
    case LOADER_FIELD_JSON:
    case LOADER_FIELD_TOKENS:
    case LOADER_FIELD_BYTES:
    case LOADER_FIELD_LABELS:
    case LOADER_FIELD_IMAGE:
        break;
    }
    return "a string";
}

int field_scalar_parse(enum loader_field_decode decode, const char *text, uint8_t *value,
                       struct err *err)
{
    struct json_t *node;
    int status = jsonx_parse_value(text, strlen(text), "", ERR_NO_OFFSET, &node, err);
    if (status)
        return status;
    status = field_store_number(field_dtype(&(struct loader_field){.decode = decode}), node, value);
    if (status) {
        err_set(err, -EBADMSG, "wrong type");
        err_expected(err, "%s", expected_kind(decode));
        err_found(err, "%.80s", text);
    }
    jsonx_free(node);
    return status;
}

int field_wrong_value(const struct loader_field *type, const struct shard *shard,
                      const struct view_piece *piece, struct err *err)
{
    err_set(err, -EBADMSG, "field \"%s\"%s%.80s has the wrong type", piece->extension,
            type->path ? " at " : "", type->path ? type->path : "");
    err_at(err, shard->path, (int64_t)piece->want_offset);
    err_expected(err, "%s",
                 type->map ? "names that the list has, or integers that it lists"
                           : expected_kind(type->decode));
    err_found(err, "\"%.*s\"", (int)bytes_min(piece->want_bytes, 60),
              (const char *)view_data(piece));
    return -EBADMSG;
}

int field_no_value(const struct loader_field *type, const struct shard *shard,
                   const struct view_piece *piece, struct err *err)
{
    err_set(err, -EBADMSG, "field \"%s\" has no value at %.80s", piece->extension,
            type->path ? type->path : "$");
    err_at(err, shard->path, (int64_t)piece->want_offset);
    return -EBADMSG;
}

int field_find_value(struct load_worker *worker, const char *path, const struct shard *shard,
                     const struct view_piece *piece, struct json_t **ret_node, struct err *err)
{
    const uint8_t *text = view_data(piece);
    if (!worker->document || worker->document_text != text) {
        jsonx_free(worker->document);
        worker->document = NULL;
        int status = jsonx_parse_value((const char *)text, piece->want_bytes, shard->path,
                                       (int64_t)piece->want_offset, &worker->document, err);
        if (status)
            return status;
        worker->document_text = text;
    }
    struct json_t *node = path ? jsonx_path_find(worker->document, path) : worker->document;
    *ret_node = jsonx_kind(node) == JSON_KIND_NULL ? NULL : node;
    return 0;
}

/* An integer with a map. */
static int store_class(struct load_worker *worker, const struct loader_field *type,
                       const struct shard *shard, const struct view_piece *piece,
                       const struct json_t *node, uint8_t *value, struct err *err)
{
    const char *text = (const char *)view_data(piece);
    uint64_t number = 0, bytes = piece->want_bytes;
    while (bytes > 0 && memchr("\n\r\t ", text[bytes - 1], 4))
        bytes--;
    int status = type->path ? field_find_class_of(worker->loader, type, node, &number)
                            : field_find_class(worker->loader, type, text, bytes, &number);
    memcpy(value, &number, sizeof number);
    return status ? field_wrong_value(type, shard, piece, err) : 0;
}

static int store_default(struct load_worker *worker, const struct loader_field *type,
                         uint8_t *value, struct err *err)
{
    int64_t number = 0;
    if (!type->map)
        return field_scalar_parse(type->decode, type->default_value, value, err);
    int status = field_find_default(worker->loader, type, &number);
    memcpy(value, &number, sizeof number);
    return status; /* 0: field_maps_open has checked it */
}

static int decode_scalar(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                         uint32_t field, const struct shard *shard, const struct view_piece *piece,
                         struct err *err)
{
    const struct loader_field *type = &worker->loader->options.fields[field];
    uint8_t *value = slot->memories[BATCH_MEMORY_SMALL]->data +
                     fields_offset(worker->loader, field) + item * dtype_bytes(field_dtype(type));
    struct json_t *node = NULL;
    bool is_name = type->map && !type->path && piece->field.present;
    int status = piece->field.present && !is_name
                     ? field_find_value(worker, type->path, shard, piece, &node, err)
                     : 0;
    if (status)
        return status;
    if (type->map && (is_name || node))
        return store_class(worker, type, shard, piece, node, value, err);
    if (node)
        return field_store_number(field_dtype(type), node, value)
                   ? field_wrong_value(type, shard, piece, err)
                   : 0;
    return type->default_value ? store_default(worker, type, value, err)
                               : field_no_value(type, shard, piece, err);
}

/* Sets *ret_text to the stored field, to the string at the path, or to the default. */
static int find_text(struct load_worker *worker, const struct loader_field *type,
                     const struct shard *shard, const struct view_piece *piece,
                     const void **ret_text, uint64_t *ret_bytes, struct err *err)
{
    struct json_t *node = NULL;
    const char *text = type->default_value;
    if (piece->field.present && !type->path) {
        *ret_text = view_data(piece);
        *ret_bytes = piece->want_bytes;
        return type->decode == LOADER_FIELD_BYTES ? 0 : check_utf8(shard, piece, err);
    }
    int status =
        piece->field.present ? field_find_value(worker, type->path, shard, piece, &node, err) : 0;
    if (status)
        return status;
    if (node && jsonx_text(node, &text))
        return field_wrong_value(type, shard, piece, err);
    if (!text)
        return field_no_value(type, shard, piece, err);
    *ret_text = text;
    *ret_bytes = strlen(text);
    return 0;
}

/* ---- Any field. ---- */

int field_decode(struct load_worker *worker, struct load_slot *slot, uint32_t item, uint32_t field,
                 const struct shard *shard, const struct view_piece *pieces, struct err *err)
{
    struct loader *loader = worker->loader;
    const struct loader_field *type = &loader->options.fields[field];
    const struct view_piece *piece = &pieces[field];
    if (type->decode >= LOADER_FIELD_LABELS)
        return field_decode_of_image(worker, slot, item, field, shard, pieces, err);
    if (type->decode == LOADER_FIELD_JSON)
        return field_decode_json(worker, slot, item, field, shard, piece, err);
    if (type->decode == LOADER_FIELD_ARRAY)
        return field_decode_numbers(worker, slot, item, field, shard, piece, err);
    if (!field_is_ragged(type) && type->decode != LOADER_FIELD_TOKENS)
        return decode_scalar(worker, slot, item, field, shard, piece, err);
    const void *text = NULL;
    uint64_t bytes = 0;
    int status = find_text(worker, type, shard, piece, &text, &bytes, err);
    if (!status && type->decode == LOADER_FIELD_TOKENS)
        return field_encode_tokens(worker, slot, item, field, text, bytes, err);
    return status ? status : ragged_store(loader, slot, item, field, text, bytes, &bytes, err);
}
