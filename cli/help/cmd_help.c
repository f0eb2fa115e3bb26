/*
 * cmd_help — `millrace help [VERB | formats | config]`.
 */
#include "cli/help/help.h"
#include "cli/verbs/verbs.h"

#include <errno.h>
#include <string.h>

static int print_verb_help(const struct invocation *invocation, struct err *err)
{
    char **words = (char **)(uintptr_t)invocation->positional;
    const struct verb *verb;
    int used;
    size_t count = invocation->positional_count;
    if (count == 1 && verb_is_group(words[0])) {
        help_print_overview(words[0]);
        return 0;
    }
    if (verb_find((int)count, words, &verb, &used, err) == 0) {
        if ((size_t)used == count) {
            help_print_verb(verb);
            return 0;
        }
        err_set(err, -EINVAL, "there is no help for `%s %s`", words[0], words[1]);
        err_advise(err, "`millrace help` lists the verbs");
    }
    return EXIT_USAGE;
}

static int run(const struct invocation *invocation, struct err *err)
{
    if (invocation->positional_count == 0)
        help_print_overview(NULL);
    else if (strcmp(invocation->positional[0], "formats") == 0)
        help_print_formats();
    else if (strcmp(invocation->positional[0], "config") == 0)
        help_print_config();
    else
        return print_verb_help(invocation, err);
    return 0;
}

static const char *const examples[] = {
    "millrace help",
    "millrace help convert dataset",
    "millrace help config",
    "millrace help formats",
    NULL,
};

const struct verb verb_help = {
    .name = "help",
    .arguments = {"[VERB | formats | config]", 0, 2},
    .summary = "Show help for a verb, the file formats, or the configuration keys.",
    .examples = examples,
    .args_bytes = sizeof(struct common_args),
    .run = run,
};
