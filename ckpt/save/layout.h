/*
 * layout — plans the bytes that one rank writes.
 *
 * The image is the rank's own file, `[u64 N][header, padded to 4096][arrays, dense, in safetensors'
 * canonical order]`, followed by its slices of the consolidated file, if any (consolidated.h). It
 * does not depend on the step, so it is planned once, headers included. Each block of the image is
 * all or part of one file's block.
 *
 *     segments   |header|  a  |    b    | c |   d   | e |   f   |
 *     blocks     |      0      |      1      |   2  |   3   | 4 |
 *                 LAYOUT_OWN                         LAYOUT_CONSOLIDATED
 *
 * Segments are sorted by offset, without holes.
 *
 * A replicated array is stored once per folder: a large array's rows are spread evenly over the
 * folder's ranks; a small array goes to the rank with the smallest load so far. All ranks must pass
 * the same replicated arrays in the same order.
 *
 * Immutable after init. Borrows names, arrays and consolidated.
 */
#ifndef MILLRACE_CKPT_SAVE_LAYOUT_H
#define MILLRACE_CKPT_SAVE_LAYOUT_H

#include "base/err.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "ckpt/format/box.h"
#include "ckpt/format/safetensors.h"

struct consolidated;

enum layout_file { LAYOUT_OWN, LAYOUT_CONSOLIDATED, LAYOUT_FILES };

enum layout_source {
    LAYOUT_HEADER, /* constant, in host memory */
    LAYOUT_ARRAY,
    /* in host memory, received by consolidated_exchange */
    LAYOUT_RECEIVED,
};

/* Contiguous bytes of the image. */
struct layout_segment {
    uint64_t offset_bytes, size_bytes;
    const char *data;
    enum layout_source source;
    uint32_t group; /* only for LAYOUT_ARRAY */
};

struct layout_block {
    uint64_t offset_bytes;
    uint64_t file_offset_bytes;
    uint64_t size_bytes; /* at most CKPT_BLOCK_BYTES */
    uint64_t segment;    /* first segment that overlaps the block */
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
    struct layout_chunk *chunks; /* own file's chunks, in file order */
    uint64_t chunks_count;
    uint64_t file_bytes;               /* size of the own file */
    uint64_t image_bytes;              /* all bytes that this rank writes */
    struct consolidated *consolidated; /* borrowed; NULL: no consolidated file */
    struct layout_segment *segments;   /* the first is the header */
    uint64_t segments_count;
    struct layout_block *blocks;
    uint64_t blocks_count;
    /* Ranges of group g: range_index[g]..range_index[g + 1] - 1, ascending, disjoint. */
    struct layout_range *ranges;
    uint64_t *range_index;  /* [groups_count + 1] */
    uint64_t *update_order; /* [blocks_count] blocks, by the order of their groups' updates */
    uint32_t groups_count;
};

struct layout_options {
    const struct ckpt_tensor *tensors;
    uint64_t tensors_count;
    uint32_t groups_count;
    int rank, ranks;
    /* Among the ranks that share a folder and one copy of replicated arrays. */
    int node_rank, node_ranks;
    /* Stores the model section; NULL: the ranks' own files do. */
    struct consolidated *consolidated;
};

/* -EINVAL names an array whose name, box or group is invalid. */
int layout_init(struct layout *layout, const struct layout_options *options, struct err *err);
void layout_deinit(struct layout *layout);

/* Checks an array as layout_init does. *ret_bytes: size of its box. */
int layout_check_tensor(const struct ckpt_tensor *tensor, uint32_t groups_count,
                        uint64_t *ret_bytes, struct err *err);
/* Checks that a rank has at most one part of each array. */
int layout_check_names(const struct layout_chunk *chunks, uint64_t count, struct err *err);
/* Checks that a planned header reads back with the same names. Names must be UTF-8. */
int layout_check_header(const struct str *header, uint64_t file_bytes,
                        const struct safetensors_entry *entries, uint64_t count, struct err *err);
/* In layout_blocks.c. Derives the other members from the chunks, the header and consolidated. */
int layout_build(struct layout *layout, uint32_t groups_count, struct err *err);

#endif
