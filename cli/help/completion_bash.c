/*
 * completion_bash — the script for bash 4.4 and later.
 *
 * Readline splits words at = and completes the last part. The script joins such words, completes
 * the whole word and returns the part after the last =. It never lets the shell expand a word: no
 * compgen -W.
 */
#include "cli/core/grammar.h"
#include "cli/help/completion.h"

#include <string.h>

static const char head[] =
    "# Completion of millrace " MILLRACE_VERSION " for bash, made by `millrace completion bash`.\n"
    "# Installed as share/bash-completion/completions/millrace; or: source <(millrace completion "
    "bash)\n";

/* Queries the tables through the four functions before it. */
static const char tail[] =
    "\n"
    "_millrace() {\n"
    "  local cur prefix='' verb='' option='' first='' kind='' ended='' joins='' word i count=0\n"
    "  local words=() choices=()\n"
    "  COMPREPLY=()\n"
    "  for ((i = 1; i <= COMP_CWORD; i++)); do\n"
    "    word=${COMP_WORDS[i]}\n"
    "    if [[ ${#words[@]} -gt 0 && ($joins || $word == =*) ]]; then\n"
    "      words[${#words[@]} - 1]+=$word\n"
    "    else\n"
    "      words+=(\"$word\")\n"
    "    fi\n"
    "    [[ $word == *= ]] && joins=1 || joins=\n"
    "  done\n"
    "  cur=${words[${#words[@]} - 1]}\n"
    "\n"
    "  # What stands before the cursor's word: the verb, arguments, perhaps an option that waits "
    "for its "
    "value.\n"
    "  for word in \"${words[@]:0:${#words[@]} - 1}\"; do\n"
    "    if [[ $option ]]; then\n"
    "      option=\n"
    "    elif _millrace_verbs \"$verb\"; then\n"
    "      verb=${verb:+$verb }$word\n"
    "    elif [[ ! $ended && $word == -- ]]; then\n"
    "      ended=1\n"
    "    elif [[ ! $ended && $word == -* ]]; then\n"
    "      _millrace_value \"$verb\" \"$word\" && option=$word\n"
    "    else\n"
    "      first=${first:-$word} count=$((count + 1))\n"
    "    fi\n"
    "  done\n"
    "\n"
    "  choices=()\n"
    "  if [[ $option ]]; then\n"
    "    _millrace_value \"$verb\" \"$option\"\n"
    "  elif [[ ! $ended && $cur == --*=* ]] && _millrace_value \"$verb\" \"${cur%%=*}\"; then\n"
    "    prefix=${cur%%=*}=\n"
    "  elif [[ ! $ended && $cur == -* ]]; then\n"
    "    _millrace_options \"$verb\"\n"
    "  elif ! _millrace_verbs \"$verb\"; then\n"
    "    _millrace_argument \"$verb\" \"$count\"\n"
    "  fi\n"
    "  if [[ $kind == verbs ]]; then\n"
    "    local topics=(\"${choices[@]}\")\n"
    "    _millrace_verbs \"$first\"\n"
    "    choices+=(\"${topics[@]}\")\n"
    "  elif [[ $kind == settings ]]; then\n"
    "    local setting=${cur#\"$prefix\"}\n"
    "    if [[ $setting == *=* ]]; then\n"
    "      prefix+=${setting%%=*}=\n"
    "      _millrace_setting \"${setting%%=*}\"\n"
    "    else\n"
    "      _millrace_settings\n"
    "      compopt -o nospace 2>/dev/null\n"
    "    fi\n"
    "  fi\n"
    "\n"
    "  for word in \"${choices[@]}\"; do\n"
    "    [[ $prefix$word == \"$cur\"* ]] && COMPREPLY+=(\"$prefix$word\")\n"
    "  done\n"
    "  if [[ $COMP_WORDBREAKS == *=* && $cur == *=* ]]; then\n"
    "    word=${cur%\"${cur##*=}\"}\n"
    "    COMPREPLY=(\"${COMPREPLY[@]#\"$word\"}\")\n"
    "  fi\n"
    "  # Readline's own completion of names takes over where no word fits: it knows quotes, ~ and "
    "variables.\n"
    "  case $kind in\n"
    "  files) compopt -o default 2>/dev/null ;;\n"
    "  folders) compopt -o dirnames 2>/dev/null ;;\n"
    "  esac\n"
    "  return 0\n"
    "}\n"
    "complete -F _millrace millrace\n";

static void add_words(struct str *out, const struct grammar_words *words)
{
    str_add_text(out, "choices=(");
    for (size_t i = 0; i < words->count; i++) {
        str_add_text(out, i ? " " : "");
        completion_quote(out, words->word[i]);
    }
    str_add_text(out, ")");
}

static void add_value(struct str *out, const struct grammar_value *value)
{
    static const char *const kinds[] = {
        [GRAMMAR_NOTHING] = "",          [GRAMMAR_FILES] = "files", [GRAMMAR_FOLDERS] = "folders",
        [GRAMMAR_SETTINGS] = "settings", [GRAMMAR_VERBS] = "verbs",
    };
    str_add_format(out, "kind=%s ", kinds[value->kind]);
    add_words(out, &value->words);
    str_add_text(out, " ;;\n");
}

static void begin_function(struct str *out, const char *comment, const char *name, const char *key)
{
    str_add_format(out, "\n# %s\n%s() {\n  kind= choices=()\n  case %s in\n", comment, name, key);
}

static void end_function(struct str *out)
{
    str_add_text(out, "  *) return 1 ;;\n  esac\n}\n");
}

static void add_verbs(struct str *out)
{
    struct grammar_words first, second;
    begin_function(out, "The words that may follow $1, the verb so far.", "_millrace_verbs", "$1");
    grammar_verbs(NULL, &first);
    str_add_text(out, "  '') ");
    add_words(out, &first);
    str_add_text(out, " ;;\n");
    for (size_t i = 0; i < first.count; i++) {
        if (!verb_is_group(first.word[i]))
            continue;
        grammar_verbs(first.word[i], &second);
        str_add_format(out, "  '%s') ", first.word[i]);
        add_words(out, &second);
        str_add_text(out, " ;;\n");
    }
    end_function(out);
}

static void add_options_of(struct str *out, const struct verb *verb)
{
    struct option_table tables[VERB_TABLES];
    verb_tables(verb, tables);
    str_add_format(out, "  '%s') choices=(", verb->name);
    for (size_t t = 0; t < VERB_TABLES; t++)
        for (size_t i = 0; i < tables[t].count; i++) {
            const struct option *option = &tables[t].rows[i];
            str_add_format(out, "%s--%s", t + i ? " " : "", option->name);
            if (option->letter)
                str_add_format(out, " -%c", option->letter);
        }
    str_add_text(out, ") ;;\n");
}

static void add_values_of(struct str *out, const struct verb *verb)
{
    struct option_table tables[VERB_TABLES];
    verb_tables(verb, tables);
    for (size_t t = 0; t < VERB_TABLES; t++)
        for (size_t i = 0; i < tables[t].count; i++) {
            const struct option *option = &tables[t].rows[i];
            struct grammar_value value;
            if (!grammar_takes_value(option))
                continue;
            grammar_option(option, &value);
            str_add_format(out, "  '%s --%s'", verb->name, option->name);
            if (option->letter)
                str_add_format(out, " | '%s -%c'", verb->name, option->letter);
            str_add_text(out, ") ");
            add_value(out, &value);
        }
}

static void add_arguments_of(struct str *out, const struct verb *verb)
{
    enum { ARGUMENTS_MAX = 8 }; /* further arguments are like the last */
    struct grammar_value value;
    size_t n = 0;
    for (; n < ARGUMENTS_MAX && grammar_argument(verb, n, &value); n++) {
        str_add_format(out, n + 1 == ARGUMENTS_MAX ? "  '%s '*) " : "  '%s %zu') ", verb->name, n);
        add_value(out, &value);
    }
}

static void add_settings(struct str *out)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    str_add_text(out, "\n# The keys of a configuration.\n_millrace_settings() {\n  choices=(\n");
    for (size_t i = 0; i < count; i++)
        str_add_format(out, "    %s=\n", fields[i].key);
    str_add_text(out, "  )\n}\n");
    begin_function(out, "What the key $1 of a configuration takes.", "_millrace_setting", "$1");
    for (size_t i = 0; i < count; i++) {
        struct grammar_value value;
        grammar_setting(&fields[i], &value);
        if (value.kind == GRAMMAR_NOTHING && value.words.count == 0)
            continue;
        str_add_format(out, "  %s) ", fields[i].key);
        add_value(out, &value);
    }
    end_function(out);
}

void completion_bash(struct str *out)
{
    const struct verb *verb;
    str_add_text(out, head);
    str_add_text(out, "# Its functions set the caller's kind and choices, and fail where there is "
                      "nothing to say.\n");
    add_verbs(out);
    begin_function(out, "The options of the verb $1.", "_millrace_options", "$1");
    str_add_text(out, "  '') choices=(--help --version -h -V) ;;\n");
    for (size_t i = 0; (verb = verb_at(i)); i++)
        add_options_of(out, verb);
    end_function(out);
    begin_function(out, "What the option $2 of the verb $1 takes.", "_millrace_value", "\"$1 $2\"");
    for (size_t i = 0; (verb = verb_at(i)); i++)
        add_values_of(out, verb);
    end_function(out);
    begin_function(out, "What the argument $2, from 0, of the verb $1 may be.",
                   "_millrace_argument", "\"$1 $2\"");
    for (size_t i = 0; (verb = verb_at(i)); i++)
        add_arguments_of(out, verb);
    end_function(out);
    add_settings(out);
    str_add_text(out, tail);
}
