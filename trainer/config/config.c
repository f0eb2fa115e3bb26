/*
 * config — see config.h.
 */
#include "trainer/config/config.h"

#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"
#include "base/yaml/yaml.h"
#include "trainer/config/data_fields.h"
#include "trainer/config/foreign_keys.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config_reader {
    struct train_config *config;
    int *lines; /* by field, for config_check; NULL: not needed */
    bool from_set;
    const char *name;
    struct err *err;
};

static void set_leaf_error(const struct config_reader *reader, const struct yaml_leaf *leaf,
                           const char *what)
{
    if (reader->from_set)
        err_set(reader->err, -EINVAL, "%s %s", what, leaf->path);
    else
        err_set(reader->err, -EINVAL, "%s %s at line %d", what, leaf->path, leaf->line);
    err_at(reader->err, reader->name, ERR_NO_OFFSET);
}

static int unknown_key(const struct config_reader *reader, const struct yaml_leaf *leaf)
{
    static const char *const entry_keys[] = {"path", "weight"};
    size_t count;
    const struct config_field *fields = config_fields(&count);
    const char *keys[256], *entry = strstr(leaf->path, "].");
    for (size_t i = 0; i < count && i < 256; i++)
        keys[i] = fields[i].key;
    const char *nearest =
        entry ? str_nearest(entry + 2, entry_keys, 2) : str_nearest(leaf->path, keys, count);
    char foreign[ERR_TEXT_BYTES_MAX];
    set_leaf_error(reader, leaf, "unknown key");
    if (foreign_key_advice(leaf->path, foreign, sizeof foreign))
        err_advise(reader->err, "%s", foreign);
    else if (nearest)
        err_advise(reader->err, "did you mean %s?", nearest);
    else
        err_advise(reader->err, "`millrace help config` lists all keys");
    return -EINVAL;
}

static const void *field_value(const struct train_config *config, const struct config_field *field)
{
    return (const char *)config + field->offset;
}

/* Returns "", "[0].path" and so on; NULL if the path does not match. */
static const char *path_after_key(const struct config_field *field, const char *path)
{
    size_t bytes = strlen(field->key);
    bool belongs = strncmp(path, field->key, bytes) == 0 &&
                   (path[bytes] == '\0' || (path[bytes] == '[' && field->kind == CONFIG_MIX));
    return belongs ? path + bytes : NULL;
}

static int wrong_value(const struct config_reader *reader, const struct yaml_leaf *leaf,
                       const char *expected)
{
    set_leaf_error(reader, leaf, "wrong value of");
    err_expected(reader->err, "%s", expected);
    err_found(reader->err, "%.200s%s", leaf->values_count ? leaf->values[0] : "nothing",
              leaf->values_count > 1 ? ", ..." : "");
    return -EINVAL;
}

/* Sets *line to the leaf's. A key of data.fields may set the same value as another key. */
static int record_line(const struct config_reader *reader, const struct yaml_leaf *leaf, int *line)
{
    if (!reader->from_set && *line > 0) {
        set_leaf_error(reader, leaf, "repeated key");
        err_advise(reader->err, "the value is already set at line %d; remove one of them", *line);
        return -EINVAL;
    }
    *line = reader->from_set ? CONFIG_LINE_SET : leaf->line;
    return 0;
}

static int read_leaf(void *context, const struct yaml_leaf *leaf)
{
    struct config_reader *reader = context;
    size_t count;
    const struct config_field *fields = config_fields(&count);
    for (size_t i = 0; i < count; i++) {
        const struct config_field *field = &fields[i];
        const char *rest = path_after_key(field, leaf->path);
        if (!rest)
            continue;
        void *target = (char *)reader->config + field->offset;
        int status = -EINVAL;
        if (field->kind == CONFIG_MIX)
            status = config_mix_read(target, rest, leaf);
        else if (leaf->is_sequence == (field->kind == CONFIG_PAIR))
            status = config_value_read(field, leaf->values, leaf->values_count, target);
        if (status == -ENOENT)
            break;
        if (!status) /* an entry of a list keeps the list's line */
            return reader->lines && (!rest[0] || reader->from_set)
                       ? record_line(reader, leaf, &reader->lines[i])
                       : 0;
        char expected[ERR_TEXT_BYTES_MAX];
        if (strstr(rest, "].weight"))
            snprintf(expected, sizeof expected, "a number above 0, such as 3 or 0.25");
        else if (rest[0])
            snprintf(expected, sizeof expected, "a path of less than %d bytes", IO_PATH_BYTES_MAX);
        else
            config_value_describe(field, expected, sizeof expected);
        return wrong_value(reader, leaf, expected);
    }
    return unknown_key(reader, leaf);
}

/* Like read_leaf, and for data.fields. */
static int read_leaf_or_field(void *context, const struct yaml_leaf *leaf)
{
    struct config_reader *reader = context;
    struct data_field_leaf translated;
    switch (data_fields_find(leaf->path)) {
    case DATA_FIELDS_ELSEWHERE:
        return read_leaf(context, leaf);
    case DATA_FIELDS_UNKNOWN:
        set_leaf_error(reader, leaf, "no field that a model is trained on:");
        err_expected(reader->err, "data.fields.image and data.fields.label for model.type: vit, or "
                                  "data.fields.tokens for language models");
        err_advise(reader->err,
                   "`millrace inspect DATASET --field auto` shows the fields of a dataset");
        return -EINVAL;
    case DATA_FIELDS_KNOWN:
        break;
    }
    const char *expected = data_fields_translate(leaf, &translated);
    if (expected)
        return wrong_value(reader, leaf, expected);
    return translated.path[0] ? read_leaf(context, &translated.leaf) : 0;
}

void config_set_defaults(struct train_config *config)
{
    static_assert((int)YAML_VALUE_BYTES_MAX >= (int)IO_PATH_BYTES_MAX, "a value holds any path");
    memset(config, 0, sizeof *config);
    struct config_reader reader = {.config = config, .name = "defaults"};
    size_t count;
    const struct config_field *fields = config_fields(&count);
    for (size_t i = 0; i < count; i++) {
        char text[2 * YAML_VALUE_BYTES_MAX];
        int length = snprintf(text, sizeof text, "%s: %s", fields[i].key, fields[i].default_text);
        yaml_walk(text, (size_t)length, reader.name, read_leaf, &reader, NULL);
    }
}

static int apply_set_option(struct train_config *config, int *lines, const char *set,
                            struct err *err)
{
    const char *equals = strchr(set, '=');
    if (!equals || equals == set) {
        err_set(err, -EINVAL, "--set needs key=value");
        err_found(err, "%.200s", set);
        return -EINVAL;
    }
    struct config_reader reader = {
        .config = config, .lines = lines, .from_set = true, .name = "--set", .err = err};
    char key[YAML_PATH_BYTES_MAX];
    const char *value = equals + 1;
    snprintf(key, sizeof key, "%.*s", (int)(equals - set), set);
    if (value[0] != '[') { /* a path may contain YAML syntax */
        struct yaml_leaf leaf = {.path = key, .line = 1, .values = &value, .values_count = 1};
        return read_leaf_or_field(&reader, &leaf);
    }
    struct str text = {0};
    str_add_format(&text, "%s: %s", key, value);
    int status = str_status(&text);
    if (!status)
        status = yaml_walk(text.data, text.bytes, reader.name, read_leaf_or_field, &reader, err);
    str_deinit(&text);
    return status;
}

int config_parse(const char *text, size_t bytes, const char *name, const char *const *sets,
                 size_t sets_count, struct train_config *ret_config, struct err *err)
{
    size_t count;
    (void)config_fields(&count);
    struct train_config *config = malloc(sizeof *config);
    int *lines = calloc(count, sizeof *lines);
    int status = config && lines ? 0 : err_set(err, -ENOMEM, "out of memory for a configuration");
    if (status)
        goto out;
    config_set_defaults(config);
    struct config_reader reader = {.config = config, .lines = lines, .name = name, .err = err};
    status = yaml_walk(text, bytes, name, read_leaf_or_field, &reader, err);
    for (size_t i = 0; i < sets_count && !status; i++)
        status = apply_set_option(config, lines, sets[i], err);
    if (!status)
        config_clear_derived_batch(config, lines);
    if (!status)
        status = config_check(config, lines, name, err);
    if (!status)
        *ret_config = *config;
out:
    free(lines);
    free(config);
    return status;
}

void config_print(const struct train_config *config, struct str *out)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    const char *open_key = ""; /* key whose mapping is open, up to its last dot */
    size_t open_prefix_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const char *key = fields[i].key, *last_dot = strrchr(key, '.');
        size_t prefix_bytes = last_dot ? (size_t)(last_dot + 1 - key) : 0;
        int depth = 0;
        for (const char *part = key; part < key + prefix_bytes; depth++) {
            const char *dot = strchr(part, '.');
            size_t end = (size_t)(dot + 1 - key);
            if (end > open_prefix_bytes || strncmp(open_key, key, end) != 0)
                str_add_format(out, "%*s%.*s:\n", 2 * depth, "", (int)(dot - part), part);
            part = dot + 1;
        }
        open_key = key;
        open_prefix_bytes = prefix_bytes;
        str_add_format(out, "%*s%s: ", 2 * depth, "", key + prefix_bytes);
        config_value_print(&fields[i], field_value(config, &fields[i]), out);
        str_add_text(out, "\n");
    }
}

int config_each_field(const struct train_config *config,
                      void (*visit)(void *context, const struct config_field *field,
                                    const char *value),
                      void *context)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    struct str value = {0};
    for (size_t i = 0; i < count && !str_status(&value); i++) {
        str_clear(&value);
        config_value_print(&fields[i], field_value(config, &fields[i]), &value);
        if (!str_status(&value))
            visit(context, &fields[i], str_text(&value));
    }
    int status = str_status(&value);
    str_deinit(&value);
    return status;
}

static void write_field(void *context, const struct config_field *field, const char *value)
{
    bool is_word = field->kind == CONFIG_CHOICE || field->kind == CONFIG_DURATION ||
                   strcmp(value, "auto") == 0 ||
                   (field->kind == CONFIG_INTERVAL && strchr(value, 'm'));
    if (is_word)
        jsonx_write_string(context, field->key, value);
    else
        jsonx_write_raw(context, field->key, value, strlen(value));
}

void config_print_json(const struct train_config *config, struct str *out)
{
    struct jsonx_writer writer = {.out = out};
    jsonx_begin_object(&writer, NULL);
    if (config_each_field(config, write_field, &writer))
        out->status = -ENOMEM;
    jsonx_end_object(&writer);
}

static void format_saved_value(const struct json_t *node, struct str *out)
{
    struct jsonx_writer writer = {.out = out};
    uint64_t count;
    double real;
    bool boolean;
    const char *text;
    if (jsonx_u64(node, &count) == 0)
        str_add_format(out, "%llu", (unsigned long long)count);
    else if (jsonx_f64(node, &real) == 0)
        jsonx_write_f64(&writer, NULL, real);
    else if (jsonx_bool(node, &boolean) == 0)
        str_add_text(out, boolean ? "true" : "false");
    else if (jsonx_text(node, &text) == 0)
        str_add_text(out, text);
    else if (jsonx_kind(jsonx_at(node, 0)) == JSON_KIND_OBJECT)
        config_mix_print_saved(node, out);
    else if (jsonx_kind(node) == JSON_KIND_ARRAY && jsonx_count(node) == 2) {
        jsonx_begin_array(&writer, NULL);
        for (size_t i = 0; i < 2; i++)
            jsonx_write_f64(&writer, NULL, jsonx_f64(jsonx_at(node, i), &real) == 0 ? real : NAN);
        jsonx_end_array(&writer);
    }
}

static int restore_value(void *context, const char *key, struct json_t *node)
{
    struct config_reader *reader = context;
    struct str text = {0}, line = {0};
    format_saved_value(node, &text);
    const char *value = str_text(&text);
    const struct yaml_leaf leaf = {.path = key, .values = &value, .values_count = 1};
    str_add_format(&line, "%s: %s", key, value);
    str_merge_status(&line, &text);
    int status = str_status(&line);
    if (!status && jsonx_kind(node) == JSON_KIND_ARRAY)
        status = yaml_walk(line.data, line.bytes, reader->name, read_leaf, reader, reader->err);
    else if (!status)
        status = read_leaf(reader, &leaf);
    str_deinit(&line);
    str_deinit(&text);
    return status == -ENOMEM ? err_set(reader->err, -ENOMEM, "out of memory for a configuration")
                             : status;
}

int config_restore(const struct json_t *saved, const char *name, struct train_config *ret_config,
                   struct err *err)
{
    struct config_reader reader = {
        .config = ret_config, .from_set = true, .name = name, .err = err};
    config_set_defaults(ret_config);
    return jsonx_each((struct json_t *)saved, restore_value, &reader);
}

/* Like config_value_print, but without quotes, as in format_saved_value. */
static void add_plain_value(struct str *out, const struct config_field *field, const void *source)
{
    const struct config_mix *mix = source;
    if (field->kind == CONFIG_TEXT || field->kind == CONFIG_PATH)
        str_add_text(out, source);
    else if (field->kind == CONFIG_MIX && mix->count == 1)
        str_add_text(out, mix->sources[0].path);
    else
        config_value_print(field, source, out);
}

int config_compare(const struct train_config *config, const struct json_t *saved,
                   void (*report)(void *context, const struct config_field *field,
                                  const char *saved_text, const char *current_text),
                   void *context, struct err *err)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    struct str before = {0}, now = {0};
    struct train_config *defaults = malloc(sizeof *defaults);
    if (!defaults)
        return err_set(err, -ENOMEM, "out of memory for a configuration");
    config_set_defaults(defaults);
    for (size_t i = 0; i < count; i++) {
        const struct json_t *node = jsonx_get(saved, fields[i].key);
        str_clear(&before);
        str_clear(&now);
        if (node)
            format_saved_value(node, &before);
        else /* saved before the key existed: the default applied */
            add_plain_value(&before, &fields[i], field_value(defaults, &fields[i]));
        add_plain_value(&now, &fields[i], field_value(config, &fields[i]));
        if (strcmp(str_text(&before), str_text(&now)) != 0)
            report(context, &fields[i], str_text(&before), str_text(&now));
    }
    int status = str_status(&before) || str_status(&now) ? -ENOMEM : 0;
    str_deinit(&now);
    str_deinit(&before);
    free(defaults);
    return status ? err_set(err, status, "out of memory for comparing configurations") : 0;
}
