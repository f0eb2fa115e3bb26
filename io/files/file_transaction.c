/*
 * file_transaction — outputs that appear complete under their final name or not at all. See io.h;
 * docs/explanation/io.md describes what each call makes durable.
 *
 *     begin      mkdir staging, fsync parent
 *     create, write, and finalize of each file: ftruncate, fsync, close, fsync folder
 *     commit     fsync staging (with syncs_at_commit: syncfs, instead of all fsyncs so far),
 *                rename staging to final, fsync parent (file_commit.c)
 *
 * A single file is its own staging path. A resumed transaction starts from a dead writer's staging
 * path (file_resume.c); create then opens the files in it.
 */
#include "io/files/file_transaction.h"

#include "io/engines/file_transfer.h"
#include "io/file_util.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int transaction_exists_error(const char *path, struct err *err)
{
    err_set(err, -EEXIST, "the path already exists");
    err_at(err, path, ERR_NO_OFFSET);
    err_advise(err, "remove it, choose another name, or ask for it to be replaced");
    return -EEXIST;
}

/* Sets the final name without trailing slashes, and its folder. */
static int parse_names(struct io_transaction *transaction, const char *path, const char **ret_name,
                       struct err *err)
{
    int status = local_path(path, &path, err);
    if (status)
        return status;
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    memcpy(transaction->final_path, path, bytes);
    transaction->final_path[bytes] = '\0';
    const char *slash = strrchr(transaction->final_path, '/');
    const char *name = slash ? slash + 1 : transaction->final_path;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        strncmp(name, IO_TEMPORARY_PREFIX, strlen(IO_TEMPORARY_PREFIX)) == 0) {
        err_set(err, -EINVAL, "the name of the output is invalid");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "a name other than \".\", \"..\" and " IO_TEMPORARY_PREFIX "*");
        return -EINVAL;
    }
    io_parent_path(transaction->final_path, transaction->parent_path);
    *ret_name = name;
    return 0;
}

static int check_parent(const struct io_transaction *transaction, struct err *err)
{
    struct stat info;
    if (stat(transaction->parent_path, &info)) {
        int status = local_error(err, -errno, transaction->parent_path,
                                 "cannot access the folder of the output");
        err_advise(err, "create the folder first");
        return status;
    }
    if (!S_ISDIR(info.st_mode))
        return local_error(err, -ENOTDIR, transaction->parent_path,
                           "the parent of the output is not a folder");
    return 0;
}

int transaction_check_final(const struct io_transaction *transaction, struct err *err)
{
    struct stat info;
    if (lstat(transaction->final_path, &info))
        return errno == ENOENT ? 0
                               : local_error(err, -errno, transaction->final_path,
                                             "could not stat the output path");
    if (!transaction->replace)
        return transaction_exists_error(transaction->final_path, err);
    if (!S_ISDIR(info.st_mode) == transaction->single_file)
        return 0;
    err_set(err, -EEXIST, "the output path is %s",
            transaction->single_file ? "a folder" : "not a folder");
    err_at(err, transaction->final_path, ERR_NO_OFFSET);
    err_expected(err, "%s, which can be replaced",
                 transaction->single_file ? "a file" : "a folder");
    return -EEXIST;
}

static int set_backup(struct io_transaction *transaction, const char *path, struct err *err)
{
    int status = local_path(path, &path, err);
    if (!status)
        strcpy(transaction->backup_path, path);
    return status;
}

void transaction_free(struct io_transaction *transaction)
{
    while (transaction->open_files) {
        struct io_file *file = transaction->open_files;
        transaction->open_files = file->next;
        file_direct_close(file);
        close(file->fd);
        free(file);
    }
    if (transaction->staging_fd >= 0)
        close(transaction->staging_fd);
    if (transaction->temporaries)
        transaction->temporaries->remove(transaction->temporary);
    free(transaction);
}

static int lock_staging(struct io_transaction *transaction, struct err *err)
{
    int status = staging_lock(transaction->staging_fd, transaction->staging_path,
                              transaction->single_file, err);
    transaction->is_taken_over = status == -EBUSY;
    return status;
}

static int make_staging(struct io_transaction *transaction, struct err *err)
{
    if (mkdir(transaction->staging_path, 0777))
        return local_error(err, -errno, transaction->staging_path,
                           "could not create a folder for the output");
    int status = 0;
    if (transaction->is_resumable) {
        transaction->staging_fd =
            LOCAL_RETRY(open(transaction->staging_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        status = transaction->staging_fd < 0 ? local_error(err, -errno, transaction->staging_path,
                                                           "could not open the output's folder")
                                             : lock_staging(transaction, err);
    }
    if (!status)
        status = local_sync_folder(transaction->parent_path, err);
    if (status && !transaction->is_taken_over)
        rmdir(transaction->staging_path);
    return status;
}

/* Uses a dead writer's staging path or makes a new one. */
static int find_or_make_staging(struct io_transaction *transaction,
                                const struct io_transaction_options *options, const char *name,
                                struct err *err)
{
    int status = -ENOENT;
    if (options->resume == IO_RESUME_NOW)
        status = staging_find(transaction->parent_path, name, options, transaction->staging_path,
                              &transaction->staging_fd, err);
    transaction->is_resumed = status == 0;
    if (transaction->is_resumed) /* its writer may have died before the name was durable */
        return local_sync_folder(transaction->parent_path, err);
    if (status == -ENOENT)
        status = temporary_path(transaction->parent_path, name, options->owner_id, options->attempt,
                                transaction->staging_path, err);
    if (status || !transaction->single_file)
        return status ? status : make_staging(transaction, err);
    if (!transaction->is_resumable && transaction->temporaries)
        transaction->temporary = transaction->temporaries->add(transaction->staging_path);
    return 0;
}

static int local_transaction_begin(struct io *io, const struct io_transaction_options *options,
                                   struct io_transaction **ret_transaction, struct err *err)
{
    struct io_transaction *transaction = calloc(1, sizeof *transaction);
    if (!transaction)
        return err_set(err, -ENOMEM, "not enough memory to begin an output");
    transaction->temporaries = io->temporaries;
    transaction->single_file = options->single_file;
    transaction->replace = options->replace;
    transaction->syncs_at_commit = options->syncs_at_commit;
    transaction->is_resumable = options->resume != IO_RESUME_NO;
    transaction->staging_fd = transaction->temporary = -1;
    if (options->commit_record)
        snprintf(transaction->commit_record, sizeof transaction->commit_record, "%s",
                 options->commit_record);
    const char *name;
    int status = parse_names(transaction, options->path, &name, err);
    if (!status)
        status = check_parent(transaction, err);
    if (!status)
        status = transaction_check_final(transaction, err);
    if (!status && options->backup)
        status = set_backup(transaction, options->backup, err);
    if (!status)
        status = find_or_make_staging(transaction, options, name, err);
    if (status)
        transaction_free(transaction);
    else
        *ret_transaction = transaction;
    return status;
}

static int local_transaction_join(struct io *io, const struct io_transaction_options *options,
                                  const char *staging, struct io_transaction **ret_transaction,
                                  struct err *err)
{
    (void)io;
    if (options->single_file)
        return err_set(err, -EINVAL, "only one rank can write a single-file output");
    struct stat info;
    int status = local_path(staging, &staging, err);
    if (status)
        return status;
    if (lstat(staging, &info) || !S_ISDIR(info.st_mode)) {
        err_set(err, -ENOENT, "this rank cannot see the folder that the first rank created");
        err_at(err, staging, ERR_NO_OFFSET);
        err_advise(err, "write to a folder that all nodes share");
        return -ENOENT;
    }
    struct io_transaction *transaction = calloc(1, sizeof *transaction);
    if (!transaction)
        return err_set(err, -ENOMEM, "not enough memory to join an output");
    transaction->is_joined = true;
    transaction->staging_fd = transaction->temporary = -1;
    strcpy(transaction->staging_path, staging);
    const char *name;
    status = parse_names(transaction, options->path, &name, err);
    if (status)
        free(transaction);
    else
        *ret_transaction = transaction;
    return status;
}

static const char *local_transaction_staging(const struct io_transaction *transaction)
{
    return transaction->staging_path;
}

static int check_name(const char *name, struct err *err)
{
    const char *at = name;
    bool good = strlen(name) < IO_NAME_BYTES_MAX;
    do {
        size_t bytes = strcspn(at, "/");
        good = good && bytes > 0 && !(bytes == 1 && at[0] == '.') &&
               !(bytes == 2 && at[0] == '.' && at[1] == '.');
        at += bytes;
    } while (*at++ == '/');
    if (good)
        return 0;
    err_set(err, -EINVAL, "the name of an output file is invalid: \"%.200s\"", name);
    err_expected(err, "a relative path of plain names, shorter than %d bytes", IO_NAME_BYTES_MAX);
    return -EINVAL;
}

static int reserve(const struct io_file *file, uint64_t bytes, struct err *err)
{
    if (bytes == 0)
        return 0;
    if (bytes > INT64_MAX)
        return local_error(err, -EFBIG, file->path, "the file size is too large");
    int status = LOCAL_RETRY(fallocate(file->fd, 0, 0, (off_t)bytes)) ? -errno : 0;
    if (status == -EOPNOTSUPP || status == -ENOSYS)
        return 0; /* only an optimization */
    return status ? local_error(err, status, file->path, "could not reserve space for the file")
                  : 0;
}

static int make_subfolders(const struct io_transaction *transaction, const char *file_path,
                           struct err *err)
{
    char folder[IO_PATH_BYTES_MAX];
    io_parent_path(file_path, folder);
    return strlen(folder) > strlen(transaction->staging_path) ? local_make_folder(NULL, folder, err)
                                                              : 0;
}

/* In a resumed transaction the file may exist. */
static int open_or_create(struct io_transaction *transaction, struct io_file *file,
                          bool *ret_existed, struct err *err)
{
    if (transaction->is_resumed)
        file->fd = LOCAL_RETRY(open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    *ret_existed = file->fd >= 0;
    if (file->fd < 0 && (!transaction->is_resumed || errno == ENOENT))
        file->fd =
            LOCAL_RETRY(open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (file->fd < 0)
        return errno == EEXIST ? transaction_exists_error(file->path, err)
                               : local_error(err, -errno, file->path, "could not create the file");
    if (!transaction->single_file || !transaction->is_resumable || transaction->is_resumed)
        return 0;
    transaction->staging_fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0); /* stays open after finalize */
    return transaction->staging_fd < 0
               ? local_error(err, -errno, file->path, "could not keep the file open")
               : lock_staging(transaction, err);
}

/* Allocates a file and sets its path, without opening it. */
static int new_file(struct io_transaction *transaction, const char *name, struct io_file **ret_file,
                    struct err *err)
{
    struct io_file *file = calloc(1, sizeof *file);
    if (!file)
        return err_set(err, -ENOMEM, "out of memory for a file");
    int status = 0;
    file->fd = -1;
    file->transaction = transaction;
    if (transaction->single_file) {
        assert(!*name);
        strcpy(file->path, transaction->staging_path);
    } else {
        status = check_name(name, err);
        if (!status)
            status = io_join_path(transaction->staging_path, name, file->path, err);
    }
    if (status)
        free(file);
    else
        *ret_file = file;
    return status;
}

/* Adds the file to open_files, or frees it on failure. */
static int add_or_free_file(struct io_transaction *transaction, struct io_file *file, int status,
                            struct io_file **ret_file)
{
    if (status) {
        if (file->fd >= 0)
            close(file->fd);
        free(file);
        return status;
    }
    file->next = transaction->open_files;
    transaction->open_files = file;
    *ret_file = file;
    return 0;
}

/* The commit record is the last file, created when this rank's others are finalized. */
static int check_order(const struct io_transaction *transaction, const char *name, bool is_record,
                       struct err *err)
{
    if (!transaction->has_record && !(is_record && transaction->open_files))
        return 0;
    err_set(err, -EINVAL, "the commit record of an output is not its last file");
    err_at(err, transaction->final_path, ERR_NO_OFFSET);
    err_expected(err, "\"%.100s\" last", transaction->commit_record);
    err_found(err, "\"%.100s\"", transaction->has_record ? name : "an unfinished file");
    return -EINVAL;
}

static int local_transaction_create(struct io_transaction *transaction, const char *name,
                                    uint64_t bytes_expected, struct io_file **ret_file,
                                    struct err *err)
{
    struct io_file *file;
    bool existed = false;
    bool is_record = *name && strcmp(name, transaction->commit_record) == 0;
    int status = check_order(transaction, name, is_record, err);
    if (!status)
        status = new_file(transaction, name, &file, err);
    if (status)
        return status;
    if (!transaction->single_file)
        status = make_subfolders(transaction, file->path, err);
    if (!status)
        status = open_or_create(transaction, file, &existed, err);
    if (!status)
        status = reserve(file, bytes_expected, err);
    if (status && file->fd >= 0 && !existed && !transaction->is_taken_over)
        unlink(file->path);
    transaction->has_record |= !status && is_record;
    return add_or_free_file(transaction, file, status, ret_file);
}

static int local_transaction_open(struct io_transaction *transaction, const char *name,
                                  struct io_file **ret_file, struct err *err)
{
    struct io_file *file;
    int status = new_file(transaction, name, &file, err);
    if (status)
        return status;
    file->fd = LOCAL_RETRY(open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (file->fd < 0)
        status = local_error(err, -errno, file->path,
                             "this rank could not open the file that another rank created");
    return add_or_free_file(transaction, file, status, ret_file);
}

static void remove_open_file(struct io_transaction *transaction, const struct io_file *file)
{
    struct io_file **at = &transaction->open_files;
    while (*at != file) {
        assert(*at); /* a file of this transaction that is not yet finalized */
        at = &(*at)->next;
    }
    *at = file->next;
}

/* A failed fsync is not repeated: it may have dropped the dirty pages, and the next one would
 * falsely succeed. An interrupted fsync has dropped nothing. */
static int truncate_and_sync(int fd, uint64_t final_bytes, bool syncs)
{
    struct stat info;
    if (final_bytes > INT64_MAX)
        return -EFBIG;
    if (fstat(fd, &info))
        return -errno;
    if ((uint64_t)info.st_size != final_bytes && LOCAL_RETRY(ftruncate(fd, (off_t)final_bytes)))
        return -errno;
    return syncs && LOCAL_RETRY(fsync(fd)) ? -errno : 0;
}

static int local_transaction_finalize(struct io_transaction *transaction, struct io_file *file,
                                      uint64_t final_bytes, struct err *err)
{
    remove_open_file(transaction, file);
    file_direct_close(file);
    int status = truncate_and_sync(file->fd, final_bytes, !transaction->syncs_at_commit);
    /* close also closes on EINTR; a sync reports what happens to the data. */
    if (close(file->fd) && !status && errno != EINTR)
        status = -errno;
    if (status) {
        status = local_error(err, status, file->path, "could not make the file durable");
    } else if (!transaction->single_file && !transaction->syncs_at_commit) {
        char folder[IO_PATH_BYTES_MAX];
        io_parent_path(file->path, folder);
        status = local_sync_folder(folder, err);
    }
    if (status)
        transaction->is_lost = true;
    free(file);
    return status;
}

void local_transaction_abort(struct io_transaction *transaction)
{
    if (!transaction)
        return;
    if (!transaction->is_joined && !transaction->is_taken_over)
        temporary_remove(transaction->staging_path,
                         NULL); /* best effort; a sweep removes the rest */
    transaction_free(transaction);
}

static void local_transaction_leave(struct io_transaction *transaction)
{
    if (transaction)
        transaction_free(transaction);
}

const struct io_transaction_ops local_transactions = {
    .begin = local_transaction_begin,
    .join = local_transaction_join,
    .staging_path = local_transaction_staging,
    .create = local_transaction_create,
    .open = local_transaction_open,
    .finalize = local_transaction_finalize,
    .commit = local_transaction_commit,
    .abort = local_transaction_abort,
    .leave = local_transaction_leave,
    .sweep = local_sweep,
};
