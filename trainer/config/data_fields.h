/*
 * data_fields — data.fields: the image, the label or the tokens of a model as fields of a record,
 * in the form of `millrace read --field`, except for augmentations.
 *
 *     data:
 *       fields:
 *         image: {from: "jpg;png", decode: image, size: 224, crop: random, flip: true}
 *         label: {from: json, path: $.class.id, map: names.txt}
 *
 *     data:
 *       fields:
 *         tokens: {from: txt, decode: tokens, tokenizer: tokenizer.json, length: 257}
 *
 * Most keys are other names of keys of data.image, data.label or data.text. decode must be the
 * field's. length counts the target of the last token, so it is data.text.block + 1. pad has no
 * effect, since padding has no loss.
 */
#ifndef MILLRACE_TRAINER_CONFIG_DATA_FIELDS_H
#define MILLRACE_TRAINER_CONFIG_DATA_FIELDS_H

#include "base/yaml/yaml.h"

#include <stddef.h>

enum { DATA_TEXT_BLOCK_MAX = 65536 }; /* tokens of data.text.block */

/* A leaf with the keys of data.image, data.label and data.text. */
struct data_field_leaf {
    struct yaml_leaf leaf; /* path "": decode or pad, which are valid and set nothing */
    char path[YAML_PATH_BYTES_MAX], value[YAML_VALUE_BYTES_MAX];
    const char *values[1];
};

enum data_fields_path {
    DATA_FIELDS_ELSEWHERE, /* not data.fields, nor below it */
    DATA_FIELDS_UNKNOWN,   /* not of a field that models are trained on */
    DATA_FIELDS_KNOWN,
};
enum data_fields_path data_fields_find(const char *path);
/* Translates a leaf of a known field. Returns NULL, or what was expected: the value is wrong. */
const char *data_fields_translate(const struct yaml_leaf *leaf, struct data_field_leaf *ret_leaf);

#endif
