/*
 * file_transaction — declarations shared by the two parts of local transactions: file_transaction.c
 * begins, writes and ends them, file_commit.c commits them. Internal to io/.
 */
#ifndef MILLRACE_IO_FILES_FILE_TRANSACTION_H
#define MILLRACE_IO_FILES_FILE_TRANSACTION_H

#include "io/local/file_local.h"

#include <stdbool.h>

/* Owner thread. */
struct io_transaction {
    bool single_file, replace, joined;
    bool lost; /* something could not be made durable: commit must fail */
    /* resumable: others may resume it when this writer is dead; resumed: it was another writer's */
    bool resumable, resumed;
    bool taken_over; /* another process locked the staging path first and now owns it */
    int staging_fd;  /* of a resumable transaction, locked; -1: none */
    const struct io_temporaries *temporaries;
    int temporary; /* its number there */
    struct io_file *open_files;
    char final[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX], staging[IO_PATH_BYTES_MAX];
    char backup[IO_PATH_BYTES_MAX]; /* "": the replaced output is removed */
};

/* -EEXIST, with advice. */
int transaction_exists_error(const char *path, struct err *err);
/* Checks that the final name is free or may be replaced: a file only by a file, a folder only by a
 * folder. */
int transaction_check_final(const struct io_transaction *transaction, struct err *err);
/* Closes and frees its open files too; data on disk stays. */
void transaction_free(struct io_transaction *transaction);

#endif
