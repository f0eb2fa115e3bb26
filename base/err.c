/*
 * err — see err.h.
 */
#include "base/err.h"

#include "base/display.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void reset(struct err *err, int code)
{
    err->code = code;
    err->offset = ERR_NO_OFFSET;
    err->what[0] = err->path[0] = err->expected[0] = err->found[0] = err->advice[0] = '\0';
}

void err_clear(struct err *err)
{
    if (err)
        reset(err, 0);
}

enum { ERRNO_WHAT_BYTES_MAX = 180 };

__attribute__((format(printf, 3, 0))) static void set(struct err *err, int code, const char *format,
                                                      va_list arguments)
{
    char what[ERR_TEXT_BYTES_MAX]; /* the arguments may point into err itself */
    vsnprintf(what, sizeof what, format, arguments);
    reset(err, code);
    memcpy(err->what, what, sizeof what);
}

int err_set(struct err *err, int code, const char *what_format, ...)
{
    va_list arguments;
    va_start(arguments, what_format);
    if (err)
        set(err, code, what_format, arguments);
    va_end(arguments);
    return code;
}

int err_errno(struct err *err, int code, const char *what_format, ...)
{
    va_list arguments;
    va_start(arguments, what_format);
    if (err) {
        set(err, code, what_format, arguments);
        size_t bytes = strnlen(err->what, ERRNO_WHAT_BYTES_MAX);
        snprintf(err->what + bytes, sizeof err->what - bytes, ": %s",
                 code == -EBADMSG ? "the data is damaged" : strerror(-code));
    }
    va_end(arguments);
    return code;
}

void err_at(struct err *err, const char *path, int64_t offset)
{
    if (err) {
        snprintf(err->path, sizeof err->path, "%s", path ? path : "");
        err->offset = offset;
    }
}

#define FILL(field)                                                                                \
    do {                                                                                           \
        if (err) {                                                                                 \
            va_list arguments;                                                                     \
            va_start(arguments, format);                                                           \
            vsnprintf(err->field, sizeof err->field, format, arguments);                           \
            va_end(arguments);                                                                     \
        }                                                                                          \
    } while (0)

void err_expected(struct err *err, const char *format, ...)
{
    FILL(expected);
}

void err_found(struct err *err, const char *format, ...)
{
    FILL(found);
}

void err_advise(struct err *err, const char *format, ...)
{
    FILL(advice);
}

struct line_buffer {
    char *text;
    size_t bytes, used; /* used < bytes leaves space for the NUL */
    bool is_full;
};

static void append(struct line_buffer *line, const char *bytes, size_t count)
{
    line->is_full = line->is_full || count >= line->bytes - line->used;
    if (line->is_full)
        return;
    memcpy(line->text + line->used, bytes, count);
    line->used += count;
}

static void append_escaped(struct line_buffer *line, const char *text)
{
    char shown[DISPLAY_SEQUENCE_BYTES];
    for (size_t left = strlen(text), taken; left > 0; text += taken, left -= taken) {
        taken = display_sequence(text, left, shown);
        append(line, shown, strlen(shown));
    }
}

const char *err_format(const struct err *err, char *text, size_t bytes)
{
    struct line_buffer line = {.text = text, .bytes = bytes};
    bool has_expected = err->expected[0] != '\0';
    char offset[40];
    if (bytes == 0)
        return text;
    append_escaped(&line, err->what[0] ? err->what : strerror(-err->code));
    if (err->path[0]) {
        append_escaped(&line, ": ");
        append_escaped(&line, err->path);
        snprintf(offset, sizeof offset, " at %lld", (long long)err->offset);
        append_escaped(&line, err->offset >= 0 ? offset : "");
    }
    append_escaped(&line, has_expected ? ": expected " : "");
    append_escaped(&line, err->expected);
    append_escaped(&line, !err->found[0] ? "" : has_expected ? ", found " : ": found ");
    append_escaped(&line, err->found);
    append_escaped(&line, err->advice[0] ? "; " : "");
    append_escaped(&line, err->advice);
    text[line.used] = '\0';
    return text;
}
