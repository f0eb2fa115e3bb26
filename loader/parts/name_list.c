/*
 * name_list — see name_list.h.
 */
#include "loader/parts/name_list.h"

#include "base/bytes.h"
#include "base/utf8.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kind {
    const char *plural, *singular, *expected;
    uint64_t lines_max;
    size_t bytes_max;
};

static const struct kind kinds[] = {
    [NAME_LIST_KEYS] = {"keys", "key", "a key in each line", 1 << 30, INT32_MAX},
    [NAME_LIST_REPEATED_KEYS] = {"keys", "key", "a key in each line", 1 << 30, INT32_MAX},
    [NAME_LIST_WEIGHTED_KEYS] = {"keys", "key", "a key, a tab and a weight in each line", 1 << 30,
                                 INT32_MAX},
    [NAME_LIST_CLASSES] = {"class names", "name",
                           "UTF-8 text with a class name in each line, the first for class 0",
                           1 << 24, 1 << 28},
};

struct reader {
    struct name_list *list;
    const char *path;
    enum name_list_kind kind;
    struct err *err;
};

/* The next line, the one after the last that was added. */
static int wrong_line(const struct reader *reader, const char *what)
{
    const struct kind *kind = &kinds[reader->kind];
    err_set(reader->err, -EINVAL, "line %" PRIu64 " of the list of %s %s", reader->list->count + 1,
            kind->plural, what);
    err_at(reader->err, reader->path, ERR_NO_OFFSET);
    err_expected(reader->err, "%s", kind->expected);
    return -EINVAL;
}

/* Finds the weight and cuts it off the line. */
static int read_weight(const struct reader *reader, const char *line, size_t *bytes)
{
    const char *tab = memrchr(line, '\t', *bytes);
    char text[64] = "", *end = text;
    size_t weight_bytes = tab ? (size_t)(line + *bytes - tab) - 1 : 0;
    double weight = -1;
    if (weight_bytes > 0 && weight_bytes < sizeof text) {
        memcpy(text, tab + 1, weight_bytes);
        weight = strtod(text, &end);
    }
    if (end == text || *end || !isfinite(weight) || weight < 0)
        return wrong_line(reader, "has no weight");
    str_add(&reader->list->weights, &weight, sizeof weight);
    *bytes = (size_t)(tab - line);
    return *bytes > 0 ? 0 : wrong_line(reader, "has no key");
}

static bool is_text(const char *line, size_t bytes)
{
    return utf8_valid_bytes(line, bytes) == bytes && !memchr(line, '\0', bytes);
}

static int repeated_name(const struct reader *reader, uint32_t number)
{
    char what[32];
    snprintf(what, sizeof what, "repeats a %s", kinds[reader->kind].singular);
    int status = wrong_line(reader, what);
    err_found(reader->err, "\"%.80s\", also in line %" PRIu32,
              name_set_at(&reader->list->names, number), number + 1);
    return status;
}

static int too_many_lines(const struct reader *reader)
{
    char what[48];
    snprintf(what, sizeof what, "is beyond the maximum of %" PRIu64, kinds[reader->kind].lines_max);
    return wrong_line(reader, what);
}

static int add_line(const struct reader *reader, const char *line, size_t bytes)
{
    struct name_list *list = reader->list;
    uint32_t number;
    bool is_new;
    if (bytes == 0)
        return wrong_line(reader, "is empty");
    if (reader->kind == NAME_LIST_CLASSES && !is_text(line, bytes))
        return wrong_line(reader, "is not UTF-8 text");
    if (list->count == kinds[reader->kind].lines_max)
        return too_many_lines(reader);
    int status = reader->kind == NAME_LIST_WEIGHTED_KEYS ? read_weight(reader, line, &bytes) : 0;
    if (!status)
        status = name_set_add(&list->names, line, bytes, &number, &is_new, reader->err);
    if (status)
        return status;
    if (!is_new && reader->kind != NAME_LIST_REPEATED_KEYS)
        return repeated_name(reader, number);
    str_add(&list->numbers, &number, sizeof number);
    list->count++;
    return 0;
}

static int add_lines(const struct reader *reader, const char *text, size_t bytes)
{
    static const char mark[] = "\xef\xbb\xbf";
    const char *line = text + (strncmp(text, mark, 3) == 0 ? 3 : 0), *end = text + bytes;
    int status = 0;
    while (line < end && !status) {
        const char *next = memchr(line, '\n', (size_t)(end - line)), *stop = next ? next : end;
        size_t line_bytes = (size_t)(stop - line);
        if (line_bytes > 0 && line[line_bytes - 1] == '\r')
            line_bytes--;
        status = add_line(reader, line, line_bytes);
        line = next ? next + 1 : end;
    }
    return !status && reader->list->count == 0 ? wrong_line(reader, "is missing") : status;
}

int name_list_read(struct io *io, const char *path, enum name_list_kind kind,
                   struct name_list *ret_list, struct err *err)
{
    const struct reader reader = {ret_list, path, kind, err};
    char *text = NULL;
    size_t bytes;
    *ret_list = (struct name_list){0};
    int status = io_read_file(io, path, kinds[kind].bytes_max, &text, &bytes, err);
    if (!status)
        status = add_lines(&reader, text, bytes);
    free(text);
    if (!status && (str_status(&ret_list->numbers) || str_status(&ret_list->weights)))
        status = err_set(err, -ENOMEM, "out of memory for a list of %s", kinds[kind].plural);
    return status;
}

void name_list_deinit(struct name_list *list)
{
    name_set_deinit(&list->names);
    str_deinit(&list->numbers);
    str_deinit(&list->weights);
    *list = (struct name_list){0};
}
