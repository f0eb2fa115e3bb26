/*
 * table_list — a list: a file of rows in JSON Lines, CSV or TSV.
 *
 * A pass over the file finds the rows, one block at a time; later, rows are read by their offset.
 *
 *     table_pass_open(io, &list, &pass, err);   // also reads the header line
 *     while ((status = table_pass_next(pass, &block, err)) == TABLE_ROWS) ...
 *     table_pass_close(pass);
 */
#ifndef MILLRACE_CONVERT_SOURCE_TABLE_LIST_H
#define MILLRACE_CONVERT_SOURCE_TABLE_LIST_H

#include "base/hash.h"
#include "convert/source/file_list.h"
#include "convert/source/table_row.h"

enum {
    TABLE_ROW_BYTES_MAX = 256 << 20, /* JSON_BYTES_MAX */
    TABLE_BLOCK_BYTES = 4 << 20,     /* of rows; a longer row is a block by itself */
};

/* Detects the format by the name, or else by the first bytes. *ret_delimiter: see table_format.
 * Returns false if it is not a list, or text in a .txt file. head: NULL if unknown. */
bool table_detect(const char *path, const char *head, size_t head_bytes, char *ret_delimiter);

/* Bytes of a byte order mark at the start of text. */
size_t table_mark_bytes(const char *text, size_t bytes);
/* -EBADMSG: the file begins with a byte order mark of UTF-16. */
int table_check_encoding(const char *path, const char *text, size_t bytes, struct err *err);
/* Finds the line at the start of text, without white space at its end. Returns false at the end of
 * text, or if the line is not complete and is_last is false. */
bool table_find_line(const char *text, size_t bytes, bool is_last, struct csv_span *ret_line);

struct table_row_at {
    uint64_t offset;
    uint32_t bytes; /* without the line end */
    uint32_t line;  /* of the row's begin, from 1 */
};

/* Immutable after the pass. Errors name a row as PATH:LINE. */
struct table_list {
    char path[IO_PATH_BYTES_MAX];
    char folder[IO_PATH_BYTES_MAX]; /* that paths in the list are relative to */
    struct table_format format;
    struct csv_row header;
    struct listed_file file; /* size and identity when listed */
};

/* Sets all but the header. -ENOTSUP: the file is not a list. */
int table_list_init(struct table_list *list, struct io *io, const char *path, char delimiter,
                    struct err *err);
void table_list_deinit(struct table_list *list);

/* Moves an error of a row, whose offset is relative to it, to the row's place in the list. */
void table_list_locate(const struct table_list *list, const struct table_row_at *row,
                       struct err *err);

/* Rows that lie consecutively in text. Valid until the next call. */
struct table_block {
    const char *text;
    uint64_t offset; /* of text, in the file */
    const struct table_row_at *rows;
    size_t rows_count;
};

enum table_pass_result { TABLE_END, TABLE_ROWS };
struct table_pass; /* owner thread */
int table_pass_open(struct io *io, struct table_list *list, struct table_pass **ret_pass,
                    struct err *err);
/* Skips blank lines. Returns a table_pass_result, or -EBADMSG: a row is too long; -ESTALE: the file
 * has changed since table_list_init. Blocks. */
int table_pass_next(struct table_pass *pass, struct table_block *ret_block, struct err *err);
/* Hash of the file's bytes; call it at the end. */
uint64_t table_pass_hash(const struct table_pass *pass);
void table_pass_close(struct table_pass *pass); /* NULL is fine */

#endif
