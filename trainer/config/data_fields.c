/*
 * data_fields — see data_fields.h.
 */
#include "trainer/config/data_fields.h"

#include <inttypes.h>
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

bool data_fields_has(const char *path)
{
    size_t bytes = strlen(PREFIX);
    return strncmp(path, PREFIX, bytes) == 0 && (path[bytes] == '\0' || path[bytes] == '.');
}

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

/* The tokens before the last one. */
static bool set_block(const char *length, struct data_field_leaf *leaf)
{
    char *end;
    uint64_t tokens = strtoull(length, &end, 10);
    if (length[0] < '0' || length[0] > '9' || *end || tokens < 2)
        return false;
    snprintf(leaf->value, sizeof leaf->value, "%" PRIu64, tokens - 1);
    leaf->values[0] = leaf->value;
    leaf->leaf.values = leaf->values;
    return true;
}

const char *data_fields_translate(const struct yaml_leaf *leaf, struct data_field_leaf *ret_leaf)
{
    static const char models[] = "the fields image and label for model.type: vit, or tokens for "
                                 "language models";
    const char *rest = NULL, *name = leaf->path + strlen(PREFIX);
    const struct data_field *field = name[0] == '.' ? find_field(name + 1, &rest) : NULL;
    if (!field)
        return models;
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
    bool is_from = rest[0] == '\0' || strcmp(rest, ".from") == 0,
         is_length = strcmp(rest, ".length") == 0 && strcmp(field->name, "tokens") == 0;
    if (is_length)
        rest = ".block";
    snprintf(ret_leaf->path, sizeof ret_leaf->path, "%s%s", is_from ? field->from_key : field->key,
             is_from ? "" : rest);
    if (is_length && (leaf->values_count != 1 || !set_block(leaf->values[0], ret_leaf)))
        return "a number of tokens, at least 2";
    return NULL;
}
