/*
 * piece_job — the pieces of a conversion, their journal, and a checkpoint reader per worker.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_PIECE_JOB_H
#define MILLRACE_CONVERT_CHECKPOINT_PIECE_JOB_H

#include "ckpt/load/reader.h"
#include "convert/checkpoint/checkpoint_options.h"
#include "convert/checkpoint/pieces.h"

/* Zero-initialize. */
struct piece_job {
    /* Clones of the source's reader. They divide its read-ahead memory. Unused entries are NULL. */
    struct ckpt_reader *readers[PIECES_WORKERS_MAX];
    struct piece_journal *journal;
    struct pieces *pieces;
};

/* Sets the journal, workers, progress callback and stop flag of piece_options, then opens the
 * pieces. reader must outlive the job. The caller closes pieces and journal, even after a
 * failure. */
int piece_job_open(struct piece_job *job, const struct convert_checkpoint_options *options,
                   const struct ckpt_reader *reader, const char *owner_id, uint64_t pieces_count,
                   struct pieces_options *piece_options, struct err *err);
/* Keeps the journal open. */
void piece_job_close_pieces(struct piece_job *job);

#endif
