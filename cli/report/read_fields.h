/*
 * read_fields — the fields that `--field` of `millrace read` and `inspect` requests.
 *
 * A specification is YAML, as in a configuration: the extension, or a mapping:
 *
 *     caption=txt
 *     caption={from: "txt;caption", decode: str}
 *     embedding={from: npy, decode: array, dtype: f16, rank: 2}
 *
 *     score={from: json, path: $.score, decode: f32, default: 0}
 *
 *     mask={from: seg.png, decode: labels, follows: image}
 *     boxes={from: json, path: $.boxes, decode: boxes, follows: image, box_format: xywh}
 *
 *     caption={from: txt, decode: tokens, tokenizer: tokenizer.json, length: 77, pad: 0,
 *              end: "<|endoftext|>"}
 *
 * decode is bytes by default. dtype is that of arrays, by default f32, and labels, by default u8;
 * rank is that of arrays, by default 1. The others are as in struct loader_field.
 */
#ifndef MILLRACE_CLI_REPORT_READ_FIELDS_H
#define MILLRACE_CLI_REPORT_READ_FIELDS_H

#include "base/json/jsonx_writer.h"
#include "cli/verbs/options.h"
#include "loader/loader.h"

/* Zero it before read_fields_parse. */
struct read_fields {
    struct loader_field list[LOADER_FIELDS_MAX];
    char *owned_texts[9 * LOADER_FIELDS_MAX]; /* borrowed by list */
    uint32_t texts_count, count;
};

/* specs: NAME=SPEC. -EINVAL: wrong usage. */
int read_fields_parse(struct read_fields *fields, const struct option_list *specs, struct err *err);
void read_fields_deinit(struct read_fields *fields);

/* The name of a decode, as in a specification. */
const char *read_field_decode_name(enum loader_field_decode decode);

/* Adds a member for each field to the open object: text as a string, JSON, numbers and truth values
 * as such, tokens as numbers, bytes by their number, arrays, labels, boxes and keypoints by their
 * shape. */
void read_fields_write_json(const struct read_fields *fields, const struct batch *batch, uint32_t n,
                            struct jsonx_writer *json);
/* Adds an item's tokens, with their padding, as an array of numbers. */
void read_field_write_tokens(const struct batch_field *field, uint32_t n, const char *name,
                             struct jsonx_writer *json);
/* Returns an item's values of a ragged field. */
const uint8_t *read_field_values(const struct batch_field *field, uint32_t n, uint64_t *ret_bytes);
/* Whether the field's files are .npy. */
bool read_field_is_array(const struct loader_field *type);
/* Appends the content of a file with the item's value of the field: arrays, labels, boxes and
 * keypoints as .npy, numbers and truth values as JSON with a newline, others as they are. */
void read_fields_add_file(const struct loader_field *type, const struct batch *batch, uint32_t n,
                          struct str *out);

#endif
