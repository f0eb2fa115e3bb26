/*
 * file_set — what the halves of the local backend's sets share: file_set.c begins, writes and ends
 * them, file_publish.c gives them their names. Internal to io/.
 */
#ifndef MILLRACE_IO_FILE_SET_H
#define MILLRACE_IO_FILE_SET_H

#include "io/file_local.h"

#include <stdbool.h>

/* Owner thread. */
struct io_set {
    bool single_file, replace, joined;
    bool lost; /* something could not be made durable: must not be published */
    bool adoptable,
        adopted;     /* others may go on in place when this writer is dead; it was another's */
    bool taken_over; /* before it was locked, by another process, whose place it is now */
    int place_fd;    /* of an adoptable set, locked; -1: none */
    int registered;  /* io_temporary_unregister's */
    struct io_file *open_files;
    char final[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX], place[IO_PATH_BYTES_MAX];
    char aside[IO_PATH_BYTES_MAX]; /* "": what is replaced is removed */
};

/* -EEXIST, with what to do. */
int set_taken(const char *path, struct err *err);
/* That the final name is free, or may be replaced: a file by a file only, and a folder by a folder
 * only. */
int set_check_final(const struct io_set *set, struct err *err);
/* With its open files; what is on disk stays. */
void set_free(struct io_set *set);

#endif
