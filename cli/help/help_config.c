/*
 * help_config — `millrace help config`: prints every configuration key.
 */
#include "cli/help/help.h"

#include <stdio.h>

enum { KEY_COLUMNS = 26 }; /* longer keys shift their values to the right */

const char help_config_intro[] =
    "One YAML file configures a training run; `--set key=value` overrides it.\n"
    "Keys marked * affect the order of samples or the results: a run cannot resume with a "
    "different value. data.fields.image, data.fields.label and data.fields.tokens have the keys of "
    "data.image, data.label and data.text in the form of `read --field`.";

const char help_config_example[] =
    "  run:   {dir: runs/a, seed: 7, steps: 2000}\n"
    "  data:  {train: shards/train, val: shards/val, image: {size: 96}}\n"
    "  model: {type: vit, layers: 6, heads: 6, width: 192, patch: 12}\n"
    "  batch: {global: 256, micro: 32}";

const char *help_config_kind(const struct config_field *field, char text[HELP_KIND_BYTES])
{
    static const char *const kinds[] = {
        [CONFIG_TEXT] = "text",         [CONFIG_BOOL] = "true|false",
        [CONFIG_COUNT] = "number",      [CONFIG_COUNT_AUTO] = "number|auto",
        [CONFIG_SIZE] = "size",         [CONFIG_SIZE_AUTO] = "size|auto",
        [CONFIG_DURATION] = "duration", [CONFIG_INTERVAL] = "number|duration",
        [CONFIG_REAL] = "real",         [CONFIG_FRACTION] = "fraction",
        [CONFIG_PAIR] = "[real, real]", [CONFIG_MIX] = "path|[{path, weight}, ...]",
        [CONFIG_PATH] = "path",
    };
    if (field->kind == CONFIG_CHOICE)
        return option_format_choices(field->choices, text, HELP_KIND_BYTES);
    snprintf(text, HELP_KIND_BYTES, "%s", kinds[field->kind]);
    return text;
}

void help_print_config(void)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    help_print_wrapped(help_config_intro, 0, 0);
    putchar('\n');
    for (size_t i = 0; i < count; i++) {
        char text[HELP_KIND_BYTES];
        const struct config_field *field = &fields[i];
        const char *default_value =
            field->default_text && *field->default_text ? field->default_text : "-";
        char value_text[HELP_KIND_BYTES + 96];
        int used = printf("%c %-*s ", field->fixed_on_resume ? '*' : ' ', KEY_COLUMNS, field->key);
        snprintf(value_text, sizeof value_text, "%s (default %s)", help_config_kind(field, text),
                 default_value);
        help_print_wrapped(value_text, (unsigned)used, KEY_COLUMNS + 3);
        printf("      ");
        help_print_wrapped(field->help, 6, 6);
    }
    printf("\nas YAML:\n%s\n", help_config_example);
}
