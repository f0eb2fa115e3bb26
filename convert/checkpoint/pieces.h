/*
 * pieces — generates large files piecewise on several threads, and writes or compares them.
 *
 *     pieces_open(&options, &pieces, err);
 *     // for each file:
 *     pieces_process(pieces, file, path, first, count, false, err);   // write
 *     pieces_process(pieces, file, path, first, count, true, err);    // verify
 *     pieces_close(pieces);
 *
 * Each worker makes a piece in one buffer while its other buffer is written. Adjacent pieces go to
 * the same worker, because they share blocks of the source. A piece in the journal is read back; if
 * its CRC matches, it is reused.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_PIECES_H
#define MILLRACE_CONVERT_CHECKPOINT_PIECES_H

#include "convert/checkpoint/piece_journal.h"

#include <stdatomic.h>

enum {
    PIECE_BYTES = 4 << 20, /* usual size */
    PIECES_WORKERS_MAX = 8,
    PIECES_WORKERS_AUTO_MAX = 4,
};

struct piece {
    uint64_t offset_bytes;
    size_t bytes;
};

/* Borrowed until pieces_close. */
struct pieces_options {
    struct io *io;
    unsigned workers_count;     /* 1..PIECES_WORKERS_MAX */
    const struct piece *pieces; /* the pieces of all files */
    size_t buffer_bytes;        /* size of the largest piece */
    /* Writes the bytes of pieces[piece] to data. Workers call it concurrently. */
    int (*make)(void *context, unsigned worker, uint64_t piece, void *data, struct err *err);
    void *context;
    struct piece_journal *journal; /* may be NULL */
    /* Called by one thread at a time; may be NULL. */
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *progress_context;
    uint64_t progress_bytes; /* bytes to write and compare */
    const atomic_int *stop;  /* nonzero: stop with -EINTR; may be NULL */
};

struct pieces;

/* Returns the number of workers that have work, at most `requested`. requested 0: one per CPU, at
 * most PIECES_WORKERS_AUTO_MAX. */
unsigned pieces_choose_workers(unsigned requested, uint64_t pieces_count);
int pieces_open(const struct pieces_options *options, struct pieces **ret_pieces, struct err *err);
/* Waits for work in progress. NULL is fine. */
void pieces_close(struct pieces *pieces);
/* Makes pieces[first..first+count), and writes them to file or compares them with it. path: for
 * errors. Blocks. -EBADMSG with file and offset: the data differs. */
int pieces_process(struct pieces *pieces, struct io_file *file, const char *path, uint64_t first,
                   uint64_t count, bool is_comparing, struct err *err);
/* Whether a comparison failed because data differs. */
bool pieces_has_mismatch(const struct pieces *pieces);
/* Returns the bytes reused from an interrupted conversion. */
uint64_t pieces_kept_bytes(const struct pieces *pieces);

#endif
