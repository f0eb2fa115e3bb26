/*
 * pieces — see pieces.h. States of a worker's slot:
 *
 *     free ── generated ── being written ── recorded in the journal ── free
 *       └───── being read back ── its CRC matches ──────────────────────┘
 */
#include "convert/checkpoint/pieces.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/os/thread_pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 2,
    RUN_PIECES_MAX = 16,
    RUNS_PER_WORKER = 2, /* minimum, if there are enough pieces */
};

struct slot {
    struct io_request request;
    char *data;
    uint64_t piece;
    uint32_t crc;
    bool is_in_flight;
};

/* Used by one thread. */
struct worker {
    struct io_queue *queue;
    struct slot slots[SLOTS];
    unsigned next_slot;
};

struct pieces {
    struct pieces_options options;
    struct thread_pool *pool;
    struct worker workers[PIECES_WORKERS_MAX];
    /* The current call; immutable while workers run. */
    struct io_file *file;
    const char *path;
    uint64_t first, count, run_pieces; /* run: adjacent pieces for one worker */
    bool is_comparing;

    pthread_mutex_t mutex; /* guards progress and the nonatomic members below */
    uint64_t done_bytes, kept_bytes;
    int status; /* first failure */
    struct err detail;
    atomic_bool has_failed;
    atomic_bool has_mismatch;
};

unsigned pieces_choose_workers(unsigned requested, uint64_t pieces_count)
{
    unsigned cpus = thread_pool_cpu_count();
    if (requested == 0)
        requested = cpus < PIECES_WORKERS_AUTO_MAX ? cpus : PIECES_WORKERS_AUTO_MAX;
    uint64_t count = bytes_min(requested, bytes_min(pieces_count, PIECES_WORKERS_MAX));
    return count > 0 ? (unsigned)count : 1;
}

int pieces_open(const struct pieces_options *options, struct pieces **ret_pieces, struct err *err)
{
    assert(options->workers_count >= 1 && options->workers_count <= PIECES_WORKERS_MAX);
    struct pieces *pieces = calloc(1, sizeof *pieces);
    if (!pieces)
        return err_set(err, -ENOMEM, "not enough memory to convert a checkpoint");
    pieces->options = *options;
    pthread_mutex_init(&pieces->mutex, NULL);
    int status = thread_pool_open(options->workers_count, &pieces->pool, err);
    size_t bytes = bytes_round_up(options->buffer_bytes, IO_ALIGN_BYTES);
    for (unsigned w = 0; w < options->workers_count && !status; w++) {
        struct worker *worker = &pieces->workers[w];
        status = options->io->ops->queue_open(options->io, SLOTS, &worker->queue, err);
        for (unsigned s = 0; s < SLOTS && !status; s++) {
            worker->slots[s].data = aligned_alloc(IO_ALIGN_BYTES, bytes);
            if (!worker->slots[s].data)
                status = err_set(err, -ENOMEM, "not enough memory to convert a checkpoint");
        }
    }
    if (status)
        pieces_close(pieces);
    else
        *ret_pieces = pieces;
    return status;
}

void pieces_close(struct pieces *pieces)
{
    if (!pieces)
        return;
    thread_pool_close(pieces->pool);
    for (unsigned w = 0; w < pieces->options.workers_count; w++) {
        struct worker *worker = &pieces->workers[w];
        if (worker->queue)
            pieces->options.io->ops->queue_close(worker->queue);
        for (unsigned s = 0; s < SLOTS; s++)
            free(worker->slots[s].data);
    }
    pthread_mutex_destroy(&pieces->mutex);
    free(pieces);
}

uint64_t pieces_kept_bytes(const struct pieces *pieces)
{
    return pieces->kept_bytes;
}

bool pieces_has_mismatch(const struct pieces *pieces)
{
    return atomic_load(&pieces->has_mismatch);
}

/* Waits until the slot is free. Also completes writes of the worker's other slots. */
static int wait_for_slot(const struct pieces *pieces, struct worker *worker, struct slot *slot,
                         struct err *err)
{
    struct io_request *done[SLOTS];
    while (slot->is_in_flight) {
        int count = pieces->options.io->ops->reap(worker->queue, done, SLOTS, 1, IO_FOREVER);
        if (count < 0)
            return err_errno(err, count, "could not wait for a file");
        for (int i = 0; i < count; i++)
            ((struct slot *)done[i]->user)->is_in_flight = false;
    }
    return 0;
}

static int submit(const struct pieces *pieces, struct worker *worker, struct slot *slot,
                  enum io_request_kind kind, struct err *err)
{
    const struct piece *piece = &pieces->options.pieces[slot->piece];
    slot->request = (struct io_request){.kind = kind,
                                        .file = pieces->file,
                                        .offset = piece->offset_bytes,
                                        .data = slot->data,
                                        .bytes = piece->bytes,
                                        .flags = IO_NOREUSE,
                                        .user = slot};
    struct io_request *request = &slot->request;
    int taken = pieces->options.io->ops->submit(worker->queue, &request, 1);
    assert(taken != 0); /* queue depth is SLOTS */
    if (taken < 0)
        return err_errno(err, taken, "could not submit a request");
    slot->is_in_flight = true;
    return 0;
}

static bool is_write_pending(const struct slot *slot)
{
    return slot->request.file && slot->request.kind == IO_WRITE;
}

static int finish_write(const struct pieces *pieces, struct worker *worker, struct slot *slot,
                        struct err *err)
{
    int status = wait_for_slot(pieces, worker, slot, err);
    if (status || !is_write_pending(slot))
        return status;
    slot->request.file = NULL;
    if (slot->request.result < 0) {
        err_errno(err, (int)slot->request.result, "could not write");
        err_at(err, pieces->path, (int64_t)slot->request.offset);
        return (int)slot->request.result;
    }
    return pieces->options.journal
               ? piece_journal_record(pieces->options.journal, slot->piece, slot->crc, err)
               : 0;
}

/* *ret_is_complete: the whole piece was read. A read error is not a failure. */
static int read_back(const struct pieces *pieces, struct worker *worker, struct slot *slot,
                     bool *ret_is_complete, struct err *err)
{
    int status = submit(pieces, worker, slot, IO_READ, err);
    if (!status)
        status = wait_for_slot(pieces, worker, slot, err);
    *ret_is_complete = slot->request.result == (ssize_t)slot->request.bytes;
    return status;
}

static int reuse_piece(const struct pieces *pieces, struct worker *worker, struct slot *slot,
                       bool *ret_is_reused, struct err *err)
{
    const struct piece_journal *journal = pieces->options.journal;
    uint32_t recorded_crc;
    *ret_is_reused = false;
    if (!journal || !piece_journal_find(journal, slot->piece, &recorded_crc))
        return 0;
    int status = read_back(pieces, worker, slot, ret_is_reused, err);
    if (!status && *ret_is_reused)
        *ret_is_reused = crc32c(0, slot->data, slot->request.bytes) == recorded_crc;
    return status;
}

static void add_done_bytes(struct pieces *pieces, uint64_t bytes, bool is_reused)
{
    const struct pieces_options *options = &pieces->options;
    pthread_mutex_lock(&pieces->mutex);
    pieces->done_bytes += bytes;
    pieces->kept_bytes += is_reused ? bytes : 0;
    if (options->progress)
        options->progress(options->progress_context, pieces->done_bytes, options->progress_bytes);
    pthread_mutex_unlock(&pieces->mutex);
}

static int write_piece(struct pieces *pieces, unsigned w, uint64_t piece, struct err *err)
{
    struct worker *worker = &pieces->workers[w];
    struct slot *slot = &worker->slots[worker->next_slot++ % SLOTS];
    const struct pieces_options *options = &pieces->options;
    bool is_reused = false;
    int status = finish_write(pieces, worker, slot, err);
    slot->piece = piece;
    if (!status)
        status = reuse_piece(pieces, worker, slot, &is_reused, err);
    if (!status && !is_reused) {
        status = options->make(options->context, w, piece, slot->data, err);
        if (!status && options->journal)
            slot->crc = crc32c(0, slot->data, options->pieces[piece].bytes);
        if (!status)
            status = submit(pieces, worker, slot, IO_WRITE, err);
    }
    if (!status)
        add_done_bytes(pieces, options->pieces[piece].bytes, is_reused);
    return status;
}

static int report_mismatch(struct pieces *pieces, uint64_t offset, struct err *err)
{
    atomic_store(&pieces->has_mismatch, true);
    err_set(err, -EBADMSG, "a written file differs from its contents in memory");
    err_at(err, pieces->path, (int64_t)offset);
    err_advise(err, "convert again: the disk or the memory may be failing");
    return -EBADMSG;
}

static int compare_piece(struct pieces *pieces, unsigned w, uint64_t piece, struct err *err)
{
    struct worker *worker = &pieces->workers[w];
    struct slot *file_slot = &worker->slots[0], *source_slot = &worker->slots[1];
    const struct pieces_options *options = &pieces->options;
    uint64_t bytes = options->pieces[piece].bytes, offset = options->pieces[piece].offset_bytes,
             same = 0;
    bool is_complete = false;
    file_slot->piece = piece;
    int status = read_back(pieces, worker, file_slot, &is_complete, err);
    if (!status)
        status = options->make(options->context, w, piece, source_slot->data, err);
    if (status)
        return status;
    if (file_slot->request.result < 0) {
        err_errno(err, (int)file_slot->request.result, "could not read back");
        err_at(err, pieces->path, (int64_t)offset);
        return (int)file_slot->request.result;
    }
    if (!is_complete)
        return report_mismatch(pieces, offset, err);
    if (memcmp(source_slot->data, file_slot->data, bytes) == 0)
        return add_done_bytes(pieces, bytes, false), 0;
    while (source_slot->data[same] == file_slot->data[same])
        same++;
    return report_mismatch(pieces, offset + same, err);
}

static void record_failure(struct pieces *pieces, int status, const struct err *detail)
{
    pthread_mutex_lock(&pieces->mutex);
    if (!pieces->status) {
        pieces->status = status;
        pieces->detail = *detail;
    }
    pthread_mutex_unlock(&pieces->mutex);
    atomic_store(&pieces->has_failed, true);
}

static void process_run(void *context, size_t run, unsigned worker)
{
    struct pieces *pieces = context;
    struct err detail = {0};
    uint64_t begin = run * pieces->run_pieces,
             end = bytes_min(begin + pieces->run_pieces, pieces->count);
    for (uint64_t i = begin; i < end && !atomic_load(&pieces->has_failed); i++) {
        uint64_t piece = pieces->first + i;
        int status;
        if (pieces->options.stop && atomic_load(pieces->options.stop))
            status = err_set(&detail, -EINTR, "stopped on request");
        else if (pieces->is_comparing)
            status = compare_piece(pieces, worker, piece, &detail);
        else
            status = write_piece(pieces, worker, piece, &detail);
        if (status)
            record_failure(pieces, status, &detail);
    }
}

int pieces_process(struct pieces *pieces, struct io_file *file, const char *path, uint64_t first,
                   uint64_t count, bool is_comparing, struct err *err)
{
    pieces->file = file;
    pieces->path = path;
    pieces->first = first;
    pieces->count = count;
    pieces->is_comparing = is_comparing;
    uint64_t run =
        bytes_min(count / (RUNS_PER_WORKER * pieces->options.workers_count), RUN_PIECES_MAX);
    pieces->run_pieces = run > 0 ? run : 1;
    thread_pool_run(pieces->pool, (size_t)((count + pieces->run_pieces - 1) / pieces->run_pieces),
                    process_run, pieces);
    for (unsigned w = 0; w < pieces->options.workers_count; w++)
        for (unsigned s = 0; s < SLOTS; s++) {
            struct err detail = {0};
            int status =
                finish_write(pieces, &pieces->workers[w], &pieces->workers[w].slots[s], &detail);
            if (status)
                record_failure(pieces, status, &detail);
        }
    if (pieces->status && err)
        *err = pieces->detail;
    return pieces->status;
}
