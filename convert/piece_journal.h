/*
 * piece_journal — which pieces of a conversion are on disk, with their CRC32C, so that one that was
 * killed goes on where it was.
 *
 * A temporary of its own beside the target, of 8 bytes a piece, little-endian:
 *
 *     0 u32  CRC32C of the piece's bytes
 *     4 u32  CRC32C of {u64 number of the piece, that u32}; an entry that does not have it says
 *            nothing
 *
 * It is neither synced nor believed: who resumes reads what the target's temporary holds and
 * compares the CRCs, so an entry whose bytes a loss of power took, or a torn one, costs no more
 * than making that piece again.
 *
 * Threads: any may find and note.
 */
#ifndef MILLRACE_CONVERT_PIECE_JOURNAL_H
#define MILLRACE_CONVERT_PIECE_JOURNAL_H

#include "io/io.h"

struct piece_journal;

struct piece_journal_options {
    struct io *io;
    const char *target;   /* of the conversion */
    const char *owner_id; /* what the pieces are a function of (identity.h) */
    bool resume;          /* begin with what a dead conversion noted */
    uint64_t pieces_count;
};

/* Blocks. -EBUSY where the conversion that notes there lives. */
int piece_journal_open(const struct piece_journal_options *options,
                       struct piece_journal **ret_journal, struct err *err);
/* keep: the journal stays for whoever resumes; else it is removed. NULL is fine. */
void piece_journal_close(struct piece_journal *journal, bool keep);

/* False: nothing is known of it. */
bool piece_journal_find(const struct piece_journal *journal, uint64_t piece, uint32_t *ret_crc32c);
/* The piece's bytes are written. Blocks. */
int piece_journal_note(struct piece_journal *journal, uint64_t piece, uint32_t crc32c_of_bytes,
                       struct err *err);

#endif
