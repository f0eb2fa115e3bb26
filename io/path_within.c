/*
 * path_within — see path_within.h.
 */
#include "io/path_within.h"

#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *strip_scheme(const char *path)
{
    return strncmp(path, "file://", 7) == 0 ? path + 7
           : strncmp(path, "file:", 5) == 0 ? path + 5
                                            : path;
}

static void trim_trailing_slashes(char *path, char *end)
{
    while (end > path + 1 && end[-1] == '/')
        end--;
    *end = '\0';
}

/* Resolves the part of path that exists and appends the rest unchanged. resolved: at most 2 *
 * PATH_MAX. */
static int resolve(const char *path, char *resolved, size_t bytes)
{
    char head[IO_PATH_BYTES_MAX], rest[IO_PATH_BYTES_MAX] = "", longer[IO_PATH_BYTES_MAX];
    if (snprintf(head, sizeof head, "%s", strip_scheme(path)) >= (int)sizeof head)
        return -ENAMETOOLONG;
    trim_trailing_slashes(head, head + strlen(head));
    for (;;) {
        char *real = realpath(head, NULL);
        if (real) {
            int written = snprintf(resolved, bytes, "%s%s%s", real, *rest ? "/" : "", rest);
            free(real);
            return written < 0 || written >= (int)bytes ? -ENAMETOOLONG : 0;
        }
        if (errno != ENOENT || strcmp(head, ".") == 0)
            return -errno;
        char *slash = strrchr(head, '/');
        const char *name = slash ? slash + 1 : head;
        if (snprintf(longer, sizeof longer, "%s%s%s", name, *rest ? "/" : "", rest) >=
            (int)sizeof longer)
            return -ENAMETOOLONG;
        strcpy(rest, longer);
        if (slash)
            trim_trailing_slashes(head, slash > head ? slash : slash + 1);
        else
            strcpy(head, ".");
    }
}

/* Compares device and inode, so that a folder mounted at two places counts as one. */
static bool is_within_local(const char *path, const char *folder)
{
    char resolved[2 * IO_PATH_BYTES_MAX];
    struct stat folder_info, info;
    if (stat(strip_scheme(folder), &folder_info) || resolve(path, resolved, sizeof resolved))
        return false;
    for (char *end = resolved + strlen(resolved);; end = strrchr(resolved, '/')) {
        bool is_root = end == resolved;
        *(is_root ? end + 1 : end) = '\0';
        if (stat(resolved, &info) == 0 && info.st_dev == folder_info.st_dev &&
            info.st_ino == folder_info.st_ino)
            return true;
        if (is_root || strcmp(resolved, "/") == 0)
            return false;
    }
}

static bool is_local(const char *path)
{
    size_t bytes = io_scheme_bytes(path);
    return bytes == 0 || (bytes == 4 && strncmp(path, "file", 4) == 0);
}

bool io_is_within(const char *path, const char *folder)
{
    if (is_local(path) || is_local(folder))
        return is_local(path) && is_local(folder) && is_within_local(path, folder);
    size_t bytes = strlen(folder);
    while (bytes > 0 && folder[bytes - 1] == '/')
        bytes--;
    return strncmp(path, folder, bytes) == 0 && (path[bytes] == '\0' || path[bytes] == '/');
}

int io_check_disjoint(const char *source, const char *source_label, const char *target,
                      const char *target_label, struct err *err)
{
    bool target_within = io_is_within(target, source), source_within = io_is_within(source, target);
    if (!target_within && !source_within)
        return 0;
    if (target_within && source_within)
        err_set(err, -EINVAL, "%s and %s are the same", source_label, target_label);
    else if (target_within)
        err_set(err, -EINVAL, "%s is inside %s", target_label, source_label);
    else
        err_set(err, -EINVAL, "%s is inside %s", source_label, target_label);
    err_at(err, target, ERR_NO_OFFSET);
    err_expected(err, "a path outside %.200s", source);
    err_advise(err, "choose a %s outside %s", target_label, source_label);
    return -EINVAL;
}
