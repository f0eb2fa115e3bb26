#include "cli/help/completion.h"

#include "base/str.h"
#include "cli/help/help.h"
#include "cli/verbs/grammar.h"

#include <stdio.h>
#include <string.h>

static void print_kind(enum grammar_kind kind, int prefix_bytes, const char *word)
{
    const char *name = kind == GRAMMAR_FILES     ? "files"
                       : kind == GRAMMAR_FOLDERS ? "folders"
                                                 : "words";
    printf("%s\t%.*s\n", name, prefix_bytes, word);
}

static void print_verbs(const char *group)
{
    struct grammar_words verbs;
    grammar_list_verbs(group, &verbs);
    for (size_t i = 0; i < verbs.count; i++) {
        struct str description = {0};
        grammar_describe_verb(group, verbs.items[i], &description);
        printf("%s\t%s\n", verbs.items[i], str_text(&description));
        str_deinit(&description);
    }
}

static void print_options(const struct verb *verb)
{
    struct option_table options = verb_options(verb);
    const struct option *option;
    for (size_t i = 0; (option = options_at(&options, i)); i++) {
        struct str phrase = {0};
        help_describe_option(option, &phrase);
        printf("--%s\t%s\n", option->name, str_text(&phrase));
        if (option->letter)
            printf("-%c\t%s\n", option->letter, str_text(&phrase));
        str_deinit(&phrase);
    }
}

/* Finds the option named by the first `bytes` of word. NULL: none, or its value is not the next
 * word. */
static const struct option *find_valued_option(const struct verb *verb, const char *word,
                                               size_t bytes)
{
    struct option_table options = verb_options(verb);
    const struct option *option;
    for (size_t i = 0; (option = options_at(&options, i)); i++) {
        bool is_short = bytes == 2 && option->letter && word[1] == option->letter;
        bool is_long = bytes == strlen(option->name) + 2 && strncmp(word, "--", 2) == 0 &&
                       memcmp(option->name, word + 2, bytes - 2) == 0;
        if ((is_short || is_long) && option_takes_word(option))
            break;
    }
    return option;
}

/* Prints keys or, after KEY=, the key's values. */
static void print_settings(const char *word, size_t prefix_bytes)
{
    size_t count, key_bytes = strcspn(word + prefix_bytes, "=");
    const struct config_field *fields = config_fields(&count);
    const char *setting = word + prefix_bytes;
    if (!setting[key_bytes])
        print_kind(GRAMMAR_TEXT, 0, "");
    for (size_t i = 0; i < count; i++) {
        if (!setting[key_bytes]) {
            printf("%.*s%s=\t%s\n", (int)prefix_bytes, word, fields[i].key, fields[i].help);
        } else if (strlen(fields[i].key) == key_bytes &&
                   memcmp(fields[i].key, setting, key_bytes) == 0) {
            struct grammar_value value;
            int bytes = (int)(prefix_bytes + key_bytes + 1);
            grammar_setting_value(&fields[i], &value);
            print_kind(value.kind, bytes, word);
            for (size_t w = 0; w < value.words.count; w++)
                printf("%.*s%s\t\n", bytes, word, value.words.items[w]);
        }
    }
}

/* first_argument: the verb's; NULL: none. */
static void print_values(const struct grammar_value *value, const char *word, size_t prefix_bytes,
                         const char *first_argument)
{
    if (value->kind == GRAMMAR_SETTINGS) {
        print_settings(word, prefix_bytes);
        return;
    }
    print_kind(value->kind, (int)prefix_bytes, word);
    for (size_t i = 0; i < value->words.count; i++)
        printf("%.*s%s\t\n", (int)prefix_bytes, word, value->words.items[i]);
    if (value->kind == GRAMMAR_VERBS)
        print_verbs(first_argument);
}

static void print_after_verb(const struct verb *verb, int count, char **words)
{
    const char *word = words[count - 1], *first_argument = NULL;
    const struct option *option = NULL;
    size_t arguments_count = 0, prefix_bytes = 0;
    bool options_ended = false;
    for (int i = 0; i < count - 1; i++) {
        if (option) {
            option = NULL;
        } else if (!options_ended && strcmp(words[i], "--") == 0) {
            options_ended = true;
        } else if (!options_ended && words[i][0] == '-') {
            option = find_valued_option(verb, words[i], strlen(words[i]));
        } else {
            first_argument = arguments_count++ ? first_argument : words[i];
        }
    }
    struct grammar_value value = {0};
    if (!option && !options_ended && word[0] == '-') {
        prefix_bytes = strcspn(word, "=");
        if (word[prefix_bytes] == '=')
            option = find_valued_option(verb, word, prefix_bytes++);
        if (!option) {
            print_kind(GRAMMAR_TEXT, 0, "");
            print_options(verb);
            return;
        }
    }
    if (option)
        grammar_option_value(option, &value);
    else
        grammar_argument_value(verb, arguments_count, &value);
    print_values(&value, word, prefix_bytes, first_argument);
}

void completion_print(int count, char **words)
{
    const struct verb *verb = NULL;
    const char *group = NULL;
    int used = 0;
    for (; used < count - 1 && !verb; used++) {
        verb = grammar_find_verb(group, words[used]);
        if (!verb && (group || !verb_is_group(words[used])))
            return;
        group = words[used];
    }
    if (verb) {
        print_after_verb(verb, count - used, words + used);
        return;
    }
    print_kind(GRAMMAR_TEXT, 0, "");
    if (group || words[used][0] != '-')
        print_verbs(group);
    else
        printf("--help\tprint help\n-h\tprint help\n"
               "--version\tprint the version\n-V\tprint the version\n");
}
