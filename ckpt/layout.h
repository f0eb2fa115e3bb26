/*
 * layout — the file of one rank, planned: which bytes of which array stand where.
 *
 * The image is `[u64 N][header, padded to 4096][arrays without holes, in safetensors' canonical order]`. Nothing in it depends on
 * the step, so it is planned once, header included. It is processed in blocks of CKPT_BLOCK_BYTES.
 *
 *     segments   |header|  a  |    b    | c |   d   |        sorted by offset, without holes
 *     blocks     |      0      |      1      |    2  |        each has the first segment that reaches into it
 *
 * A replicated array is stored once a folder: a large one by rows, spread evenly over the ranks that write there; a small one whole, by the rank that
 * has least of these so far. All ranks must pass the same replicated arrays in the same order.
 *
 * Immutable once made. Borrows names and arrays.
 */
#ifndef MILLRACE_CKPT_LAYOUT_H
#define MILLRACE_CKPT_LAYOUT_H

#include "base/err.h"
#include "base/str.h"
#include "ckpt/box.h"
#include "ckpt/ckpt.h"

/* Neighbours in the file. header: not an array's, always in host memory. */
struct layout_segment {
    uint64_t offset_bytes, size_bytes;
    const char *data;
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
    struct layout_segment *segments; /* the first is the header */
    uint64_t segments_count;
    struct layout_chunk *chunks; /* in the order of the file */
    uint64_t chunks_count;
    uint64_t file_bytes, blocks_count;
    uint64_t *block_segment; /* [blocks_count] the first segment that reaches into it */
    /* Those of group g: range_index[g]..range_index[g + 1] - 1, rising, disjoint. */
    struct layout_range *ranges;
    uint64_t *range_index; /* [groups_count + 1] */
    uint64_t *order;       /* [blocks_count] all blocks, those of the group that is updated first in front */
    uint32_t groups_count;
};

struct layout_options {
    const struct ckpt_tensor *tensors;
    uint64_t tensors_count;
    uint32_t groups_count;
    int rank, ranks;
    int node_rank, node_ranks; /* among those that share a folder, and so one copy of what is replicated */
};

/* -EINVAL naming an array whose name, box or group is impossible. */
int layout_init(struct layout *layout, const struct layout_options *options, struct err *err);
void layout_deinit(struct layout *layout);

#endif
