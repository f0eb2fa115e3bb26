/*
 * csv — see csv.h.
 */
#include "convert/source/csv.h"

#include <errno.h>
#include <string.h>

/* Returns the offset of the line end of a row with quotes, or bytes. *ret_lines: line ends within
 * quotes. */
static size_t find_quoted_end(const char *text, size_t bytes, char delimiter, size_t *ret_lines)
{
    enum { CELL_BEGIN, PLAIN, QUOTED, CLOSED } state = CELL_BEGIN;
    size_t at = 0;
    *ret_lines = 0;
    for (; at < bytes; at++) {
        char c = text[at];
        if (state == QUOTED) {
            *ret_lines += c == '\n';
            state = c == '"' ? CLOSED : QUOTED;
        } else if (c == '\n') {
            break;
        } else if (c == '"' && state != PLAIN) {
            state = QUOTED; /* opened, or doubled within quotes */
        } else {
            state = c == delimiter ? CELL_BEGIN : PLAIN;
        }
    }
    return at;
}

bool csv_find_row(const char *text, size_t bytes, char delimiter, bool is_last,
                  struct csv_span *ret_span)
{
    const char *newline = bytes ? memchr(text, '\n', bytes) : NULL;
    size_t end = newline ? (size_t)(newline - text) : bytes, lines = 0;
    if (end > 0 && memchr(text, '"', end))
        end = find_quoted_end(text, bytes, delimiter, &lines);
    if (end == bytes && (!is_last || bytes == 0))
        return false;
    bool has_newline = end < bytes;
    *ret_span = (struct csv_span){end, end + has_newline, lines + has_newline};
    if (has_newline && end > 0 && text[end - 1] == '\r')
        ret_span->bytes--;
    return true;
}

void csv_row_deinit(struct csv_row *row)
{
    str_deinit(&row->text);
    str_deinit(&row->cells);
}

static int reject(const struct csv_row *row, const char *what, const char *expected,
                  struct err *err)
{
    err_set(err, -EBADMSG, "%s", what);
    err_expected(err, "%s", expected);
    err_found(err, "it in column %zu", csv_cells_count(row) + 1);
    return -EBADMSG;
}

static void end_cell(struct csv_row *row, size_t start)
{
    struct csv_cell cell = {start, row->text.bytes - start};
    str_add(&row->text, "", 1);
    str_add(&row->cells, &cell, sizeof cell);
}

/* Appends the value of the quoted cell at text. Returns the offset behind its closing quote, or 0
 * if there is none. */
static size_t add_quoted(const char *text, size_t bytes, struct str *out)
{
    for (size_t at = 1; at < bytes;) {
        const char *quote = memchr(text + at, '"', bytes - at);
        if (!quote)
            return 0;
        size_t end = (size_t)(quote - text);
        str_add(out, text + at, end - at);
        if (end + 1 == bytes || text[end + 1] != '"')
            return end + 1;
        str_add(out, "\"", 1);
        at = end + 2;
    }
    return 0;
}

static int parse_quoted(const char *text, size_t bytes, char delimiter, struct csv_row *row,
                        size_t *ret_end, struct err *err)
{
    size_t end = add_quoted(text, bytes, &row->text);
    *ret_end = end;
    if (end == 0)
        return reject(row, "a quoted value is not closed",
                      "a quote that ends the value; quotes within it are doubled", err);
    if (end < bytes && text[end] != delimiter)
        return reject(row, "text follows the quote that closes a value",
                      "a delimiter or a line end; quotes within a quoted value are doubled", err);
    return 0;
}

static int parse_plain(const char *text, size_t bytes, char delimiter, struct csv_row *row,
                       size_t *ret_end, struct err *err)
{
    const char *end = memchr(text, delimiter, bytes);
    *ret_end = end ? (size_t)(end - text) : bytes;
    if (*ret_end > 0 && memchr(text, '\r', *ret_end))
        return reject(row, "a carriage return does not end a line",
                      "lines that end with LF or CRLF, or quotes around the value", err);
    str_add(&row->text, text, *ret_end);
    return 0;
}

int csv_parse_row(const char *text, size_t bytes, char delimiter, struct csv_row *row,
                  struct err *err)
{
    str_clear(&row->text);
    str_clear(&row->cells);
    if (bytes > 0 && memchr(text, '\0', bytes))
        return reject(row, "a row contains a NUL byte", "text", err);
    for (size_t at = 0, end;; at += end + 1) {
        size_t start = row->text.bytes;
        if (csv_cells_count(row) == CSV_CELLS_MAX)
            return reject(row, "a row has too many columns", "at most 65536", err);
        int status = at < bytes && text[at] == '"'
                         ? parse_quoted(text + at, bytes - at, delimiter, row, &end, err)
                         : parse_plain(text + at, bytes - at, delimiter, row, &end, err);
        if (status)
            return status;
        end_cell(row, start);
        if (at + end == bytes)
            break;
    }
    return str_status(&row->text) || str_status(&row->cells)
               ? err_set(err, -ENOMEM, "out of memory for a row")
               : 0;
}
