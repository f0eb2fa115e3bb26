/*
 * class_names — see class_names.h.
 */
#include "loader/parts/class_names.h"

#include "base/utf8.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b)
{
    const struct class_name *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order ? order : (left->number > right->number) - (left->number < right->number);
}

static int wrong_line(const char *path, uint64_t line, const char *what, struct err *err)
{
    err_set(err, -EINVAL, "line %" PRIu64 " of the list of class names %s", line, what);
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "UTF-8 text with a class name in each line, the first for class 0");
    return -EINVAL;
}

static bool is_name(const char *line, size_t bytes)
{
    for (size_t at = 0, step; at < bytes; at += step) {
        step = utf8_sequence_bytes((const unsigned char *)line + at, bytes - at);
        if (step == 0 || line[at] == '\0')
            return false;
    }
    return true;
}

/* Splits the text into lines, in place. */
static int split_lines(struct class_names *names, size_t bytes, const char *path, struct err *err)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t skip = strncmp(names->text, mark, 3) == 0 ? 3 : 0;
    for (char *line = names->text + skip, *end = names->text + bytes; line < end;) {
        char *next = memchr(line, '\n', (size_t)(end - line));
        char *stop = next ? next : end;
        if (stop > line && stop[-1] == '\r')
            stop--;
        if (stop == line)
            return wrong_line(path, names->count + 1, "is empty", err);
        if (!is_name(line, (size_t)(stop - line)))
            return wrong_line(path, names->count + 1, "is not UTF-8 text", err);
        if (names->count == CLASS_NAMES_MAX)
            return wrong_line(path, names->count + 1, "is beyond the maximum of 16777216", err);
        *stop = '\0';
        names->sorted[names->count] = (struct class_name){line, (int32_t)names->count};
        names->names[names->count++] = line;
        line = next ? next + 1 : end;
    }
    return names->count ? 0 : wrong_line(path, 1, "is missing", err);
}

static int sort_names(struct class_names *names, const char *path, struct err *err)
{
    qsort(names->sorted, names->count, sizeof *names->sorted, compare_names);
    for (uint64_t i = 1; i < names->count; i++) {
        const struct class_name *earlier = &names->sorted[i - 1], *later = &names->sorted[i];
        if (strcmp(earlier->name, later->name) != 0)
            continue;
        int status = wrong_line(path, (uint64_t)later->number + 1, "repeats a name", err);
        err_found(err, "\"%.80s\", also in line %" PRId32, later->name, earlier->number + 1);
        return status;
    }
    return 0;
}

int class_names_read(struct io *io, const char *path, struct class_names *ret_names,
                     struct err *err)
{
    struct class_names *names = ret_names;
    size_t bytes, lines = 1;
    *names = (struct class_names){0};
    int status = io_read_file(io, path, CLASS_NAMES_BYTES_MAX, &names->text, &bytes, err);
    if (status)
        return status;
    for (size_t i = 0; i < bytes; i++)
        lines += names->text[i] == '\n';
    names->names = calloc(lines, sizeof *names->names);
    names->sorted = calloc(lines, sizeof *names->sorted);
    if (!names->names || !names->sorted)
        return err_set(err, -ENOMEM, "out of memory for a list of class names");
    status = split_lines(names, bytes, path, err);
    return status ? status : sort_names(names, path, err);
}

void class_names_free(struct class_names *names)
{
    free(names->text);
    free(names->names);
    free(names->sorted);
    *names = (struct class_names){0};
}

int32_t class_names_find(const struct class_names *names, const char *name, size_t bytes)
{
    uint64_t first = 0, end = names->count;
    while (first < end) {
        uint64_t middle = first + (end - first) / 2;
        const char *candidate = names->sorted[middle].name;
        size_t candidate_bytes = strlen(candidate);
        int order = memcmp(name, candidate, bytes < candidate_bytes ? bytes : candidate_bytes);
        if (order == 0 && bytes == candidate_bytes)
            return names->sorted[middle].number;
        if (order > 0 || (order == 0 && bytes > candidate_bytes))
            first = middle + 1;
        else
            end = middle;
    }
    return -1;
}
