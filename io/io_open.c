/*
 * io_open — selects a backend by URL scheme, and the engine for local files. See io.h.
 */
#include "io/file_util.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

size_t io_scheme_bytes(const char *path)
{
    size_t bytes = 0;
    if (strncmp(path, "file:", 5) == 0)
        return 4;
    while (isalnum((unsigned char)path[bytes]) ||
           (bytes > 0 && strchr("+.-", path[bytes]) && path[bytes]))
        bytes++;
    return strncmp(path + bytes, "://", 3) == 0 ? bytes : 0;
}

static bool is_scheme(const char *path, size_t bytes, const char *scheme)
{
    return bytes == strlen(scheme) && strncmp(path, scheme, bytes) == 0;
}

static int open_local(const struct io_options *options, struct io **ret_io, struct err *err)
{
    enum io_engine engine = options ? options->engine : IO_ENGINE_AUTO;
    if (engine == IO_ENGINE_URING)
        return io_ring_open(options, ret_io, err);
    if (engine == IO_ENGINE_AUTO && io_ring_open(options, ret_io, NULL) == 0)
        return 0;
    return io_threads_open(options, ret_io, err);
}

struct backend {
    const char *scheme;
    bool reads_only;
    int (*open)(const struct io_options *options, struct io **ret_io, struct err *err);
};

/* The first one also serves plain paths. */
static const struct backend backends[] = {
    {"file", false, open_local}, {"http", true, io_http_open}, {"https", true, io_http_open}};

static const struct backend *backend_of(const char *scheme, size_t bytes)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if ((bytes == 0 && i == 0) || is_scheme(scheme, bytes, backends[i].scheme))
            return &backends[i];
    return NULL;
}

static int find_backend(const char *path, const struct backend **ret_backend, struct err *err)
{
    static const char *const stores[] = {"s3", "gs"};
    size_t bytes = io_scheme_bytes(path);
    *ret_backend = backend_of(path, bytes);
    if (*ret_backend)
        return 0;
    err_set(err, -EPROTONOSUPPORT, "this build does not support %.*s://",
            (int)(bytes < 64 ? bytes : 64), path);
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "a local path, http:// or https://");
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++)
        if (is_scheme(path, bytes, stores[i]))
            err_advise(err, "copy it to or from a local folder with that store's tools");
    return -EPROTONOSUPPORT;
}

static int check_path(const char *path, const struct backend **ret_backend, struct err *err)
{
    int status = find_backend(path, ret_backend, err);
    if (!status && strlen(path) >= IO_PATH_BYTES_MAX)
        status = io_long_path_error("", path, err);
    return status;
}

int io_check_path(const char *path_or_url, struct err *err)
{
    const struct backend *backend;
    return check_path(path_or_url, &backend, err);
}

int io_check_target(const char *path_or_url, struct err *err)
{
    const struct backend *backend;
    int status = check_path(path_or_url, &backend, err);
    if (status || !backend->reads_only)
        return status;
    err_set(err, -EROFS, "%s:// is for reading only", backend->scheme);
    err_at(err, path_or_url, ERR_NO_OFFSET);
    err_advise(err, "write to a local path");
    return -EROFS;
}

int io_open(const char *path_or_url, const struct io_options *options, struct io **ret_io,
            struct err *err)
{
    const struct backend *backend;
    int status = find_backend(path_or_url, &backend, err);
    if (!status)
        status = backend->open(options, ret_io, err);
    if (!status)
        (*ret_io)->temporaries = options ? options->temporaries : NULL;
    return status;
}

bool io_serves(const struct io *io, const char *path_or_url)
{
    const struct backend *own = backend_of(io->ops->scheme, strlen(io->ops->scheme));
    const struct backend *other = backend_of(path_or_url, io_scheme_bytes(path_or_url));
    /* a wrapper that changes contents has the scheme of no URL */
    return other && (!own || own->open == other->open);
}

void io_close(struct io *io)
{
    if (io)
        io->ops->close(io);
}
