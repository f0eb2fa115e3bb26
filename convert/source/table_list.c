/*
 * table_list — see table_list.h.
 */
#include "convert/source/table_list.h"

#include "base/bytes.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char byte_order_mark[] = "\xef\xbb\xbf";

size_t table_mark_bytes(const char *text, size_t bytes)
{
    return bytes >= 3 && memcmp(text, byte_order_mark, 3) == 0 ? 3 : 0;
}

static size_t count_cells(const char *text, size_t bytes, char delimiter, struct csv_span *ret_span)
{
    struct csv_row row = {0};
    size_t count = 0;
    if (csv_find_row(text, bytes, delimiter, false, ret_span) &&
        csv_parse_row(text, ret_span->bytes, delimiter, &row, NULL) == 0)
        count = csv_cells_count(&row);
    csv_row_deinit(&row);
    return count;
}

/* Two lines with the same number of cells, at least two. */
static bool has_cells(const char *text, size_t bytes, char delimiter)
{
    struct csv_span span, second;
    size_t count = count_cells(text, bytes, delimiter, &span);
    return count > 1 &&
           count_cells(text + span.next, bytes - span.next, delimiter, &second) == count;
}

static bool detect_content(const char *text, size_t bytes, char *ret_delimiter)
{
    size_t mark = table_mark_bytes(text, bytes);
    text += mark;
    bytes -= mark;
    const char *newline = bytes ? memchr(text, '\n', bytes) : NULL;
    if (newline && newline + 1 < text + bytes && text[0] == '{' && newline[1] == '{') {
        struct json_t *root = NULL;
        int status = jsonx_parse(text, (size_t)(newline - text), "", 0, &root, NULL);
        jsonx_free(root);
        *ret_delimiter = 0;
        return !status;
    }
    static const char delimiters[] = {'\t', ','};
    for (size_t i = 0; i < sizeof delimiters; i++)
        if (has_cells(text, bytes, delimiters[i])) {
            *ret_delimiter = delimiters[i];
            return true;
        }
    return false;
}

bool table_detect(const char *path, const char *head, size_t head_bytes, char *ret_delimiter)
{
    static const struct {
        const char *end;
        char delimiter;
    } names[] = {{".jsonl", 0}, {".ndjson", 0}, {".csv", ','}, {".tsv", '\t'}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (str_ends_with_nocase(path, names[i].end)) {
            *ret_delimiter = names[i].delimiter;
            return true;
        }
    return head && !str_ends_with_nocase(path, ".txt") &&
           detect_content(head, head_bytes, ret_delimiter);
}

int table_list_init(struct table_list *list, struct io *io, const char *path, char delimiter,
                    struct err *err)
{
    struct io_stat info;
    int status = io_join_path("", path, list->path, err);
    if (!status)
        status = io->names->stat(io, path, &info, err);
    if (status)
        return status;
    io_parent_path(path, list->folder);
    list->format.delimiter = delimiter;
    listed_file_set(&list->file, &info);
    return 0;
}

void table_list_deinit(struct table_list *list)
{
    csv_row_deinit(&list->header);
}

static void locate(const struct table_list *list, uint64_t line, int64_t offset, struct err *err)
{
    char path[IO_PATH_BYTES_MAX + 16];
    snprintf(path, sizeof path, "%s:%" PRIu64, list->path, line);
    err_at(err, path, offset);
}

void table_list_locate(const struct table_list *list, const struct table_row_at *row,
                       struct err *err)
{
    if (err)
        locate(list, row->line,
               err->offset >= 0 ? (int64_t)row->offset + err->offset : ERR_NO_OFFSET, err);
}

struct table_pass {
    struct io *io;
    struct table_list *list;
    struct io_queue *queue;
    struct hash_stream *hash;
    uint64_t next_read;         /* offset in the file */
    struct str text;            /* from text_offset on */
    uint64_t text_offset, line; /* of text's begin */
    size_t at;                  /* where the next row begins in text */
    struct str rows;            /* struct table_row_at */
};

/* Drops the text before the next row. */
static void drop_rows(struct table_pass *pass)
{
    if (pass->at == 0)
        return;
    memmove(pass->text.data, pass->text.data + pass->at, pass->text.bytes - pass->at);
    pass->text.bytes -= pass->at;
    pass->text_offset += pass->at;
    pass->at = 0;
}

/* Reads more text; in blocks that grow with a row that has not ended, so that finding its end takes
 * linear time. */
static int read_more(struct table_pass *pass, struct err *err)
{
    struct table_list *list = pass->list;
    drop_rows(pass);
    uint64_t wanted = pass->text.bytes > TABLE_BLOCK_BYTES ? pass->text.bytes : TABLE_BLOCK_BYTES;
    uint64_t count = bytes_min(wanted, list->file.bytes - pass->next_read);
    size_t start = pass->text.bytes;
    int status = listed_file_read(&list->file, pass->io, pass->queue, list->path, pass->next_read,
                                  count, &pass->text, err);
    if (status)
        return status;
    hash_stream_update(pass->hash, pass->text.data + start, count);
    pass->next_read += count;
    return 0;
}

static bool is_at_end(const struct table_pass *pass)
{
    return pass->next_read == pass->list->file.bytes;
}

bool table_find_line(const char *text, size_t bytes, bool is_last, struct csv_span *ret_line)
{
    const char *newline = bytes ? memchr(text, '\n', bytes) : NULL;
    if (!newline && (!is_last || bytes == 0))
        return false;
    size_t end = newline ? (size_t)(newline - text) : bytes;
    *ret_line = (struct csv_span){end, end + (newline ? 1 : 0), newline ? 1 : 0};
    while (ret_line->bytes > 0 && strchr(" \t\r", text[ret_line->bytes - 1]) &&
           text[ret_line->bytes - 1])
        ret_line->bytes--;
    return true;
}

static bool find_row(const struct table_pass *pass, struct csv_span *ret_span)
{
    const char *text = pass->text.data + pass->at;
    size_t bytes = pass->text.bytes - pass->at;
    char delimiter = pass->list->format.delimiter;
    return delimiter ? csv_find_row(text, bytes, delimiter, is_at_end(pass), ret_span)
                     : table_find_line(text, bytes, is_at_end(pass), ret_span);
}

static int reject_long_row(const struct table_pass *pass, struct err *err)
{
    err_set(err, -EBADMSG, "a row is too long");
    locate(pass->list, pass->line, ERR_NO_OFFSET, err);
    err_expected(err, "at most %d bytes", TABLE_ROW_BYTES_MAX);
    if (pass->list->format.delimiter)
        err_advise(err, "check whether a quote in it is not closed");
    return -EBADMSG;
}

/* Finds the next row that is not blank. Returns TABLE_ROWS, or TABLE_END at the end of the text. */
static int next_row(struct table_pass *pass, struct table_row_at *ret_row, struct err *err)
{
    struct csv_span span;
    while (find_row(pass, &span)) {
        *ret_row = (struct table_row_at){.offset = pass->text_offset + pass->at,
                                         .bytes = (uint32_t)span.bytes,
                                         .line = (uint32_t)pass->line};
        if (span.bytes > TABLE_ROW_BYTES_MAX || pass->line + span.lines > UINT32_MAX)
            return reject_long_row(pass, err);
        pass->at += span.next;
        pass->line += span.lines;
        if (span.bytes > 0)
            return TABLE_ROWS;
    }
    return pass->text.bytes - pass->at > TABLE_ROW_BYTES_MAX ? reject_long_row(pass, err)
                                                             : TABLE_END;
}

static int check_header(const struct table_list *list, uint64_t line, struct err *err)
{
    size_t bytes, other_bytes, count = csv_cells_count(&list->header);
    const char *first = csv_cell_text(&list->header, 0, &bytes), *advice = NULL;
    for (size_t i = 0; i < count && !advice; i++) {
        const char *name = csv_cell_text(&list->header, i, &bytes);
        if (bytes == 0) {
            err_set(err, -EBADMSG, "column %zu has no name", i + 1);
            advice = "name all columns in the first line, which must be a header line";
        }
        for (size_t j = 0; j < i && !advice; j++)
            if (strcmp(csv_cell_text(&list->header, j, &other_bytes), name) == 0) {
                err_set(err, -EBADMSG, "columns %zu and %zu are both named \"%.100s\"", j + 1,
                        i + 1, name);
                advice = "rename one of them; the first line must be a header line";
            }
    }
    if (!advice && count == 1 && strpbrk(first, ",;\t|")) {
        err_set(err, -EBADMSG, "the header line has one column, \"%.100s\"", first);
        advice = "separate columns with commas in .csv and with tabs in .tsv files";
    }
    if (!advice)
        return 0;
    locate(list, line, ERR_NO_OFFSET, err);
    err_advise(err, "%s", advice);
    return -EBADMSG;
}

static int read_header(struct table_pass *pass, struct err *err)
{
    struct table_list *list = pass->list;
    struct table_row_at at;
    struct table_row row = {.format = &list->format};
    int result = next_row(pass, &at, err);
    while (result == TABLE_END && !is_at_end(pass)) {
        result = read_more(pass, err);
        if (!result)
            result = next_row(pass, &at, err);
    }
    if (result != TABLE_ROWS)
        return result;
    int status = table_row_parse(&row, pass->text.data + (at.offset - pass->text_offset), at.bytes,
                                 TABLE_ROW_TREE, err);
    if (status) {
        table_row_deinit(&row);
        table_list_locate(list, &at, err);
        return status;
    }
    list->header = row.cells;
    list->format.header = &list->header;
    return check_header(list, at.line, err);
}

int table_check_encoding(const char *path, const char *text, size_t bytes, struct err *err)
{
    const unsigned char *first = (const unsigned char *)text;
    if (bytes < 2 || (first[0] ^ first[1]) != 1 || (first[0] | first[1]) != 0xff)
        return 0;
    err_set(err, -EBADMSG, "the file is UTF-16");
    err_at(err, path, 0);
    err_expected(err, "UTF-8");
    err_advise(err, "convert it, for example with `iconv -f UTF-16 -t UTF-8`");
    return -EBADMSG;
}

int table_pass_open(struct io *io, struct table_list *list, struct table_pass **ret_pass,
                    struct err *err)
{
    struct table_pass *pass = calloc(1, sizeof *pass);
    if (!pass)
        return err_set(err, -ENOMEM, "out of memory for a list");
    *pass = (struct table_pass){.io = io, .list = list, .line = 1, .hash = hash_stream_open()};
    int status = pass->hash ? io->ops->queue_open(io, 1, &pass->queue, err)
                            : err_set(err, -ENOMEM, "out of memory for a list");
    if (!status)
        status = read_more(pass, err);
    if (!status)
        status = table_check_encoding(list->path, pass->text.data, pass->text.bytes, err);
    if (!status)
        pass->at = table_mark_bytes(pass->text.data, pass->text.bytes);
    if (!status && list->format.delimiter)
        status = read_header(pass, err);
    if (status)
        table_pass_close(pass);
    else
        *ret_pass = pass;
    return status;
}

int table_pass_next(struct table_pass *pass, struct table_block *ret_block, struct err *err)
{
    struct table_row_at row;
    int result;
    str_clear(&pass->rows);
    drop_rows(pass);
    for (;;) {
        while ((result = next_row(pass, &row, err)) == TABLE_ROWS)
            str_add(&pass->rows, &row, sizeof row);
        if (result == TABLE_END && pass->rows.bytes == 0 && !is_at_end(pass))
            result = read_more(pass, err);
        else
            break;
        if (result)
            return result;
    }
    if (result < 0)
        return result;
    if (str_status(&pass->rows))
        return err_set(err, -ENOMEM, "out of memory for a list");
    *ret_block = (struct table_block){
        .text = pass->text.data,
        .offset = pass->text_offset,
        .rows = (const struct table_row_at *)(const void *)pass->rows.data,
        .rows_count = pass->rows.bytes / sizeof row,
    };
    return ret_block->rows_count > 0 ? TABLE_ROWS : TABLE_END;
}

uint64_t table_pass_hash(const struct table_pass *pass)
{
    return hash_stream_64(pass->hash);
}

void table_pass_close(struct table_pass *pass)
{
    if (!pass)
        return;
    hash_stream_close(pass->hash);
    if (pass->queue)
        pass->io->ops->queue_close(pass->queue);
    str_deinit(&pass->text);
    str_deinit(&pass->rows);
    free(pass);
}
