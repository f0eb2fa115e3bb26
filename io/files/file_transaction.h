/*
 * file_transaction — shared by file_transaction.c and file_commit.c. Internal to io/.
 */
#ifndef MILLRACE_IO_FILES_FILE_TRANSACTION_H
#define MILLRACE_IO_FILES_FILE_TRANSACTION_H

#include "io/local/file_local.h"

#include <stdbool.h>

/* Owner thread. */
struct io_transaction {
    bool single_file, replace, is_joined;
    bool syncs_at_commit; /* see io_transaction_options */
    bool is_lost;         /* something is not durable: commit must fail */
    /* is_resumable: others may resume it if this writer dies; is_resumed: a dead one began it */
    bool is_resumable, is_resumed;
    bool has_record;    /* the commit record was created */
    bool is_taken_over; /* another process locked the staging path first and owns it */
    int staging_fd;     /* of a resumable transaction, locked; else -1 */
    const struct io_temporaries *temporaries;
    int temporary; /* the argument of temporaries->remove */
    struct io_file *open_files;
    char commit_record[IO_NAME_BYTES_MAX]; /* "": none */
    char final_path[IO_PATH_BYTES_MAX], parent_path[IO_PATH_BYTES_MAX],
        staging_path[IO_PATH_BYTES_MAX];
    char backup_path[IO_PATH_BYTES_MAX]; /* "": remove the replaced output */
};

/* Returns -EEXIST, with advice. */
int transaction_exists_error(const char *path, struct err *err);
/* Checks that the final name is free, or names an output of the same kind that may be replaced. */
int transaction_check_final(const struct io_transaction *transaction, struct err *err);
/* Also closes and frees its open files; data on disk stays. */
void transaction_free(struct io_transaction *transaction);

#endif
