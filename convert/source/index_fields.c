/*
 * index_fields — see index_fields.h.
 */
#include "convert/source/index_fields.h"

#include "base/json/jsonx_path.h"
#include "image/pipeline/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int reject(const char *text, const char *expected, struct err *err)
{
    err_set(err, -EINVAL, "--index-field has an invalid value");
    err_expected(err, "%s", expected);
    err_found(err, "\"%.150s\"", text);
    err_advise(err, "for example: --index-field json:$.aesthetic=score "
                    "--index-field 'jpg;png:width=width'");
    return -EINVAL;
}

/* Copies one of the extensions as it will be stored. */
static bool copy_extension(const char *text, size_t bytes, enum convert_store store,
                           struct str *out)
{
    char name[SHARD_EXTENSION_BYTES_MAX + 4];
    if (bytes == 0 || bytes >= SHARD_EXTENSION_BYTES_MAX)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)bytes, text);
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        if (*at <= 0x20 || *at == 0x7f || *at == '/' || (*at >= 'A' && *at <= 'Z'))
            return false;
    char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    if (is_image_extension(name) && store == CONVERT_STORE_RAW)
        strcpy(last, "ppm");
    else if (strcmp(last, "jpeg") == 0)
        strcpy(last, "jpg");
    str_add_text(out, name);
    return true;
}

static int parse_from(const char *text, size_t bytes, enum convert_store store,
                      struct index_field *field, struct err *err)
{
    struct str from = {0};
    bool is_valid = true;
    for (size_t at = 0; is_valid && at <= bytes;) {
        const char *end = memchr(text + at, ';', bytes - at);
        size_t count = end ? (size_t)(end - text) - at : bytes - at;
        if (at > 0)
            str_add(&from, ";", 1);
        is_valid = copy_extension(text + at, count, store, &from);
        at += count + 1;
    }
    is_valid = is_valid && !str_status(&from) && from.bytes < sizeof field->from;
    if (is_valid)
        strcpy(field->from, from.data);
    str_deinit(&from);
    return is_valid
               ? 0
               : reject(text, "extensions of fields before : or =, separated by ; if several", err);
}

static int parse_what(const char *text, const char *what, size_t bytes, struct index_field *field,
                      struct err *err)
{
    if (bytes >= sizeof field->what)
        return reject(text, "a shorter JSON path", err);
    memcpy(field->what, what, bytes);
    if (strcmp(field->what, "width") == 0)
        field->kind = INDEX_FIELD_WIDTH;
    else if (strcmp(field->what, "height") == 0)
        field->kind = INDEX_FIELD_HEIGHT;
    else if (field->what[0] != '$')
        return reject(text, "after the colon a JSON path such as $.score, or width or height", err);
    else
        return jsonx_path_check(field->what, err);
    return 0;
}

/* `class` is a word of expressions (loader/parts/where.h). */
static bool name_is_reserved(const char *name)
{
    return strcmp(name, "class") == 0;
}

int index_fields_add(struct index_fields *fields, const char *text, enum convert_store store,
                     struct err *err)
{
    struct index_field field = {0};
    const char *equals = strrchr(text, '='), *colon = strchr(text, ':');
    if (!equals || !shard_number_name_is_valid(equals + 1) || name_is_reserved(equals + 1))
        return reject(text,
                      "FIELD:PATH=NAME, where NAME consists of letters, digits and _ and is not "
                      "`class`",
                      err);
    strcpy(field.name, equals + 1);
    if (colon > equals)
        colon = NULL;
    int status = parse_from(text, (size_t)((colon ? colon : equals) - text), store, &field, err);
    if (!status && colon)
        status = parse_what(text, colon + 1, (size_t)(equals - colon) - 1, &field, err);
    if (status)
        return status;
    if (index_fields_has(fields, field.name))
        return reject(text, "a different NAME for each --index-field", err);
    if (fields->count == INDEX_FIELDS_MAX) {
        reject(text, "fewer of them", err);
        err_expected(err, "at most %d of them", INDEX_FIELDS_MAX);
        return -EINVAL;
    }
    fields->items[fields->count++] = field;
    return 0;
}

bool index_fields_has(const struct index_fields *fields, const char *name)
{
    for (uint32_t i = 0; i < fields->count; i++)
        if (strcmp(fields->items[i].name, name) == 0)
            return true;
    return false;
}

bool index_field_takes(const struct index_field *field, const char *extension)
{
    size_t bytes = strlen(extension);
    for (const char *at = field->from; *at;) {
        size_t count = strcspn(at, ";");
        if (count == bytes && memcmp(at, extension, bytes) == 0)
            return true;
        at += count;
        at += *at == ';';
    }
    return false;
}

void index_field_format(const struct index_field *field, struct str *out)
{
    str_add_format(out, "%s%s%s=%s", field->from, field->what[0] ? ":" : "", field->what,
                   field->name);
}
