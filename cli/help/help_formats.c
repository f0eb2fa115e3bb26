/*
 * help_formats — `millrace help formats`: prints formats.txt.
 *
 * # begins the title of a section. Empty lines separate paragraphs. Lines that begin with a space
 * stay unchanged.
 */
#include "cli/help/help.h"
#include "embedded.h"

#include <stdio.h>
#include <string.h>

const char *help_format_section(const char *at, struct str *title, struct str *text)
{
    bool is_joined = false; /* the next line continues the paragraph */
    str_clear(title);
    str_clear(text);
    at = at ? at : formats_txt;
    for (bool is_first = true; *at && (is_first || *at != '#'); is_first = false) {
        size_t bytes = strcspn(at, "\n");
        if (is_first) {
            str_add(title, at + strlen("# "), bytes - strlen("# "));
        } else if (bytes > 0) {
            bool is_prose = *at != ' ';
            str_add_text(text, text->bytes == 0 ? "" : is_joined && is_prose ? " " : "\n");
            str_add(text, at, bytes);
            is_joined = is_prose;
        } else {
            is_joined = false;
        }
        at += bytes + 1;
    }
    return *at ? at : NULL;
}

void help_print_formats(void)
{
    struct str title = {0}, text = {0};
    const char *at = NULL;
    do {
        printf("%s", at ? "\n" : "");
        at = help_format_section(at, &title, &text);
        puts(str_text(&title));
        for (char *rest = text.data, *line; (line = strsep(&rest, "\n"));) {
            printf("  ");
            if (line[0] == ' ')
                puts(line);
            else
                help_print_wrapped(line, 2, 2);
        }
    } while (at);
    str_deinit(&title);
    str_deinit(&text);
}
