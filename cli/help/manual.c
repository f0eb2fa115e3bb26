#include "cli/help/manual.h"

#include "cli/help/help.h"
#include "cli/help/roff.h"
#include "cli/verbs/verb.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { EXAMPLE_COLUMNS = 66 }; /* 80 columns minus man's margins */

static void set_verb_page_name(const struct verb *verb, char name[MANUAL_NAME_BYTES])
{
    snprintf(name, MANUAL_NAME_BYTES, "millrace-%s", verb->name);
    for (char *at = name; *at; at++)
        if (*at == ' ')
            *at = '-';
}

static void begin_page(struct str *out, const struct manual_page *page, const char *summary)
{
    char title[MANUAL_NAME_BYTES];
    size_t bytes = 0;
    for (; page->name[bytes]; bytes++)
        title[bytes] = (char)toupper((unsigned char)page->name[bytes]);
    title[bytes] = '\0';
    roff_begin(out, title, page->section);
    roff_section(out, "NAME");
    roff_text(out, page->name);
    str_add_text(out, " \\- ");
    /* no capital and no period, as in an index of pages */
    struct str phrase = {0};
    bytes = strlen(summary);
    if (bytes > 1 && summary[bytes - 1] == '.')
        bytes--;
    bool is_abbreviation = bytes > 1 && !islower((unsigned char)summary[1]);
    char first = is_abbreviation ? *summary : (char)tolower((unsigned char)*summary);
    str_add(&phrase, &first, 1);
    str_add(&phrase, summary + 1, bytes - 1);
    roff_text(out, str_text(&phrase));
    str_deinit(&phrase);
}

static void add_reference(struct str *out, const char *name, unsigned section)
{
    roff_font(out, ROFF_BOLD, name);
    str_add_format(out, "(%u)", section);
}

static void add_see_also(struct str *out, const struct manual_page *current_page)
{
    static const struct manual_page pages[] = {
        {"millrace", 1}, {"millrace-config", 5}, {"millrace-formats", 5}};
    const char *separator = "";
    roff_section(out, "SEE ALSO");
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (strcmp(pages[i].name, current_page->name) == 0)
            continue;
        str_add_text(out, separator);
        add_reference(out, pages[i].name, pages[i].section);
        separator = ", ";
    }
    roff_end_line(out);
}

static void add_option(struct str *out, const struct option *option)
{
    char value[128], name[96];
    roff_item(out);
    if (option->letter) {
        snprintf(name, sizeof name, "-%c", option->letter);
        roff_font(out, ROFF_BOLD, name);
        str_add_text(out, ", ");
    }
    snprintf(name, sizeof name, "--%s", option->name);
    roff_font(out, ROFF_BOLD, name);
    option_format_value(option, value, sizeof value);
    if (*value) {
        str_add_text(out, option_before_value(option));
        roff_font(out, ROFF_ITALIC, value);
        str_add_text(out, option_after_value(option));
    }
    roff_end_line(out);
    struct str phrase = {0};
    help_describe_option(option, &phrase);
    roff_prose(out, str_text(&phrase));
    str_deinit(&phrase);
}

static void add_examples(struct str *out, const struct verb *verb)
{
    struct str text = {0};
    for (const char *const *example = verb->examples; *example; example++) {
        help_wrap_command(*example, EXAMPLE_COLUMNS, &text);
        str_add_text(&text, "\n");
    }
    roff_section(out, "EXAMPLES");
    roff_literal(out, str_text(&text));
    str_merge_status(out, &text);
    str_deinit(&text);
}

static void add_verb_page(struct str *out, const struct manual_page *page, const struct verb *verb)
{
    struct option_table options = verb_options(verb);
    const struct option *option;
    struct str command = {0};
    begin_page(out, page, verb->summary);
    roff_section(out, "SYNOPSIS");
    str_add_format(&command, "millrace %s", verb->name);
    roff_font(out, ROFF_BOLD, str_text(&command));
    str_deinit(&command);
    str_add_text(out, " ");
    roff_font(out, ROFF_ITALIC, verb->arguments.names);
    str_add_text(out, " [options]\n");
    roff_section(out, "DESCRIPTION");
    roff_prose(out, verb->summary);
    if (verb->details) {
        str_add_text(out, ".PP\n");
        roff_prose(out, verb->details);
    }
    roff_section(out, "OPTIONS");
    for (size_t i = 0; (option = options_at(&options, i)); i++)
        add_option(out, option);
    add_examples(out, verb);
    add_see_also(out, page);
}

static void add_statuses(struct str *out)
{
    roff_section(out, "EXIT STATUS");
    for (const struct help_status *row = help_statuses; row->meaning; row++) {
        roff_item(out);
        str_add_format(out, "\\fB%d\\fR\n", row->status);
        roff_prose(out, row->meaning);
    }
}

static void add_overview_page(struct str *out, const struct manual_page *page)
{
    const struct verb *verb;
    begin_page(out, page, "bit-reproducible data loading, checkpoints and training");
    roff_section(out, "SYNOPSIS");
    roff_font(out, ROFF_BOLD, "millrace");
    str_add_text(out, " ");
    roff_font(out, ROFF_ITALIC, "VERB");
    str_add_text(out, " ... [options]\n");
    roff_section(out, "DESCRIPTION");
    roff_prose(out, help_intro);
    str_add_text(out, ".PP\n");
    roff_prose(
        out,
        "Results go to stdout, progress and log messages to stderr. An output appears under its "
        "name only when it is complete. An existing output is replaced only with --force.");
    roff_section(out, "VERBS");
    for (size_t i = 0; (verb = verb_at(i)); i++) {
        char name[MANUAL_NAME_BYTES];
        set_verb_page_name(verb, name);
        roff_item(out);
        add_reference(out, name, 1);
        roff_end_line(out);
        roff_prose(out, verb->summary);
    }
    roff_section(out, "OPTIONS");
    str_add_text(out, ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\n"
                      "print help; after a verb, its options and examples\n"
                      ".TP\n\\fB\\-V\\fR, \\fB\\-\\-version\\fR\nprint the version\n");
    add_statuses(out);
    roff_section(out, "ENVIRONMENT");
    str_add_text(out, ".TP\n\\fBNO_COLOR\\fR\nif not empty, disables colors\n"
                      ".TP\n\\fBXDG_CACHE_HOME\\fR\n");
    roff_prose(out, "parent folder of millrace/index, the index cache for shards from other tools "
                    "(default ~/.cache)");
    add_see_also(out, page);
}

static void add_config_page(struct str *out, const struct manual_page *page)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    begin_page(out, page, "keys of a training configuration");
    roff_section(out, "DESCRIPTION");
    roff_prose(out, help_config_intro);
    roff_section(out, "KEYS");
    for (size_t i = 0; i < count; i++) {
        char kind[HELP_KIND_BYTES];
        const struct config_field *field = &fields[i];
        roff_item(out);
        roff_font(out, ROFF_BOLD, field->key);
        str_add_text(out, field->fixed_on_resume ? " * " : " ");
        roff_font(out, ROFF_ITALIC, help_config_kind(field, kind));
        roff_end_line(out);
        struct str phrase = {0};
        str_add_text(&phrase, field->help);
        if (field->default_text && *field->default_text)
            str_add_format(&phrase, " (default %s)", field->default_text);
        roff_prose(out, str_text(&phrase));
        str_deinit(&phrase);
    }
    roff_section(out, "EXAMPLE");
    roff_prose(out, help_config_example);
    add_see_also(out, page);
}

static void add_formats_page(struct str *out, const struct manual_page *page)
{
    begin_page(out, page, "file formats that millrace reads and writes");
    roff_section(out, "DESCRIPTION");
    struct str title = {0}, text = {0};
    const char *at = NULL;
    do {
        at = help_format_section(at, &title, &text);
        roff_end_line(out);
        str_add_text(out, ".SS ");
        roff_text(out, str_text(&title));
        str_add_text(out, "\n");
        roff_prose(out, str_text(&text));
    } while (at);
    str_merge_status(out, &text);
    str_deinit(&title);
    str_deinit(&text);
    add_see_also(out, page);
}

/* Pages that do not describe a verb. */
static const struct {
    struct manual_page page;
    void (*write)(struct str *out, const struct manual_page *page);
} other_pages[] = {
    {{"millrace", 1}, add_overview_page},
    {{"millrace-config", 5}, add_config_page},
    {{"millrace-formats", 5}, add_formats_page},
};
enum { OTHER_PAGES_COUNT = sizeof other_pages / sizeof other_pages[0] };

bool manual_page_at(size_t n, struct manual_page *ret_page)
{
    if (n < OTHER_PAGES_COUNT) {
        *ret_page = other_pages[n].page;
        return true;
    }
    const struct verb *verb = verb_at(n - OTHER_PAGES_COUNT);
    if (!verb)
        return false;
    set_verb_page_name(verb, ret_page->name);
    ret_page->section = 1;
    return true;
}

void manual_write(size_t n, struct str *out)
{
    struct manual_page page;
    if (!manual_page_at(n, &page))
        return;
    if (n < OTHER_PAGES_COUNT)
        other_pages[n].write(out, &page);
    else
        add_verb_page(out, &page, verb_at(n - OTHER_PAGES_COUNT));
}
