/*
 * consolidated — `model.safetensors`, written by all ranks together (CKPT_CONSOLIDATED). It holds
 * whole tensors in canonical order and is identical to the output of `convert --to full` for the
 * same arrays.
 *
 *     spans   |  header  |     a of rank 0    |  a of rank 1  | b of all |
 *     pages   |  .  |  .  |  0  |  0  |  0  |  0  |  1  |  1  |  1  |  .  |
 *
 * A span is a contiguous range of bytes with one holder; a page is IO_ALIGN_BYTES with one writer,
 * the holder of its first byte. Writes thus bypass the page cache, and no two machines write a
 * page. The other holders' bytes in the page are *boundary bytes*: less than a page at each end of
 * a part. Their holder copies them when the save begins, and sends them to the writer
 * (consolidated_exchange). Pages whose first byte all ranks hold are spread evenly over the ranks.
 *
 * A rank's pages are cut into slices at block boundaries. Each slice has a checksum; global_plan
 * combines them into block checksums.
 *
 * Threads: the opener plans; the caller of ckpt_saver_save fills the boundary bytes; the writer
 * does everything else.
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

/* Bytes within one block of the file. */
struct consolidated_slice {
    uint64_t offset_bytes, size_bytes;
    int writer;
    uint64_t number; /* index among its writer's slices */
};

/* Bytes of this rank's arrays that another rank writes. */
struct consolidated_boundary {
    const char *data;
    uint64_t size_bytes;
    char *buffer; /* filled when the save begins */
};

/* One direction of the exchange; arrays have one entry per other rank. */
struct consolidated_traffic {
    char *memory;
    size_t *offsets, *bytes; /* [ranks] */
};

struct consolidated {
    int rank, ranks;
    struct local_plan local;
    struct safetensors_entry *entries; /* in file order */
    uint64_t entries_count;
    struct str header;
    uint64_t file_bytes;
    struct consolidated_slice *slices; /* slices of all ranks, ascending */
    uint64_t slices_count;
    uint64_t *slices_per_rank; /* [ranks] */
    /* Written by this rank; offsets count only those bytes. */
    struct layout_segment *segments;
    uint64_t segments_count;
    bool has_boundaries;
    struct consolidated_boundary *boundaries;
    uint64_t boundaries_count;
    struct consolidated_traffic sent, received;
    bool exchange_failed; /* the communicator may still use both buffers (comm.h) */
};

struct consolidated_tensors {
    const struct ckpt_tensor *tensors;
    uint64_t tensors_count;
};

/* Plans the file for all arrays of the model section. Collective; blocks. Fails on all ranks:
 * -EINVAL if arrays overlap, have gaps or disagree; -ENOTSUP if a rank's part is not contiguous in
 * its array. Borrows the arrays. */
int consolidated_init(struct consolidated *consolidated, const struct consolidated_tensors *own,
                      uint32_t groups_count, struct comm *comm, struct err *err);
/* Plans from the arrays of all ranks without communication. Other ranks' data pointers must not be
 * NULL, but are not dereferenced. */
int consolidated_simulate(struct consolidated *consolidated,
                          const struct consolidated_tensors *ranks_tensors, int rank, int ranks,
                          uint32_t groups_count, struct err *err);
void consolidated_deinit(struct consolidated *consolidated); /* a zeroed struct is fine */

/* Sends boundary bytes to the ranks that write them, into their LAYOUT_RECEIVED segments.
 * Collective; blocks. Call only if has_boundaries. */
int consolidated_exchange(struct consolidated *consolidated, struct comm *comm, struct err *err);

/* Returns NULL if the step is sharded. */
const struct manifest_file *consolidated_find_file(const struct manifest *manifest);

/* Appends the header of a file with these entries, in canonical order (safetensors_encode). */
int consolidated_encode_header(struct safetensors_entry *entries, uint64_t count, struct str *out,
                               uint64_t *ret_file_bytes, struct err *err);

/* Bytes that are contiguous both in the file and at their holder. */
enum { CONSOLIDATED_ALL_RANKS = -1 };
struct consolidated_span {
    uint64_t offset_bytes, size_bytes;
    int holder;       /* a rank or CONSOLIDATED_ALL_RANKS */
    const char *data; /* NULL: this rank does not hold the bytes */
    enum layout_source source;
    uint32_t group;
};
/* In consolidated_pages.c. Builds slices, segments and boundaries from spans that cover the file.
 * -ENOMEM. */
int consolidated_plan_pages(struct consolidated *consolidated,
                            const struct consolidated_span *spans, uint64_t spans_count,
                            struct err *err);

#endif
