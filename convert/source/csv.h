/*
 * csv — reads rows of comma- or tab-separated values (RFC 4180).
 *
 *     while (csv_find_row(text + at, bytes - at, ',', is_last, &row))   // the row's bytes
 *         csv_parse_row(text + at, row.bytes, ',', &cells, err), at += row.next;
 *
 * A cell that begins with a quote may contain delimiters, line ends and doubled quotes. In other
 * cells, a quote is an ordinary character. Lines end with LF or CRLF. Stricter than most readers:
 * text after a closing quote, an unclosed quote, a lone carriage return outside quotes and NUL
 * bytes are errors.
 */
#ifndef MILLRACE_CONVERT_SOURCE_CSV_H
#define MILLRACE_CONVERT_SOURCE_CSV_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CSV_CELLS_MAX = 1 << 16 };

struct csv_span {
    size_t bytes; /* of the row, without its line end */
    size_t next;  /* offset of the next row */
    size_t lines; /* line ends up to the next row */
};

/* Finds the end of the row that begins at text. is_last: the input ends with the text, which then
 * ends a row without a line end and an unclosed quote. Returns false if the text has no complete
 * row; call it again with more text. */
bool csv_find_row(const char *text, size_t bytes, char delimiter, bool is_last,
                  struct csv_span *ret_span);

struct csv_cell {
    size_t at, bytes; /* range in csv_row.text; followed by a NUL */
};

/* Zero-initialize. Owner thread. */
struct csv_row {
    struct str text;  /* the cells' values without quotes */
    struct str cells; /* struct csv_cell */
};

void csv_row_deinit(struct csv_row *row);
/* Replaces the row. bytes: of a row found by csv_find_row. -EBADMSG with the cell's number, but
 * without a location; -ENOMEM. */
int csv_parse_row(const char *text, size_t bytes, char delimiter, struct csv_row *row,
                  struct err *err);

static inline size_t csv_cells_count(const struct csv_row *row)
{
    return row->cells.bytes / sizeof(struct csv_cell);
}

/* Returns the cell's text, which has *ret_bytes and ends with a NUL. index < csv_cells_count */
static inline const char *csv_cell_text(const struct csv_row *row, size_t index, size_t *ret_bytes)
{
    const struct csv_cell *cell = (const struct csv_cell *)(const void *)row->cells.data + index;
    *ret_bytes = cell->bytes;
    return row->text.data + cell->at;
}

#endif
