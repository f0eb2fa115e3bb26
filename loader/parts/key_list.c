/*
 * key_list — see key_list.h.
 */
#include "loader/parts/key_list.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int wrong_line(const char *path, uint64_t line, bool has_weights, const char *what,
                      struct err *err)
{
    err_set(err, -EINVAL, "line %" PRIu64 " of the list of keys %s", line + 1, what);
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err,
                 has_weights ? "a key, a tab and a weight in each line" : "a key in each line");
    return -EINVAL;
}

/* Returns the slot with the key, or the empty slot for it. */
static uint32_t *find_slot(const struct key_list *list, const char *key, size_t bytes)
{
    for (uint64_t at = hash_64(key, bytes) % list->slots_count;;
         at = (at + 1) % list->slots_count) {
        uint32_t *slot = &list->slots[at];
        const struct listed_key *line = *slot ? &list->lines[*slot - 1] : NULL;
        if (!line || (line->bytes == bytes && memcmp(line->key, key, bytes) == 0))
            return slot;
    }
}

uint64_t key_list_find(const struct key_list *list, const char *key, size_t bytes)
{
    uint32_t *slot = find_slot(list, key, bytes);
    return *slot ? *slot - 1 : UINT64_MAX;
}

/* Cuts the weight off the line. */
static int read_weight(struct key_list *list, const char *path, struct err *err)
{
    struct listed_key *line = &list->lines[list->count];
    const char *tab = memrchr(line->key, '\t', line->bytes);
    char text[64] = "", *end = text;
    size_t bytes = tab ? (size_t)(line->key + line->bytes - tab) - 1 : 0;
    if (bytes > 0 && bytes < sizeof text) {
        memcpy(text, tab + 1, bytes);
        list->weights[list->count] = strtod(text, &end);
    }
    if (end == text || *end || !isfinite(list->weights[list->count]) ||
        list->weights[list->count] < 0)
        return wrong_line(path, list->count, true, "has no weight", err);
    line->bytes = (uint32_t)(tab - line->key);
    return line->bytes ? 0 : wrong_line(path, list->count, true, "has no key", err);
}

static int add_line(struct key_list *list, enum key_list_kind kind, const char *key, size_t bytes,
                    const char *path, struct err *err)
{
    bool has_weights = kind == KEY_LIST_WEIGHTED;
    if (bytes == 0)
        return wrong_line(path, list->count, has_weights, "is empty", err);
    list->lines[list->count] = (struct listed_key){key, (uint32_t)bytes};
    int status = has_weights ? read_weight(list, path, err) : 0;
    if (status)
        return status;
    const struct listed_key *line = &list->lines[list->count];
    uint32_t *slot = find_slot(list, line->key, line->bytes);
    if (*slot && kind != KEY_LIST_REPEATED) {
        status = wrong_line(path, list->count, has_weights, "repeats a key", err);
        err_found(err, "\"%.*s\", also in line %" PRIu32, (int)bytes_min(line->bytes, 80),
                  line->key, *slot);
        return status;
    }
    list->count++;
    if (!*slot)
        *slot = (uint32_t)list->count;
    return 0;
}

static int allocate(struct key_list *list, enum key_list_kind kind, size_t bytes, struct err *err)
{
    uint64_t lines = 1;
    for (size_t i = 0; i < bytes; i++)
        lines += list->text[i] == '\n';
    list->slots_count = 2 * lines;
    if (lines <= KEY_LIST_LINES_MAX) {
        list->lines = calloc(lines, sizeof *list->lines);
        list->slots = calloc(list->slots_count, sizeof *list->slots);
        list->weights = kind == KEY_LIST_WEIGHTED ? calloc(lines, sizeof *list->weights) : NULL;
    }
    return list->lines && list->slots && (list->weights || kind != KEY_LIST_WEIGHTED)
               ? 0
               : err_set(err, -ENOMEM, "out of memory for a list of %" PRIu64 " keys", lines);
}

int key_list_read(struct io *io, const char *path, enum key_list_kind kind,
                  struct key_list *ret_list, struct err *err)
{
    static const char mark[] = "\xef\xbb\xbf";
    struct key_list *list = ret_list;
    size_t bytes;
    *list = (struct key_list){0};
    int status = io_read_file(io, path, KEY_LIST_BYTES_MAX, &list->text, &bytes, err);
    if (!status)
        status = allocate(list, kind, bytes, err);
    if (status)
        return status;
    const char *line = list->text + (strncmp(list->text, mark, 3) == 0 ? 3 : 0),
               *end = list->text + bytes;
    while (line < end && !status) {
        const char *next = memchr(line, '\n', (size_t)(end - line)), *stop = next ? next : end;
        size_t line_bytes = (size_t)(stop - line);
        if (line_bytes > 0 && line[line_bytes - 1] == '\r')
            line_bytes--;
        status = add_line(list, kind, line, line_bytes, path, err);
        line = next ? next + 1 : end;
    }
    if (!status && list->count == 0)
        status = wrong_line(path, 0, kind == KEY_LIST_WEIGHTED, "is missing", err);
    return status;
}

void key_list_free(struct key_list *list)
{
    free(list->text);
    free(list->lines);
    free(list->weights);
    free(list->slots);
    *list = (struct key_list){0};
}
