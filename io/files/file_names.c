/*
 * file_names — opens, stats, lists, creates and removes local paths. See file_local.h.
 */
#include "io/engines/file_transfer.h"
#include "io/file_util.h"
#include "io/local/file_local.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/os/open_files.h"
#include "base/str.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int local_path(const char *path, const char **ret_path, struct err *err)
{
    const char *at = path;
    if (strncmp(at, "file:", 5) == 0) {
        at += 5;
        if (strncmp(at, "//localhost/", 12) == 0 || strcmp(at, "//localhost") == 0) {
            at = at[11] ? at + 11 : "/"; /* io_parent_path("file://localhost/x") returns this */
        } else if (strncmp(at, "///", 3) == 0) {
            at += 2;
        } else if (strncmp(at, "//", 2) == 0) {
            err_set(err, -EINVAL, "the file URL names another host");
            err_at(err, path, ERR_NO_OFFSET);
            err_expected(err, "file:///PATH");
            return -EINVAL;
        }
    }
    if (at == path && io_scheme_bytes(path) > 0) { /* otherwise a folder "s3:" would be created */
        err_set(err, -EPROTONOSUPPORT, "the path is a URL, not a local path");
        err_at(err, path, ERR_NO_OFFSET);
        return -EPROTONOSUPPORT;
    }
    if (!*at)
        return err_set(err, -EINVAL, "the path is empty");
    if (strlen(at) >= IO_PATH_BYTES_MAX)
        return io_long_path_error("", at, err);
    *ret_path = at;
    return 0;
}

int local_map_errno(int code)
{
    switch (code) {
    case -EINVAL:
    case -EBADMSG:
    case -ENODATA:
    case -EOPNOTSUPP:
        return -EIO;
    default:
        return code;
    }
}

int local_error(struct err *err, int code, const char *path, const char *what)
{
    static const struct {
        int code;
        const char *text;
    } advices[] = {
        {-ENOENT, "check the path"},
        {-EACCES, "check the owner and the permissions"},
        {-EPERM, "check the owner and the permissions"},
        {-EROFS, "choose a location that is not mounted read-only"},
        {-ENOSPC, "free some space or choose another location"},
        {-EDQUOT, "free some space or choose another location"},
        {-ENFILE, "raise the system's limit on open files (sysctl fs.file-max), or stop programs "
                  "that hold many files open"},
        {-ENAMETOOLONG, "choose a shorter path"},
        {-EIO, "check the kernel log: the disk or its connection failed"},
    };
    err_errno(err, code, "%s", what);
    err_at(err, path, ERR_NO_OFFSET);
    code = local_map_errno(code);
    if (err)
        err->code = code;
    if (code == -EMFILE)
        open_files_advise(err);
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++)
        if (advices[i].code == code)
            err_advise(err, "%s", advices[i].text);
    return code;
}

bool local_is_same_file(int fd, const char *path)
{
    struct stat ours, theirs;
    return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

bool local_has_no_locks(int code)
{
    return code == -EINVAL || code == -ENOLCK || code == -ENOSYS || code == -EOPNOTSUPP;
}

int local_lock(int fd, bool is_exclusive)
{
    struct flock whole_file = {.l_type = is_exclusive ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET};
    int status = LOCAL_RETRY(fcntl(fd, F_OFD_SETLK, &whole_file)) ? -errno : 0;
    return status == -EACCES ? -EAGAIN : status;
}

int local_sync_folder(const char *folder, struct err *err)
{
    int fd = LOCAL_RETRY(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return local_error(err, -errno, folder, "could not open the folder");
    int status = LOCAL_RETRY(fsync(fd)) ? -errno : 0;
    close(fd); /* nothing was written through it */
    if (status == -EINVAL || status == -ENOTSUP)
        status = 0; /* this file system makes folders durable by itself or not at all */
    return status ? local_error(err, status, folder, "could not make the folder durable") : 0;
}

int local_file_open(struct io *io, const char *path, struct io_file **ret_file, struct err *err)
{
    (void)io;
    int status = local_path(path, &path, err);
    if (status)
        return status;
    struct io_file *file = NULL;
    int fd = LOCAL_RETRY(
        open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)); /* avoids blocking on a FIFO */
    struct stat info;
    if (fd < 0 || fstat(fd, &info)) {
        status = local_error(err, -errno, path, "could not open the file");
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        status = S_ISDIR(info.st_mode) ? -EISDIR : -ENXIO;
        err_set(err, status, "not a regular file");
        err_at(err, path, ERR_NO_OFFSET);
        goto out;
    }
    /* With O_NONBLOCK io_uring would not wait on some file systems. */
    fcntl(fd, F_SETFL, O_RDONLY);
    file = calloc(1, sizeof *file);
    if (!file) {
        status = err_set(err, -ENOMEM, "not enough memory to open a file");
        goto out;
    }
    file->fd = fd;
    file->size_bytes = (uint64_t)info.st_size;
    strcpy(file->path, path); /* local_path limits its length */
    *ret_file = file;
out:
    if (status && fd >= 0)
        close(fd);
    return status;
}

void local_file_close(struct io_file *file)
{
    if (!file)
        return;
    file_direct_close(file);
    close(file->fd); /* opened read-only: no errors to report */
    free(file);
}

uint64_t local_file_size(const struct io_file *file)
{
    return file->size_bytes;
}

static uint64_t timespec_ns(struct timespec time)
{
    return (uint64_t)time.tv_sec * CLOCK_NS_PER_S + (uint64_t)time.tv_nsec;
}

static struct io_identity make_identity(const struct stat *info)
{
    const uint64_t words[] = {(uint64_t)info->st_dev, (uint64_t)info->st_ino,
                              (uint64_t)info->st_size, timespec_ns(info->st_mtim),
                              timespec_ns(info->st_ctim)};
    struct io_identity identity = {.bytes_count = sizeof words};
    static_assert(sizeof words <= sizeof identity.bytes, "an identity holds them");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        bytes_put_u64(identity.bytes + 8 * i, words[i]);
    return identity;
}

int local_file_identity(const struct io_file *file, struct io_identity *ret_identity,
                        struct err *err)
{
    struct stat info;
    if (fstat(file->fd, &info))
        return local_error(err, -errno, file->path, "could not stat the file");
    *ret_identity = make_identity(&info);
    return 0;
}

static int local_resolve(struct io *io, const char *path, char *full_path, struct err *err)
{
    (void)io;
    int status = local_path(path, &path, err);
    if (status)
        return status;
    char *real = realpath(path, NULL);
    if (!real)
        return local_error(err, -errno, path, "could not stat the file");
    if (strlen(real) < IO_PATH_BYTES_MAX)
        strcpy(full_path, real);
    else
        status = io_long_path_error("", real, err);
    free(real);
    return status;
}

static enum io_entry_kind entry_kind(mode_t mode)
{
    return S_ISREG(mode) ? IO_ENTRY_FILE : S_ISDIR(mode) ? IO_ENTRY_FOLDER : IO_ENTRY_OTHER;
}

static int local_stat(struct io *io, const char *path, struct io_stat *ret_stat, struct err *err)
{
    (void)io;
    int status = local_path(path, &path, err);
    if (status)
        return status;
    struct stat info;
    if (stat(path, &info))
        return local_error(err, -errno, path, "could not stat the file");
    *ret_stat = (struct io_stat){
        .kind = entry_kind(info.st_mode),
        .size_bytes = (uint64_t)info.st_size,
        .mtime_ns = timespec_ns(info.st_mtim),
        .identity = make_identity(&info),
    };
    return 0;
}

/* The entries of a folder, each a kind byte and a name. */
struct folder_listing {
    struct str text;
    size_t count;
};

static enum io_entry_kind read_entry_kind(DIR *folder, const struct dirent *entry)
{
    if (entry->d_type == DT_REG)
        return IO_ENTRY_FILE;
    if (entry->d_type == DT_DIR)
        return IO_ENTRY_FOLDER;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
        return IO_ENTRY_OTHER;
    struct stat info; /* follows links */
    return fstatat(dirfd(folder), entry->d_name, &info, 0) ? IO_ENTRY_OTHER
                                                           : entry_kind(info.st_mode);
}

static int read_entries(const char *path, struct folder_listing *listing, struct err *err)
{
    DIR *folder = opendir(path);
    if (!folder)
        return local_error(err, -errno, path, "could not list the folder");
    struct dirent *entry;
    while (errno = 0, (entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        str_add_fill(&listing->text, (char)read_entry_kind(folder, entry), 1);
        str_add(&listing->text, entry->d_name, strlen(entry->d_name) + 1);
        listing->count++;
    }
    int status = errno ? local_error(err, -errno, path, "could not list the folder") : 0;
    closedir(folder);
    if (!status && str_status(&listing->text))
        status = err_set(err, -ENOMEM, "not enough memory to list a folder of %zu entries",
                         listing->count);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a + 1, *(char *const *)b + 1);
}

int local_list(struct io *io, const char *path,
               int (*entry)(void *context, const struct io_entry *entry), void *context,
               struct err *err)
{
    (void)io;
    int status = local_path(path, &path, err);
    if (status)
        return status;
    struct folder_listing listing = {0};
    char **sorted = NULL;
    status = read_entries(path, &listing, err);
    if (status || listing.count == 0)
        goto out;
    sorted = calloc(listing.count, sizeof *sorted);
    if (!sorted) {
        status = err_set(err, -ENOMEM, "not enough memory to list a folder of %zu entries",
                         listing.count);
        goto out;
    }
    char *at = listing.text.data;
    for (size_t i = 0; i < listing.count; i++) {
        sorted[i] = at;
        at += strlen(at + 1) + 2;
    }
    qsort(sorted, listing.count, sizeof *sorted, compare_names);
    for (size_t i = 0; i < listing.count && !status; i++)
        status = entry(context, &(struct io_entry){.name = sorted[i] + 1,
                                                   .kind = (enum io_entry_kind)sorted[i][0]});
out:
    free(sorted);
    str_deinit(&listing.text);
    return status;
}

/* The new name is durable on return; the parent must exist. */
static int make_one_folder(const char *path, struct err *err)
{
    if (mkdir(path, 0777)) {
        struct stat info;
        if (errno == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
            return 0;
        return local_error(err, -errno, path, "could not create the folder");
    }
    char parent[IO_PATH_BYTES_MAX];
    io_parent_path(path, parent);
    return local_sync_folder(parent, err);
}

int local_make_folder(struct io *io, const char *path, struct err *err)
{
    (void)io;
    int status = local_path(path, &path, err);
    if (status)
        return status;
    char part[IO_PATH_BYTES_MAX];
    for (const char *at = path; *at;) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        size_t bytes = (size_t)(at - path);
        memcpy(part, path, bytes);
        part[bytes] = '\0';
        at += strspn(at, "/");
        struct stat info;
        if (*at && stat(part, &info) == 0 && S_ISDIR(info.st_mode))
            continue; /* continue even if it could not be created: read-only, automounted, "/" */
        status = make_one_folder(part, err);
        if (status)
            return status;
    }
    return 0;
}

int local_remove(struct io *io, const char *path, struct err *err)
{
    (void)io;
    int status = local_path(path, &path, err);
    if (status)
        return status;
    struct stat info;
    if (lstat(path, &info))
        return local_error(err, -errno, path, "could not remove");
    if (!S_ISDIR(info.st_mode))
        return unlink(path) ? local_error(err, -errno, path, "could not remove the file") : 0;
    char temporary[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX];
    status = temporary_rename_for_removal(path, temporary, err);
    if (status)
        return status;
    io_parent_path(path, parent);
    /* Otherwise a power loss could restore the name of a partly removed folder. */
    status = local_sync_folder(parent, err);
    return status ? status : temporary_remove(temporary, err);
}

const struct io_name_ops local_names = {
    .resolve = local_resolve,
    .stat = local_stat,
    .gap_bytes = local_gap_bytes,
    .list = local_list,
    .make_folder = local_make_folder,
    .remove = local_remove,
};
