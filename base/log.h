/*
 * log — passes log lines to the caller's sink, which must be thread-safe. The library never prints.
 * Thread-safe.
 */
#ifndef MILLRACE_BASE_LOG_H
#define MILLRACE_BASE_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct err;

enum { LOG_LINE_BYTES_MAX = 4096 }; /* holds a line of err.h and what failed */

/* Immutable. line has no newline and is valid only during the call. */
struct log {
    void (*write)(void *context, enum log_level level, const char *line);
    void *context;
    enum log_level level_min; /* lines below it are dropped without being formatted */
};

/* log may be NULL. Lines are truncated to LOG_LINE_BYTES_MAX. */
void log_line(const struct log *log, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Like log_line, but appends ": " and err, formatted on one line (err_format). */
void log_err(const struct log *log, enum log_level level, const struct err *err, const char *format,
             ...) __attribute__((format(printf, 4, 5)));

#ifdef __cplusplus
}
#endif

#endif
