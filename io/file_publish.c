/*
 * file_publish — an output gets its final name: see file_set.h, and docs/io.md for what each file
 * system can.
 */
#include "io/file_set.h"

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

/* For file systems without RENAME_NOREPLACE. A file is linked, which never replaces. A folder is
 * renamed after a look: what comes between the look and the rename is refused by the kernel unless
 * it is an empty folder. */
static int rename_without_flag(const struct io_set *set)
{
    if (set->single_file && link(set->place, set->final) == 0)
        return unlink(set->place) ? -errno : 0;
    if (set->single_file && errno == EEXIST)
        return -EEXIST;
    struct stat info;
    if (lstat(set->final, &info) == 0)
        return -EEXIST;
    if (errno != ENOENT)
        return -errno;
    if (rename(set->place, set->final))
        return errno == ENOTEMPTY || errno == ENOTDIR ? -EEXIST : -errno;
    return 0;
}

static int rename_new(const struct io_set *set)
{
    int status =
        renameat2(AT_FDCWD, set->place, AT_FDCWD, set->final, RENAME_NOREPLACE) ? -errno : 0;
    return is_unsupported(status) ? rename_without_flag(set) : status;
}

/* For file systems without RENAME_EXCHANGE: for a moment there is nothing under the final name. Who
 * dies then leaves the old one where a sweep finds it and gives it back. */
static int swap_folders_slowly(const struct io_set *set, char *old, struct err *err)
{
    int status = temporary_stand_by(set->final, old, err);
    if (status)
        return status;
    status = rename_new(set);
    if (status) {
        rename(old, set->final); /* back; where this fails too, the next sweep does it */
        return local_fail(err, status, set->final, "could not publish the output");
    }
    return 0;
}

/* What an exchange leaves under the place's name is another output: nobody must take it for a dead
 * writer's. */
static int hide_place(struct io_set *set, struct err *err)
{
    char hidden[IO_PATH_BYTES_MAX];
    int status = temporary_put_aside(set->place, hidden, err);
    if (!status)
        strcpy(set->place, hidden);
    return status;
}

/* old (IO_PATH_BYTES_MAX) then names what was replaced. */
static int swap_folders(struct io_set *set, char *old, struct err *err)
{
    int status = set->adoptable ? hide_place(set, err) : 0;
    if (status)
        return status;
    strcpy(old, set->place);
    status = renameat2(AT_FDCWD, set->place, AT_FDCWD, set->final, RENAME_EXCHANGE) ? -errno : 0;
    if (is_unsupported(status))
        return swap_folders_slowly(set, old, err);
    return status ? local_fail(err, status, set->final, "could not publish the output") : 0;
}

/* The final name appears. old becomes "" or names a folder that was replaced. */
static int give_name(struct io_set *set, char *old, struct err *err)
{
    old[0] = '\0';
    int status = set_check_final(set, err);
    if (status)
        return status;
    if (set->single_file && set->replace)
        status = rename(set->place, set->final) ? -errno : 0;
    else
        status = rename_new(set);
    if (status == -EEXIST && set->replace)
        return swap_folders(set, old, err);
    if (status == -EEXIST)
        return set_taken(set->final, err);
    return status ? local_fail(err, status, set->final, "could not publish the output") : 0;
}

static int check_publishable(const struct io_set *set, struct err *err)
{
    const char *why =
        set->joined       ? "only the rank that began an output may publish it"
        : set->open_files ? "an output is to be published while a file of it is not sealed"
        : set->taken_over ? "an output is to be published that another process took over"
        : set->lost       ? "an output is to be published that could not be made durable"
                          : NULL;
    if (!why)
        return 0;
    err_set(err, -EINVAL, "%s", why);
    err_at(err, set->final, ERR_NO_OFFSET);
    return -EINVAL;
}

/* The old one gets the name that it was given for that, in the place of what has it. */
static void put_aside(const struct io_set *set, const char *old)
{
    struct stat info;
    int status = lstat(set->aside, &info) ? 0 : local_remove(NULL, set->aside, NULL);
    if (!status && rename(old, set->aside) == 0)
        local_sync_folder(set->parent, NULL);
}

/* What is left of it is a temporary: the next sweep takes it; so it does one that could not get the
 * name that it was given, whole. A half of what stood by must never be given back, hence the other
 * name first. */
static void discard_old(const struct io_set *set, const char *old)
{
    char aside[IO_PATH_BYTES_MAX];
    bool stood_by = strcmp(old, set->place) != 0;
    if (*set->aside)
        put_aside(set, old);
    else if (!stood_by)
        temporary_remove(old, NULL);
    else if (temporary_put_aside(old, aside, NULL) == 0)
        temporary_remove(aside, NULL);
}

int local_set_publish(struct io_set *set, struct err *err)
{
    char old[IO_PATH_BYTES_MAX];
    int status = check_publishable(set, err);
    if (!status && !set->single_file)
        status = local_sync_folder(set->place, err);
    if (!status)
        status = give_name(set, old, err);
    if (status) {
        local_set_abort(set);
        return status;
    }
    status = local_sync_folder(set->parent, err);
    if (!status && *old)
        discard_old(set, old);
    set_free(set);
    return status;
}
