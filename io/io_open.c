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
    int (*open)(const struct io_options *options, struct io **ret_io, struct err *err);
};

/* The first one also serves plain paths. */
static const struct backend backends[] = {{"file", open_local}};

static int find_backend(const char *path, const struct backend **ret_backend, struct err *err)
{
    static const char *const stores[] = {"s3", "gs", "http", "https"};
    size_t bytes = io_scheme_bytes(path);
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        if ((bytes == 0 && i == 0) || is_scheme(path, bytes, backends[i].scheme)) {
            *ret_backend = &backends[i];
            return 0;
        }
    }
    err_set(err, -EPROTONOSUPPORT, "this build does not support %.*s://",
            (int)(bytes < 64 ? bytes : 64), path);
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "a local path or file://");
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++)
        if (is_scheme(path, bytes, stores[i]))
            err_advise(err, "copy it to or from a local folder with that store's tools");
    return -EPROTONOSUPPORT;
}

int io_check_path(const char *path_or_url, struct err *err)
{
    const struct backend *backend;
    int status = find_backend(path_or_url, &backend, err);
    if (!status && strlen(path_or_url) >= IO_PATH_BYTES_MAX)
        status = io_long_path_error("", path_or_url, err);
    return status;
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

void io_close(struct io *io)
{
    if (io)
        io->ops->close(io);
}
