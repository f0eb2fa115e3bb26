/*
 * main — finds the verb, parses its options, runs it, and turns errors into one line and an exit
 * status.
 */
#include "cli/core/output.h"
#include "cli/help/completion.h"
#include "cli/help/help.h"
#include "cli/verbs/path_args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { FILES_OPEN_MAX = 1 << 16 };

/* A batch may need one open file per sample, more than the default limit. */
static void raise_open_files_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= FILES_OPEN_MAX)
        return;
    limit.rlim_cur = limit.rlim_max < FILES_OPEN_MAX ? limit.rlim_max : FILES_OPEN_MAX;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* best effort */
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

static int fail_usage(struct console *console, const struct err *err)
{
    console_error(console, err);
    return EXIT_USAGE;
}

static int check_positional(const struct verb *verb, const struct option_list *positional,
                            struct err *err)
{
    if (positional->count >= verb->arguments.min && positional->count <= verb->arguments.max)
        return 0;
    bool too_few = positional->count < verb->arguments.min;
    err_set(err, -EINVAL, "`millrace %s` got too %s arguments", verb->name,
            too_few ? "few" : "many");
    err_expected(err, "%s", *verb->arguments.names ? verb->arguments.names : "none");
    err_found(err, "%zu", positional->count);
    err_advise(err, "see the examples in `millrace %s --help`", verb->name);
    return -EINVAL;
}

/* Error messages of lower layers cannot name --force: they do not know the verb's options. */
static void advise_force(const struct verb *verb, struct err *err)
{
    for (size_t i = 0; i < verb->options.count; i++)
        if (strcmp(verb->options.rows[i].name, "force") == 0 && err->code == -EEXIST &&
            strstr(err->advice, "ask for it to be replaced"))
            err_advise(err, "remove it, choose another name, or replace it with --force");
}

static int run_verb(const struct verb *verb, void *args, const struct option_list *positional,
                    const char *const *words, struct console *console)
{
    const struct common_args *common = args;
    struct err err = {0};
    console_set_verbosity(console, common->quiet, common->verbose);
    struct invocation invocation = {
        .args = args,
        .common = common,
        .positional = (const char *const *)positional->items,
        .positional_count = positional->count,
        .words = words,
        .console = console,
        .log = &console->log,
    };
    int status = verb->run(&invocation, &err);
    if (status < 0 && err.code == 0)
        err_errno(&err, status, "`millrace %s` failed", verb->name);
    advise_force(verb, &err);
    if (status < 0 || (status != EXIT_DONE && err.code))
        console_error(console, &err);
    return status == -EINVAL ? EXIT_USAGE : status < 0 ? EXIT_FAILED : status;
}

/* argv: the program's name, then the verb's name of verb_words words, then its arguments. */
static int parse_and_run(const struct verb *verb, int verb_words, int argc, char **argv,
                         struct console *console)
{
    const char *const *words = (const char *const *)argv + 1;
    struct err err = {0};
    struct option_list positional = {0};
    struct option_table options = verb_options(verb);
    void *args = calloc(1, verb->args_bytes);
    if (!args) {
        err_set(&err, -ENOMEM, "out of memory for the command line");
        console_error(console, &err);
        return EXIT_FAILED;
    }
    argc -= 1 + verb_words;
    argv += 1 + verb_words;
    int status = options_parse(&options, argc, argv, args, &positional, &err);
    const struct common_args *common = args;
    if (!status && common->help) {
        help_print_verb(verb);
        goto out;
    }
    if (!status)
        status = check_positional(verb, &positional, &err);
    if (!status)
        status = options_check_required(&options, argc, argv, &err);
    if (!status)
        status = path_args_check(verb, args, &positional, &err);
    status = status ? fail_usage(console, &err) : run_verb(verb, args, &positional, words, console);
out:
    options_deinit(&options, args, &positional);
    free(args);
    return status;
}

int main(int argc, char **argv)
{
    struct console console;
    struct err err = {0};
    const struct verb *verb;
    int words, status = EXIT_DONE;
    console_init(&console);
    raise_open_files_limit();
    if (argc < 2) {
        err_set(&err, -EINVAL, "the verb is missing");
        err_advise(&err, "`millrace help` lists them");
        status = fail_usage(&console, &err);
    } else if (is_one_of(argv[1], "--help", "-h")) {
        help_print_overview(NULL);
    } else if (is_one_of(argv[1], "--version", "-V")) {
        printf("millrace %s\n", MILLRACE_VERSION);
    } else if (argc > 2 && strcmp(argv[1], "__complete") == 0) {
        completion_print(argc - 2, argv + 2);
    } else if (argc == 3 && verb_is_group(argv[1]) && is_one_of(argv[2], "--help", "-h")) {
        help_print_overview(argv[1]);
    } else if (verb_find(argc - 1, argv + 1, &verb, &words, &err)) {
        status = fail_usage(&console, &err);
    } else {
        status = parse_and_run(verb, words, argc, argv, &console);
    }
    if (output_flush(&err) && status == EXIT_DONE) {
        console_error(&console, &err);
        status = EXIT_FAILED;
    }
    console_deinit(&console);
    return status;
}
