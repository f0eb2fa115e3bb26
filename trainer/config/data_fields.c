/*
 * data_fields — see data_fields.h.
 */
#include "trainer/config/data_fields.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "data.fields"

struct data_field {
    const char *name, *decode, *key, *from_key;
};

static const struct data_field data_fields[] = {
    {"image", "image", "data.image", "data.image.field"},
    {"label", "int", "data.label", "data.label.from"},
    {"tokens", "tokens", "data.text", "data.text.field"},
};

/* path: below data.fields. Sets *ret_rest to "" or ".size" and so on. */
static const struct data_field *find_field(const char *path, const char **ret_rest)
{
    for (size_t i = 0; i < sizeof data_fields / sizeof data_fields[0]; i++) {
        size_t bytes = strlen(data_fields[i].name);
        *ret_rest = path + bytes;
        if (strncmp(path, data_fields[i].name, bytes) == 0 &&
            (path[bytes] == '\0' || path[bytes] == '.'))
            return &data_fields[i];
    }
    return NULL;
}

/* Sets the value to that of data.text.block. Returns false if length is none. */
static bool set_block(const char *length, struct data_field_leaf *leaf)
{
    char *end;
    uint64_t tokens = strtoull(length, &end, 10);
    if (length[0] < '0' || length[0] > '9' || *end || tokens < 2 ||
        tokens > DATA_TEXT_BLOCK_MAX + 1)
        return false;
    snprintf(leaf->value, sizeof leaf->value, "%" PRIu64, tokens - 1);
    leaf->values[0] = leaf->value;
    leaf->leaf.values = leaf->values;
    return true;
}

enum data_fields_path data_fields_find(const char *path)
{
    const char *rest, *name = path + strlen(PREFIX);
    if (strncmp(path, PREFIX, strlen(PREFIX)) != 0 || (name[0] && name[0] != '.'))
        return DATA_FIELDS_ELSEWHERE;
    return name[0] && find_field(name + 1, &rest) ? DATA_FIELDS_KNOWN : DATA_FIELDS_UNKNOWN;
}

const char *data_fields_translate(const struct yaml_leaf *leaf, struct data_field_leaf *ret_leaf)
{
    const char *rest;
    const struct data_field *field = find_field(leaf->path + strlen(PREFIX "."), &rest);
    ret_leaf->leaf = *leaf;
    ret_leaf->leaf.path = ret_leaf->path;
    if (strcmp(rest, ".decode") == 0) {
        ret_leaf->path[0] = '\0';
        return leaf->values_count == 1 && strcmp(leaf->values[0], field->decode) == 0
                   ? NULL
                   : field->decode;
    }
    if (strcmp(rest, ".pad") == 0 && strcmp(field->name, "tokens") == 0) {
        ret_leaf->path[0] = '\0';
        const char *pad = leaf->values_count == 1 ? leaf->values[0] : "";
        return pad[0] && !pad[strspn(pad, "0123456789")] ? NULL : "the number of a token";
    }
    static const char *const pixels[] = {".layout", ".dtype", ".channels", ".mean", ".std"};
    for (size_t i = 0; i < sizeof pixels / sizeof pixels[0]; i++)
        if (strcmp(rest, pixels[i]) == 0 && strcmp(field->name, "image") == 0)
            return "no such key: the model normalizes its images";
    if (leaf->is_sequence && strcmp(rest, ".randaugment") == 0)
        return "{ops: 2, magnitude: 9}, as of data.image";
    if (leaf->is_sequence && strcmp(rest, ".jitter") == 0)
        return "{brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1}, as of data.image";
    bool is_from = rest[0] == '\0' || strcmp(rest, ".from") == 0,
         is_length = strcmp(rest, ".length") == 0 && strcmp(field->name, "tokens") == 0;
    if (is_length)
        rest = ".block";
    snprintf(ret_leaf->path, sizeof ret_leaf->path, "%s%s", is_from ? field->from_key : field->key,
             is_from ? "" : rest);
    _Static_assert(DATA_TEXT_BLOCK_MAX == 65536, "the message names the maximum");
    if (is_length && (leaf->values_count != 1 || !set_block(leaf->values[0], ret_leaf)))
        return "a number of tokens from 2 to 65537";
    if (is_from && (leaf->values_count != 1 || !leaf->values[0][0]))
        return "an extension, such as jpg, json or txt";
    return NULL;
}
