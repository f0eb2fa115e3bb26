/*
 * index_values — see index_values.h.
 */
#include "convert/dataset/index_values.h"

#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "base/json/jsonx_format.h"
#include "base/json/jsonx_path.h"
#include "image/pipeline/check.h"
#include "shards/dataset/class_number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct index_values_reader {
    const struct index_fields *fields;
    struct image_checker *images; /* NULL until the first image */
    struct json_t *document;      /* of this field of the current sample */
    const struct encoded_field *document_field;
};

int index_values_reader_open(const struct index_fields *fields,
                             struct index_values_reader **ret_reader, struct err *err)
{
    struct index_values_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return err_set(err, -ENOMEM, "out of memory for the index fields of samples");
    reader->fields = fields;
    *ret_reader = reader;
    return 0;
}

static void free_document(struct index_values_reader *reader)
{
    jsonx_free(reader->document);
    reader->document = NULL;
    reader->document_field = NULL;
}

void index_values_reader_close(struct index_values_reader *reader)
{
    if (!reader)
        return;
    free_document(reader);
    image_checker_close(reader->images);
    free(reader);
}

/* ---- Values in JSON. ---- */

static int not_a_number(const struct index_field *field, const char *extension, const char *key,
                        const char *found, size_t found_bytes, struct err *err)
{
    char name[SHARD_KEY_BYTES_MAX + SHARD_EXTENSION_BYTES_MAX];
    snprintf(name, sizeof name, "%s.%s", key, extension);
    err_set(err, -EBADMSG, "the index field \"%s\" of a sample is not a number", field->name);
    err_at(err, name, ERR_NO_OFFSET);
    err_expected(err, "a number (integers up to 2^53), true, false or null%s%.80s",
                 field->what[0] ? " at " : "", field->what);
    err_found(err, "%.*s", (int)bytes_min(found_bytes, 80), found);
    return -EBADMSG;
}

/* -EBADMSG without detail. A double cannot represent all integers above 2^53, so comparing them
 * would be wrong. */
static int number_of(const struct json_t *node, double *ret_number)
{
    int64_t integer;
    bool truth;
    if (!jsonx_bool(node, &truth)) {
        *ret_number = truth;
        return 0;
    }
    if (!jsonx_i64(node, &integer) && (integer > INT64_C(1) << 53 || integer < -(INT64_C(1) << 53)))
        return -EBADMSG;
    return jsonx_f64(node, ret_number);
}

static int parse_document(struct index_values_reader *reader, const struct encoded_field *field,
                          const char *data, const char *key, struct err *err)
{
    char name[SHARD_KEY_BYTES_MAX + SHARD_EXTENSION_BYTES_MAX];
    if (reader->document_field == field)
        return 0;
    free_document(reader);
    snprintf(name, sizeof name, "%s.%s", key, field->extension);
    int status = jsonx_parse_value(data, field->bytes, name, 0, &reader->document, err);
    if (!status)
        reader->document_field = field;
    return status;
}

static int read_json(struct index_values_reader *reader, const struct index_field *field,
                     const struct encoded_field *stored, const char *data, const char *key,
                     double *ret_number, struct err *err)
{
    int status = parse_document(reader, stored, data, key, err);
    if (status == -EBADMSG && !field->what[0])
        return not_a_number(field, stored->extension, key, data, stored->bytes, err);
    if (status)
        return status;
    struct json_t *node =
        field->what[0] ? jsonx_path_find(reader->document, field->what) : reader->document;
    if (jsonx_kind(node) == JSON_KIND_NULL || !number_of(node, ret_number))
        return 0;
    struct str found = {0};
    (void)jsonx_format(node, &found);
    status = not_a_number(field, stored->extension, key, str_text(&found), found.bytes, err);
    str_deinit(&found);
    return status;
}

/* ---- Any value. ---- */

static int read_side(struct index_values_reader *reader, enum index_field_kind kind,
                     const struct encoded_field *stored, const char *data, const char *key,
                     double *ret_number, struct err *err)
{
    enum { ORIENTATION_FIRST_TURNED = 5 }; /* by EXIF */
    char name[SHARD_KEY_BYTES_MAX + SHARD_EXTENSION_BYTES_MAX];
    struct pixels_info info;
    int status = reader->images ? 0 : image_checker_open(&reader->images, err);
    snprintf(name, sizeof name, "%s.%s", key, stored->extension);
    if (!status)
        status = image_check_headers(reader->images, data, stored->bytes, name, &info, err);
    if (status)
        return status;
    bool is_turned = info.orientation >= ORIENTATION_FIRST_TURNED;
    *ret_number = (kind == INDEX_FIELD_WIDTH) == is_turned ? info.height : info.width;
    return 0;
}

/* The sample's first field of those, or NULL. */
static const struct encoded_field *find_field(const struct encoded_item *item,
                                              const struct index_field *field)
{
    for (const char *at = field->from; *at;) {
        size_t bytes = strcspn(at, ";");
        for (uint32_t i = 0; i < item->fields_count; i++)
            if (strlen(item->fields[i].extension) == bytes &&
                memcmp(item->fields[i].extension, at, bytes) == 0)
                return &item->fields[i];
        at += bytes;
        at += *at == ';';
    }
    return NULL;
}

static double label_of(const struct encoded_item *item)
{
    static const struct index_field cls = {.from = "cls"};
    const struct encoded_field *field = find_field(item, &cls);
    int32_t number;
    return field && !class_number_parse(str_text(&item->data) + field->at, field->bytes, 0, &number)
               ? number
               : NAN;
}

int index_values_read(struct index_values_reader *reader, struct encoded_item *item,
                      const char *key, struct err *err)
{
    const struct index_fields *fields = reader->fields;
    int status = 0;
    for (uint32_t i = 0; i < fields->count && !status; i++) {
        const struct index_field *field = &fields->items[i];
        const struct encoded_field *stored = find_field(item, field);
        item->numbers[i] = NAN;
        if (!stored)
            continue;
        const char *data = str_text(&item->data) + stored->at;
        status = field->kind == INDEX_FIELD_JSON
                     ? read_json(reader, field, stored, data, key, &item->numbers[i], err)
                     : read_side(reader, field->kind, stored, data, key, &item->numbers[i], err);
    }
    free_document(reader);
    item->numbers[fields->count] = label_of(item);
    return status;
}
