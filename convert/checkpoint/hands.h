/*
 * hands — one checkpoint reader per worker; all share a manifest and divide the read-ahead memory.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_HANDS_H
#define MILLRACE_CONVERT_CHECKPOINT_HANDS_H

#include "ckpt/load/reader.h"
#include "convert/checkpoint/pieces.h"

/* Zero-initialized. */
struct hands {
    struct ckpt_reader *readers[PIECES_WORKERS_MAX];
};

/* Reads what reader reads; reader must outlive them. */
int hands_open(struct hands *hands, const struct ckpt_reader *reader, unsigned count,
               struct err *err);
void hands_close(struct hands *hands);

#endif
