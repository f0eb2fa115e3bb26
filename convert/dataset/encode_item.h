/*
 * encode_item — turns one item of a source into the fields of one sample: reads, checks, encodes.
 *
 * encode_image.h describes how images are stored.
 */
#ifndef MILLRACE_CONVERT_DATASET_ENCODE_ITEM_H
#define MILLRACE_CONVERT_DATASET_ENCODE_ITEM_H

#include "convert/jpeg_counts.h"
#include "convert/source/source.h"

struct encoded_field {
    char extension[SHARD_EXTENSION_BYTES_MAX];
    size_t at, bytes; /* in data */
};

/* Zero is empty. Fields are in byte order of extensions. */
struct encoded_item {
    struct str data;
    uint32_t fields_count;
    struct encoded_field fields[SHARD_FIELDS_MAX];
    struct convert_jpegs jpegs; /* of the item */
};

struct item_encoder; /* owner thread: a queue, a decoder and scratch memory */
/* source must outlive the encoder. */
int item_encoder_open(struct io *io, const struct source *source, struct item_encoder **ret_encoder,
                      struct err *err);
void item_encoder_close(struct item_encoder *encoder); /* NULL is fine */

/* Replaces the contents of out. Errors name the file, and the offset if there is one. Blocks. */
int item_encode(struct item_encoder *encoder, const struct source_item *item,
                struct encoded_item *out, struct err *err);

void encoded_item_deinit(struct encoded_item *item);

#endif
