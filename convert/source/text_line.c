/*
 * text_line — see text_line.h.
 */
#include "convert/source/text_line.h"

#include "base/bytes.h"
#include "base/json/jsonx_plain.h"
#include "base/json/jsonx_string.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 20 };

static int reject_missing(const char *line, size_t bytes, const char *field, struct err *err)
{
    struct str names = {0};
    struct jsonx_span rest = {0, bytes}, key, value;
    while (rest.begin < bytes && line[rest.begin] != '{')
        rest.begin++;
    while (names.bytes < ERR_TEXT_BYTES_MAX &&
           jsonx_scan_next_member(line, &rest, &key, &value) == JSON_SCAN_ELEMENT)
        str_add_format(&names, "%s%.*s", names.bytes ? ", " : "", (int)(key.end - key.begin - 2),
                       line + key.begin + 1);
    err_set(err, -EBADMSG, "a line has no field \"%.100s\"", field);
    err_found(err, "%s", names.bytes ? str_text(&names) : "no fields");
    err_advise(err, "name the field of the text with --column NAME=txt");
    str_deinit(&names);
    return -EBADMSG;
}

static int reject_type(char first, const char *field, size_t offset, struct err *err)
{
    err_set(err, -EBADMSG, "the field \"%.100s\" is not a string", field);
    err_at(err, "", (int64_t)offset);
    err_found(err, "%s",
              first == '{'                   ? "an object"
              : first == '['                 ? "an array"
              : first == 'n'                 ? "null"
              : first == 't' || first == 'f' ? "a truth value"
                                             : "a number");
    err_advise(err, "remove such lines, or name the field of the text with --column NAME=txt");
    return -EBADMSG;
}

int text_line_read(const char *line, size_t bytes, const char *field, struct str *text,
                   struct err *err)
{
    struct jsonx_span value;
    int status = jsonx_find_member(line, bytes, field, &value, err);
    if (status == -ENOENT)
        return reject_missing(line, bytes, field, err);
    if (status && line[0] == '[')
        err_advise(err, "write one object per line, for example with `jq -c '.[]'`");
    if (status)
        return status;
    if (line[value.begin] != '"')
        return reject_type(line[value.begin], field, value.begin, err);
    str_clear(text);
    jsonx_unescape(line + value.begin, value.end - value.begin, text);
    return str_status(text) ? err_set(err, -ENOMEM, "out of memory for a line") : 0;
}

void text_line_locate(const struct file_list *files, struct io *io, struct io_queue *queue,
                      uint64_t file, const char *path, uint64_t offset, struct err *err)
{
    struct str block = {0};
    char place[IO_PATH_BYTES_MAX + 24];
    uint64_t line = 1;
    for (uint64_t at = 0; at < offset; at += block.bytes) {
        str_clear(&block);
        if (file_list_read(files, io, queue, file, path, at, bytes_min(offset - at, BLOCK_BYTES),
                           &block, NULL))
            break;
        for (const char *next = block.data;
             (next = memchr(next, '\n', (size_t)(block.data + block.bytes - next))); next++)
            line++;
    }
    str_deinit(&block);
    snprintf(place, sizeof place, "%s:%" PRIu64, path, line);
    err_at(err, place, (int64_t)offset);
}
