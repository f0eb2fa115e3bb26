/*
 * checked_folder — a folder of new files, made in one go and then, if that is asked for, compared
 * in a second one.
 *
 *     checked_folder_begin(&folder, io, &transaction, err);
 *     make(&folder);                     // open, put..., close, for each file
 *     checked_folder_compare(&folder);
 *     make(&folder);  // the same calls once more: what they put is compared with what is there
 *     checked_folder_commit(&folder, err);
 *
 * Owner thread.
 */
#ifndef MILLRACE_CONVERT_CHECKED_FOLDER_H
#define MILLRACE_CONVERT_CHECKED_FOLDER_H

#include "io/io.h"

/* Zeroed at first; then it owns all but io, target. */
struct checked_folder {
    struct io *io;
    const char *target;
    struct io_transaction *transaction;
    struct io_queue *queue;
    char *found; /* what was read back */
    bool is_comparing;
    bool is_other; /* something was found that differs, or not found */
};

struct checked_file {
    char path[IO_PATH_BYTES_MAX]; /* as errors name it */
    struct io_file *file;         /* the transaction's where it is written, else ours */
};

/* set: as transaction_begin takes it, of a folder. */
int checked_folder_begin(struct checked_folder *folder, struct io *io,
                         const struct io_transaction_options *transaction, struct err *err);
/* From here on files are compared. All that were opened must be closed. */
void checked_folder_compare(struct checked_folder *folder);
/* Instead of begin and compare: with a folder that is there, and need not be one of ours. Nothing
 * can be committed. */
int checked_folder_look(struct checked_folder *folder, struct io *io, const char *path,
                        struct err *err);
/* The folder appears whole and durable under its name, or not at all. */
int checked_folder_commit(struct checked_folder *folder, struct err *err);
/* keep: what was not committed stays for whoever resumes; else it is removed. */
void checked_folder_deinit(struct checked_folder *folder, bool keep);

int checked_file_open(struct checked_folder *folder, struct checked_file *ret_file,
                      const char *name, uint64_t bytes, struct err *err);
/* Blocks. -EBADMSG with file and offset where what is there differs. */
int checked_file_put(struct checked_folder *folder, const struct checked_file *file,
                     uint64_t offset, const void *data, size_t bytes, struct err *err);
/* status: of what was put so far, given back where it is one; then a file that was written is left
 * to the folder. */
int checked_file_close(struct checked_folder *folder, struct checked_file *file, uint64_t bytes,
                       int status, struct err *err);

#endif
