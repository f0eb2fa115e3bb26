/*
 * tcp_secret — see tcp_secret.h.
 */
#include "comm/tcp/tcp_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tcp_secret_clear(struct tcp_secret *secret)
{
    explicit_bzero(secret, sizeof *secret);
}

static int check_length(size_t bytes, struct err *err)
{
    if (bytes >= TCP_SECRET_BYTES_MIN && bytes <= TCP_SECRET_BYTES_MAX)
        return 0;
    err_set(err, -EINVAL, "the length of the ranks' secret is out of range");
    err_expected(err, "%d to %d bytes", TCP_SECRET_BYTES_MIN, TCP_SECRET_BYTES_MAX);
    err_found(err, bytes > TCP_SECRET_BYTES_MAX ? "more" : "%zu", bytes);
    err_advise(err, "generate one: head -c 32 /dev/urandom | base64");
    return -EINVAL;
}

static int read_error(int status, const char *path, struct err *err)
{
    err_errno(err, status, "cannot read the ranks' secret");
    err_at(err, path, ERR_NO_OFFSET);
    return status;
}

static int check_file(int file, const char *path, struct err *err)
{
    struct stat info;
    if (fstat(file, &info))
        return read_error(-errno, path, err);
    if (!S_ISREG(info.st_mode)) {
        err_set(err, -EINVAL, TCP_SECRET_FILE_VARIABLE " does not name a regular file");
        err_at(err, path, ERR_NO_OFFSET);
        return -EINVAL;
    }
    if ((info.st_uid == geteuid() || info.st_uid == 0) && (info.st_mode & (S_IRWXG | S_IRWXO)) == 0)
        return 0;
    err_set(err, -EACCES, "the file of the ranks' secret is open to other users");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "mode 0600 or 0400, owned by this user or root");
    err_found(err, "mode %04o, owned by user %u", (unsigned)(info.st_mode & 07777),
              (unsigned)info.st_uid);
    err_advise(err, "take ownership of it and run: chmod 600 FILE");
    return -EACCES;
}

/* Strips trailing newlines. */
static int read_file(int file, const char *path, struct tcp_secret *ret_secret, struct err *err)
{
    /* Two more for a line ending, and one to detect excess length. */
    char text[TCP_SECRET_BYTES_MAX + 3];
    size_t got = 0;
    int status = 0;
    while (got < sizeof text) {
        ssize_t count = read(file, text + got, sizeof text - got);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            status = read_error(-errno, path, err);
        if (count <= 0)
            break;
        got += (size_t)count;
    }
    while (got > 0 && (text[got - 1] == '\n' || text[got - 1] == '\r'))
        got--;
    if (!status) {
        status = check_length(got, err);
        if (status)
            err_at(err, path, ERR_NO_OFFSET);
    }
    if (!status) {
        memcpy(ret_secret->key, text, got);
        ret_secret->bytes = got;
    }
    explicit_bzero(text, sizeof text);
    return status;
}

static int read_path(const char *path, struct tcp_secret *ret_secret, struct err *err)
{
    /* O_NONBLOCK: do not wait for a FIFO's writer. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return read_error(-errno, path, err);
    int status = check_file(file, path, err);
    if (!status)
        status = read_file(file, path, ret_secret, err);
    close(file);
    return status;
}

int tcp_secret_read(struct tcp_secret *ret_secret, struct err *err)
{
    const char *text = getenv(TCP_SECRET_VARIABLE), *path = getenv(TCP_SECRET_FILE_VARIABLE);
    *ret_secret = (struct tcp_secret){0};
    if (text && path) {
        err_set(err, -EINVAL,
                "both " TCP_SECRET_VARIABLE " and " TCP_SECRET_FILE_VARIABLE " are set");
        err_advise(err, "unset one of them");
        return -EINVAL;
    }
    if (path)
        return read_path(path, ret_secret, err);
    if (!text)
        return 0;
    size_t bytes = strlen(text);
    int status = check_length(bytes, err);
    if (status)
        return status;
    memcpy(ret_secret->key, text, bytes);
    ret_secret->bytes = bytes;
    return 0;
}

int tcp_secret_prove(const struct tcp_secret *secret, enum tcp_role role,
                     const struct tcp_hello *initiator, const struct tcp_hello *responder,
                     struct tcp_proof *ret_proof)
{
    struct {
        char label[16];
        struct tcp_hello initiator, responder;
    } proved = {.initiator = *initiator, .responder = *responder};
    memcpy(proved.label, role == TCP_ROLE_INITIATOR ? "millrace caller" : "millrace called", 16);
    return hmac_sha256(secret->key, secret->bytes, &proved, sizeof proved, ret_proof->mac);
}
