/*
 * pieces — pieces of large files, made by several threads and written, or compared with existing
 * data.
 *
 *     pieces_open(&options, &pieces, err);
 *     // the pieces of one file; then finalize it; and so on
 *     pieces_write(pieces, file, path, first, count, err);
 *     pieces_compare(pieces, file, path, first, count, err);   // to verify
 *     pieces_close(pieces);
 *
 * Each worker has two buffers: it makes a piece in one while the other is written. A worker gets
 * adjacent pieces, since they share blocks of the source. With a journal each piece is recorded
 * once it is written; a recorded piece is read back first and kept if its CRC matches. Memory: two
 * buffers per worker, and what `make` uses.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_PIECES_H
#define MILLRACE_CONVERT_CHECKPOINT_PIECES_H

#include "convert/checkpoint/piece_journal.h"

#include <stdatomic.h>

enum {
    PIECE_BYTES = 4 << 20, /* usual size of a piece */
    PIECES_WORKERS_MAX = 8,
    PIECES_WORKERS_USUAL_MAX = 4,
};

struct piece {
    uint64_t offset_bytes; /* in its file */
    size_t bytes;
};

/* Borrows everything until pieces_close. */
struct pieces_options {
    struct io *io;
    unsigned workers_count;     /* 1..PIECES_WORKERS_MAX */
    const struct piece *pieces; /* of all files */
    size_t buffer_bytes;        /* maximum size of a piece */
    /* Writes the bytes of pieces[piece] to data. One thread per worker; workers run
     * concurrently. */
    int (*make)(void *context, unsigned worker, uint64_t piece, void *data, struct err *err);
    void *context;
    struct piece_journal *journal; /* NULL: none */
    /* Called by one thread at a time; NULL is fine. */
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *progress_context;
    uint64_t progress_bytes; /* total to be written and compared */
    const atomic_int *stop;  /* nonzero: stop soon with -EINTR; NULL: never */
};

struct pieces;

/* The number of workers for pieces_count pieces: wanted (0: one per CPU, at most
 * PIECES_WORKERS_USUAL_MAX), but no more than have work. */
unsigned pieces_workers(unsigned wanted, uint64_t pieces_count);
int pieces_open(const struct pieces_options *options, struct pieces **ret_pieces, struct err *err);
/* Waits for work in progress. NULL is fine. */
void pieces_close(struct pieces *pieces);
/* Writes pieces[first..first+count) of the file. Blocks. path: for errors. */
int pieces_write(struct pieces *pieces, struct io_file *file, const char *path, uint64_t first,
                 uint64_t count, struct err *err);
/* Makes the same pieces again and compares them: -EBADMSG with file and offset if one differs. */
int pieces_compare(struct pieces *pieces, struct io_file *file, const char *path, uint64_t first,
                   uint64_t count, struct err *err);
/* Whether a comparison found a difference, as opposed to another failure. */
bool pieces_differ(const struct pieces *pieces);
/* Bytes that already existed and were kept. */
uint64_t pieces_kept_bytes(const struct pieces *pieces);

#endif
