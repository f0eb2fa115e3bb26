/*
 * jsonx — see jsonx.h.
 */
#include "base/json/jsonx.h"

#include "base/versions.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

bool jsonx_is_deeper(const struct json_t *node, int levels)
{
    if (levels < 0)
        return true;
    if (json_is_array(node)) {
        for (size_t i = 0; i < json_array_size(node); i++)
            if (jsonx_is_deeper(json_array_get(node, i), levels - 1))
                return true;
    } else if (json_is_object(node)) {
        void *iterator = json_object_iter((json_t *)(uintptr_t)node);
        for (; iterator; iterator = json_object_iter_next((json_t *)(uintptr_t)node, iterator))
            if (jsonx_is_deeper(json_object_iter_value(iterator), levels - 1))
                return true;
    }
    return false;
}

/* An upper bound: counts commas and opening brackets outside strings, and the root. */
static size_t count_values(const char *text, size_t bytes)
{
    size_t count = 1;
    bool is_string = false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"')
            is_string = !is_string;
        else if (is_string)
            i += text[i] == '\\'; /* skips the escaped character */
        else
            count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return count;
}

static int check_size(const char *text, size_t bytes, const char *path, int64_t base_offset,
                      struct err *err)
{
    if (bytes < JSON_VALUES_MAX) /* each value but the root takes a byte that is counted */
        return 0;
    size_t values = bytes > JSON_BYTES_MAX ? 0 : count_values(text, bytes);
    if (bytes <= JSON_BYTES_MAX && values <= JSON_VALUES_MAX)
        return 0;
    err_set(err, -EBADMSG, "the JSON document is too large");
    err_at(err, path, base_offset);
    err_expected(err, "at most %d bytes and %d values", JSON_BYTES_MAX, JSON_VALUES_MAX);
    if (values)
        err_found(err, "up to %zu values", values);
    else
        err_found(err, "%zu bytes", bytes);
    return -EBADMSG;
}

static int parse(const char *text, size_t bytes, size_t flags, const char *path,
                 int64_t base_offset, struct json_t **ret_root, struct err *err)
{
    json_error_t error;
    int status = check_size(text, bytes, path, base_offset, err);
    if (status)
        return status;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | flags, &error);
    if (!root) {
        if (json_error_code(&error) == json_error_out_of_memory)
            return err_set(err, -ENOMEM, "out of memory for a JSON document of %zu bytes", bytes);
        err_set(err, -EBADMSG, "not valid JSON");
        err_at(err, path, base_offset + (error.position > 0 ? error.position : 0));
        err_found(err, "%s", error.text);
        return -EBADMSG;
    }
    if (jsonx_is_deeper(root, JSON_DEPTH_MAX)) {
        json_decref(root);
        err_set(err, -EBADMSG, "JSON is nested too deeply");
        err_at(err, path, base_offset);
        err_expected(err, "at most %d levels", JSON_DEPTH_MAX);
        return -EBADMSG;
    }
    *ret_root = root;
    return 0;
}

int jsonx_parse(const char *text, size_t bytes, const char *path, int64_t base_offset,
                struct json_t **ret_root, struct err *err)
{
    return parse(text, bytes, 0, path, base_offset, ret_root, err);
}

int jsonx_parse_value(const char *text, size_t bytes, const char *path, int64_t base_offset,
                      struct json_t **ret_root, struct err *err)
{
    return parse(text, bytes, JSON_DECODE_ANY, path, base_offset, ret_root, err);
}

void jsonx_free(struct json_t *root)
{
    json_decref(root);
}

enum jsonx_kind jsonx_kind(const struct json_t *node)
{
    if (!node)
        return JSON_KIND_NULL;
    switch (json_typeof(node)) {
    case JSON_OBJECT:
        return JSON_KIND_OBJECT;
    case JSON_ARRAY:
        return JSON_KIND_ARRAY;
    case JSON_STRING:
        return JSON_KIND_STRING;
    case JSON_INTEGER:
        return JSON_KIND_INT;
    case JSON_REAL:
        return JSON_KIND_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_KIND_BOOL;
    case JSON_NULL:
        break;
    }
    return JSON_KIND_NULL;
}

size_t jsonx_count(const struct json_t *node)
{
    return json_is_array(node)    ? json_array_size(node)
           : json_is_object(node) ? json_object_size(node)
                                  : 0;
}

struct json_t *jsonx_at(const struct json_t *array, size_t index)
{
    return json_array_get(array, index);
}

struct json_t *jsonx_get(const struct json_t *object, const char *key)
{
    return json_object_get(object, key);
}

int jsonx_each(struct json_t *object,
               int (*entry)(void *context, const char *key, struct json_t *value), void *context)
{
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        int result = entry(context, json_object_iter_key(at), json_object_iter_value(at));
        if (result)
            return result;
    }
    return 0;
}

int jsonx_u64(const struct json_t *node, uint64_t *ret_value)
{
    if (!json_is_integer(node) || json_integer_value(node) < 0)
        return -EBADMSG;
    *ret_value = (uint64_t)json_integer_value(node);
    return 0;
}

int jsonx_i64(const struct json_t *node, int64_t *ret_value)
{
    if (!json_is_integer(node))
        return -EBADMSG;
    *ret_value = (int64_t)json_integer_value(node);
    return 0;
}

int jsonx_f64(const struct json_t *node, double *ret_value)
{
    if (!json_is_number(node))
        return -EBADMSG;
    *ret_value = json_number_value(node);
    return 0;
}

int jsonx_bool(const struct json_t *node, bool *ret_value)
{
    if (!json_is_boolean(node))
        return -EBADMSG;
    *ret_value = json_is_true(node);
    return 0;
}

int jsonx_text(const struct json_t *node, const char **ret_text)
{
    if (!json_is_string(node))
        return -EBADMSG;
    *ret_text = json_string_value(node);
    return 0;
}

static int report_bad_member(const struct json_t *object, const char *key,
                             const char *expected_type, const char *path, struct err *err)
{
    err_set(err, -EBADMSG, "JSON key \"%s\" is %s", key,
            jsonx_get(object, key) ? "of the wrong type" : "missing");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "%s", expected_type);
    return -EBADMSG;
}

int jsonx_get_u64(const struct json_t *object, const char *key, uint64_t *ret_value,
                  const char *path, struct err *err)
{
    return jsonx_u64(jsonx_get(object, key), ret_value)
               ? report_bad_member(object, key, "an integer of at least 0", path, err)
               : 0;
}

int jsonx_get_string(const struct json_t *object, const char *key, const char **ret_text,
                     const char *path, struct err *err)
{
    return jsonx_text(jsonx_get(object, key), ret_text)
               ? report_bad_member(object, key, "a string", path, err)
               : 0;
}

const char *jsonx_version(char *text)
{
    snprintf(text, VERSION_TEXT_BYTES, "jansson %s", jansson_version_str());
    return text;
}
