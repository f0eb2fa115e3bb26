/*
 * pieces — the pieces of large files, made by several threads and written, or compared with what is
 * there.
 *
 *     pieces_open(&options, &pieces, err);
 *     // those of one file; then finalize it; and so on
 *     pieces_write(pieces, file, path, first, count, err);
 *     pieces_compare(pieces, file, path, first, count, err);   // if that is asked for
 *     pieces_close(pieces);
 *
 * Each worker has two buffers: it makes a piece in one while the other is written. Neighbours are
 * of one worker, since they share blocks of the source. With a journal each piece is noted once it
 * is written; one that was noted before is read back, and left as it is where its CRC is right.
 * Memory: two buffers a worker, and what `make` takes.
 */
#ifndef MILLRACE_CONVERT_PIECES_H
#define MILLRACE_CONVERT_PIECES_H

#include "convert/piece_journal.h"

#include <stdatomic.h>

enum {
    PIECE_BYTES = 4 << 20, /* as large as pieces usually are */
    PIECES_WORKERS_MAX = 8,
    PIECES_WORKERS_USUAL_MAX = 4,
};

struct piece {
    uint64_t offset_bytes; /* in its file */
    size_t bytes;
};

/* Borrows all until pieces_close. */
struct pieces_options {
    struct io *io;
    unsigned workers_count;     /* 1..PIECES_WORKERS_MAX */
    const struct piece *pieces; /* of all files */
    size_t buffer_bytes;        /* none is larger */
    /* The bytes of pieces[piece], into data. By one thread a worker, and several workers at a
     * time. */
    int (*make)(void *context, unsigned worker, uint64_t piece, void *data, struct err *err);
    void *context;
    struct piece_journal *journal; /* NULL: none */
    void (*progress)(void *context, uint64_t bytes_done,
                     uint64_t bytes); /* by one thread at a time; NULL is fine */
    void *progress_context;
    uint64_t progress_bytes; /* all that will be written and compared */
    const atomic_int *stop;  /* non-zero: end soon with -EINTR; NULL: never */
};

struct pieces;

/* How many workers suit so many pieces: wanted (0: one a CPU, PIECES_WORKERS_USUAL_MAX at most),
 * and no more than have something to do. */
unsigned pieces_workers(unsigned wanted, uint64_t pieces_count);
int pieces_open(const struct pieces_options *options, struct pieces **ret_pieces, struct err *err);
/* Waits for what is in progress. NULL is fine. */
void pieces_close(struct pieces *pieces);
/* pieces[first..first+count) of the file. Blocks. path: as errors name it. */
int pieces_write(struct pieces *pieces, struct io_file *file, const char *path, uint64_t first,
                 uint64_t count, struct err *err);
/* The same are made again and compared: -EBADMSG with file and offset where one differs. */
int pieces_compare(struct pieces *pieces, struct io_file *file, const char *path, uint64_t first,
                   uint64_t count, struct err *err);
/* Whether a comparison found a piece that differs: what else has failed is no verdict on the
 * file. */
bool pieces_differ(const struct pieces *pieces);
/* Bytes that were there already, and were left as they are. */
uint64_t pieces_kept_bytes(const struct pieces *pieces);

#endif
