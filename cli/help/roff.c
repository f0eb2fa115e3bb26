#include "cli/help/roff.h"

#include <stdbool.h>
#include <string.h>

static bool begins_line(const struct str *out)
{
    return out->bytes == 0 || out->data[out->bytes - 1] == '\n';
}

void roff_end_line(struct str *out)
{
    if (!begins_line(out))
        str_add_text(out, "\n");
}

/* Hyphens become minus signs, so that options can be copied from a page. */
static void add_bytes(struct str *out, const char *text, size_t bytes)
{
    static const char marks[] = "\\-'`^~";
    static const char *const escapes[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti"};
    for (size_t i = 0; i < bytes; i++) {
        const char *mark = strchr(marks, text[i]);
        if (begins_line(out) && (text[i] == '.' || text[i] == '\''))
            str_add_text(out, "\\&");
        if (mark)
            str_add_text(out, escapes[mark - marks]);
        else
            str_add(out, &text[i], 1);
    }
}

void roff_text(struct str *out, const char *text)
{
    add_bytes(out, text, strlen(text));
}

static void add_in_font(struct str *out, enum roff_font font, const char *text, size_t bytes)
{
    static const char *const begins[] = {"", "\\fB", "\\fI"};
    str_add_text(out, begins[font]);
    add_bytes(out, text, bytes);
    str_add_text(out, font == ROFF_ROMAN ? "" : "\\fR");
}

void roff_font(struct str *out, enum roff_font font, const char *text)
{
    add_in_font(out, font, text, strlen(text));
}

/* No date, so that pages are reproducible. No hyphenation, so that names stay whole. */
void roff_begin(struct str *out, const char *title, unsigned section)
{
    str_add_text(
        out, ".\\\" Made by `millrace manual` from the tables that parse the command line.\n.TH ");
    add_bytes(out, title, strlen(title));
    str_add_format(out, " %u \"\" \"millrace %s\" \"millrace\"\n.nh\n.ad l\n", section,
                   MILLRACE_VERSION);
}

void roff_section(struct str *out, const char *heading)
{
    roff_end_line(out);
    str_add_text(out, ".SH ");
    roff_text(out, heading);
    str_add_text(out, "\n");
}

void roff_item(struct str *out)
{
    roff_end_line(out);
    str_add_text(out, ".TP\n");
}

static void add_paragraph(struct str *out, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const char *open = memchr(text, '`', bytes);
        const char *close = open ? memchr(open + 1, '`', bytes - (size_t)(open + 1 - text)) : NULL;
        size_t plain = close ? (size_t)(open - text) : bytes;
        add_bytes(out, text, plain);
        if (!close)
            return;
        add_in_font(out, ROFF_BOLD, open + 1, (size_t)(close - open - 1));
        bytes -= (size_t)(close + 1 - text);
        text = close + 1;
    }
}

void roff_prose(struct str *out, const char *text)
{
    bool literal = false, first = true;
    for (; *text; first = false) {
        size_t bytes = strcspn(text, "\n");
        if ((*text == ' ') != literal) {
            literal = !literal;
            roff_end_line(out);
            str_add_text(out, !literal ? ".EE\n" : first ? ".EX\n" : ".PP\n.EX\n");
        }
        if (!literal && !first)
            str_add_text(out, ".PP\n");
        add_paragraph(out, text, bytes);
        roff_end_line(out);
        text += bytes + (text[bytes] == '\n');
    }
    if (literal)
        str_add_text(out, ".EE\n");
}

void roff_literal(struct str *out, const char *text)
{
    roff_end_line(out);
    str_add_text(out, ".EX\n");
    roff_text(out, text);
    roff_end_line(out);
    str_add_text(out, ".EE\n");
}
