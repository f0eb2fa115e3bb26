/*
 * cmd_completion — `millrace completion bash|zsh|fish`.
 */
#include "cli/verbs/verbs.h"
#include "embedded.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int run(const struct invocation *invocation, struct err *err)
{
    static const struct {
        const char *name, *script;
    } shells[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
        if (strcmp(invocation->positional[0], shells[i].name) == 0) {
            fputs(shells[i].script, stdout);
            return 0;
        }
    err_set(err, -EINVAL, "the shell is not supported");
    err_expected(err, "bash, zsh or fish");
    err_found(err, "\"%.64s\"", invocation->positional[0]);
    return EXIT_USAGE;
}

static const char *const examples[] = {
    "millrace completion bash",
    "millrace completion zsh",
    "millrace completion fish",
    NULL,
};

const struct verb verb_completion = {
    .name = "completion",
    .arguments = {"bash|zsh|fish", 1, 1},
    .summary = "Print a shell completion script.",
    .details =
        "The scripts are installed with millrace; print one to use millrace without "
        "installing it. In bash, put `source <(millrace completion bash)` in ~/.bashrc; in "
        "zsh, put the same line with zsh in ~/.zshrc, after compinit; in fish, run `millrace "
        "completion fish | source`. The scripts complete verbs, options, option values and "
        "the keys of --set. They run millrace to find candidates.",
    .examples = examples,
    .args_bytes = sizeof(struct common_args),
    .run = run,
};
