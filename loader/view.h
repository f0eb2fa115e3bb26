/*
 * view — what the samples of a dataset are, and which bytes of which shard hold them.
 *
 * Members: a sample is the members of one key. Windows: a sample is a part of a token member
 * (windows.h). Immutable once open: any thread.
 */
#ifndef MILLRACE_LOADER_VIEW_H
#define MILLRACE_LOADER_VIEW_H

#include "image/pipeline.h"
#include "loader/loader.h"
#include "loader/windows.h"

struct view;

/* Of the number-th dataset of the cache, which is lent dataset until the view closes; cache only
 * during the call. The options' decode, field names and block choose the view; verify decides how
 * much is read. -EINVAL with detail where the dataset has no such field or is no text. */
int view_open(const struct loader_options *options, const struct dataset *dataset,
              struct shard_cache *cache, uint32_t number, struct view **ret_view, struct err *err);
void view_close(struct view *view); /* NULL is fine */

/* What becomes of pictures. */
struct image_options view_image_options(const struct loader_options *options);

uint64_t view_samples(const struct view *view);
uint64_t view_mean_bytes(const struct view *view); /* of a sample, for the order's defaults */
uint64_t
view_read_bytes(const struct view *view); /* that are read for one, about: for sizing memory */
uint32_t view_pieces_max(const struct view *view); /* a sample has at most so many */

/* Shards are numbered as in the cache. */
struct view_place view_locate(const struct view *view, uint64_t sample);

/* One field of a sample, or the part of it that a window needs. */
struct view_piece {
    const char *extension; /* lives as long as the shard is open */
    struct shard_field field;
    uint64_t want_offset, want_bytes; /* of the shard: what the sample consists of */
    uint64_t read_offset, read_bytes; /* of the shard: what is read, so that it can be verified */
    const uint8_t *data;              /* where read_offset's byte is in memory, once it is read */
    struct image_rows
        rows; /* of a picture of which only these are wanted; count 0: the whole field is */
};

/* The pieces of a sample at its place; of an image the first is the picture, and the label follows
 * where there is one. Of an uncompressed picture whose rows the index knows, only those of the crop
 * are wanted. -EBADMSG: it lacks a field that it must have. */
int view_pieces(const struct view *view, const struct shard *shard, struct view_place place,
                struct sample_ref ref, struct view_piece *pieces, uint32_t *ret_count,
                struct err *err);

/* CRCs of what was read: the whole field's, or those of its blocks. -EBADMSG with offset and both
 * sums. */
int view_verify(const struct view_piece *piece, const struct shard *shard, struct err *err);

static inline const uint8_t *view_data(const struct view_piece *piece)
{
    return piece->data + (piece->want_offset - piece->read_offset);
}

#endif
