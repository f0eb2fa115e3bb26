/*
 * url_list — see url_list.h.
 *
 * Substitutes each alternative of a group and expands the result from there on. The order is that
 * of a shell.
 */
#include "shards/dataset/url_list.h"

#include "shards/dataset/dataset.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_MAX = 16, VARIABLE_BYTES_MAX = 128, NUMBER_DIGITS_MAX = 18 };

static int pattern_error(struct err *err, const char *what, const char *text)
{
    err_set(err, -EINVAL, "%s", what);
    err_at(err, text, ERR_NO_OFFSET);
    return -EINVAL;
}

int url_list_add(struct url_list *list, const char *url, struct err *err)
{
    if (list->count == DATASET_SHARDS_MAX)
        return pattern_error(err, "pattern expands to too many shards", url);
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        char **urls = realloc(list->urls, capacity * sizeof *urls);
        if (!urls)
            return err_set(err, -ENOMEM, "out of memory for a list of shards");
        list->urls = urls;
        list->capacity = capacity;
    }
    list->urls[list->count] = strdup(url);
    if (!list->urls[list->count])
        return err_set(err, -ENOMEM, "out of memory for a list of shards");
    list->count++;
    return 0;
}

struct brace_group {
    size_t begin, end; /* end: after the closing brace */
    bool has_comma;
    /* for ranges: */
    bool is_range, letters;
    int64_t from, to, step;
    int width; /* number of digits with leading zeros; 0: no padding */
};

static const char *parse_integer(const char *text, int64_t *ret_value, int *ret_digits,
                                 bool *ret_padded)
{
    size_t sign = *text == '-', digits = strspn(text + sign, "0123456789");
    if (digits == 0 || digits > NUMBER_DIGITS_MAX)
        return NULL;
    *ret_value = strtoll(text, NULL, 10);
    *ret_digits = (int)(digits + sign);
    *ret_padded = text[sign] == '0' && digits > 1;
    return text + sign + digits;
}

/* Parses "a..c" or "1..9", optionally followed by "..2", up to end. */
static bool parse_range(const char *text, const char *end, struct brace_group *group)
{
    int from_digits = 0, to_digits = 0, step_digits;
    bool from_padded = false, to_padded = false, step_padded;
    const char *at;
    group->step = 1;
    group->letters = isalpha((unsigned char)text[0]) && strncmp(text + 1, "..", 2) == 0 &&
                     isalpha((unsigned char)text[3]);
    if (group->letters) {
        group->from = text[0];
        group->to = text[3];
        at = text + 4;
    } else {
        at = parse_integer(text, &group->from, &from_digits, &from_padded);
        if (!at || strncmp(at, "..", 2) != 0)
            return false;
        at = parse_integer(at + 2, &group->to, &to_digits, &to_padded);
    }
    if (at && at != end && strncmp(at, "..", 2) == 0)
        at = parse_integer(at + 2, &group->step, &step_digits, &step_padded);
    group->width =
        from_padded || to_padded ? (from_digits > to_digits ? from_digits : to_digits) : 0;
    group->step = group->step < 0 ? -group->step : group->step;
    return at == end && group->step > 0;
}

/* Finds the first expandable group at or after `from`. */
static bool find_group(const char *text, size_t from, struct brace_group *ret_group)
{
    for (const char *open = strchr(text + from, '{'); open; open = strchr(open + 1, '{')) {
        struct brace_group group = {.begin = (size_t)(open - text)};
        size_t depth = 0;
        for (const char *at = open; *at && group.end == 0; at++) {
            depth += *at == '{';
            depth -= *at == '}';
            group.has_comma |= *at == ',' && depth == 1;
            if (depth == 0)
                group.end = (size_t)(at - text) + 1;
        }
        if (group.end == 0)
            continue; /* unclosed, but an inner group may be closed */
        group.is_range = !group.has_comma && parse_range(open + 1, text + group.end - 1, &group);
        if (group.has_comma || group.is_range) {
            *ret_group = group;
            return true;
        }
    }
    return false;
}

static int expand_braces(struct url_list *list, const char *text, size_t from, unsigned depth,
                         struct err *err);

static int expand_word(struct url_list *list, const char *text, const struct brace_group *group,
                       const char *word, size_t word_bytes, unsigned depth, struct err *err)
{
    char whole[IO_PATH_BYTES_MAX];
    int bytes = snprintf(whole, sizeof whole, "%.*s%.*s%s", (int)group->begin, text,
                         (int)word_bytes, word, text + group->end);
    if (bytes < 0 || (size_t)bytes >= sizeof whole)
        return pattern_error(err, "pattern expands to a path that is too long", text);
    return expand_braces(list, whole, group->begin, depth + 1, err);
}

static int expand_words(struct url_list *list, const char *text, const struct brace_group *group,
                        unsigned depth, struct err *err)
{
    size_t word = group->begin + 1, level = 0;
    for (size_t at = word; at < group->end; at++) {
        bool ends = (text[at] == ',' && level == 0) || at + 1 == group->end;
        level += text[at] == '{';
        level -= text[at] == '}' && at + 1 < group->end;
        if (!ends)
            continue;
        int status = expand_word(list, text, group, text + word, at - word, depth, err);
        if (status)
            return status;
        word = at + 1;
    }
    return 0;
}

static int expand_range(struct url_list *list, const char *text, const struct brace_group *group,
                        unsigned depth, struct err *err)
{
    bool upward = group->to >= group->from;
    uint64_t distance =
        upward ? (uint64_t)(group->to - group->from) : (uint64_t)(group->from - group->to);
    uint64_t last = distance / (uint64_t)group->step;
    if (last >= DATASET_SHARDS_MAX)
        return pattern_error(err, "pattern expands to too many shards", text);
    for (uint64_t i = 0; i <= last; i++) {
        int64_t moved = (int64_t)i * group->step,
                value = upward ? group->from + moved : group->from - moved;
        char word[32];
        int bytes = group->letters ? snprintf(word, sizeof word, "%c", (char)value)
                                   : snprintf(word, sizeof word, "%0*" PRId64, group->width, value);
        int status = expand_word(list, text, group, word, (size_t)bytes, depth, err);
        if (status)
            return status;
    }
    return 0;
}

static int expand_braces(struct url_list *list, const char *text, size_t from, unsigned depth,
                         struct err *err)
{
    struct brace_group group;
    if (!find_group(text, from, &group))
        return url_list_add(list, text, err);
    if (depth == GROUPS_MAX)
        return pattern_error(err, "pattern has too many groups in braces", text);
    return group.is_range ? expand_range(list, text, &group, depth, err)
                          : expand_words(list, text, &group, depth, err);
}

/* Returns the length of a `${NAME}` at text; 0: none. */
static size_t variable_bytes(const char *text)
{
    if (text[0] != '$' || text[1] != '{')
        return 0;
    size_t bytes = 0;
    while (isalnum((unsigned char)text[2 + bytes]) || text[2 + bytes] == '_')
        bytes++;
    return bytes > 0 && bytes < VARIABLE_BYTES_MAX && text[2 + bytes] == '}' ? bytes + 3 : 0;
}

static int expand_variables(const char *text, size_t text_bytes, char out[IO_PATH_BYTES_MAX],
                            struct err *err)
{
    size_t used = 0;
    for (size_t at = 0; at < text_bytes;) {
        size_t bytes = variable_bytes(text + at), piece_bytes = 1;
        const char *piece = text + at;
        if (bytes) {
            char name[VARIABLE_BYTES_MAX + 8];
            snprintf(name, sizeof name, "WDS_%.*s", (int)(bytes - 3), text + at + 2);
            piece = getenv(name);
            if (!piece) {
                pattern_error(err, "pattern names a variable that is not set", text);
                err_expected(err, "%s in the environment", name);
                return -EINVAL;
            }
            piece_bytes = strlen(piece);
        }
        if (piece_bytes >= IO_PATH_BYTES_MAX - used)
            return pattern_error(err, "pattern is too long", text);
        memcpy(out + used, piece, piece_bytes);
        used += piece_bytes;
        at += bytes ? bytes : 1;
    }
    out[used] = '\0';
    return 0;
}

bool url_list_is_pattern(const char *text)
{
    struct brace_group group;
    if (strstr(text, "::") || find_group(text, 0, &group))
        return true;
    for (const char *at = strchr(text, '$'); at; at = strchr(at + 1, '$'))
        if (variable_bytes(at))
            return true;
    return false;
}

int url_list_expand(struct url_list *list, const char *text, struct err *err)
{
    for (const char *at = text;;) {
        const char *next = strstr(at, "::");
        size_t bytes = next ? (size_t)(next - at) : strlen(at);
        char one[IO_PATH_BYTES_MAX];
        if (bytes == 0)
            return pattern_error(err, "pattern has an empty alternative", text);
        int status = expand_variables(at, bytes, one, err);
        if (!status)
            status = expand_braces(list, one, 0, 0, err);
        if (status == -EINVAL)
            err_at(err, text, ERR_NO_OFFSET);
        if (status || !next)
            return status;
        at = next + 2;
    }
}

void url_list_deinit(struct url_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->urls[i]);
    free(list->urls);
    *list = (struct url_list){0};
}
