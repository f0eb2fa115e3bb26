#include "cli/report/page.h"

#include "base/utf8.h"
#include "embedded.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char page_head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta http-equiv=\"Content-Security-Policy\" "
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
    "<meta name=\"color-scheme\" content=\"light dark\"/>\n";

/* Returns the length in bytes of the UTF-8 character at text; 0: invalid, or not allowed in a
 * page. */
static size_t character_bytes(const uint8_t *text, size_t bytes)
{
    uint32_t code;
    size_t length = utf8_decode(text, bytes, &code);
    if (length == 0 || code == '\n' || code == '\t')
        return length;
    bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0) || (code & 0xfffe) == 0xfffe;
    return is_control ? 0 : length;
}

void page_text_bytes(struct str *out, const void *text, size_t bytes)
{
    static const char marks[] = "<>&\"'";
    static const char *const entities[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
    const uint8_t *at = text, *end = at + bytes;
    while (at < end) {
        size_t length = character_bytes(at, (size_t)(end - at));
        const char *mark = length ? strchr(marks, *at) : NULL;
        if (length == 0)
            str_add_text(out, "\xef\xbf\xbd");
        else if (mark)
            str_add_text(out, entities[mark - marks]);
        else
            str_add(out, at, length);
        at += length ? length : 1;
    }
}

void page_text(struct str *out, const char *text)
{
    page_text_bytes(out, text, strlen(text));
}

static void add_formatted(struct str *out, const char *format, va_list arguments)
{
    char text[PAGE_FORMAT_BYTES_MAX];
    vsnprintf(text, sizeof text, format, arguments);
    page_text(out, text);
}

void page_format(struct str *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_formatted(out, format, arguments);
    va_end(arguments);
}

void page_element(struct str *out, const char *before, const char *text, const char *after)
{
    str_add_text(out, before);
    page_text(out, text);
    str_add_text(out, after);
}

void page_data_uri(struct str *out, const char *type, const void *data, size_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = data;
    str_add_format(out, "data:%s;base64,", type);
    for (size_t i = 0; i < bytes; i += 3) {
        size_t group_bytes = bytes - i < 3 ? bytes - i : 3;
        uint32_t word = (uint32_t)in[i] << 16 | (group_bytes > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                        (group_bytes > 2 ? in[i + 2] : 0u);
        char encoded[4] = {digits[word >> 18], digits[word >> 12 & 63],
                           group_bytes > 1 ? digits[word >> 6 & 63] : '=',
                           group_bytes > 2 ? digits[word & 63] : '='};
        str_add(out, encoded, sizeof encoded);
    }
}

void page_begin(struct str *out, const char *kind, const char *verb, const char *title)
{
    str_add_text(out, page_head);
    /* page.css has no character that HTML or XML would interpret */
    str_add_format(out, "<style>\n%s</style>\n<title>%s ", page_css, kind);
    page_element(out, "", title, "</title>\n</head>\n<body>\n<header><h1>");
    page_element(out, "", title, "</h1><p>");
    page_element(out, "", kind, ", from millrace ");
    page_element(out, "", verb, "</p></header>\n<main>\n");
}

void page_end(struct str *out)
{
    str_add_text(out, "</main>\n</body>\n</html>\n");
}

void page_section_begin(struct str *out, const char *heading, const char *note)
{
    page_element(out, "<section><h2>", heading, "</h2>\n");
    if (note && *note)
        page_element(out, "<p class=\"note\">", note, "</p>\n");
}

void page_section_end(struct str *out)
{
    str_add_text(out, "</section>\n");
}

void page_facts_begin(struct str *out, const char *heading)
{
    page_section_begin(out, heading, NULL);
    str_add_text(out, "<dl>\n");
}

void page_fact(struct str *out, const char *name, const char *format, ...)
{
    va_list arguments;
    page_element(out, "<div><dt>", name, "</dt><dd>");
    va_start(arguments, format);
    add_formatted(out, format, arguments);
    va_end(arguments);
    str_add_text(out, "</dd></div>\n");
}

void page_facts_end(struct str *out)
{
    str_add_text(out, "</dl>\n");
    page_section_end(out);
}

void page_table_begin(struct str *out, const char *heading, const char *note, const char *caption,
                      const struct page_column *columns, size_t count)
{
    page_section_begin(out, heading, note);
    /* tabindex: scrollable by keyboard */
    page_element(out, "<div class=\"wide\" tabindex=\"0\"><table><caption>", caption,
                 "</caption>\n<thead><tr>");
    for (size_t i = 0; i < count; i++)
        page_element(out,
                     columns[i].number ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">",
                     columns[i].heading, "</th>");
    str_add_text(out, "</tr></thead>\n<tbody>\n");
}

void page_row_begin(struct str *out)
{
    str_add_text(out, "<tr>");
}

void page_cell(struct str *out, const char *text)
{
    page_element(out, "<td>", text, "</td>");
}

void page_number(struct str *out, const char *format, ...)
{
    va_list arguments;
    str_add_text(out, "<td class=\"n\">");
    va_start(arguments, format);
    add_formatted(out, format, arguments);
    va_end(arguments);
    str_add_text(out, "</td>");
}

void page_count(struct str *out, uint64_t count)
{
    page_number(out, "%" PRIu64, count);
}

void page_size(struct str *out, uint64_t bytes)
{
    char text[STR_SIZE_BYTES];
    page_number(out, "%s", str_format_size(bytes, text));
}

void page_bar(struct str *out, double filled_fraction)
{
    str_add_format(out, "<td class=\"b\"><span style=\"width:%.1f%%\"></span></td>",
                   filled_fraction * 100);
}

void page_row_end(struct str *out)
{
    str_add_text(out, "</tr>\n");
}

void page_table_end(struct str *out)
{
    str_add_text(out, "</tbody></table></div>\n");
    page_section_end(out);
}
