/*
 * piece_journal — records a conversion's written pieces with their CRC32C, so that a killed
 * conversion can resume.
 *
 * A temporary file beside the target, with 8 bytes per piece, little-endian:
 *
 *     0 u32  CRC32C of the piece's bytes
 *     4 u32  CRC32C of {u64 number of the piece, that u32}; an entry with another value is
 *            ignored
 *
 * The journal is neither synced nor trusted. A resumed conversion reads the target's staging data
 * and compares CRCs. An entry whose bytes were lost in a power failure, or a torn entry, only costs
 * making that piece again.
 *
 * Threads: any may find and note.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_PIECE_JOURNAL_H
#define MILLRACE_CONVERT_CHECKPOINT_PIECE_JOURNAL_H

#include "io/io.h"

struct piece_journal;

struct piece_journal_options {
    struct io *io;
    const char *target;   /* of the conversion */
    const char *owner_id; /* identifies what determines the pieces (identity.h) */
    bool resume;          /* start with the entries of a dead conversion */
    uint64_t pieces_count;
};

/* Blocks. -EBUSY if the conversion that owns the journal is still running. */
int piece_journal_open(const struct piece_journal_options *options,
                       struct piece_journal **ret_journal, struct err *err);
/* keep: the journal stays for a later resume; else it is removed. NULL is fine. */
void piece_journal_close(struct piece_journal *journal, bool keep);

/* False: no entry. */
bool piece_journal_find(const struct piece_journal *journal, uint64_t piece, uint32_t *ret_crc32c);
/* Records that the piece's bytes are written. Blocks. */
int piece_journal_note(struct piece_journal *journal, uint64_t piece, uint32_t crc32c_of_bytes,
                       struct err *err);

#endif
