/*
 * long_reads — plans reads that also fetch samples that are delivered later.
 *
 * A lane delivers the samples of a run, which are neighbors on disk, in consecutive turns
 * (sampler/order.h). At the first of them, the reader plans one chunk for all that this rank
 * delivers, and keeps it until the lane has delivered the last. With less memory, it does so for
 * each half or each quarter of a run. In a sequential order, a part is the next ORDER_RUN_BYTES.
 *
 * A resident dataset fits into half of the budget. Its parts are groups of neighbors in the
 * dataset, of ORDER_RUN_BYTES each, which are read when one of their samples is needed, and kept
 * for all epochs.
 *
 * Samples that are not in a kept chunk are read one by one
 *   - in the first micro-batch, so that it is ready soon,
 *   - while reads complete at submission: copies from the page cache gain nothing from length,
 *   - if only some rows of a large image are wanted (unless it is resident for several epochs),
 *   - if even quarters do not fit the memory budget, or as long as samples larger than the mean, or
 *     batches that the consumer holds, take too much of it.
 *
 * Files: long_read_parts.c defines the parts, long_read_plan.c plans and shares their reads. All is
 * owned by the reader's thread.
 */
#ifndef MILLRACE_LOADER_LONG_READS_H
#define MILLRACE_LOADER_LONG_READS_H

#include "loader/parts/extents.h"
#include "loader/slots.h"

#include <stdatomic.h>

struct loader;

enum {
    LONG_READ_BYTES_MAX = 8 << 20,
    LONG_READ_SAMPLES_MAX = 4096, /* of a part */
    LONG_READ_EXTENTS_MAX = 2 * LONG_READ_SAMPLES_MAX,
    LONG_READ_CHUNKS_MAX = 4, /* of a part; more than one if gaps divide it */
};

/* The part of a run that a lane is in, or a group of a resident dataset, which has only chunks. */
struct kept_part {
    uint32_t epoch;        /* of a lane */
    uint64_t end;          /* turn of the lane after the part's last sample; 0: no part yet */
    bool has_no_neighbors; /* of a lane: no two samples of the part can share a read */
    uint32_t chunks_count;
    struct load_chunk *chunks[LONG_READ_CHUNKS_MAX];
};

struct long_reads {
    uint32_t quarters;  /* of a run per part: 4, 2 or 1; 0: no long reads */
    uint64_t bytes_max; /* of a read */
    /* Limits the chunks of long reads that are kept or used, so that there is always memory for
     * single reads. */
    uint64_t all_bytes_max;
    atomic_uint_least64_t all_bytes;
    uint64_t refused_bytes; /* the last chunk that would have exceeded the limit; 0: none */
    struct kept_part *parts;
    uint64_t *first_parts;      /* of each dataset, and their number */
    struct load_chunk *dropped; /* no longer kept, to be released */
};

/* Logs a warning if ranks share lanes, so that each of them reads the lanes' runs in pieces. */
void long_reads_warn_about_lanes(const struct loader *loader);

/* Makes those datasets resident that together fit into so many bytes. */
void long_reads_choose_resident(struct loader *loader, uint64_t bytes);
/* Returns the number of parts that are kept at a time: lanes whose samples this rank delivers, if
 * the order has runs, and groups of resident datasets. */
uint64_t long_reads_parts(const struct loader *loader);
/* Returns the memory of their chunks, if a lane's part has so many quarters of a run. Saturates at
 * UINT64_MAX. */
uint64_t long_reads_bytes(const struct loader *loader, uint32_t quarters);
/* quarters: 0 to ORDER_QUARTERS. -ENOMEM. */
int long_reads_init(struct loader *loader, uint32_t quarters, uint64_t bytes_max,
                    uint64_t all_bytes_max);
void long_reads_deinit(struct long_reads *reads); /* safe on zeroed storage */

/* Parts, for the planning of reads. */
const struct order_params *long_reads_order(const struct loader *loader, uint32_t dataset);
/* Returns the most samples of a group of a resident dataset, or of a part in a sequential order. */
uint64_t long_reads_group_samples(const struct loader *loader, uint32_t dataset);
/* Returns the most samples of a lane's part. */
uint64_t long_reads_part_samples(const struct loader *loader, uint32_t dataset, uint32_t quarters);
/* Returns the group that has the sample or, if the dataset is not resident, the part of the
 * location's lane. NULL: samples are read one by one, or the lane is another rank's. */
struct kept_part *long_reads_find_part(const struct loader *loader, struct mix_location location,
                                       uint64_t sample);

/* Plans long reads for the slot's items. Pieces get a chunk but do not join it yet; those without a
 * chunk remain to be planned. */
void long_reads_plan(struct loader *loader, struct load_slot *slot);
/* Requires the mutex. Lets the slot's pieces join their long reads, and releases chunks that lanes
 * have left. */
void long_reads_commit(struct loader *loader, struct load_slot *slot);
/* Called when a long chunk is no longer used. */
void long_reads_note_freed(struct long_reads *reads, const struct load_chunk *chunk);
/* Requires the mutex. Called if the reader lacks memory: stops keeping chunks, splits those that
 * are not issued, and, unless the shortage is temporary, plans shorter parts from now on. Gives up
 * the resident groups only if there is nothing else. False if there was nothing. */
bool long_reads_shrink(struct loader *loader, bool is_temporary);
/* Requires the mutex. After a read of several pieces failed: reads each piece that waits for it by
 * itself, so that an error in one sample does not affect others. */
void long_reads_split(struct loader *loader, struct load_chunk *chunk);

#endif
