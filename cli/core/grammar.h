/*
 * grammar — what may stand at a place of the command line, read off the tables: for completions in
 * any shell.
 *
 * The name that help shows for a value says what it is. Its alternatives are separated by |: a word
 * of two or more small letters or digits is typed as it stands ("auto|never|PATH" takes auto, never
 * or a path); VERB is a verb, KEY=VALUE a key of the configuration with its value, DIR and FOLDER a
 * folder, PATH, OUT, FILE, CHECKPOINT and DATASET=WEIGHT a file or folder. Another name of an
 * option's value is something that can't be completed; another name of an argument is a file or
 * folder.
 */
#ifndef MILLRACE_CLI_CORE_GRAMMAR_H
#define MILLRACE_CLI_CORE_GRAMMAR_H

#include "cli/core/verb.h"
#include "trainer/config/config.h"

enum grammar_kind {
    GRAMMAR_NOTHING,
    GRAMMAR_FILES,
    GRAMMAR_FOLDERS,
    GRAMMAR_SETTINGS, /* KEY=VALUE */
    GRAMMAR_VERBS,    /* the words of a verb's name */
};

enum { GRAMMAR_WORDS_MAX = 32, GRAMMAR_WORD_BYTES = 64 };

struct grammar_words {
    size_t count;
    char word[GRAMMAR_WORDS_MAX][GRAMMAR_WORD_BYTES];
};

/* Words that are typed as they stand, and what else it may be. */
struct grammar_value {
    enum grammar_kind kind;
    struct grammar_words words;
};

/* The words that may stand first (group NULL) or after group, each once, in help's order. */
void grammar_verbs(const char *group, struct grammar_words *ret_words);
/* The verb whose whole name is group and word, NULL where word is the first of several verbs. */
const struct verb *grammar_verb_named(const char *group, const char *word);
/* One line about it: the verb's summary, or the second words of a group. Appends to out. */
void grammar_describe_verb(const char *group, const char *word, struct str *out);

/* What the option takes; a flag takes nothing, and grammar_takes_value is false. */
bool grammar_takes_value(const struct option *option);
void grammar_option(const struct option *option, struct grammar_value *ret_value);
/* The verb's n-th argument, from 0. False where it takes no so many. */
bool grammar_argument(const struct verb *verb, size_t n, struct grammar_value *ret_value);
/* The name of that argument as help shows it, into name of GRAMMAR_WORD_BYTES. */
bool grammar_argument_name(const struct verb *verb, size_t n, char *ret_name);
/* The value of a key of the configuration. */
void grammar_setting(const struct config_field *field, struct grammar_value *ret_value);

#endif
