/*
 * file_transaction — shared by file_transaction.c and file_commit.c. Internal to io/.
 */
#ifndef MILLRACE_IO_FILES_FILE_TRANSACTION_H
#define MILLRACE_IO_FILES_FILE_TRANSACTION_H

#include "io/local/file_local.h"

#include <stdbool.h>

/* Owner thread. */
struct io_transaction {
    bool single_file, replace, joined;
    bool lost; /* something is not durable: commit must fail */
    /* resumable: others may resume it if this writer dies; resumed: another writer began it */
    bool resumable, resumed;
    bool taken_over; /* another process locked the staging path first and owns it */
    int staging_fd;  /* of a resumable transaction, locked; else -1 */
    const struct io_temporaries *temporaries;
    int temporary; /* the argument of temporaries->remove */
    struct io_file *open_files;
    char final[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX], staging[IO_PATH_BYTES_MAX];
    char backup[IO_PATH_BYTES_MAX]; /* "": remove the replaced output */
};

/* Returns -EEXIST, with advice. */
int transaction_error_exists(const char *path, struct err *err);
/* Checks that the final name is free, or names an output of the same kind that may be replaced. */
int transaction_check_final(const struct io_transaction *transaction, struct err *err);
/* Also closes and frees its open files; data on disk stays. */
void transaction_free(struct io_transaction *transaction);

#endif
