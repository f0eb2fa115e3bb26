/*
 * field_values — what the decoders of options.fields share: finding values in stored fields, and
 * their errors. The pieces are verified.
 */
#ifndef MILLRACE_LOADER_FIELD_VALUES_H
#define MILLRACE_LOADER_FIELD_VALUES_H

#include "loader/state.h"
#include "shards/format/npy.h"

struct json_t;

/* field_decode.c */

/* Decodes the header of a NumPy file of any type. */
int field_decode_array(const struct shard *shard, const struct view_piece *piece,
                       struct npy *ret_npy, struct err *err);
/* All return -EBADMSG. */
int field_wrong_array(const struct loader_field *field, const struct shard *shard,
                      const struct view_piece *piece, const struct npy *npy, struct err *err);
int field_wrong_value(const struct loader_field *type, const struct shard *shard,
                      const struct view_piece *piece, struct err *err);
int field_no_value(const struct loader_field *type, const struct shard *shard,
                   const struct view_piece *piece, struct err *err);

/* field_numbers.c */

/* Stores a JSON number or truth value as one of the type, unaligned. -EBADMSG without detail: it is
 * of another type, or out of range. */
int field_store_number(enum dtype dtype, const struct json_t *node, uint8_t *to);
/* Stores an integer. -EBADMSG: it is out of range. */
int field_store_integer(enum dtype dtype, int64_t number, uint8_t *to);
/* The values of an array; in the worker's scratch or in the stored field. */
struct field_numbers {
    const uint8_t *data; /* unaligned */
    uint64_t bytes;
    uint64_t shape[DTYPE_RANK_MAX];
};
/* Reads LOADER_FIELD_ARRAY. */
int field_read_numbers(struct load_worker *worker, const struct loader_field *type,
                       const struct shard *shard, const struct view_piece *piece,
                       struct field_numbers *ret_numbers, struct err *err);
/* Reads boxes (4 columns) or keypoints (3): rows of finite numbers below FIELD_COORDINATE_MAX. The
 * worker owns them until the next read. */
enum { FIELD_COORDINATE_MAX = 1 << 30 };
int field_read_rows(struct load_worker *worker, const struct loader_field *type, uint32_t columns,
                    const struct shard *shard, const struct view_piece *piece, double **ret_rows,
                    uint64_t *ret_count, struct err *err);
/* Decodes a JSON array. */
int field_decode_numbers(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                         uint32_t field, const struct shard *shard, const struct view_piece *piece,
                         struct err *err);

/* field_map.c: finds the number of a name, or of a JSON string or integer. -EBADMSG without detail:
 * the list of the field's map has no such name. */
int field_find_class(const struct loader *loader, const struct loader_field *type, const char *name,
                     size_t bytes, uint64_t *ret_number);
int field_find_class_of(const struct loader *loader, const struct loader_field *type,
                        const struct json_t *node, uint64_t *ret_number);
/* field_map.c: the number of the default of a mapped integer. -EINVAL without detail: it is neither
 * in the list nor a negative integer. */
int field_find_default(const struct loader *loader, const struct loader_field *type,
                       int64_t *ret_number);

/* field_json.c: stores JSON text. */
int field_decode_json(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                      uint32_t field, const struct shard *shard, const struct view_piece *piece,
                      struct err *err);

/* field_tokens.c: encodes a text. -EBADMSG: it is too long, or has too few tokens. -ENOMEM. */
int field_encode_tokens(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                        uint32_t field, const void *text, uint64_t bytes, struct err *err);

/* field_image.c: labels, keypoints, or boxes and what follows them; after the item's image. */
int field_decode_of_image(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                          uint32_t field, const struct shard *shard,
                          const struct view_piece *pieces, struct err *err);

#endif
