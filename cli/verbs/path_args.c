#include "cli/verbs/path_args.h"

#include "cli/verbs/grammar.h"
#include "io/io.h"

#include <string.h>

static int check_path(const struct grammar_value *grammar, const char *text, struct err *err)
{
    if (grammar->kind != GRAMMAR_FILES && grammar->kind != GRAMMAR_FOLDERS)
        return 0;
    for (size_t i = 0; i < grammar->words.count; i++)
        if (strcmp(grammar->words.items[i], text) == 0)
            return 0;
    return io_check_path(text, err);
}

static int check_option(const struct option *option, const void *args, struct err *err)
{
    const void *at = (const char *)args + option->offset;
    struct grammar_value grammar;
    grammar_option_value(option, &grammar);
    if (option->kind == OPTION_TEXT) {
        const char *text = *(const char *const *)at;
        return text ? check_path(&grammar, text, err) : 0;
    }
    if (option->kind != OPTION_LIST && option->kind != OPTION_REPEAT)
        return 0;
    const struct option_list *list = at;
    int status = 0;
    for (size_t i = 0; i < list->count && !status; i++)
        status = check_path(&grammar, list->items[i], err);
    return status;
}

int path_args_check(const struct verb *verb, const void *args, const struct option_list *positional,
                    struct err *err)
{
    struct option_table options = verb_options(verb);
    const struct option *option;
    struct grammar_value grammar;
    int status = 0;
    for (size_t i = 0; i < positional->count && !status; i++)
        if (grammar_argument_value(verb, i, &grammar))
            status = check_path(&grammar, positional->items[i], err);
    for (size_t i = 0; !status && (option = options_at(&options, i)); i++)
        status = check_option(option, args, err);
    return status;
}
