/*
 * config_value — see config_value.h.
 */
#include "trainer/config/config_value.h"

#include "base/json/jsonx_writer.h"
#include "io/io.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool accepts_auto(const struct config_field *field)
{
    return field->kind == CONFIG_COUNT_AUTO || field->kind == CONFIG_SIZE_AUTO;
}

/* A plain number counts steps. */
static int read_interval(const struct config_field *field, const char *text,
                         struct config_interval *target)
{
    struct config_interval interval = {0};
    bool is_count = *text && strspn(text, "0123456789") == strlen(text);
    errno = 0;
    if (is_count)
        interval.steps = strtoull(text, NULL, 10);
    else if (str_parse_duration(text, &interval.ns))
        return -EINVAL;
    if (errno || (double)interval.steps < field->min || (double)interval.steps > field->max)
        return -ERANGE;
    *target = interval;
    return 0;
}

int config_value_read(const struct config_field *field, const char *const *values, size_t count,
                      void *target)
{
    const char *text = count > 0 ? values[0] : "";
    if (count != (field->kind == CONFIG_PAIR ? 2 : 1))
        return -EINVAL;
    double reals[2];
    if (field->kind == CONFIG_REAL || field->kind == CONFIG_FRACTION ||
        field->kind == CONFIG_PAIR) {
        for (size_t i = 0; i < count; i++) {
            char *end;
            reals[i] = strtod(values[i], &end);
            if (end == values[i])
                return -EINVAL;
            if (field->kind == CONFIG_FRACTION && *end == '%') {
                reals[i] /= 100;
                end++;
            }
            if (*end || !isfinite(reals[i]))
                return -EINVAL;
            if (reals[i] < field->min || reals[i] > field->max)
                return -ERANGE;
        }
        memcpy(target, reals, count * sizeof reals[0]);
        return 0;
    }
    if (field->kind == CONFIG_INTERVAL)
        return read_interval(field, text, target);
    uint64_t number;
    char *end;
    if (accepts_auto(field) && strcmp(text, "auto") == 0) {
        *(uint64_t *)target = 0;
        return 0;
    }
    switch (field->kind) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
        if (strlen(text) >= field->bytes)
            return -ERANGE;
        snprintf(target, field->bytes, "%s", text);
        return 0;
    case CONFIG_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return -EINVAL;
        *(bool *)target = text[0] == 't';
        return 0;
    case CONFIG_SIZE_AUTO:
    case CONFIG_SIZE:
        if (str_parse_size(text, &number))
            return -EINVAL;
        break;
    case CONFIG_DURATION:
        if (str_parse_duration(text, &number))
            return -EINVAL;
        break;
    case CONFIG_COUNT_AUTO:
    case CONFIG_COUNT:
        if (text[0] < '0' || text[0] > '9')
            return -EINVAL;
        errno = 0;
        number = strtoull(text, &end, 10);
        if (*end)
            return -EINVAL;
        if (errno)
            return -ERANGE;
        break;
    case CONFIG_CHOICE:
        for (const struct config_alias *a = field->aliases; a && a->alias; a++)
            if (strcmp(text, a->alias) == 0)
                text = a->choice;
        for (uint32_t i = 0; field->choices[i]; i++) {
            if (strcmp(text, field->choices[i]) == 0) {
                *(uint32_t *)target = i;
                return 0;
            }
        }
        return -EINVAL;
    default:
        return -EINVAL;
    }
    if ((double)number < field->min || (double)number > field->max)
        return -ERANGE;
    *(uint64_t *)target = number;
    return 0;
}

void config_value_describe(const struct config_field *field, char *text, size_t bytes)
{
    static const char *const names[] = {
        [CONFIG_TEXT] = "text",
        [CONFIG_BOOL] = "true or false",
        [CONFIG_COUNT] = "a whole number",
        [CONFIG_COUNT_AUTO] = "a whole number or auto",
        [CONFIG_SIZE] = "a size such as 64MiB",
        [CONFIG_SIZE_AUTO] = "a size such as 64MiB, or auto,",
        [CONFIG_DURATION] = "a duration such as 90s or 10min",
        [CONFIG_INTERVAL] = "a duration such as 15min, or a whole number of steps",
        [CONFIG_REAL] = "a number",
        [CONFIG_FRACTION] = "a fraction such as 0.01 or 1%",
        [CONFIG_PAIR] = "two numbers in brackets",
    };
    if (field->kind == CONFIG_CHOICE) {
        size_t used = (size_t)snprintf(text, bytes, "one of");
        for (size_t i = 0; field->choices[i] && used < bytes; i++)
            used += (size_t)snprintf(text + used, bytes - used, "%s %s", i ? "," : "",
                                     field->choices[i]);
    } else if (field->kind == CONFIG_TEXT || field->kind == CONFIG_PATH) {
        snprintf(text, bytes, "text of less than %zu bytes", field->bytes);
    } else if (field->kind == CONFIG_MIX) {
        snprintf(text, bytes,
                 "a path of less than %d bytes, or a list of {path: text, weight: number}",
                 IO_PATH_BYTES_MAX);
    } else if (field->kind == CONFIG_BOOL) {
        snprintf(text, bytes, "%s", names[field->kind]);
    } else {
        snprintf(text, bytes, "%s from %.15g to %.15g", names[field->kind], field->min, field->max);
    }
}

void config_value_print(const struct config_field *field, const void *source, struct str *out)
{
    const double *reals = source;
    struct jsonx_writer writer = {.out = out};
    if (accepts_auto(field) && *(const uint64_t *)source == 0) {
        str_add_text(out, "auto");
        return;
    }
    switch (field->kind) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
        jsonx_write_string(&writer, NULL, source);
        break;
    case CONFIG_BOOL:
        str_add_text(out, *(const bool *)source ? "true" : "false");
        break;
    case CONFIG_COUNT:
    case CONFIG_COUNT_AUTO:
    case CONFIG_SIZE:
    case CONFIG_SIZE_AUTO:
        str_add_format(out, "%llu", (unsigned long long)*(const uint64_t *)source);
        break;
    case CONFIG_DURATION:
        str_add_format(out, "%.15gms", (double)*(const uint64_t *)source / 1e6);
        break;
    case CONFIG_INTERVAL: {
        const struct config_interval *interval = source;
        if (interval->ns > 0)
            str_add_format(out, "%.15gms", (double)interval->ns / 1e6);
        else
            str_add_format(out, "%llu", (unsigned long long)interval->steps);
        break;
    }
    case CONFIG_REAL:
    case CONFIG_FRACTION:
        jsonx_write_f64(&writer, NULL, reals[0]);
        break;
    case CONFIG_PAIR:
        jsonx_begin_array(&writer, NULL);
        jsonx_write_f64(&writer, NULL, reals[0]);
        jsonx_write_f64(&writer, NULL, reals[1]);
        jsonx_end_array(&writer);
        break;
    case CONFIG_CHOICE:
        str_add_text(out, field->choices[*(const uint32_t *)source]);
        break;
    case CONFIG_MIX:
        config_mix_print(source, out);
        break;
    }
}
