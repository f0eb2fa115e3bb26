/*
 * str — a growing byte string.
 *
 * A failed allocation is sticky: later calls, including str_clear, do nothing, and str_status
 * returns it. Builders need only check once, at the end. str_deinit resets it.
 */
#ifndef MILLRACE_BASE_STR_H
#define MILLRACE_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zeros: an empty string. data is NULL until the first addition, then NUL-terminated. Owner
 * thread. */
struct str {
    char *data;
    size_t bytes; /* without the NUL */
    size_t capacity_bytes;
    int status; /* 0 or -ENOMEM */
};

void str_add(struct str *str, const void *data, size_t bytes);
void str_add_text(struct str *str, const char *text);
void str_add_format(struct str *str, const char *format, ...) __attribute__((format(printf, 2, 3)));
void str_add_fill(struct str *str, char byte, size_t count);
int str_reserve(struct str *str, size_t bytes); /* for `bytes` more bytes; 0 or -ENOMEM */
void str_clear(struct str *str);                /* keeps the memory and any failure */
/* Copies part's failure, if any, to str. */
void str_merge_status(struct str *str, const struct str *part);
void str_deinit(struct str *str);

/* "" if nothing was added. */
static inline const char *str_text(const struct str *str)
{
    return str->data ? str->data : "";
}

static inline int str_status(const struct str *str)
{
    return str->status;
}

bool str_ends_with(const char *text, const char *end);
/* Ignores the case of ASCII letters. */
bool str_ends_with_nocase(const char *text, const char *end);

/* Parses "8388608", "8MiB", "1.5GiB", "3GB", "64k" (= KiB). -EINVAL; -ERANGE if too large. */
int str_parse_size(const char *text, uint64_t *ret_bytes);
/* Parses "90s", "10min", "23h", "2d", "250ms". Returns the errors of str_parse_size. */
int str_parse_duration(const char *text, uint64_t *ret_ns);
/* Writes a readable size ("28.1 KiB") into text (STR_SIZE_BYTES). Returns text. */
enum { STR_SIZE_BYTES = 16 };
const char *str_format_size(uint64_t bytes, char *text);

/* Returns the candidate nearest to word by edit distance (a transposition is one edit); NULL if
 * none is close. */
const char *str_nearest(const char *word, const char *const *candidates, size_t count);

#endif
