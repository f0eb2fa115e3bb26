/*
 * reader_pool — see reader_pool.h.
 */
#include "convert/checkpoint/reader_pool.h"

int reader_pool_open(struct reader_pool *reader_pool, const struct ckpt_reader *reader,
                     unsigned count, struct err *err)
{
    int status = 0;
    for (unsigned i = 0; i < count && !status; i++)
        status = reader_clone(reader, BLOCKS_AHEAD / count, &reader_pool->readers[i], err);
    return status;
}

void reader_pool_close(struct reader_pool *reader_pool)
{
    for (unsigned i = 0; i < PIECES_WORKERS_MAX; i++) {
        ckpt_reader_close(reader_pool->readers[i]);
        reader_pool->readers[i] = NULL;
    }
}
