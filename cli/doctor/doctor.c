/*
 * doctor — fills findings. See doctor.h.
 */
#include "cli/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>

void doctor_report(struct doctor_finding *finding, const char *format, ...)
{
    char text[ERR_LINE_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    str_add_text(&finding->found, text);
}

void doctor_advise(struct doctor_finding *finding, enum doctor_state state, const char *format, ...)
{
    if (state > finding->state)
        finding->state = state;
    if (finding->advice.bytes > 0)
        return;
    char text[ERR_LINE_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    str_add_text(&finding->advice, text);
}

void doctor_report_error(struct doctor_finding *finding, enum doctor_state state,
                         const struct err *err)
{
    doctor_report(finding, "%s%s%s", err->what, *err->path ? ": " : "", err->path);
    doctor_advise(finding, state, "%s", *err->advice ? err->advice : "see the message");
}
