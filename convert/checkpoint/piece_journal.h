/*
 * piece_journal — records written pieces and their CRC32Cs, so that a killed conversion can resume.
 *
 * The journal is a temporary file next to the target, with 8 little-endian bytes per piece:
 *
 *     0 u32  CRC32C of the piece's bytes
 *     4 u32  CRC32C of {u64 number of the piece, the u32 above}; any other value voids the entry
 *
 * The journal is neither synced nor trusted: a resumed conversion compares the CRCs with the
 * target's staging data. If an entry is lost or torn, its piece is generated again.
 *
 * Any thread may call find and record.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_PIECE_JOURNAL_H
#define MILLRACE_CONVERT_CHECKPOINT_PIECE_JOURNAL_H

#include "io/io.h"

struct piece_journal;

struct piece_journal_options {
    struct io *io;
    const char *target;
    const char *owner_id; /* identifies the pieces (identity.h) */
    bool resume;          /* load the entries of a dead conversion */
    uint64_t pieces_count;
};

/* Blocks. -EBUSY: the journal's conversion is still running. */
int piece_journal_open(const struct piece_journal_options *options,
                       struct piece_journal **ret_journal, struct err *err);
/* keep: leave the journal for a resume. NULL is fine. */
void piece_journal_close(struct piece_journal *journal, bool keep);

bool piece_journal_find(const struct piece_journal *journal, uint64_t piece, uint32_t *ret_crc32c);
/* Blocks. */
int piece_journal_record(struct piece_journal *journal, uint64_t piece, uint32_t crc32c_of_bytes,
                         struct err *err);

#endif
