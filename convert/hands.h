/*
 * hands — a reader of one checkpoint for each worker, which share its manifest, and the memory for
 * blocks that are read ahead.
 */
#ifndef MILLRACE_CONVERT_HANDS_H
#define MILLRACE_CONVERT_HANDS_H

#include "ckpt/load/reader.h"
#include "convert/pieces.h"

/* Zeroed at first. */
struct hands {
    struct ckpt_reader *readers[PIECES_WORKERS_MAX];
};

/* Of what reader reads, which must outlive them. */
int hands_open(struct hands *hands, const struct ckpt_reader *reader, unsigned count,
               struct err *err);
void hands_close(struct hands *hands);

#endif
