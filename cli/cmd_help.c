/*
 * cmd_help — `millrace help [VERB | formats | config]`.
 */
#include "base/str.h"
#include "cli/help_formats.h"
#include "cli/verbs.h"
#include "trainer/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct help_args {
    struct common_args common;
};

static const char *kind_text(const struct config_field *field, char text[64])
{
    static const char *const kinds[] = {
        [CONFIG_TEXT] = "text",         [CONFIG_BOOL] = "true|false",
        [CONFIG_COUNT] = "number",      [CONFIG_COUNT_AUTO] = "number|auto",
        [CONFIG_SIZE] = "size",         [CONFIG_REAL] = "real",
        [CONFIG_FRACTION] = "fraction", [CONFIG_PAIR] = "[real, real]",
    };
    if (field->kind != CONFIG_CHOICE || !field->choices)
        return kinds[field->kind] ? kinds[field->kind] : "";
    size_t used = 0;
    text[0] = '\0';
    for (const char *const *choice = field->choices; *choice && used < 64; choice++)
        used += (size_t)snprintf(text + used, 64 - used, "%s%s", used ? "|" : "", *choice);
    return text;
}

static void print_config_help(void)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    printf("A training run is told what to do by one YAML file; `--set key=value` goes over it.\n"
           "Keys marked * decide the order of samples or the bits: a resume under another value is "
           "refused.\n\n");
    for (size_t i = 0; i < count; i++) {
        char text[64];
        const struct config_field *field = &fields[i];
        const char *def = field->default_text && *field->default_text ? field->default_text : "-";
        printf("%c %-26s %-24s default %s\n      %s\n", field->orders ? '*' : ' ', field->key,
               kind_text(field, text), def, field->help);
    }
    printf("\nas YAML:\n"
           "  run:   {dir: runs/a, seed: 7, steps: 2000}\n"
           "  data:  {train: shards/train, val: shards/val, image: {size: 96}}\n"
           "  model: {type: vit, layers: 6, heads: 6, width: 192, patch: 12}\n"
           "  batch: {global: 256, micro: 32}\n");
}

static int print_verb_help(const struct invocation *invocation, struct err *err)
{
    char *words[2];
    const struct verb *verb;
    int used;
    size_t count = invocation->positional_count;
    for (size_t i = 0; i < count; i++)
        words[i] = (char *)(uintptr_t)invocation->positional[i];
    if (count == 1 && verb_is_group(words[0])) {
        verb_print_overview(words[0]);
        return 0;
    }
    if (verb_find((int)count, words, &verb, &used, err) == 0 && (size_t)used == count) {
        verb_print_help(verb);
        return 0;
    }
    if (err->code == 0) {
        err_set(err, -EINVAL, "no help about `%s %s`", words[0], count > 1 ? words[1] : "");
        err_advise(err, "`millrace help` lists the verbs");
    }
    return EXIT_USAGE;
}

static int run(const struct invocation *invocation, struct err *err)
{
    if (invocation->positional_count == 0)
        verb_print_overview(NULL);
    else if (strcmp(invocation->positional[0], "formats") == 0)
        help_print_formats();
    else if (strcmp(invocation->positional[0], "config") == 0)
        print_config_help();
    else
        return print_verb_help(invocation, err);
    return 0;
}

static const char *const examples[] = {
    "millrace help", "millrace help convert dataset", "millrace help config", "millrace help formats", NULL,
};

const struct verb verb_help = {
    .name = "help",
    .arguments = "[VERB | formats | config]",
    .arguments_most = 2,
    .summary = "Tell about a verb, the files that are read and written, or the keys of a configuration.",
    .examples = examples,
    .args_bytes = sizeof(struct help_args),
    .run = run,
};
