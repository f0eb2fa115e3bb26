/*
 * grammar — the values that are valid at a position of the command line, derived from the option
 * tables.
 *
 * The value name in help also defines the type. | separates alternatives. Two or more lowercase
 * letters or digits are a literal ("auto|never|PATH" accepts auto, never or a path). VERB
 * is a verb, KEY=VALUE a configuration key with its value, DIR and FOLDER a folder, and PATH, OUT,
 * FILE, CHECKPOINT and DATASET=WEIGHT a file or folder. Any other name means a file or folder as an
 * argument, and any text as an option.
 */
#ifndef MILLRACE_CLI_VERBS_GRAMMAR_H
#define MILLRACE_CLI_VERBS_GRAMMAR_H

#include "cli/verbs/verb.h"
#include "trainer/config/config.h"

enum grammar_kind {
    GRAMMAR_TEXT,
    GRAMMAR_FILES,
    GRAMMAR_FOLDERS,
    GRAMMAR_SETTINGS, /* KEY=VALUE */
    GRAMMAR_VERBS,    /* words of a verb's name */
};

enum { GRAMMAR_WORDS_MAX = 32, GRAMMAR_WORD_BYTES = 64 };

struct grammar_words {
    size_t count;
    char items[GRAMMAR_WORDS_MAX][GRAMMAR_WORD_BYTES];
};

struct grammar_value {
    enum grammar_kind kind;
    struct grammar_words words;
};

/* Lists the verbs' first words (group NULL), or the words after group, in help order. */
void grammar_list_verbs(const char *group, struct grammar_words *ret_words);
/* Returns the verb "group word"; NULL if word is only the first word of several verbs. */
const struct verb *grammar_find_verb(const char *group, const char *word);
/* Appends one line to out: the verb's summary, or the second words of a group. */
void grammar_describe_verb(const char *group, const char *word, struct str *out);

void grammar_option_value(const struct option *option, struct grammar_value *ret_value);
/* Gets the values of the verb's n-th argument, from 0. False beyond the last. */
bool grammar_argument_value(const struct verb *verb, size_t n, struct grammar_value *ret_value);
void grammar_setting_value(const struct config_field *field, struct grammar_value *ret_value);

#endif
