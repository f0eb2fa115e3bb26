/*
 * checked_folder — a folder of new files, written in one pass and optionally compared in a second
 * one.
 *
 *     checked_folder_begin(&folder, io, &transaction, err);
 *     make(&folder);                     // open, put..., close, for each file
 *     checked_folder_compare(&folder);
 *     make(&folder);                     // the same calls: the data is compared instead of written
 *     checked_folder_commit(&folder, err);
 *
 * Owner thread.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_CHECKED_FOLDER_H
#define MILLRACE_CONVERT_CHECKPOINT_CHECKED_FOLDER_H

#include "io/io.h"

/* Zero-initialized; then owns all members but io, target. */
struct checked_folder {
    struct io *io;
    const char *target;
    struct io_transaction *transaction;
    struct io_queue *queue;
    char *found; /* buffer for data read back */
    bool is_comparing;
    bool has_mismatch; /* something differs or is missing */
};

struct checked_file {
    char path[IO_PATH_BYTES_MAX]; /* as errors name it */
    struct io_file *file;         /* owned by the transaction when writing, else by this struct */
};

/* transaction: options for a folder. */
int checked_folder_begin(struct checked_folder *folder, struct io *io,
                         const struct io_transaction_options *transaction, struct err *err);
/* From now on files are compared. All opened files must be closed. */
void checked_folder_compare(struct checked_folder *folder);
/* Replaces begin and compare: compares with any existing folder. Nothing can be committed. */
int checked_folder_open_existing(struct checked_folder *folder, struct io *io, const char *path,
                                 struct err *err);
/* The folder appears complete and durable under its name, or not at all. */
int checked_folder_commit(struct checked_folder *folder, struct err *err);
/* keep: uncommitted data stays for a later resume; else it is removed. */
void checked_folder_deinit(struct checked_folder *folder, bool keep);

int checked_file_open(struct checked_folder *folder, struct checked_file *ret_file,
                      const char *name, uint64_t bytes, struct err *err);
/* Blocks. -EBADMSG with file and offset if the existing data differs. */
int checked_file_put(struct checked_folder *folder, const struct checked_file *file,
                     uint64_t offset, const void *data, size_t bytes, struct err *err);
/* status: the result of the puts so far, returned if it is an error; a file being written then
 * stays open until the folder is released. */
int checked_file_close(struct checked_folder *folder, struct checked_file *file, uint64_t bytes,
                       int status, struct err *err);

#endif
