/*
 * str — see str.h.
 */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int str_reserve(struct str *str, size_t bytes)
{
    if (str->status)
        return str->status;
    if (bytes > SIZE_MAX / 2 - str->bytes)
        return str->status = -ENOMEM;
    size_t needed = str->bytes + bytes + 1;
    if (needed <= str->capacity_bytes)
        return 0;
    size_t capacity = str->capacity_bytes ? str->capacity_bytes : 64;
    while (capacity < needed)
        capacity *= 2;
    char *grown = realloc(str->data, capacity);
    if (!grown)
        return str->status = -ENOMEM;
    str->data = grown;
    str->capacity_bytes = capacity;
    return 0;
}

void str_add(struct str *str, const void *data, size_t bytes)
{
    if (str_reserve(str, bytes))
        return;
    if (bytes > 0)
        memcpy(str->data + str->bytes, data, bytes);
    str->bytes += bytes;
    str->data[str->bytes] = '\0';
}

void str_add_text(struct str *str, const char *text)
{
    str_add(str, text, strlen(text));
}

void str_add_fill(struct str *str, char byte, size_t count)
{
    if (str_reserve(str, count))
        return;
    memset(str->data + str->bytes, byte, count);
    str->bytes += count;
    str->data[str->bytes] = '\0';
}

void str_add_format(struct str *str, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int needed = vsnprintf(NULL, 0, format, arguments);
    if (needed >= 0 && !str_reserve(str, (size_t)needed)) {
        vsnprintf(str->data + str->bytes, (size_t)needed + 1, format, again);
        str->bytes += (size_t)needed;
    }
    va_end(again);
    va_end(arguments);
}

void str_clear(struct str *str)
{
    str->bytes = 0;
    if (str->data)
        str->data[0] = '\0';
}

void str_merge_status(struct str *str, const struct str *part)
{
    if (part->status)
        str->status = part->status;
}

void str_deinit(struct str *str)
{
    free(str->data);
    *str = (struct str){0};
}

static const char *last_bytes(const char *text, size_t bytes)
{
    size_t text_bytes = strlen(text);
    return text + (text_bytes > bytes ? text_bytes - bytes : 0);
}

bool str_ends_with(const char *text, const char *end)
{
    return strcmp(last_bytes(text, strlen(end)), end) == 0;
}

bool str_ends_with_nocase(const char *text, const char *end)
{
    return strcasecmp(last_bytes(text, strlen(end)), end) == 0;
}

struct named_unit {
    const char *name;
    double factor;
};

static int parse_with_units(const char *text, const struct named_unit *units, size_t count,
                            uint64_t *ret)
{
    if (!isdigit((unsigned char)text[0]) && text[0] != '.')
        return -EINVAL; /* strtod would accept signs, spaces and "inf" */
    char *end;
    errno = 0;
    unsigned long long whole = strtoull(text, &end, 10);
    bool exact =
        errno == 0 && *end != '.' && *end != 'e' && *end != 'E' && isdigit((unsigned char)text[0]);
    double value = exact ? (double)whole : strtod(text, &end);
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(end, units[i].name) != 0)
            continue;
        if (exact && units[i].factor >= 1) {
            uint64_t factor = (uint64_t)units[i].factor;
            if (whole > UINT64_MAX / factor)
                return -ERANGE;
            *ret = whole * factor;
            return 0;
        }
        double scaled = value * units[i].factor;
        if (scaled >= 0x1p64)
            return -ERANGE;
        *ret = (uint64_t)scaled;
        return 0;
    }
    return -EINVAL;
}

int str_parse_size(const char *text, uint64_t *ret_bytes)
{
    static const struct named_unit units[] = {
        {"", 1},         {"B", 1},        {"k", 0x1p10},   {"m", 0x1p20},   {"g", 0x1p30},
        {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"kB", 1e3},
        {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
    };
    return parse_with_units(text, units, sizeof units / sizeof units[0], ret_bytes);
}

int str_parse_duration(const char *text, uint64_t *ret_ns)
{
    static const struct named_unit units[] = {
        {"ms", 1e6},   {"s", 1e9},    {"sec", 1e9},   {"m", 60e9},
        {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9},
    };
    return parse_with_units(text, units, sizeof units / sizeof units[0], ret_ns);
}

const char *str_format_size(uint64_t bytes, char *text)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof names / sizeof names[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(text, STR_SIZE_BYTES, unit ? "%.1f %s" : "%.0f %s", value, names[unit]);
    return text;
}

/* Damerau's, which counts transpositions of neighbors. SIZE_MAX if a word is too long. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { WORD_MAX = 63 };
    size_t n = strlen(a), m = strlen(b);
    if (n > WORD_MAX || m > WORD_MAX)
        return SIZE_MAX;
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *previous = rows[1], *current = rows[2];
    for (size_t j = 0; j <= m; j++)
        previous[j] = j;
    for (size_t i = 1; i <= n; i++) {
        current[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = previous[j - 1] + (a[i - 1] != b[j - 1]);
            if (previous[j] + 1 < best)
                best = previous[j] + 1;
            if (current[j - 1] + 1 < best)
                best = current[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            current[j] = best;
        }
        size_t *spare = before;
        before = previous;
        previous = current;
        current = spare;
    }
    return previous[m];
}

const char *str_nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *nearest = NULL;
    size_t best = strlen(word) / 3 + 2; /* with more edits, another word was probably meant */
    for (size_t i = 0; i < count; i++) {
        size_t d = edit_distance(word, candidates[i]);
        if (d < best) {
            best = d;
            nearest = candidates[i];
        }
    }
    return nearest;
}
