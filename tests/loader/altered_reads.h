/*
 * altered_reads — an engine whose reads arrive when a test wants, fail where it wants, and are
 * recorded.
 *
 *     altered_reads_begin(fixture->io, READS_LATER);
 *     loader_open(...); ... loader_close(...);
 *     uint64_t count = altered_reads_seen(&list);
 *     altered_reads_end();
 *
 * Concerns only a loader's reads of samples. One backend and one loader at a time. The settings are
 * made while no loader is open, except for altered_reads_release.
 */
#ifndef MILLRACE_TESTS_LOADER_ALTERED_READS_H
#define MILLRACE_TESTS_LOADER_ALTERED_READS_H

#include "io/io.h"

#include <stdbool.h>
#include <stdint.h>

enum reads_arrival {
    READS_AT_ONCE,         /* they complete at submission, as from the page cache */
    READS_LATER,           /* never at submission */
    READS_SOMETIMES_LATER, /* at submission, except one in forty */
};

/* A read that the loader requested. */
struct seen_read {
    uint64_t shard; /* number in the shard cache */
    uint64_t begin, end;
    uint32_t epoch; /* first micro-batch that needs it */
    uint64_t step, micro;
    bool is_long;
};

void altered_reads_begin(struct io *io, enum reads_arrival arrival);
void altered_reads_end(void); /* restores the engine */

/* Only reads for the first micro-batch of the epoch arrive, until altered_reads_release. */
void altered_reads_hold_all_but_first(void);
void altered_reads_release(void); /* from any thread */
/* Reads of any of these bytes fail with -EIO. Until the end. */
void altered_reads_fail(uint64_t shard, uint64_t begin, uint64_t end);
/* Reads end at this offset, as if the file had shrunk since it was opened. Until the end. */
void altered_reads_cut(uint64_t shard, uint64_t bytes);

/* Requires that no loader is open. Returns the number of reads since altered_reads_begin, in the
 * order of their submission. The list is valid until the next call of a function here. */
uint64_t altered_reads_seen(const struct seen_read **ret_list);

#endif
