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
 *     depth={from: depth.png, decode: image, follows: image}
 *     left={from: left.jpg, decode: image, size: 256, crop: center, flip: true}
 *     view={from: jpg, decode: image, size: 224, crop: random, scale: [0.2, 1], flip: true,
 *           randaugment: [2, 9], jitter: [0.4, 0.4, 0.4, 0.1], layout: chw, dtype: f32,
 *           mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}
 *
 *     caption={from: txt, decode: tokens, tokenizer: tokenizer.json, length: 77, pad: 0,
 *              end: "<|endoftext|>"}
 *
 * decode is bytes by default. dtype is that of arrays, by default f32, and of labels and images, by
 * default u8; rank is that of arrays, by default 1. layout (hwc, chw), channels (3, 1), mean and
 * std are those of an image. size, crop, scale, flip, randaugment (operations and magnitude) and
 * jitter (brightness, contrast, saturation and hue) are those of an image that follows none; crop
 * is by default random. The others are as in struct loader_field.
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
/* A page shows no normalized images. -EINVAL: there is one. */
int read_fields_check_page(const struct read_fields *fields, struct err *err);
/* NumPy files cannot hold BF16. -EINVAL: a field has it. */
int read_fields_check_files(const struct read_fields *fields, struct err *err);

/* The name of a decode, as in a specification. */
const char *read_field_decode_name(enum loader_field_decode decode);

/* Adds a member for each field to the open object: text as a string, JSON, numbers and truth values
 * as such, tokens as numbers, bytes by their number, arrays, labels, boxes, keypoints and
 * images by their shape. */
void read_fields_write_json(const struct read_fields *fields, const struct batch *batch, uint32_t n,
                            struct jsonx_writer *json);
/* Adds an item's tokens, with their padding, as an array of numbers. */
void read_field_write_tokens(const struct batch_field *field, uint32_t n, const char *name,
                             struct jsonx_writer *json);
/* Returns an item's values of a ragged field. */
const uint8_t *read_field_values(const struct batch_field *field, uint32_t n, uint64_t *ret_bytes);
/* Whether the field is an image of bytes of interleaved RGB. */
bool read_field_is_picture(const struct loader_field *type);
/* Returns the extension of the field's files, with its dot, or "". */
const char *read_field_file_suffix(const struct loader_field *type);
/* Appends an item's image of bytes as a portable pixmap, ppm(5). */
void read_field_add_ppm(const struct batch_field *field, uint32_t n, struct str *out);
/* Appends the content of a file with the item's value of the field: arrays, labels, boxes and
 * keypoints as .npy, images as .ppm or normalized as .npy, numbers and truth values as JSON with a
 * newline, others as they are. */
void read_fields_add_file(const struct loader_field *type, const struct batch *batch, uint32_t n,
                          struct str *out);

#endif
