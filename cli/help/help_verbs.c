/*
 * help_verbs — prints the help of verbs.
 */
#include "cli/help/help.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS_MAX = 100, COLUMNS_MIN = 40, HELP_COLUMN = 26 };

const char help_intro[] =
    "Converts datasets into shards, streams them in a reproducible order, trains models and saves "
    "checkpoints. A resumed run is bit-identical to an uninterrupted one.";

const struct help_status help_statuses[] = {
    {EXIT_DONE, "done"},
    {EXIT_FAILED, "the work failed"},
    {EXIT_USAGE, "wrong usage"},
    {EXIT_STOPPED, "stopped early with everything saved (run the same command again)"},
    {EXIT_INTERRUPTED, "interrupted twice"},
    {0, NULL},
};

static unsigned terminal_columns(void)
{
    unsigned width = console_columns(fileno(stdout), CONSOLE_COLUMNS_DEFAULT);
    return width > COLUMNS_MAX ? COLUMNS_MAX : width < COLUMNS_MIN ? COLUMNS_MIN : width;
}

void help_print_wrapped(const char *text, unsigned at, unsigned indent)
{
    unsigned width = terminal_columns();
    bool is_first = true;
    while (*text) {
        unsigned bytes = (unsigned)strcspn(text, " \n");
        if (!is_first && at + 1 + bytes > width) {
            printf("\n%*s", (int)indent, "");
            at = indent;
            is_first = true;
        }
        if (!is_first)
            putchar(' ');
        at += bytes + !is_first;
        printf("%.*s", (int)bytes, text);
        is_first = false;
        text += bytes;
        if (*text == '\n') {
            printf("\n%*s", text[1] && text[1] != '\n' ? (int)indent : 0, "");
            at = indent;
            is_first = true;
        }
        text += *text != '\0';
    }
    putchar('\n');
}

void help_describe_option(const struct option *option, struct str *out)
{
    str_add_text(out, option->help);
    if (option->default_text)
        str_add_format(out, " (default %s)", option->default_text);
    if (option->required)
        str_add_text(out, " (required)");
    if (option->kind == OPTION_REPEAT)
        str_add_text(out, "; repeatable");
}

/* Returns the last break before `columns`; 0: none. Keeps an option and its value together if the
 * line stays at least half full. */
static size_t find_break(const char *command, size_t columns)
{
    size_t last_space = 0;
    for (size_t at = columns; at > 0; at--) {
        if (command[at] == ' ' && command[at + 1] == '-' && at > columns / 2)
            return at;
        if (command[at] == ' ' && last_space == 0)
            last_space = at;
    }
    return last_space;
}

void help_wrap_command(const char *command, size_t columns, struct str *out)
{
    enum { BACKSLASH = 2, INDENT = 4 };
    size_t line_columns = columns;
    while (strlen(command) > line_columns) {
        size_t break_at = find_break(command, line_columns - BACKSLASH);
        if (break_at == 0)
            break;
        str_add(out, command, break_at);
        str_add_text(out, " \\\n    ");
        command += break_at + 1;
        line_columns = columns - INDENT;
    }
    str_add_text(out, command);
}

static void print_example(const char *command)
{
    struct str text = {0};
    help_wrap_command(command, terminal_columns() - 2, &text);
    for (const char *line = str_text(&text); *line;) {
        size_t bytes = strcspn(line, "\n");
        printf("  %.*s\n", (int)bytes, line);
        line += bytes + (line[bytes] == '\n');
    }
    str_deinit(&text);
}

static void print_option(const struct option *option)
{
    char label[160], value[96];
    option_format_value(option, value, sizeof value);
    char letter[8] = "    ";
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(label, sizeof label, "  %s--%s%s%s%s", letter, option->name,
             option_before_value(option), value, option_after_value(option));
    struct str help = {0};
    help_describe_option(option, &help);
    unsigned used = (unsigned)strlen(label);
    if (used + 2 > HELP_COLUMN)
        printf("%s\n%*s", label, HELP_COLUMN, "");
    else
        printf("%-*s", HELP_COLUMN, label);
    help_print_wrapped(str_text(&help), HELP_COLUMN, HELP_COLUMN);
    str_deinit(&help);
}

void help_print_verb(const struct verb *verb)
{
    printf("usage: millrace %s%s%s [options]\n\n", verb->name, *verb->arguments.names ? " " : "",
           verb->arguments.names);
    help_print_wrapped(verb->summary, 0, 0);
    if (verb->details) {
        putchar('\n');
        help_print_wrapped(verb->details, 0, 0);
    }
    struct option_table options = verb_options(verb);
    const struct option *option;
    printf("\noptions:\n");
    for (size_t i = 0; (option = options_at(&options, i)); i++)
        print_option(option);
    printf("\nexamples:\n");
    for (const char *const *example = verb->examples; *example; example++)
        print_example(*example);
}

void help_print_overview(const char *group)
{
    size_t group_bytes = group ? strlen(group) : 0;
    printf("usage: millrace %s%sVERB ... [options]\n\n", group ? group : "", group ? " " : "");
    if (!group) {
        help_print_wrapped(help_intro, 0, 0);
        putchar('\n');
    }
    printf("verbs:\n");
    const struct verb *verb;
    for (size_t i = 0; (verb = verb_at(i)); i++) {
        if (group && strncmp(verb->name, group, group_bytes) != 0)
            continue;
        printf("  %-22s  ", verb->name);
        help_print_wrapped(verb->summary, HELP_COLUMN, HELP_COLUMN);
    }
    putchar('\n');
    help_print_wrapped(
        "`millrace VERB --help` shows the options and examples of a verb, `millrace help formats` "
        "the file formats, and `millrace help config` every key of a training configuration.",
        0, 0);
    struct str statuses = {0};
    for (const struct help_status *row = help_statuses; row->meaning; row++)
        str_add_format(&statuses, "%s %d %s", row == help_statuses ? "exit status:" : ";",
                       row->status, row->meaning);
    str_add_text(&statuses, ".");
    putchar('\n');
    help_print_wrapped(str_text(&statuses), 0, 0);
    str_deinit(&statuses);
}
