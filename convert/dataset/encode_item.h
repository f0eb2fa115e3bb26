/*
 * encode_item — reads an item of a source, and checks and encodes the fields of its sample.
 */
#ifndef MILLRACE_CONVERT_DATASET_ENCODE_ITEM_H
#define MILLRACE_CONVERT_DATASET_ENCODE_ITEM_H

#include "convert/dataset/encoded_item.h"
#include "convert/source/source.h"

/* Replaces the contents of sample. -EFBIG: the item is too large. Errors name the file and any
 * known offset. Blocks. */
int item_read(struct source_reader *reader, const struct source_item *item,
              struct source_sample *sample, struct err *err);

struct item_encoder; /* use from one thread only */
/* source must outlive the encoder. */
int item_encoder_open(const struct source *source, struct item_encoder **ret_encoder,
                      struct err *err);
void item_encoder_close(struct item_encoder *encoder); /* NULL is fine */

/* Replaces the contents of out. Errors name the file and any known offset. */
int item_encode(struct item_encoder *encoder, const struct source_item *item,
                const struct source_sample *sample, struct encoded_item *out, struct err *err);

void encoded_item_deinit(struct encoded_item *item);

#endif
