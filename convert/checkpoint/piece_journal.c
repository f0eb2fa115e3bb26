/*
 * piece_journal — see piece_journal.h.
 */
#include "convert/checkpoint/piece_journal.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/hash.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOURNAL_SUFFIX ".pieces"

/* A hash replaces longer names: the temporary file's truncated name must differ from the
 * target's. */
enum { ENTRY_BYTES = 8, TARGET_NAME_BYTES_MAX = 128 };

struct piece_journal {
    struct io *io;
    struct io_transaction *transaction;
    struct io_file *file; /* owned by the transaction */
    struct io_queue *queue;
    pthread_mutex_t mutex; /* guards queue */
    uint64_t entries_count;
    char *entries; /* [entries_count]; immutable */
};

static uint32_t entry_crc(uint64_t piece, uint32_t crc)
{
    char written[12];
    bytes_put_u64(written, piece);
    bytes_put_u32(written + 8, crc);
    return crc32c(0, written, sizeof written);
}

static int read_entries(struct piece_journal *journal, uint64_t pieces_count, struct err *err)
{
    const struct io_ops *ops = journal->io->ops;
    struct io_request request = {
        .kind = IO_READ, .file = journal->file, .bytes = pieces_count * ENTRY_BYTES};
    struct io_request *one = &request;
    if (pieces_count == 0)
        return 0;
    journal->entries = request.data = malloc(request.bytes + 1);
    if (!journal->entries)
        return err_set(err, -ENOMEM, "not enough memory to resume a conversion of %llu pieces",
                       (unsigned long long)pieces_count);
    int count = ops->submit(journal->queue, &one, 1);
    if (count > 0)
        do {
            count = ops->reap(journal->queue, &one, 1, 1, IO_FOREVER);
        } while (count == 0);
    if (count < 0)
        return err_errno(err, count, "could not read the journal of the conversion");
    if (request.result > 0) /* after an error, no entries are known */
        journal->entries_count = (uint64_t)request.result / ENTRY_BYTES;
    return 0;
}

/* Writes the path of the journal, next to the target. */
static int write_journal_path(const char *target, char *path, struct err *err)
{
    size_t bytes = strlen(target), begin;
    while (bytes > 1 && target[bytes - 1] == '/')
        bytes--;
    for (begin = bytes; begin > 0 && target[begin - 1] != '/';)
        begin--;
    char longer[IO_PATH_BYTES_MAX + 32];
    int length = bytes - begin <= TARGET_NAME_BYTES_MAX
                     ? snprintf(longer, sizeof longer, "%.*s" JOURNAL_SUFFIX, (int)bytes, target)
                     : snprintf(longer, sizeof longer, "%.*s%016" PRIx64 JOURNAL_SUFFIX, (int)begin,
                                target, hash_64(target + begin, bytes - begin));
    if (length >= IO_PATH_BYTES_MAX)
        return io_long_path_error("", longer, err);
    strcpy(path, longer);
    return 0;
}

static int begin_file(struct piece_journal *journal, const struct piece_journal_options *options,
                      struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    int status = write_journal_path(options->target, path, err);
    if (status)
        return status;
    struct io_transaction_options transaction = {.path = path,
                                                 .single_file = true,
                                                 .replace = true,
                                                 .owner_id = options->owner_id,
                                                 .resume = options->resume ? IO_RESUME_NOW
                                                                           : IO_RESUME_LATER};
    status =
        options->io->transactions->begin(options->io, &transaction, &journal->transaction, err);
    return status ? status
                  : options->io->transactions->create(journal->transaction, "", 0, &journal->file,
                                                      err);
}

int piece_journal_open(const struct piece_journal_options *options,
                       struct piece_journal **ret_journal, struct err *err)
{
    struct piece_journal *journal = calloc(1, sizeof *journal);
    if (!journal)
        return err_set(err, -ENOMEM, "out of memory for a journal");
    journal->io = options->io;
    pthread_mutex_init(&journal->mutex, NULL);
    int status = options->io->ops->queue_open(options->io, 1, &journal->queue, err);
    if (!status)
        status = begin_file(journal, options, err);
    if (!status && options->resume)
        status = read_entries(journal, options->pieces_count, err);
    if (status)
        piece_journal_close(journal, false);
    else
        *ret_journal = journal;
    return status;
}

void piece_journal_close(struct piece_journal *journal, bool keep)
{
    if (!journal)
        return;
    if (journal->queue)
        journal->io->ops->queue_close(journal->queue);
    if (keep)
        journal->io->transactions->leave(journal->transaction);
    else
        journal->io->transactions->abort(journal->transaction);
    pthread_mutex_destroy(&journal->mutex);
    free(journal->entries);
    free(journal);
}

bool piece_journal_find(const struct piece_journal *journal, uint64_t piece, uint32_t *ret_crc32c)
{
    if (piece >= journal->entries_count)
        return false;
    const char *entry = journal->entries + piece * ENTRY_BYTES;
    uint32_t crc = bytes_get_u32(entry);
    if (bytes_get_u32(entry + 4) != entry_crc(piece, crc))
        return false;
    *ret_crc32c = crc;
    return true;
}

int piece_journal_record(struct piece_journal *journal, uint64_t piece, uint32_t crc32c_of_bytes,
                         struct err *err)
{
    char entry[ENTRY_BYTES];
    bytes_put_u32(entry, crc32c_of_bytes);
    bytes_put_u32(entry + 4, entry_crc(piece, crc32c_of_bytes));
    pthread_mutex_lock(&journal->mutex);
    int status =
        io_write_exact(journal->queue, journal->io, journal->file, "the conversion's journal",
                       piece * ENTRY_BYTES, entry, sizeof entry, err);
    pthread_mutex_unlock(&journal->mutex);
    return status;
}
