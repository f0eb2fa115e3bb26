/*
 * reader_pool — one checkpoint reader per worker. The readers share a manifest and divide the
 * read-ahead memory among them.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_READER_POOL_H
#define MILLRACE_CONVERT_CHECKPOINT_READER_POOL_H

#include "ckpt/load/reader.h"
#include "convert/checkpoint/pieces.h"

/* Zero-initialize. */
struct reader_pool {
    struct ckpt_reader *readers[PIECES_WORKERS_MAX];
};

/* The pool reads the same checkpoint as `reader`, which must outlive it. */
int reader_pool_open(struct reader_pool *reader_pool, const struct ckpt_reader *reader,
                     unsigned count, struct err *err);
void reader_pool_close(struct reader_pool *reader_pool);

#endif
