/*
 * completion_fish — the script for fish 3: one `complete` line for each word and option,
 * conditional on the verb typed.
 */
#include "cli/core/grammar.h"
#include "cli/help/completion.h"
#include "cli/help/help.h"

#include <string.h>

static const char head[] =
    "# Completion of millrace " MILLRACE_VERSION " for fish, made by `millrace completion fish`.\n"
    "# Installed as share/fish/vendor_completions.d/millrace.fish; or: millrace completion fish | "
    "source\n"
    "\n"
    "# What was typed is these words, and nothing after them.\n"
    "function __millrace_at\n"
    "    set -l typed (commandline -opc)\n"
    "    test \"$typed[2..-1]\" = \"$argv\"\n"
    "end\n"
    "\n"
    "# What was typed begins with the words of this verb.\n"
    "function __millrace_is\n"
    "    set -l typed (commandline -opc)\n"
    "    test \"$typed[2..\"(math 1 + (count $argv))\"]\" = \"$argv\"\n"
    "end\n"
    "\n"
    "# The value that is being typed, without --OPTION= before it.\n"
    "function __millrace_token\n"
    "    string replace -r -- '^--[a-z-]+=' '' (commandline -ct)\n"
    "end\n";

static void add_quoted(struct str *out, const char *text)
{
    str_add_text(out, "'");
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            str_add(out, "\\", 1);
        str_add(out, text, 1);
    }
    str_add_text(out, "'");
}

static void add_line(struct str *out, const char *condition, const char *words)
{
    str_add_format(out, "complete -c millrace -n '%s%s%s'", condition, words ? " " : "",
                   words ? words : "");
}

static void add_verbs(struct str *out, const char *group)
{
    struct grammar_words words;
    grammar_verbs(group, &words);
    for (size_t i = 0; i < words.count; i++) {
        struct str about = {0};
        grammar_describe_verb(group, words.word[i], &about);
        add_line(out, "__millrace_at", group);
        str_add_format(out, " -a %s -d ", words.word[i]);
        add_quoted(out, str_text(&about));
        str_add_text(out, "\n");
        str_deinit(&about);
        if (!group && verb_is_group(words.word[i]))
            add_verbs(out, words.word[i]);
    }
}

/* The flags of `complete` for a required value. */
static void add_value(struct str *out, const struct grammar_value *value)
{
    bool names_files = value->kind == GRAMMAR_FILES || value->kind == GRAMMAR_FOLDERS;
    str_add_text(out, names_files ? " -r -F" : " -x");
    if (value->kind == GRAMMAR_SETTINGS)
        str_add_text(out, " -a '(__millrace_settings)'");
    for (size_t i = 0; i < value->words.count; i++)
        str_add_format(out, "%s%s", i ? " " : " -a '", value->words.word[i]);
    str_add_text(out, value->words.count ? "'" : "");
}

static void add_option(struct str *out, const struct verb *verb, const struct option *option)
{
    struct str phrase = {0};
    add_line(out, "__millrace_is", verb->name);
    if (option->letter)
        str_add_format(out, " -s %c", option->letter);
    str_add_format(out, " -l %s", option->name);
    if (grammar_takes_value(option)) {
        struct grammar_value value;
        grammar_option(option, &value);
        add_value(out, &value);
    }
    help_option_phrase(option, &phrase);
    str_add_text(out, " -d ");
    add_quoted(out, str_text(&phrase));
    str_add_text(out, "\n");
    str_deinit(&phrase);
}

/* fish does not count arguments, so the values of all arguments are offered for each. */
static void add_arguments(struct str *out, const struct verb *verb)
{
    struct grammar_value value;
    if (!grammar_argument(verb, 0, &value))
        return;
    if (value.kind == GRAMMAR_FILES || value.kind == GRAMMAR_FOLDERS) {
        add_line(out, "__millrace_is", verb->name);
        str_add_text(out, " -F\n");
    }
    for (size_t i = 0; i < value.words.count; i++) {
        add_line(out, "__millrace_at", verb->name);
        str_add_format(out, " -a %s\n", value.words.word[i]);
    }
    struct grammar_words first, second;
    if (value.kind != GRAMMAR_VERBS)
        return;
    grammar_verbs(NULL, &first);
    for (size_t i = 0; i < first.count; i++) {
        add_line(out, "__millrace_at", verb->name);
        str_add_format(out, " -a %s\n", first.word[i]);
        grammar_verbs(first.word[i], &second);
        for (size_t j = 0; j < second.count; j++) {
            str_add_format(out, "complete -c millrace -n '__millrace_at %s %s' -a %s\n", verb->name,
                           first.word[i], second.word[j]);
        }
    }
}

static void add_settings(struct str *out)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    str_add_text(out, "\n# A key of a configuration with its description, or key=value.\n"
                      "function __millrace_settings\n"
                      "    set -l token (__millrace_token)\n"
                      "    if string match -q -- '*=*' $token\n"
                      "        set -l pair (string split -m 1 -- = $token)\n"
                      "        set -l values\n"
                      "        switch $pair[1]\n");
    for (size_t i = 0; i < count; i++) {
        struct grammar_value value;
        grammar_setting(&fields[i], &value);
        if (value.kind == GRAMMAR_NOTHING && value.words.count == 0)
            continue;
        str_add_format(out, "            case %s\n                set values", fields[i].key);
        for (size_t w = 0; w < value.words.count; w++)
            str_add_format(out, " %s", value.words.word[w]);
        str_add_text(out, value.kind == GRAMMAR_FILES ? " $pair[2]*\n" : "\n");
    }
    str_add_text(out, "        end\n"
                      "        test (count $values) -gt 0; and printf '%s\\n' $pair[1]=$values\n"
                      "        return\n"
                      "    end\n");
    for (size_t i = 0; i < count; i++) {
        str_add_format(out, "    printf '%%s\\t%%s\\n' %s= ", fields[i].key);
        add_quoted(out, fields[i].help);
        str_add_text(out, "\n");
    }
    str_add_text(out, "end\n");
}

void completion_fish(struct str *out)
{
    const struct verb *verb;
    str_add_text(out, head);
    add_settings(out);
    str_add_text(out,
                 "\ncomplete -c millrace -f\n"
                 "complete -c millrace -n __millrace_at -s h -l help -d 'print help'\n"
                 "complete -c millrace -n __millrace_at -s V -l version -d 'print the version'\n");
    add_verbs(out, NULL);
    for (size_t i = 0; (verb = verb_at(i)); i++) {
        struct option_table tables[VERB_TABLES];
        verb_tables(verb, tables);
        str_add_text(out, "\n");
        add_arguments(out, verb);
        for (size_t t = 0; t < VERB_TABLES; t++)
            for (size_t row = 0; row < tables[t].count; row++)
                add_option(out, verb, &tables[t].rows[row]);
    }
}
