/*
 * file_transaction — what the halves of the local backend's transactions share: file_transaction.c
 * begins, writes and ends them, file_commit.c gives them their names. Internal to io/.
 */
#ifndef MILLRACE_IO_FILE_TRANSACTION_H
#define MILLRACE_IO_FILE_TRANSACTION_H

#include "io/file_local.h"

#include <stdbool.h>

/* Owner thread. */
struct io_transaction {
    bool single_file, replace, joined;
    bool lost; /* something could not be made durable: must not be committed */
    bool resumable,
        resumed;     /* others may go on in place when this writer is dead; it was another's */
    bool taken_over; /* before it was locked, by another process, whose place it is now */
    int staging_fd;  /* of a resumable transaction, locked; -1: none */
    int registered;  /* io_temporary_unregister's */
    struct io_file *open_files;
    char final[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX], staging[IO_PATH_BYTES_MAX];
    char backup[IO_PATH_BYTES_MAX]; /* "": what is replaced is removed */
};

/* -EEXIST, with what to do. */
int transaction_taken(const char *path, struct err *err);
/* That the final name is free, or may be replaced: a file by a file only, and a folder by a folder
 * only. */
int transaction_check_final(const struct io_transaction *transaction, struct err *err);
/* With its open files; what is on disk stays. */
void transaction_free(struct io_transaction *transaction);

#endif
