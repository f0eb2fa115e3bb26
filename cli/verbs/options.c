#include "cli/verbs/options.h"

#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 64 };

const struct option *options_at(const struct option_table *table, size_t n)
{
    for (; table; n -= table->count, table = table->next)
        if (n < table->count)
            return &table->rows[n];
    return NULL;
}

static const struct option *find_long(const struct option_table *table, const char *name,
                                      size_t bytes)
{
    const struct option *option;
    for (size_t i = 0; (option = options_at(table, i)); i++)
        if (strlen(option->name) == bytes && memcmp(option->name, name, bytes) == 0)
            break;
    return option;
}

static const struct option *find_short(const struct option_table *table, char letter)
{
    const struct option *option;
    for (size_t i = 0; (option = options_at(table, i)); i++)
        if (option->letter == letter)
            break;
    return option;
}

static int fail_unknown_option(const struct option_table *table, const char *word, struct err *err)
{
    const char *names[OPTIONS_MAX];
    const struct option *option;
    size_t count = 0;
    for (; count < OPTIONS_MAX && (option = options_at(table, count)); count++)
        names[count] = option->name;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    err_set(err, -EINVAL, "unknown option %s", name);
    const char *nearest = word[1] == '-' ? str_nearest(name + 2, names, count) : NULL;
    if (nearest)
        err_advise(err, "did you mean --%s?", nearest);
    else
        err_advise(err, "--help lists the options");
    return -EINVAL;
}

const char *option_format_choices(const char *const *choices, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (; *choices && used < bytes; choices++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? "|" : "", *choices);
    return text;
}

const char *option_format_value(const struct option *option, char *text, size_t bytes)
{
    if (option->kind == OPTION_CHOICE)
        return option_format_choices(option->choices, text, bytes);
    snprintf(text, bytes, "%s", option->value_name ? option->value_name : "");
    return text;
}

const char *option_before_value(const struct option *option)
{
    return option->bare_value ? "[=" : option->kind == OPTION_FLAG ? "" : " ";
}

const char *option_after_value(const struct option *option)
{
    return option->bare_value ? "]" : "";
}

bool option_takes_word(const struct option *option)
{
    return option->kind != OPTION_FLAG && !option->bare_value;
}

static int fail_invalid_value(const struct option *option, const char *value, struct err *err,
                              const char *expected)
{
    err_set(err, -EINVAL, "--%s has an invalid value", option->name);
    err_expected(err, "%s", expected);
    err_found(err, "\"%s\"", value);
    return -EINVAL;
}

static int set_count(const struct option *option, const char *value, uint64_t *ret_count,
                     struct err *err)
{
    char expected[80], *end;
    if (option->max)
        snprintf(expected, sizeof expected, "a whole number from %" PRIu64 " to %" PRIu64,
                 option->min, option->max);
    else
        snprintf(expected, sizeof expected, "a whole number of at least %" PRIu64, option->min);
    if (value[0] < '0' || value[0] > '9')
        return fail_invalid_value(option, value, err, expected);
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (errno || *end || number < option->min || (option->max && number > option->max))
        return fail_invalid_value(option, value, err, expected);
    *ret_count = number;
    return 0;
}

static int set_choice(const struct option *option, const char *value, uint32_t *ret_index,
                      struct err *err)
{
    size_t count = 0;
    for (; option->choices[count]; count++)
        if (strcmp(option->choices[count], value) == 0) {
            *ret_index = (uint32_t)count;
            return 0;
        }
    char expected[ERR_TEXT_BYTES_MAX];
    fail_invalid_value(option, value, err, option_format_value(option, expected, sizeof expected));
    const char *nearest = str_nearest(value, option->choices, count);
    if (nearest)
        err_advise(err, "did you mean %s?", nearest);
    return -EINVAL;
}

static int list_add(struct option_list *list, const char *text, size_t bytes)
{
    char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return -ENOMEM;
    list->items = items;
    items[list->count] = strndup(text, bytes);
    if (!items[list->count])
        return -ENOMEM;
    list->count++;
    return 0;
}

static void list_deinit(struct option_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct option_list){0};
}

static int list_set(struct option_list *list, const char *value)
{
    list_deinit(list);
    for (const char *at = value;;) {
        size_t bytes = strcspn(at, ",");
        int status = list_add(list, at, bytes);
        if (status || !at[bytes])
            return status;
        at += bytes + 1;
    }
}

static int set_value(const struct option *option, const char *value, void *args, struct err *err)
{
    void *at = (char *)args + option->offset;
    int status = 0;
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)at = true;
        break;
    case OPTION_TEXT:
        *(const char **)at = value;
        break;
    case OPTION_COUNT:
        return set_count(option, value, at, err);
    case OPTION_CHOICE:
        return set_choice(option, value, at, err);
    case OPTION_SIZE:
        if (str_parse_size(value, at))
            return fail_invalid_value(option, value, err, "a size such as 64KiB, 256MiB or 3GB");
        break;
    case OPTION_DURATION:
        if (str_parse_duration(value, at))
            return fail_invalid_value(option, value, err, "a duration such as 90s, 10min or 2h");
        break;
    case OPTION_LIST:
        status = list_set(at, value);
        break;
    case OPTION_REPEAT:
        status = list_add(at, value, strlen(value));
        break;
    }
    return status ? err_set(err, status, "out of memory for the command line") : 0;
}

/* Advances *index if the value is the next word. */
static int parse_option(const struct option_table *table, int argc, char **argv, int *index,
                        const struct option **ret_option, const char **ret_value, struct err *err)
{
    const char *word = argv[*index], *value = NULL;
    const struct option *option;
    if (word[1] == '-') {
        size_t bytes = strcspn(word + 2, "=");
        option = find_long(table, word + 2, bytes);
        value = word[2 + bytes] == '=' ? word + 2 + bytes + 1 : NULL;
    } else {
        option = find_short(table, word[1]);
        value = word[2] ? word + 2 : NULL;
        if (option && option->kind == OPTION_FLAG && value)
            option = NULL; /* letters cannot be combined */
    }
    if (!option)
        return fail_unknown_option(table, word, err);
    if (option->kind == OPTION_FLAG && value)
        return fail_invalid_value(option, value, err, "no value");
    if (option->bare_value && !value)
        value = option->bare_value;
    if (option->kind != OPTION_FLAG && !value) {
        if (*index + 1 >= argc) {
            char expected[ERR_TEXT_BYTES_MAX];
            err_set(err, -EINVAL, "--%s has no value", option->name);
            err_expected(err, "%s", option_format_value(option, expected, sizeof expected));
            return -EINVAL;
        }
        value = argv[++*index];
    }
    *ret_option = option;
    *ret_value = value;
    return 0;
}

static int set_defaults(const struct option_table *table, void *args, struct err *err)
{
    const struct option *option;
    int status = 0;
    for (size_t i = 0; !status && (option = options_at(table, i)); i++)
        if (option->default_text)
            status = set_value(option, option->default_text, args, err);
    return status;
}

int options_parse(const struct option_table *table, int argc, char **argv, void *args,
                  struct option_list *ret_positional, struct err *err)
{
    *ret_positional = (struct option_list){0};
    int status = set_defaults(table, args, err);
    bool options_ended = false;
    for (int i = 0; i < argc && !status; i++) {
        const char *word = argv[i];
        const struct option *option;
        const char *value;
        if (options_ended || word[0] != '-' || word[1] == '\0') {
            status = list_add(ret_positional, word, strlen(word));
            if (status)
                err_set(err, status, "out of memory for the command line");
        } else if (strcmp(word, "--") == 0) {
            options_ended = true;
        } else {
            status = parse_option(table, argc, argv, &i, &option, &value, err);
            if (!status)
                status = set_value(option, value, args, err);
        }
    }
    return status;
}

static bool is_option_given(const struct option_table *table, int argc, char **argv,
                            const struct option *target)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const struct option *option;
        const char *value;
        if (argv[i][0] != '-' || argv[i][1] == '\0')
            continue;
        if (parse_option(table, argc, argv, &i, &option, &value, NULL) == 0 && option == target)
            return true;
    }
    return false;
}

int options_check_required(const struct option_table *table, int argc, char **argv, struct err *err)
{
    const struct option *option;
    for (size_t i = 0; (option = options_at(table, i)); i++) {
        if (!option->required || is_option_given(table, argc, argv, option))
            continue;
        char expected[ERR_TEXT_BYTES_MAX];
        err_set(err, -EINVAL, "--%s is missing", option->name);
        err_expected(err, "--%s %s", option->name,
                     option_format_value(option, expected, sizeof expected / 2));
        return -EINVAL;
    }
    return 0;
}

void options_deinit(const struct option_table *table, void *args, struct option_list *positional)
{
    const struct option *option;
    for (size_t i = 0; args && (option = options_at(table, i)); i++)
        if (option->kind == OPTION_LIST || option->kind == OPTION_REPEAT)
            list_deinit((struct option_list *)(void *)((char *)args + option->offset));
    list_deinit(positional);
}
