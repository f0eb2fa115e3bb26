/*
 * log — see log.h.
 */
#include "base/log.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

void log_line(const struct log *log, enum log_level level, const char *format, ...)
{
    if (!log || !log->write || level < log->level_min)
        return;
    char line[LOG_LINE_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    log->write(log->context, level, line);
}

void log_err(const struct log *log, enum log_level level, const struct err *err, const char *format,
             ...)
{
    char what[LOG_LINE_BYTES_MAX], detail[ERR_LINE_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    log_line(log, level, "%s: %s", what, err_format(err, detail, sizeof detail));
}
