/*
 * text_line — fuzz target: the input as lines of JSON Lines text (convert/source/text_line.h). A
 * document is valid UTF-8, and the string that the parser finds where it accepts the line.
 */
#include "convert/source/text_line.h"
#include "base/utf8.h"
#include "convert/source/table_list.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void read_line(const char *line, size_t bytes)
{
    struct json_t *root = NULL;
    struct str text = {0};
    struct err err;
    const char *expected = NULL;
    /* jansson skips a NUL after a number */
    bool is_parsed =
        !memchr(line, 0, bytes) && jsonx_parse(line, bytes, "input", 0, &root, &err) == 0;
    bool has_text = is_parsed && jsonx_text(jsonx_get(root, "text"), &expected) == 0;
    int status = text_line_read(line, bytes, "text", &text, &err);
    if (status && (err.offset < ERR_NO_OFFSET || err.offset > (int64_t)bytes))
        abort();
    if (is_parsed && has_text != (status == 0))
        abort();
    if (status == 0 &&
        (text.bytes > bytes || utf8_valid_bytes(str_text(&text), text.bytes) < text.bytes))
        abort();
    if (has_text &&
        (strlen(expected) != text.bytes || memcmp(expected, text.data, text.bytes) != 0))
        abort();
    str_deinit(&text);
    jsonx_free(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *text = (const char *)data;
    struct csv_span line;
    for (size_t at = table_mark_bytes(text, bytes);
         table_find_line(text + at, bytes - at, true, &line); at += line.next) {
        if (line.next == 0 || line.bytes > line.next)
            abort();
        if (line.bytes > 0)
            read_line(text + at, line.bytes);
    }
    return 0;
}
