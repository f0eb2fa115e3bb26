/*
 * completion_zsh — the script for zsh 5: specifications for _arguments, one per verb.
 */
#include "cli/core/grammar.h"
#include "cli/help/completion.h"
#include "cli/help/help.h"

#include <string.h>

static const char head[] =
    "#compdef millrace\n"
    "# Completion of millrace " MILLRACE_VERSION " for zsh, made by `millrace completion zsh`.\n"
    "# Installed as share/zsh/site-functions/_millrace; or: source <(millrace completion zsh)\n";

static const char tail[] = "\n"
                           "_millrace_or_files() {\n"
                           "  local -a words=(\"$@\")\n"
                           "  _describe -t words word words\n"
                           "  _files\n"
                           "}\n"
                           "\n"
                           "# The words of a verb's name, and topics next to the first of them.\n"
                           "_millrace_topics() {\n"
                           "  local -a next\n"
                           "  if [[ $words[CURRENT-1] == -* || CURRENT -eq 2 ]]; then\n"
                           "    _millrace_verbs ''\n"
                           "    next+=(\"$@\")\n"
                           "  else\n"
                           "    _millrace_verbs $words[CURRENT-1]\n"
                           "  fi\n"
                           "  _describe -t commands verb next\n"
                           "}\n"
                           "\n"
                           "_millrace() {\n"
                           "  local curcontext=$curcontext verb=\n"
                           "  local -a next line\n"
                           "  while _millrace_verbs \"$verb\"; do\n"
                           "    if (( CURRENT == 2 )); then\n"
                           "      if [[ -z $verb && $PREFIX == -* ]]; then\n"
                           "        _arguments '(-h --help)'{-h,--help}'[print help]' '(-V "
                           "--version)'{-V,--version}'[print the version]'\n"
                           "      else\n"
                           "        _describe -t commands verb next\n"
                           "      fi\n"
                           "      return\n"
                           "    fi\n"
                           "    verb=${verb:+$verb }$words[2]\n"
                           "    shift words\n"
                           "    (( CURRENT-- ))\n"
                           "  done\n"
                           "  curcontext=${curcontext%:*:*}:millrace-${verb// /-}:\n"
                           "  _millrace_arguments \"$verb\"\n"
                           "}\n"
                           "\n"
                           "if [[ $funcstack[1] == _millrace ]]; then\n"
                           "  _millrace \"$@\"\n"
                           "else\n"
                           "  compdef _millrace millrace\n"
                           "fi\n";

/* Escapes text with backslashes where zsh would interpret it: brackets in an explanation, colons in
 * a word. */
static void add_escaped(struct str *out, const char *text, const char *marks)
{
    for (; *text; text++) {
        if (*text == '\\' || strchr(marks, *text))
            str_add(out, "\\", 1);
        str_add(out, text, 1);
    }
}

static void add_quoted(struct str *out, struct str *text)
{
    completion_quote(out, str_text(text));
    str_deinit(text);
}

/* The next words of a verb with descriptions: array elements for _describe. */
static void add_described(struct str *out, const char *group)
{
    struct grammar_words words;
    grammar_verbs(group, &words);
    completion_quote(out, group ? group : "");
    str_add_text(out, ") next=(\n");
    for (size_t i = 0; i < words.count; i++) {
        struct str element = {0}, about = {0};
        grammar_describe_verb(group, words.word[i], &about);
        str_add_format(&element, "%s:", words.word[i]);
        add_escaped(&element, str_text(&about), "");
        str_deinit(&about);
        str_add_text(out, "    ");
        add_quoted(out, &element);
        str_add_text(out, "\n");
    }
    str_add_text(out, "  ) ;;\n");
}

static void add_verbs(struct str *out)
{
    struct grammar_words first;
    grammar_verbs(NULL, &first);
    str_add_text(out,
                 "\n# Sets the caller's next to the words that may follow $1, the verb so far.\n"
                 "_millrace_verbs() {\n  case $1 in\n  ");
    add_described(out, NULL);
    for (size_t i = 0; i < first.count; i++)
        if (verb_is_group(first.word[i])) {
            str_add_text(out, "  ");
            add_described(out, first.word[i]);
        }
    str_add_text(out, "  *) next=(); return 1 ;;\n  esac\n}\n");
}

/* The _arguments action that completes the value. */
static void add_action(struct str *out, const struct grammar_value *value)
{
    const char *before = value->kind == GRAMMAR_VERBS   ? " _millrace_topics"
                         : value->kind == GRAMMAR_FILES ? " _millrace_or_files"
                                                        : "(";
    if (value->kind == GRAMMAR_SETTINGS) {
        str_add_text(out, "_millrace_settings");
    } else if (value->words.count == 0 && value->kind == GRAMMAR_FILES) {
        str_add_text(out, "_files");
    } else if (value->kind == GRAMMAR_FOLDERS) {
        str_add_text(out, "_files -/");
    } else if (value->words.count > 0 || value->kind == GRAMMAR_VERBS) {
        str_add_text(out, before);
        for (size_t i = 0; i < value->words.count; i++)
            str_add_format(out, "%s%s", i || before[0] == ' ' ? " " : "", value->words.word[i]);
        str_add_text(out, before[0] == ' ' ? "" : ")");
    } else {
        str_add_text(out, " ");
    }
}

/* '(-j --workers)'{-j+,--workers=}'[threads; 0: one per CPU]:N: ' */
static void add_option(struct str *out, const struct option *option)
{
    bool takes_value = grammar_takes_value(option);
    const char *value_follows = takes_value ? "=" : "",
               *again = option->kind == OPTION_REPEAT ? "*" : "";
    str_add_text(out, "      ");
    if (option->letter && *again)
        str_add_text(out, "'*'");
    else if (option->letter)
        str_add_format(out, "'(-%c --%s)'", option->letter, option->name);
    if (option->letter)
        str_add_format(out, "{-%c%s,--%s%s}", option->letter, takes_value ? "+" : "", option->name,
                       value_follows);
    else
        str_add_format(out, "'%s--%s%s'", again, option->name, value_follows);
    struct str phrase = {0}, rest = {0};
    help_option_phrase(option, &phrase);
    str_add_text(&rest, "[");
    add_escaped(&rest, str_text(&phrase), "[]");
    str_add_text(&rest, "]");
    if (takes_value) {
        struct grammar_value value;
        char name[GRAMMAR_WORD_BYTES];
        grammar_option(option, &value);
        str_add_text(&rest, ":");
        add_escaped(&rest, option_value_text(option, name, sizeof name), ":");
        str_add_text(&rest, ":");
        add_action(&rest, &value);
    }
    add_quoted(out, &rest);
    str_add_text(out, " \\\n");
    str_deinit(&phrase);
}

/* '1:SRC:_files' */
static void add_argument(struct str *out, const struct verb *verb, size_t n)
{
    struct str spec = {0};
    struct grammar_value value;
    char name[GRAMMAR_WORD_BYTES];
    grammar_argument(verb, n, &value);
    grammar_argument_name(verb, n, name);
    str_add_format(&spec, "%zu:%s", n + 1, n < verb->arguments_least ? "" : ":");
    add_escaped(&spec, name, ":");
    str_add_text(&spec, ":");
    add_action(&spec, &value);
    str_add_text(out, "      ");
    add_quoted(out, &spec);
    str_add_text(out, " \\\n");
}

static void add_arguments_of(struct str *out, const struct verb *verb)
{
    enum { ARGUMENTS_MAX = 4 }; /* further arguments are like the last */
    struct option_table tables[VERB_TABLES];
    verb_tables(verb, tables);
    str_add_text(out, "  ");
    completion_quote(out, verb->name);
    str_add_text(out, ")\n    _arguments -S \\\n");
    for (size_t t = 0; t < VERB_TABLES; t++)
        for (size_t i = 0; i < tables[t].count; i++)
            add_option(out, &tables[t].rows[i]);
    size_t count = verb->arguments_most;
    for (size_t n = 0; n < count && n < ARGUMENTS_MAX; n++)
        add_argument(out, verb, n);
    str_add_text(out, count > ARGUMENTS_MAX ? "      '*: :_files' ;;\n" : "      && return 0 ;;\n");
}

static void add_settings(struct str *out)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    str_add_text(out, "\n# A key of a configuration, or its value.\n_millrace_settings() {\n"
                      "  local -a keys\n"
                      "  if compset -P '*='; then\n"
                      "    case ${${IPREFIX%=}##*=} in\n");
    for (size_t i = 0; i < count; i++) {
        struct grammar_value value;
        grammar_setting(&fields[i], &value);
        if (value.kind == GRAMMAR_FILES)
            str_add_format(out, "    %s) _files ;;\n", fields[i].key);
        else if (value.words.count) {
            str_add_format(out, "    %s) compadd -", fields[i].key);
            for (size_t w = 0; w < value.words.count; w++)
                str_add_format(out, " %s", value.words.word[w]);
            str_add_text(out, " ;;\n");
        }
    }
    str_add_text(out, "    *) _message value ;;\n    esac\n    return\n  fi\n  keys=(\n");
    for (size_t i = 0; i < count; i++) {
        struct str element = {0};
        str_add_format(&element, "%s:", fields[i].key);
        add_escaped(&element, fields[i].help, "");
        str_add_text(out, "    ");
        add_quoted(out, &element);
        str_add_text(out, "\n");
    }
    str_add_text(out, "  )\n  _describe -t keys 'key of the configuration' keys -S =\n}\n");
}

void completion_zsh(struct str *out)
{
    const struct verb *verb;
    str_add_text(out, head);
    add_verbs(out);
    add_settings(out);
    str_add_text(out, "\n_millrace_arguments() {\n  case $1 in\n");
    for (size_t i = 0; (verb = verb_at(i)); i++)
        add_arguments_of(out, verb);
    str_add_text(out, "  *) _message 'no such verb' ;;\n  esac\n}\n");
    str_add_text(out, tail);
}
