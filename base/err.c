/*
 * err — see err.h.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void clear(struct err *err, int code)
{
    err->code = code;
    err->offset = ERR_NO_OFFSET;
    err->what[0] = err->path[0] = err->expected[0] = err->found[0] = err->advice[0] = '\0';
}

void err_clear(struct err *err)
{
    if (err)
        clear(err, 0);
}

static int code_of(const struct err *err)
{
    return err ? err->code : -EIO;
}

int err_set(struct err *err, int code, const char *what_format, ...)
{
    if (!err)
        return code;
    va_list arguments;
    char what[ERR_TEXT_BYTES_MAX]; /* the arguments may point into err itself */
    va_start(arguments, what_format);
    vsnprintf(what, sizeof what, what_format, arguments);
    va_end(arguments);
    clear(err, code);
    memcpy(err->what, what, sizeof what);
    return code;
}

int err_errno(struct err *err, int code, const char *what_format, ...)
{
    if (!err)
        return code;
    va_list arguments;
    char what[ERR_TEXT_BYTES_MAX];
    va_start(arguments, what_format);
    vsnprintf(what, sizeof what, what_format, arguments);
    va_end(arguments);
    clear(err, code);
    snprintf(err->what, sizeof err->what, "%.180s: %s", what, strerror(-code));
    return code;
}

int err_at(struct err *err, const char *path, int64_t offset)
{
    if (err) {
        snprintf(err->path, sizeof err->path, "%s", path ? path : "");
        err->offset = offset;
    }
    return code_of(err);
}

#define FILL(field)                                                                                          \
    do {                                                                                                     \
        if (err) {                                                                                           \
            va_list arguments;                                                                               \
            va_start(arguments, format);                                                                     \
            vsnprintf(err->field, sizeof err->field, format, arguments);                                     \
            va_end(arguments);                                                                               \
        }                                                                                                    \
    } while (0)

int err_expected(struct err *err, const char *format, ...)
{
    FILL(expected);
    return code_of(err);
}

int err_found(struct err *err, const char *format, ...)
{
    FILL(found);
    return code_of(err);
}

int err_advise(struct err *err, const char *format, ...)
{
    FILL(advice);
    return code_of(err);
}

const char *err_format(const struct err *err, char *line, size_t bytes)
{
    char offset[40] = "";
    if (err->offset >= 0)
        snprintf(offset, sizeof offset, " at %lld", (long long)err->offset);
    int wants = err->expected[0] != '\0', has = err->found[0] != '\0';
    snprintf(line, bytes, "%s%s%s%s%s%s%s%s%s%s%s", err->what[0] ? err->what : strerror(-err->code),
             err->path[0] ? ": " : "", err->path, err->path[0] ? offset : "", wants ? ": expected " : "",
             err->expected, has ? (wants ? ", found " : ": found ") : "", err->found,
             err->advice[0] ? "; " : "", err->advice, "");
    return line;
}
