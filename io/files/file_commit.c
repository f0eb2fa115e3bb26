/*
 * file_commit — gives an output its final name. docs/explanation/io.md lists what each file system
 * supports.
 */
#include "io/files/file_transaction.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_unsupported(int code)
{
    return code == -EINVAL || code == -ENOSYS || code == -EOPNOTSUPP;
}

/* For file systems without RENAME_NOREPLACE. link never replaces a file. A folder is renamed after
 * a check; if an entry appears in between, the kernel replaces it only if it is an empty folder. */
static int rename_without_flag(const struct io_transaction *transaction)
{
    if (transaction->single_file && link(transaction->staging_path, transaction->final_path) == 0)
        return unlink(transaction->staging_path) ? -errno : 0;
    if (transaction->single_file && errno == EEXIST)
        return -EEXIST;
    struct stat info;
    if (lstat(transaction->final_path, &info) == 0)
        return -EEXIST;
    if (errno != ENOENT)
        return -errno;
    if (rename(transaction->staging_path, transaction->final_path))
        return errno == ENOTEMPTY || errno == ENOTDIR ? -EEXIST : -errno;
    return 0;
}

static int rename_new(const struct io_transaction *transaction)
{
    int status = renameat2(AT_FDCWD, transaction->staging_path, AT_FDCWD, transaction->final_path,
                           RENAME_NOREPLACE)
                     ? -errno
                     : 0;
    return is_unsupported(status) ? rename_without_flag(transaction) : status;
}

/* For file systems without RENAME_EXCHANGE. If the process dies while the final name is absent, a
 * sweep restores the old folder. */
static int swap_without_exchange(const struct io_transaction *transaction, char *old,
                                 struct err *err)
{
    int status = temporary_rename_for_replacement(transaction->final_path, old, err);
    if (status)
        return status;
    status = rename_new(transaction);
    if (status) {
        rename(old, transaction->final_path); /* if this fails too, the next sweep restores it */
        return local_error(err, status, transaction->final_path, "could not commit the output");
    }
    return 0;
}

/* After an exchange, the staging path names the old output, which nobody may resume. */
static int hide_staging(struct io_transaction *transaction, struct err *err)
{
    char hidden[IO_PATH_BYTES_MAX];
    int status = temporary_rename_for_removal(transaction->staging_path, hidden, err);
    if (!status)
        strcpy(transaction->staging_path, hidden);
    return status;
}

/* Sets old (IO_PATH_BYTES_MAX) to the path of the replaced folder. */
static int swap_folders(struct io_transaction *transaction, char *old, struct err *err)
{
    int status = transaction->is_resumable ? hide_staging(transaction, err) : 0;
    if (status)
        return status;
    strcpy(old, transaction->staging_path);
    status = renameat2(AT_FDCWD, transaction->staging_path, AT_FDCWD, transaction->final_path,
                       RENAME_EXCHANGE)
                 ? -errno
                 : 0;
    if (is_unsupported(status))
        return swap_without_exchange(transaction, old, err);
    return status ? local_error(err, status, transaction->final_path, "could not commit the output")
                  : 0;
}

/* Sets old to the path of the replaced folder, or "" if there is none. */
static int rename_to_final(struct io_transaction *transaction, char *old, struct err *err)
{
    old[0] = '\0';
    int status = transaction_check_final(transaction, err);
    if (status)
        return status;
    if (transaction->single_file && transaction->replace)
        status = rename(transaction->staging_path, transaction->final_path) ? -errno : 0;
    else
        status = rename_new(transaction);
    if (status == -EEXIST && transaction->replace)
        return swap_folders(transaction, old, err);
    if (status == -EEXIST)
        return transaction_exists_error(transaction->final_path, err);
    return status ? local_error(err, status, transaction->final_path, "could not commit the output")
                  : 0;
}

static int check_can_commit(const struct io_transaction *transaction, struct err *err)
{
    const char *why =
        transaction->is_joined ? "only the rank that began an output may commit it"
        : transaction->open_files
            ? "cannot commit an output while one of its files is not finalized"
        : transaction->is_taken_over ? "cannot commit an output that another process took over"
        : transaction->is_lost       ? "cannot commit an output that could not be made durable"
        : !transaction->single_file && !transaction->has_record
            ? "cannot commit a folder without its commit record"
            : NULL;
    if (!why)
        return 0;
    err_set(err, -EINVAL, "%s", why);
    err_at(err, transaction->final_path, ERR_NO_OFFSET);
    return -EINVAL;
}

static void keep_backup(const struct io_transaction *transaction, const char *old)
{
    struct stat info;
    int status = lstat(transaction->backup_path, &info)
                     ? 0
                     : local_remove(NULL, transaction->backup_path, NULL);
    if (!status && rename(old, transaction->backup_path) == 0)
        local_sync_folder(transaction->parent_path, NULL);
}

/* On failure the folder keeps a temporary name until the next sweep removes it. A replaced folder
 * is renamed first, because a sweep must never restore a partly removed one. */
static void discard_replaced(const struct io_transaction *transaction, const char *old)
{
    char backup[IO_PATH_BYTES_MAX];
    bool has_replaced_name = strcmp(old, transaction->staging_path) != 0;
    if (*transaction->backup_path)
        keep_backup(transaction, old);
    else if (!has_replaced_name)
        temporary_remove(old, NULL);
    else if (temporary_rename_for_removal(old, backup, NULL) == 0)
        temporary_remove(backup, NULL);
}

/* Writes everything in the file system, which takes one flush where an fsync for each file would
 * take thousands. Since Linux 5.8 it also reports errors of earlier writes. */
static int sync_file_system(const char *folder, struct err *err)
{
    int fd = LOCAL_RETRY(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return local_error(err, -errno, folder, "could not open the folder");
    int status = LOCAL_RETRY(syncfs(fd)) ? -errno : 0;
    close(fd);
    return status ? local_error(err, status, folder, "could not make the files durable") : 0;
}

int local_transaction_commit(struct io_transaction *transaction, struct err *err)
{
    char old[IO_PATH_BYTES_MAX];
    int status = check_can_commit(transaction, err);
    if (!status && !transaction->single_file)
        status = transaction->syncs_at_commit ? sync_file_system(transaction->staging_path, err)
                                              : local_sync_folder(transaction->staging_path, err);
    if (!status)
        status = rename_to_final(transaction, old, err);
    if (status) {
        local_transaction_abort(transaction);
        return status;
    }
    status = local_sync_folder(transaction->parent_path, err);
    if (!status && *old)
        discard_replaced(transaction, old);
    transaction_free(transaction);
    return status;
}
