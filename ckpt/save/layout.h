/*
 * layout — what one rank writes, planned: which bytes of which array stand where.
 *
 * The image of its own file is `[u64 N][header, padded to 4096][arrays without holes, in
 * safetensors' canonical order]`; behind it come, where the ranks also write a file together, its
 * pieces of that (consolidated.h). Nothing in it depends on the step, so it is planned once,
 * headers included. It is processed in blocks, each of one block of CKPT_BLOCK_BYTES of one file,
 * or a part of one.
 *
 *     segments   |header|  a  |    b    | c |   d   | e |   f   |
 *     blocks     |      0      |      1      |   2  |   3   | 4 |
 *                 LAYOUT_OWN                         LAYOUT_COMMON
 *
 * Segments are sorted by offset, without holes; each block has the first segment that reaches into
 * it.
 *
 * A replicated array is stored once a folder: a large one by rows, spread evenly over the ranks
 * that write there; a small one whole, by the rank that has least of these so far. All ranks must
 * pass the same replicated arrays in the same order.
 *
 * Immutable once made. Borrows names, arrays and consolidated.
 */
#ifndef MILLRACE_CKPT_SAVE_LAYOUT_H
#define MILLRACE_CKPT_SAVE_LAYOUT_H

#include "base/err.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "ckpt/format/box.h"
#include "ckpt/format/safetensors.h"

struct consolidated;

/* Which file: the rank's own, or the one that all write. */
enum layout_file { LAYOUT_OWN, LAYOUT_COMMON, LAYOUT_FILES };

enum layout_source {
    LAYOUT_HEADER, /* in host memory, always the same */
    LAYOUT_ARRAY,
    /* in host memory, there when other ranks have sent it (consolidated_exchange) */
    LAYOUT_ARRIVING,
};

/* Neighbours in the image. */
struct layout_segment {
    uint64_t offset_bytes, size_bytes;
    const char *data;
    enum layout_source source;
    uint32_t group; /* of LAYOUT_ARRAY */
};

struct layout_block {
    uint64_t offset_bytes; /* in the image */
    uint64_t file_offset_bytes;
    uint64_t size_bytes; /* CKPT_BLOCK_BYTES at most */
    uint64_t segment;    /* the first that reaches into it */
    enum layout_file file;
};

/* What this rank stores of one array. */
struct layout_chunk {
    const struct ckpt_tensor *tensor;
    struct box box;
    uint64_t offset_bytes;
};

/* Blocks first..end-1. */
struct layout_range {
    uint64_t first, end;
};

struct layout {
    struct str header;
    struct layout_chunk *chunks; /* of the own file, in its order */
    uint64_t chunks_count;
    uint64_t file_bytes;               /* of the own file */
    uint64_t image_bytes;              /* of all that this rank writes */
    struct consolidated *consolidated; /* borrowed; NULL: the ranks write no file together */
    struct layout_segment *segments;   /* the first is the header */
    uint64_t segments_count;
    struct layout_block *blocks;
    uint64_t blocks_count;
    /* Those of group g: range_index[g]..range_index[g + 1] - 1, rising, disjoint. */
    struct layout_range *ranges;
    uint64_t *range_index; /* [groups_count + 1] */
    uint64_t
        *order; /* [blocks_count] all blocks, those of the group that is updated first in front */
    uint32_t groups_count;
};

struct layout_options {
    const struct ckpt_tensor *tensors;
    uint64_t tensors_count;
    uint32_t groups_count;
    int rank, ranks;
    int node_rank,
        node_ranks; /* among those that share a folder, and so one copy of what is replicated */
    struct consolidated *
        /* has the arrays of the model's section; NULL: each rank's file has its own */
        consolidated;
};

/* -EINVAL naming an array whose name, box or group is impossible. */
int layout_init(struct layout *layout, const struct layout_options *options, struct err *err);
void layout_deinit(struct layout *layout);

/* What layout_init refuses in an array; the bytes of its box. */
int layout_check_tensor(const struct ckpt_tensor *tensor, uint32_t groups_count,
                        uint64_t *ret_bytes, struct err *err);
/* That a rank has one part of an array. */
int layout_check_names(const struct layout_chunk *chunks, uint64_t count, struct err *err);
/* That a planned header can be read back, with these names: some are no UTF-8. */
int layout_check_header(const struct str *header, uint64_t file_bytes,
                        const struct safetensors_entry *entries, uint64_t count, struct err *err);
/* layout_blocks.c: all that follows from the chunks, the header and consolidated. */
int layout_cut(struct layout *layout, uint32_t groups_count, struct err *err);

#endif
