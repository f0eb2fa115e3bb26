/*
 * checked_folder — writes a folder of new files in one pass, and optionally verifies it in a
 * second.
 *
 *     checked_folder_begin(&folder, io, &transaction, err);
 *     make(&folder);                     // for each file: open, put..., close
 *     checked_folder_compare(&folder);
 *     make(&folder);                     // the same calls compare the data
 *     checked_folder_commit(&folder, err);
 *
 * Use from one thread only.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_CHECKED_FOLDER_H
#define MILLRACE_CONVERT_CHECKPOINT_CHECKED_FOLDER_H

#include "io/io.h"

/* Zero-initialize. Owns all members except io and target. */
struct checked_folder {
    struct io *io;
    const char *target;
    struct io_transaction *transaction;
    struct io_queue *queue;
    char *readback;
    bool is_comparing;
    bool has_mismatch; /* different or missing data */
};

struct checked_file {
    char path[IO_PATH_BYTES_MAX];
    struct io_file *file; /* when writing, owned by the transaction */
};

/* transaction: must create a folder. */
int checked_folder_begin(struct checked_folder *folder, struct io *io,
                         const struct io_transaction_options *transaction, struct err *err);
/* Makes later calls compare instead of write. All opened files must be closed. */
void checked_folder_compare(struct checked_folder *folder);
/* Compares with an existing folder instead of writing one. Nothing can be committed. */
int checked_folder_open_existing(struct checked_folder *folder, struct io *io, const char *path,
                                 struct err *err);
/* Publishes the folder atomically and durably. */
int checked_folder_commit(struct checked_folder *folder, struct err *err);
/* keep: leave uncommitted data for a resume. */
void checked_folder_deinit(struct checked_folder *folder, bool keep);

int checked_file_open(struct checked_folder *folder, struct checked_file *ret_file,
                      const char *name, uint64_t bytes, struct err *err);
/* Blocks. -EBADMSG with file and offset: the existing data differs. */
int checked_file_put(struct checked_folder *folder, const struct checked_file *file,
                     uint64_t offset, const void *data, size_t bytes, struct err *err);
/* status: result of the preceding puts. Returns it if it is an error; a file being written then
 * stays open until checked_folder_deinit. */
int checked_file_close(struct checked_folder *folder, struct checked_file *file, uint64_t bytes,
                       int status, struct err *err);

#endif
