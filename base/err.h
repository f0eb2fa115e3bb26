/*
 * err — error details that a user can act on.
 *
 * Functions return 0 or a negative errno value. Those that report more detail take a `struct err *`
 * as their last argument; it may be NULL. Only cli/ prints: main formats the detail as one line:
 *
 *     WHAT: PATH at OFFSET: expected X, found Y; DO THIS
 *
 * Use:
 *     if (header.magic != MAGIC) {
 *         err_set(err, -EBADMSG, "invalid shard trailer");
 *         err_at(err, path, (int64_t)offset);
 *         err_expected(err, "magic %016" PRIx64, MAGIC);
 *         err_found(err, "%016" PRIx64, header.magic);
 *         err_advise(err, "rebuild the index with `millrace index %s`", path);
 *         return -EBADMSG;
 *     }
 */
#ifndef MILLRACE_BASE_ERR_H
#define MILLRACE_BASE_ERR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ERR_TEXT_BYTES_MAX = 256,
    ERR_PATH_BYTES_MAX = 2048, /* IO_PATH_BYTES_MAX */
    /* all five texts, the offset and separators, unescaped */
    ERR_LINE_BYTES_MAX = ERR_PATH_BYTES_MAX + 4 * ERR_TEXT_BYTES_MAX + 128,
    ERR_NO_OFFSET = -1,
};

/* Owner thread. Texts are NUL-terminated, truncated if too long, empty if absent. */
struct err {
    int code;       /* negative errno; 0: no error */
    int64_t offset; /* ERR_NO_OFFSET if not applicable */
    char what[ERR_TEXT_BYTES_MAX];
    char path[ERR_PATH_BYTES_MAX];
    char expected[ERR_TEXT_BYTES_MAX];
    char found[ERR_TEXT_BYTES_MAX];
    char advice[ERR_TEXT_BYTES_MAX];
};

/* Starts a new detail and returns code, a negative errno. err may be NULL in all functions here. */
int err_set(struct err *err, int code, const char *what_format, ...)
    __attribute__((format(printf, 3, 4)));

/* Like err_set, with ": strerror(code)" appended to WHAT, or for -EBADMSG ": the data is damaged".
 * For failed system calls and requests. */
int err_errno(struct err *err, int code, const char *what_format, ...)
    __attribute__((format(printf, 3, 4)));

/* Add to the detail. They return nothing, because err may be NULL. */
void err_at(struct err *err, const char *path, int64_t offset);
void err_expected(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void err_found(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void err_advise(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Discards the detail of an expected failure. */
void err_clear(struct err *err);

/* Formats the line described above, truncated to bytes, and returns text. Escapes untrusted texts
 * (display.h): the result is one line of UTF-8, safe for a terminal. */
const char *err_format(const struct err *err, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
