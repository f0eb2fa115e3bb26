/*
 * grammar — see grammar.h.
 */
#include "cli/verbs/grammar.h"

#include "base/str.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void add_word(struct grammar_words *words, const char *text, size_t bytes)
{
    assert(words->count < GRAMMAR_WORDS_MAX && bytes < GRAMMAR_WORD_BYTES);
    memcpy(words->word[words->count], text, bytes);
    words->word[words->count++][bytes] = '\0';
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

void grammar_verbs(const char *group, struct grammar_words *ret_words)
{
    const struct verb *verb;
    const char *rest;
    ret_words->count = 0;
    for (size_t i = 0; (verb = verb_at(i)); i++) {
        if (!is_in_group(verb, group, &rest))
            continue;
        size_t bytes = strcspn(rest, " ");
        const char *last = ret_words->count ? ret_words->word[ret_words->count - 1] : "";
        if (strlen(last) != bytes || memcmp(last, rest, bytes) != 0)
            add_word(ret_words, rest, bytes);
    }
}

const struct verb *grammar_verb_named(const char *group, const char *word)
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
    const struct verb *verb = grammar_verb_named(group, word);
    if (verb) {
        str_add_text(out, verb->summary);
        return;
    }
    struct grammar_words seconds;
    grammar_verbs(word, &seconds);
    for (size_t i = 0; i < seconds.count; i++)
        str_add_format(out, "%s%s", i ? ", " : "", seconds.word[i]);
}

/* Whether the text is a literal: lowercase letters and digits. */
static bool is_literal(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]))
            return false;
    return bytes >= 2;
}

static enum grammar_kind kind_of(const char *text, size_t bytes, enum grammar_kind otherwise)
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
    return otherwise;
}

static void read_name(const char *name, enum grammar_kind otherwise,
                      struct grammar_value *ret_value)
{
    *ret_value = (struct grammar_value){.kind = GRAMMAR_NOTHING};
    for (;;) {
        size_t bytes = strcspn(name, "|");
        if (is_literal(name, bytes))
            add_word(&ret_value->words, name, bytes);
        else if (ret_value->kind == GRAMMAR_NOTHING)
            ret_value->kind = kind_of(name, bytes, otherwise);
        if (!name[bytes])
            return;
        name += bytes + 1;
    }
}

static void take_choices(const char *const *choices, struct grammar_value *ret_value)
{
    *ret_value = (struct grammar_value){.kind = GRAMMAR_NOTHING};
    for (; *choices; choices++)
        add_word(&ret_value->words, *choices, strlen(*choices));
}

void grammar_option(const struct option *option, struct grammar_value *ret_value)
{
    if (option->kind == OPTION_CHOICE)
        take_choices(option->choices, ret_value);
    else
        read_name(option->value_name ? option->value_name : "", GRAMMAR_NOTHING, ret_value);
}

/* Splits "SRC DST", "SHARD..." or "[VERB | formats | config]" into names. */
static void read_arguments(const char *text, struct grammar_words *ret_names, bool *ret_repeats)
{
    char name[GRAMMAR_WORD_BYTES];
    size_t bytes = 0;
    ret_names->count = 0;
    *ret_repeats = false;
    for (const char *at = text;; at++) {
        bool joins = *at == ' ' && (at[1] == '|' || (at > text && at[-1] == '|'));
        if (*at == '\0' || (*at == ' ' && !joins)) {
            if (bytes > 0)
                add_word(ret_names, name, bytes);
            bytes = 0;
        } else if (strncmp(at, "...", 3) == 0) {
            *ret_repeats = true;
            at += 2;
        } else if (*at != '[' && *at != ']' && !joins) {
            assert(bytes < sizeof name - 1);
            name[bytes++] = *at;
        }
        if (*at == '\0')
            break;
    }
}

bool grammar_argument(const struct verb *verb, size_t n, struct grammar_value *ret_value)
{
    struct grammar_words names;
    bool repeats;
    read_arguments(verb->arguments, &names, &repeats);
    size_t count = names.count;
    if (n >= verb->arguments_most || count == 0)
        return false;
    read_name(names.word[n < count ? n : count - 1], GRAMMAR_FILES, ret_value);
    if (n >= count && !repeats)
        ret_value->words.count = 0; /* a verb's second word: "help convert dataset" */
    return true;
}

void grammar_setting(const struct config_field *field, struct grammar_value *ret_value)
{
    *ret_value = (struct grammar_value){.kind = GRAMMAR_NOTHING};
    switch (field->kind) {
    case CONFIG_CHOICE:
        take_choices(field->choices, ret_value);
        break;
    case CONFIG_BOOL:
        read_name("true|false", GRAMMAR_NOTHING, ret_value);
        break;
    case CONFIG_COUNT_AUTO:
    case CONFIG_SIZE_AUTO:
        read_name("auto", GRAMMAR_NOTHING, ret_value);
        break;
    case CONFIG_PATH:
    case CONFIG_MIX:
        ret_value->kind = GRAMMAR_FILES;
        break;
    default:
        break;
    }
}
