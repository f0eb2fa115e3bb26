/*
 * hands — see hands.h.
 */
#include "convert/checkpoint/hands.h"

int hands_open(struct hands *hands, const struct ckpt_reader *reader, unsigned count,
               struct err *err)
{
    int status = 0;
    for (unsigned i = 0; i < count && !status; i++)
        status = reader_open_beside(reader, BLOCKS_AHEAD / count, &hands->readers[i], err);
    return status;
}

void hands_close(struct hands *hands)
{
    for (unsigned i = 0; i < PIECES_WORKERS_MAX; i++) {
        ckpt_reader_close(hands->readers[i]);
        hands->readers[i] = NULL;
    }
}
