/*
 * verb_help — help, printed from the tables.
 */
#include "base/str.h"
#include "cli/verb.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS_MOST = 100, COLUMNS_LEAST = 40, HELP_COLUMN = 26 };

static unsigned columns(void)
{
    unsigned have = isatty(STDOUT_FILENO) ? console_columns(STDOUT_FILENO) : COLUMNS_MOST;
    return have > COLUMNS_MOST ? COLUMNS_MOST : have < COLUMNS_LEAST ? COLUMNS_LEAST : have;
}

/* Words of text, broken before the last column; each further line is indented. at: the column where the first begins. */
static void print_wrapped(const char *text, unsigned at, unsigned indent)
{
    unsigned width = columns();
    bool first = true;
    while (*text) {
        unsigned bytes = (unsigned)strcspn(text, " \n");
        if (!first && at + 1 + bytes > width) {
            printf("\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        if (!first)
            putchar(' ');
        at += bytes + !first;
        printf("%.*s", (int)bytes, text);
        first = false;
        text += bytes;
        if (*text == '\n') {
            printf("\n%*s", text[1] && text[1] != '\n' ? (int)indent : 0, "");
            at = indent;
            first = true;
        }
        text += *text != '\0';
    }
    putchar('\n');
}

static void print_option(const struct option *option)
{
    char left[160], value[96];
    option_value_text(option, value, sizeof value);
    char letter[8] = "    ";
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(left, sizeof left, "  %s--%s%s%s", letter, option->name, *value ? " " : "", value);
    struct str help = {0};
    str_add_text(&help, option->help);
    if (option->default_text)
        str_add_format(&help, " (default %s)", option->default_text);
    if (option->required)
        str_add_text(&help, " (required)");
    if (option->kind == OPTION_REPEAT)
        str_add_text(&help, "; may be given again");
    unsigned used = (unsigned)strlen(left);
    if (used + 2 > HELP_COLUMN)
        printf("%s\n%*s", left, HELP_COLUMN, "");
    else
        printf("%-*s", HELP_COLUMN, left);
    print_wrapped(str_text(&help), HELP_COLUMN, HELP_COLUMN);
    str_deinit(&help);
}

void verb_print_help(const struct verb *verb)
{
    printf("usage: millrace %s%s%s [options]\n\n", verb->name, *verb->arguments ? " " : "", verb->arguments);
    print_wrapped(verb->summary, 0, 0);
    if (verb->details) {
        putchar('\n');
        print_wrapped(verb->details, 0, 0);
    }
    struct option_table tables[VERB_TABLES];
    verb_tables(verb, tables);
    printf("\noptions:\n");
    for (size_t t = 0; t < VERB_TABLES; t++)
        for (size_t i = 0; i < tables[t].count; i++)
            print_option(&tables[t].rows[i]);
    printf("\nexamples:\n");
    for (const char *const *example = verb->examples; *example; example++)
        printf("  %s\n", *example);
}

void verb_print_overview(const char *group)
{
    size_t group_bytes = group ? strlen(group) : 0;
    printf("usage: millrace %s%sVERB ... [options]\n\n", group ? group : "", group ? " " : "");
    if (!group)
        printf("Converts datasets into shards, streams them into training in a reproducible order, trains,\n"
               "and keeps checkpoints from which a run goes on to the same bits.\n\n");
    printf("verbs:\n");
    const struct verb *verb;
    for (size_t i = 0; (verb = verb_at(i)); i++) {
        if (group && strncmp(verb->name, group, group_bytes) != 0)
            continue;
        printf("  %-22s  ", verb->name);
        print_wrapped(verb->summary, HELP_COLUMN, HELP_COLUMN);
    }
    printf("\n`millrace VERB --help` has the options and examples of one verb; `millrace help formats` the "
           "files that are\n"
           "read and written; `millrace help config` every key of a training configuration.\n\n"
           "exit status: 0 done; 1 the work failed; 2 wrong usage; 75 stopped on request with everything "
           "saved, run the\n"
           "same command again; 130 interrupted twice.\n");
}
