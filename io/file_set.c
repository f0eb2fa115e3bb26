/*
 * file_set — outputs that appear whole under their final name, or not at all. See file_local.h; the
 * numbered invariants stand in io.h, and docs/io.md tells what each call makes durable.
 *
 *     begin      mkdir place, fsync parent
 *     create, write, and seal of each file: ftruncate, fsync, close, fsync folder
 *     publish    fsync place, rename place to final, fsync parent (file_publish.c)
 *
 * A set of a single file has that file itself, under its temporary name, as its place. One that is
 * adopted begins with the place of a dead writer (file_adopt.c), and create takes what lies in it.
 */
#include "io/file_set.h"

#include "io/file_transfer.h"
#include "io/file_util.h"
#include "io/temporary_registry.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int set_taken(const char *path, struct err *err)
{
    err_set(err, -EEXIST, "there is something under that name already");
    err_at(err, path, ERR_NO_OFFSET);
    err_advise(err, "remove it, choose another name, or ask for it to be replaced");
    return -EEXIST;
}

/* The final name without trailing slashes, and its folder. */
static int take_names(struct io_set *set, const char *path, const char **ret_name, struct err *err)
{
    int status = local_path(path, &path, err);
    if (status)
        return status;
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    memcpy(set->final, path, bytes);
    set->final[bytes] = '\0';
    const char *slash = strrchr(set->final, '/');
    const char *name = slash ? slash + 1 : set->final;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        strncmp(name, IO_TEMPORARY_PREFIX, strlen(IO_TEMPORARY_PREFIX)) == 0) {
        err_set(err, -EINVAL, "not a name for an output");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "a name other than \".\", \"..\" and " IO_TEMPORARY_PREFIX "*");
        return -EINVAL;
    }
    io_parent_path(set->final, set->parent);
    *ret_name = name;
    return 0;
}

static int check_parent(const struct io_set *set, struct err *err)
{
    struct stat info;
    if (stat(set->parent, &info)) {
        int status = local_fail(err, -errno, set->parent, "the output's folder is not there");
        err_advise(err, "make the folder first");
        return status;
    }
    if (!S_ISDIR(info.st_mode))
        return local_fail(err, -ENOTDIR, set->parent, "the output's folder is no folder");
    return 0;
}

int set_check_final(const struct io_set *set, struct err *err)
{
    struct stat info;
    if (lstat(set->final, &info))
        return errno == ENOENT
                   ? 0
                   : local_fail(err, -errno, set->final, "could not look at the output's name");
    if (!set->replace)
        return set_taken(set->final, err);
    if (!S_ISDIR(info.st_mode) == set->single_file)
        return 0;
    err_set(err, -EEXIST, "the output's name is taken by %s",
            set->single_file ? "a folder" : "something else");
    err_at(err, set->final, ERR_NO_OFFSET);
    err_expected(err, "%s, which may be replaced", set->single_file ? "a file" : "a folder");
    return -EEXIST;
}

static int take_aside(struct io_set *set, const char *path, struct err *err)
{
    int status = local_path(path, &path, err);
    if (!status)
        strcpy(set->aside, path);
    return status;
}

void set_free(struct io_set *set)
{
    while (set->open_files) {
        struct io_file *file = set->open_files;
        set->open_files = file->next;
        file_direct_close(file);
        close(file->fd);
        free(file);
    }
    if (set->place_fd >= 0)
        close(set->place_fd);
    io_temporary_unregister(set->registered);
    free(set);
}

static int keep_place(struct io_set *set, struct err *err)
{
    int status = adopt_lock(set->place_fd, set->place, set->single_file, err);
    set->taken_over = status == -EBUSY;
    return status;
}

static int make_place(struct io_set *set, struct err *err)
{
    if (mkdir(set->place, 0777))
        return local_fail(err, -errno, set->place, "could not make a folder for the output");
    int status = 0;
    if (set->adoptable) {
        set->place_fd = LOCAL_RETRY(open(set->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        status = set->place_fd < 0
                     ? local_fail(err, -errno, set->place, "could not open the output's folder")
                     : keep_place(set, err);
    }
    if (!status)
        status = local_sync_folder(set->parent, err);
    if (status && !set->taken_over)
        rmdir(set->place);
    return status;
}

/* Where the set is written: what a dead writer left, or a place of its own. */
static int take_place(struct io_set *set, const struct io_set_options *options, const char *name,
                      struct err *err)
{
    int status = -ENOENT;
    if (options->resume == IO_RESUME_NOW)
        status = adopt_find(set->parent, name, options, set->place, &set->place_fd, err);
    set->adopted = status == 0;
    if (set->adopted) /* who made it may have died before its name was durable */
        return local_sync_folder(set->parent, err);
    if (status == -ENOENT)
        status =
            temporary_path(set->parent, name, options->owner_id, options->attempt, set->place, err);
    if (status || !set->single_file)
        return status ? status : make_place(set, err);
    if (!set->adoptable)
        set->registered = io_temporary_register(set->place);
    return 0;
}

int local_set_begin(struct io *io, const struct io_set_options *options, struct io_set **ret_set,
                    struct err *err)
{
    (void)io;
    struct io_set *set = calloc(1, sizeof *set);
    if (!set)
        return err_set(err, -ENOMEM, "out of memory to begin an output");
    set->single_file = options->single_file;
    set->replace = options->replace;
    set->adoptable = options->resume != IO_RESUME_NO;
    set->place_fd = set->registered = -1;
    const char *name;
    int status = take_names(set, options->path, &name, err);
    if (!status)
        status = check_parent(set, err);
    if (!status)
        status = set_check_final(set, err);
    if (!status && options->aside)
        status = take_aside(set, options->aside, err);
    if (!status)
        status = take_place(set, options, name, err);
    if (status)
        set_free(set);
    else
        *ret_set = set;
    return status;
}

int local_set_join(struct io *io, const struct io_set_options *options, const char *place,
                   struct io_set **ret_set, struct err *err)
{
    (void)io;
    if (options->single_file)
        return err_set(err, -EINVAL, "a single file is written by one rank");
    struct stat info;
    int status = local_path(place, &place, err);
    if (status)
        return status;
    if (lstat(place, &info) || !S_ISDIR(info.st_mode)) {
        err_set(err, -ENOENT, "this rank does not see the folder that the first rank made");
        err_at(err, place, ERR_NO_OFFSET);
        err_advise(err, "write to a folder that all nodes share");
        return -ENOENT;
    }
    struct io_set *set = calloc(1, sizeof *set);
    if (!set)
        return err_set(err, -ENOMEM, "out of memory to join an output");
    set->joined = true;
    set->place_fd = set->registered = -1;
    strcpy(set->place, place);
    const char *name;
    status = take_names(set, options->path, &name, err);
    if (status)
        free(set);
    else
        *ret_set = set;
    return status;
}

const char *local_set_place(const struct io_set *set)
{
    return set->place;
}

/* A relative path of plain names. */
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
    err_set(err, -EINVAL, "not a name for a file of an output: \"%.200s\"", name);
    err_expected(err, "plain names, joined by \"/\", of fewer than %d bytes", IO_NAME_BYTES_MAX);
    return -EINVAL;
}

static int reserve(const struct io_file *file, uint64_t bytes, struct err *err)
{
    if (bytes == 0)
        return 0;
    if (bytes > INT64_MAX)
        return local_fail(err, -EFBIG, file->path, "no file can be so large");
    int status = LOCAL_RETRY(fallocate(file->fd, 0, 0, (off_t)bytes)) ? -errno : 0;
    if (status == -EOPNOTSUPP || status == -ENOSYS)
        return 0; /* it only helps */
    return status ? local_fail(err, status, file->path, "could not reserve space for the file") : 0;
}

static int make_subfolders(const struct io_set *set, const char *file_path, struct err *err)
{
    char folder[IO_PATH_BYTES_MAX];
    io_parent_path(file_path, folder);
    return strlen(folder) > strlen(set->place) ? local_make_folder(NULL, folder, err) : 0;
}

/* Of an adopted set it may be one that is there: *ret_is_left. */
static int open_new(struct io_set *set, struct io_file *file, bool *ret_is_left, struct err *err)
{
    if (set->adopted)
        file->fd = LOCAL_RETRY(open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    *ret_is_left = file->fd >= 0;
    if (file->fd < 0 && (!set->adopted || errno == ENOENT))
        file->fd =
            LOCAL_RETRY(open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (file->fd < 0)
        return errno == EEXIST ? set_taken(file->path, err)
                               : local_fail(err, -errno, file->path, "could not create the file");
    if (!set->single_file || !set->adoptable || set->adopted)
        return 0;
    set->place_fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0); /* it outlives the seal */
    return set->place_fd < 0 ? local_fail(err, -errno, file->path, "could not keep the file open")
                             : keep_place(set, err);
}

/* A file of the set that is not open yet, with its path. */
static int new_file(struct io_set *set, const char *name, struct io_file **ret_file,
                    struct err *err)
{
    struct io_file *file = calloc(1, sizeof *file);
    if (!file)
        return err_set(err, -ENOMEM, "out of memory for a file");
    int status = 0;
    file->fd = -1;
    file->set = set;
    if (set->single_file) {
        assert(!*name);
        strcpy(file->path, set->place);
    } else {
        status = check_name(name, err);
        if (!status)
            status = io_join_path(set->place, name, file->path, err);
    }
    if (status)
        free(file);
    else
        *ret_file = file;
    return status;
}

/* Open from now on, until it is sealed; where that failed it is gone. */
static int keep_file(struct io_set *set, struct io_file *file, int status,
                     struct io_file **ret_file)
{
    if (status) {
        if (file->fd >= 0)
            close(file->fd);
        free(file);
        return status;
    }
    file->next = set->open_files;
    set->open_files = file;
    *ret_file = file;
    return 0;
}

int local_set_create(struct io_set *set, const char *name, uint64_t bytes_expected,
                     struct io_file **ret_file, struct err *err)
{
    struct io_file *file;
    bool is_left = false;
    int status = new_file(set, name, &file, err);
    if (status)
        return status;
    if (!set->single_file)
        status = make_subfolders(set, file->path, err);
    if (!status)
        status = open_new(set, file, &is_left, err);
    if (!status)
        status = reserve(file, bytes_expected, err);
    if (status && file->fd >= 0 && !is_left && !set->taken_over)
        unlink(file->path);
    return keep_file(set, file, status, ret_file);
}

int local_set_open(struct io_set *set, const char *name, struct io_file **ret_file, struct err *err)
{
    struct io_file *file;
    int status = new_file(set, name, &file, err);
    if (status)
        return status;
    file->fd = LOCAL_RETRY(open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (file->fd < 0)
        status = local_fail(err, -errno, file->path,
                            "this rank could not open the file that another one made");
    return keep_file(set, file, status, ret_file);
}

static void unlink_from_set(struct io_set *set, const struct io_file *file)
{
    struct io_file **at = &set->open_files;
    while (*at != file) {
        assert(*at); /* a file of this set that is not yet sealed */
        at = &(*at)->next;
    }
    *at = file->next;
}

/* Final size and durable bytes. A failed fsync may have dropped the dirty pages: trying again would
 * lie. One that a signal interrupted has dropped nothing. */
static int finish(int fd, uint64_t final_bytes)
{
    struct stat info;
    if (final_bytes > INT64_MAX)
        return -EFBIG;
    if (fstat(fd, &info))
        return -errno;
    if ((uint64_t)info.st_size != final_bytes && LOCAL_RETRY(ftruncate(fd, (off_t)final_bytes)))
        return -errno;
    return LOCAL_RETRY(fsync(fd)) ? -errno : 0;
}

int local_set_seal(struct io_set *set, struct io_file *file, uint64_t final_bytes, struct err *err)
{
    unlink_from_set(set, file);
    file_direct_close(file);
    int status = finish(file->fd, final_bytes);
    if (close(file->fd) && !status &&
        errno != EINTR) /* interrupted, it has closed what is durable already */
        status = -errno;
    if (status) {
        status = local_fail(err, status, file->path, "could not make the file durable");
    } else if (!set->single_file) {
        char folder[IO_PATH_BYTES_MAX];
        io_parent_path(file->path, folder);
        status = local_sync_folder(folder, err);
    }
    if (status)
        set->lost = true;
    free(file);
    return status;
}

void local_set_abort(struct io_set *set)
{
    if (!set)
        return;
    if (!set->joined && !set->taken_over)
        temporary_remove(set->place, NULL); /* as above */
    set_free(set);
}

void local_set_leave(struct io_set *set)
{
    if (set)
        set_free(set);
}
