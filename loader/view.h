/*
 * view — maps the samples of a dataset to byte ranges of its shards.
 *
 * Members: a sample is the members of one key. Windows: a sample is a part of a token member
 * (windows.h). Immutable once open, so any thread may use it.
 */
#ifndef MILLRACE_LOADER_VIEW_H
#define MILLRACE_LOADER_VIEW_H

#include "image/pipeline/pipeline.h"
#include "loader/loader.h"
#include "loader/parts/windows.h"

struct view;

/* Opens a view of the cache's dataset `number`. Borrows dataset until the view closes, and io and
 * cache only during the call. The options' decode, field names and block select the view, and
 * selection its samples; verify affects how much is read. With options.fields, opens the dataset's
 * first shard to estimate their sizes. -EINVAL with detail if the dataset has no such field or is
 * not text; errors of selection_open and of opening a shard, except that a damaged one gives no
 * estimate. */
int view_open(const struct loader_options *options, struct io *io, const struct dataset *dataset,
              struct shard_cache *cache, uint32_t number, struct view **ret_view, struct err *err);
void view_close(struct view *view); /* NULL is fine */

struct image_options image_options_from_loader(const struct loader_options *options);

uint64_t view_samples(const struct view *view); /* selected */
/* Whether several of them may be the same sample of the dataset. */
bool view_repeats(const struct view *view);
/* The dataset's, or a hash of it and the selection. */
uint64_t view_fingerprint(const struct view *view);
uint64_t view_mean_bytes(const struct view *view); /* per sample, for the order's defaults */
/* Both are approximate, to size memory: bytes to read per sample, and more for each separate read,
 * because it begins and ends anywhere in a block. */
uint64_t view_read_bytes(const struct view *view);
uint64_t view_block_bytes(const struct view *view);
/* Estimated stored bytes of options.fields[field] per sample. */
uint64_t view_field_bytes(const struct view *view, uint32_t field);
uint32_t view_pieces_max(const struct view *view); /* per sample */

/* Returns cache shard numbers. */
struct sample_location view_locate(const struct view *view, struct sample_ref ref);

/* A field of a sample, or a window's part of it. */
struct view_piece {
    const char *extension; /* valid while the shard is open */
    struct shard_field field;
    uint64_t want_offset, want_bytes; /* the sample's bytes in the shard */
    uint64_t read_offset, read_bytes; /* bytes to read for verification */
    const uint8_t *data;              /* at read_offset, once read */
    /* wanted image rows; count 0: all */
    struct image_rows rows;
};

/* Returns the pieces of a sample. An image is the first piece, followed by its label if any. For
 * an uncompressed image with indexed rows, only the rows of the crop are wanted. Those of
 * options.fields are the last pieces; one that the sample lacks and that has a default is not
 * field.present. -EBADMSG: a required field is missing. */
int view_pieces(const struct view *view, const struct shard *shard, struct sample_location location,
                struct sample_ref ref, struct view_piece *pieces, uint32_t *ret_count,
                struct err *err);

/* Extends what is read of an image with wanted rows to the whole image. */
void view_widen_rows(struct view_piece *piece);

/* Checks the CRCs of the bytes read, per field or per block. -EBADMSG with offset and both CRCs. */
int view_verify(const struct view_piece *piece, const struct shard *shard, struct err *err);

static inline const uint8_t *view_data(const struct view_piece *piece)
{
    return piece->data + (piece->want_offset - piece->read_offset);
}

#endif
