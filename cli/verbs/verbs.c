/*
 * verbs — lists all verbs and finds one by name.
 */
#include "cli/verbs/verbs.h"

#include "base/str.h"
#include "cli/verbs/grammar.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct verb *const verbs[] = {&verb_convert_dataset, &verb_convert_checkpoint,
                                           &verb_index,           &verb_inspect,
                                           &verb_verify,          &verb_read,
                                           &verb_train,           &verb_eval,
                                           &verb_launch,          &verb_ckpt_list,
                                           &verb_ckpt_hash,       &verb_ckpt_diff,
                                           &verb_ckpt_prune,      &verb_ckpt_copy,
                                           &verb_ckpt_sweep,      &verb_bench_io,
                                           &verb_bench_loader,    &verb_bench_ckpt,
                                           &verb_bench_comm,      &verb_bench_train,
                                           &verb_doctor,          &verb_help,
                                           &verb_manual,          &verb_completion};
static_assert(sizeof verbs / sizeof verbs[0] <= GRAMMAR_WORDS_MAX, "verbs fit in grammar_words");

static const struct option common_rows[] = {
    {"json", 0, OPTION_FLAG, offsetof(struct common_args, json),
     .help = "print the result as JSON"},
    {"quiet", 'q', OPTION_FLAG, offsetof(struct common_args, quiet),
     .help = "print no progress, log or summary; errors still go to stderr"},
    {"verbose", 'v', OPTION_FLAG, offsetof(struct common_args, verbose),
     .help = "print a more detailed log"},
    {"help", 'h', OPTION_FLAG, offsetof(struct common_args, help), .help = "print this help"},
};

const struct verb *verb_at(size_t n)
{
    return n < sizeof verbs / sizeof verbs[0] ? verbs[n] : NULL;
}

struct option_table verb_options(const struct verb *verb)
{
    static const struct option_table common = {common_rows,
                                               sizeof common_rows / sizeof common_rows[0]};
    return (struct option_table){verb->options.rows, verb->options.count, &common};
}

bool verb_is_group(const char *word)
{
    size_t bytes = strlen(word);
    const struct verb *verb;
    for (size_t i = 0; (verb = verb_at(i)); i++)
        if (strncmp(verb->name, word, bytes) == 0 && verb->name[bytes] == ' ')
            return true;
    return false;
}

static int fail_unknown_verb(const char *group, const char *word, struct err *err)
{
    struct grammar_words list;
    const char *words[GRAMMAR_WORDS_MAX];
    grammar_list_verbs(group, &list);
    for (size_t i = 0; i < list.count; i++)
        words[i] = list.items[i];
    const char *separator = group ? " " : "", *prefix = group ? group : "";
    if (word)
        err_set(err, -EINVAL, "unknown verb `%s%s%.64s`", prefix, separator, word);
    else
        err_set(err, -EINVAL, "`%s` needs a second word", prefix);
    const char *nearest = word ? str_nearest(word, words, list.count) : NULL;
    if (nearest)
        err_advise(err, "did you mean `millrace %s%s%s`?", prefix, separator, nearest);
    else
        err_advise(err, "`millrace help%s%s` lists the verbs", separator, prefix);
    return -EINVAL;
}

int verb_find(int argc, char **argv, const struct verb **ret_verb, int *ret_words, struct err *err)
{
    bool is_group = verb_is_group(argv[0]);
    const char *group = is_group ? argv[0] : NULL, *word = argv[0];
    if (is_group)
        word = argc > 1 ? argv[1] : NULL;
    const struct verb *verb = word ? grammar_find_verb(group, word) : NULL;
    if (!verb)
        return fail_unknown_verb(group, word, err);
    *ret_verb = verb;
    *ret_words = is_group ? 2 : 1;
    return 0;
}
