#include "cli/verbs/grammar.h"

#include "base/str.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

static void add_word(struct grammar_words *words, const char *text, size_t bytes)
{
    assert(words->count < GRAMMAR_WORDS_MAX && bytes < GRAMMAR_WORD_BYTES);
    memcpy(words->items[words->count], text, bytes);
    words->items[words->count++][bytes] = '\0';
}

/* Whether the verb's name begins with group; *ret_rest: the rest of the name. */
static bool is_in_group(const struct verb *verb, const char *group, const char **ret_rest)
{
    size_t bytes = group ? strlen(group) : 0;
    if (group && (strncmp(verb->name, group, bytes) != 0 || verb->name[bytes] != ' '))
        return false;
    *ret_rest = verb->name + bytes + (group ? 1 : 0);
    return true;
}

void grammar_list_verbs(const char *group, struct grammar_words *ret_words)
{
    const struct verb *verb;
    const char *rest;
    ret_words->count = 0;
    for (size_t i = 0; (verb = verb_at(i)); i++) {
        if (!is_in_group(verb, group, &rest))
            continue;
        size_t bytes = strcspn(rest, " ");
        const char *previous = ret_words->count ? ret_words->items[ret_words->count - 1] : "";
        if (strlen(previous) != bytes || memcmp(previous, rest, bytes) != 0)
            add_word(ret_words, rest, bytes);
    }
}

const struct verb *grammar_find_verb(const char *group, const char *word)
{
    const struct verb *verb;
    const char *rest;
    for (size_t i = 0; (verb = verb_at(i)); i++)
        if (is_in_group(verb, group, &rest) && strcmp(rest, word) == 0)
            return verb;
    return NULL;
}

void grammar_describe_verb(const char *group, const char *word, struct str *out)
{
    const struct verb *verb = grammar_find_verb(group, word);
    if (verb) {
        str_add_text(out, verb->summary);
        return;
    }
    struct grammar_words second_words;
    grammar_list_verbs(word, &second_words);
    for (size_t i = 0; i < second_words.count; i++)
        str_add_format(out, "%s%s", i ? ", " : "", second_words.items[i]);
}

/* Whether the text is a literal: lowercase letters and digits. */
static bool is_literal(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]))
            return false;
    return bytes >= 2;
}

static enum grammar_kind value_name_kind(const char *text, size_t bytes,
                                         enum grammar_kind default_kind)
{
    static const struct {
        const char *name;
        enum grammar_kind kind;
    } names[] = {
        {"VERB", GRAMMAR_VERBS},           {"KEY=VALUE", GRAMMAR_SETTINGS},
        {"DIR", GRAMMAR_FOLDERS},          {"FOLDER", GRAMMAR_FOLDERS},
        {"PATH", GRAMMAR_FILES},           {"OUT", GRAMMAR_FILES},
        {"FILE", GRAMMAR_FILES},           {"CHECKPOINT", GRAMMAR_FILES},
        {"DATASET=WEIGHT", GRAMMAR_FILES},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].name) == bytes && memcmp(names[i].name, text, bytes) == 0)
            return names[i].kind;
    return default_kind;
}

static void parse_value_name(const char *name, enum grammar_kind default_kind,
                             struct grammar_value *ret_value)
{
    *ret_value = (struct grammar_value){.kind = GRAMMAR_TEXT};
    for (;;) {
        size_t bytes = strcspn(name, "|");
        if (is_literal(name, bytes))
            add_word(&ret_value->words, name, bytes);
        else if (ret_value->kind == GRAMMAR_TEXT)
            ret_value->kind = value_name_kind(name, bytes, default_kind);
        if (!name[bytes])
            return;
        name += bytes + 1;
    }
}

static void set_choices(const char *const *choices, struct grammar_value *ret_value)
{
    *ret_value = (struct grammar_value){.kind = GRAMMAR_TEXT};
    for (; *choices; choices++)
        add_word(&ret_value->words, *choices, strlen(*choices));
}

void grammar_option_value(const struct option *option, struct grammar_value *ret_value)
{
    if (option->kind == OPTION_CHOICE)
        set_choices(option->choices, ret_value);
    else
        parse_value_name(option->value_name ? option->value_name : "", GRAMMAR_TEXT, ret_value);
}

/* Splits "SRC DST", "SHARD..." or "[VERB | formats | config]" into names. */
static void split_arguments(const char *text, struct grammar_words *ret_names, bool *ret_repeats)
{
    char name[GRAMMAR_WORD_BYTES];
    size_t bytes = 0;
    ret_names->count = 0;
    *ret_repeats = false;
    for (const char *at = text;; at++) {
        bool is_around_bar = *at == ' ' && (at[1] == '|' || (at > text && at[-1] == '|'));
        if (*at == '\0' || (*at == ' ' && !is_around_bar)) {
            if (bytes > 0)
                add_word(ret_names, name, bytes);
            bytes = 0;
        } else if (strncmp(at, "...", 3) == 0) {
            *ret_repeats = true;
            at += 2;
        } else if (*at != '[' && *at != ']' && !is_around_bar) {
            assert(bytes < sizeof name - 1);
            name[bytes++] = *at;
        }
        if (*at == '\0')
            break;
    }
}

bool grammar_argument_value(const struct verb *verb, size_t n, struct grammar_value *ret_value)
{
    struct grammar_words names;
    bool repeats;
    split_arguments(verb->arguments.names, &names, &repeats);
    size_t count = names.count;
    if (n >= verb->arguments.max || count == 0)
        return false;
    parse_value_name(names.items[n < count ? n : count - 1], GRAMMAR_FILES, ret_value);
    if (n >= count && !repeats)
        ret_value->words.count = 0; /* a verb's second word: "help convert dataset" */
    return true;
}

void grammar_setting_value(const struct config_field *field, struct grammar_value *ret_value)
{
    *ret_value = (struct grammar_value){.kind = GRAMMAR_TEXT};
    switch (field->kind) {
    case CONFIG_CHOICE:
        set_choices(field->choices, ret_value);
        break;
    case CONFIG_BOOL:
        parse_value_name("true|false", GRAMMAR_TEXT, ret_value);
        break;
    case CONFIG_COUNT_AUTO:
    case CONFIG_SIZE_AUTO:
        parse_value_name("auto", GRAMMAR_TEXT, ret_value);
        break;
    case CONFIG_PATH:
    case CONFIG_MIX:
        ret_value->kind = GRAMMAR_FILES;
        break;
    default:
        break;
    }
}
