/*
 * consolidated — `model.safetensors`, the file that all ranks of a step of layout full write
 * together: whole tensors in canonical order, byte for byte what `convert --to full` makes of the
 * same arrays.
 *
 *     spans   |  header  |     a of rank 0    |  a of rank 1  | b of all |
 *     pages   |  .  |  .  |  0  |  0  |  0  |  0  |  1  |  1  |  1  |  .  |
 *
 * Spans are neighboring bytes, each of one holder; pages have IO_ALIGN_BYTES, each of one writer.
 *
 * A page is written by who holds its first byte, so that what is written goes around the page cache
 * and no page is written from two machines; the other bytes of a page that is not all its writer's
 * are *boundary bytes*: their holder takes them when the save begins, and sends them to the writer
 * (consolidated_exchange). That is less than a page for each end of a part. Pages whose first byte
 * all ranks hold are spread over them evenly. So each rank writes what it holds, no bytes are
 * gathered anywhere, and each rank writes about as much as the others.
 *
 * What a rank writes is cut at the blocks of the file into pieces, each with a checksum; joined
 * they are those of the blocks.
 *
 * Threads: planned by the opener; afterwards the caller of ckpt_saver_save fills the boundary
 * bytes, and the writer all else.
 */
#ifndef MILLRACE_CKPT_SAVE_CONSOLIDATED_H
#define MILLRACE_CKPT_SAVE_CONSOLIDATED_H

#include "base/err.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "ckpt/format/manifest.h"
#include "ckpt/format/safetensors.h"
#include "ckpt/save/layout.h"
#include "ckpt/save/local_plan.h"
#include "comm/comm.h"

#include <stdbool.h>
#include <stdint.h>

#define CONSOLIDATED_FILE_NAME "model.safetensors"

/* Of the file, within one block. */
struct consolidated_piece {
    uint64_t offset_bytes, size_bytes;
    int writer;
    uint64_t number; /* of its writer's pieces */
};

/* Of an array of this rank, which another one writes. */
struct consolidated_boundary {
    const char *data;
    uint64_t size_bytes;
    char *boundary; /* where it goes when the save begins */
};

/* One direction of the exchange, by the other rank. */
struct consolidated_traffic {
    char *memory;
    size_t *offsets, *bytes; /* [ranks] */
};

struct consolidated {
    int rank, ranks;
    struct local_plan local;           /* holds the names */
    struct safetensors_entry *entries; /* in the order of the file */
    uint64_t entries_count;
    struct str header;
    uint64_t file_bytes;
    struct consolidated_piece *pieces; /* of all ranks, rising */
    uint64_t pieces_count;
    uint64_t *pieces_of; /* [ranks] how many a rank writes */
    /* What this rank writes, piece after piece; offsets count its own bytes. */
    struct layout_segment *segments;
    uint64_t segments_count;
    bool has_boundaries; /* between any two ranks */
    struct consolidated_boundary *boundaries;
    uint64_t boundaries_count;
    struct consolidated_traffic out, in;
    bool exchange_failed; /* the memory of both is borrowed for ever: comm.h */
};

/* What a rank passes. */
struct consolidated_holding {
    const struct ckpt_tensor *tensors;
    uint64_t tensors_count;
};

/* Plans the file of all arrays of the model's section. Collective, blocks. -EINVAL on all ranks
 * where arrays overlap, leave something out or disagree, -ENOTSUP where a rank holds a part that is
 * not one run of bytes of its array. Borrows the arrays. */
int consolidated_init(struct consolidated *consolidated, const struct consolidated_holding *own,
                      uint32_t groups_count, struct comm *comm, struct err *err);
/* The same plan of a rank, made alone from what each rank is going to pass: [ranks]. Others' data
 * are not looked at, but are not NULL. */
int consolidated_simulate(struct consolidated *consolidated, const struct consolidated_holding *all,
                          int rank, int ranks, uint32_t groups_count, struct err *err);
void consolidated_deinit(struct consolidated *consolidated); /* zeroed is fine */

/* Boundary bytes go to the rank that writes them, whose segments LAYOUT_ARRIVING have it
 * afterwards. Collective, blocks; only where has_boundaries. */
int consolidated_exchange(struct consolidated *consolidated, struct comm *comm, struct err *err);

/* That file of a step; NULL: the layout of the step is sharded. */
const struct manifest_file *consolidated_find_file(const struct manifest *manifest);

/* The header of a full file of these entries, in canonical order, as safetensors_encode appends
 * it. */
int consolidated_encode_header(struct safetensors_entry *entries, uint64_t count, struct str *out,
                               uint64_t *ret_file_bytes, struct err *err);

/* consolidated_pages.c: neighbouring bytes of the file that lie together at their holder. */
enum { CONSOLIDATED_ALL = -1 };
struct consolidated_span {
    uint64_t offset_bytes, size_bytes;
    int holder;       /* CONSOLIDATED_ALL: every rank */
    const char *data; /* where this rank holds it, if it does */
    enum layout_source source;
    uint32_t group;
};
/* Pieces, segments and boundaries of a file of these spans, which cover it. -ENOMEM. */
int consolidated_cut(struct consolidated *consolidated, const struct consolidated_span *spans,
                     uint64_t spans_count, struct err *err);

#endif
