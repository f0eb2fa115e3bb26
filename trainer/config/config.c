/*
 * config — see config.h.
 */
#include "trainer/config/config.h"

#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"
#include "trainer/config/config_foreign.h"
#include "trainer/config/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct train_config *config;
    int *lines; /* by field, for config_check; NULL: not needed */
    bool by_set;
    const char *name;
    struct err *err;
};

static void complain(const struct reading *reading, const struct yaml_leaf *leaf, const char *what)
{
    if (reading->by_set)
        err_set(reading->err, -EINVAL, "%s %s", what, leaf->path);
    else
        err_set(reading->err, -EINVAL, "%s %s at line %d", what, leaf->path, leaf->line);
    err_at(reading->err, reading->name, ERR_NO_OFFSET);
}

static int unknown_key(const struct reading *reading, const struct yaml_leaf *leaf)
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
    complain(reading, leaf, "unknown key");
    if (config_foreign_advice(leaf->path, foreign, sizeof foreign))
        err_advise(reading->err, "%s", foreign);
    else if (nearest)
        err_advise(reading->err, "did you mean %s?", nearest);
    else
        err_advise(reading->err, "`millrace help config` lists all keys");
    return -EINVAL;
}

/* Returns the rest of the leaf's path after the field's key: "", "[0].path"; NULL if the path does
 * not match. */
static const char *rest_of_path(const struct config_field *field, const char *path)
{
    size_t bytes = strlen(field->key);
    bool belongs = strncmp(path, field->key, bytes) == 0 &&
                   (path[bytes] == '\0' || (path[bytes] == '[' && field->kind == CONFIG_MIX));
    return belongs ? path + bytes : NULL;
}

static int read_leaf(void *context, const struct yaml_leaf *leaf)
{
    struct reading *reading = context;
    size_t count;
    const struct config_field *fields = config_fields(&count);
    for (size_t i = 0; i < count; i++) {
        const struct config_field *field = &fields[i];
        const char *rest = rest_of_path(field, leaf->path);
        if (!rest)
            continue;
        void *target = (char *)reading->config + field->offset;
        int status = -EINVAL;
        if (field->kind == CONFIG_MIX)
            status = config_mix_read(target, rest, leaf);
        else if (leaf->is_sequence == (field->kind == CONFIG_PAIR))
            status = config_value_read(field, leaf->values, leaf->values_count, target);
        if (status == -ENOENT)
            break;
        if (!status) {
            /* an entry of a list keeps the list's line */
            if (reading->lines && (!rest[0] || reading->by_set))
                reading->lines[i] = reading->by_set ? CONFIG_BY_SET : leaf->line;
            return 0;
        }
        char wanted[ERR_TEXT_BYTES_MAX];
        if (rest[0])
            snprintf(wanted, sizeof wanted,
                     strstr(rest, "].weight") ? "a number above 0, such as 3 or 0.25" : "a path");
        else
            config_value_describe(field, wanted, sizeof wanted);
        complain(reading, leaf, "wrong value of");
        err_expected(reading->err, "%s", wanted);
        err_found(reading->err, "%.200s%s", leaf->values_count ? leaf->values[0] : "nothing",
                  leaf->values_count > 1 ? ", ..." : "");
        return -EINVAL;
    }
    return unknown_key(reading, leaf);
}

void config_set_defaults(struct train_config *config)
{
    memset(config, 0, sizeof *config);
    struct reading reading = {.config = config, .name = "defaults"};
    size_t count;
    const struct config_field *fields = config_fields(&count);
    for (size_t i = 0; i < count; i++) {
        char text[2 * YAML_VALUE_BYTES_MAX];
        int length = snprintf(text, sizeof text, "%s: %s", fields[i].key, fields[i].default_text);
        yaml_walk(text, (size_t)length, reading.name, read_leaf, &reading, NULL);
    }
}

static int apply_set(struct train_config *config, int *lines, const char *set, struct err *err)
{
    const char *equals = strchr(set, '=');
    if (!equals || equals == set) {
        err_set(err, -EINVAL, "--set needs key=value");
        err_found(err, "%.200s", set);
        return -EINVAL;
    }
    struct reading reading = {
        .config = config, .lines = lines, .by_set = true, .name = "--set", .err = err};
    char key[YAML_PATH_BYTES_MAX];
    const char *value = equals + 1;
    snprintf(key, sizeof key, "%.*s", (int)(equals - set), set);
    if (value[0] != '[') { /* a path may contain YAML syntax */
        struct yaml_leaf leaf = {.path = key, .line = 1, .values = &value, .values_count = 1};
        return read_leaf(&reading, &leaf);
    }
    struct str text = {0};
    str_add_format(&text, "%s: %s", key, value);
    int status = str_status(&text);
    if (!status)
        status = yaml_walk(text.data, text.bytes, reading.name, read_leaf, &reading, err);
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
    struct reading reading = {.config = config, .lines = lines, .name = name, .err = err};
    status = yaml_walk(text, bytes, name, read_leaf, &reading, err);
    for (size_t i = 0; i < sets_count && !status; i++)
        status = apply_set(config, lines, sets[i], err);
    if (!status)
        config_mark_batch(config, lines);
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
    const char *open = ""; /* key whose mapping is open, up to its last dot */
    size_t open_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const char *key = fields[i].key, *last_dot = strrchr(key, '.');
        size_t folder_bytes = last_dot ? (size_t)(last_dot + 1 - key) : 0;
        int depth = 0;
        for (const char *part = key; part < key + folder_bytes; depth++) {
            const char *dot = strchr(part, '.');
            size_t upto = (size_t)(dot + 1 - key);
            if (upto > open_bytes || strncmp(open, key, upto) != 0)
                str_add_format(out, "%*s%.*s:\n", 2 * depth, "", (int)(dot - part), part);
            part = dot + 1;
        }
        open = key;
        open_bytes = folder_bytes;
        str_add_format(out, "%*s%s: ", 2 * depth, "", key + folder_bytes);
        config_value_print(&fields[i], (const char *)config + fields[i].offset, out);
        str_add_text(out, "\n");
    }
}

void config_print_json(const struct train_config *config, struct str *out)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    struct jsonx_writer writer = {.out = out};
    struct str value = {0};
    jsonx_begin_object(&writer, NULL);
    for (size_t i = 0; i < count; i++) {
        str_clear(&value);
        config_value_print(&fields[i], (const char *)config + fields[i].offset, &value);
        bool is_word = fields[i].kind == CONFIG_CHOICE || fields[i].kind == CONFIG_DURATION ||
                       strcmp(str_text(&value), "auto") == 0 ||
                       (fields[i].kind == CONFIG_PERIOD && strchr(str_text(&value), 'm'));
        if (is_word)
            jsonx_write_string(&writer, fields[i].key, str_text(&value));
        else
            jsonx_write_raw(&writer, fields[i].key, str_text(&value), value.bytes);
    }
    jsonx_end_object(&writer);
    str_merge_status(out, &value);
    str_deinit(&value);
}

int config_each(const struct train_config *config,
                void (*visit)(void *context, const struct config_field *field, const char *value),
                void *context)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    struct str value = {0};
    for (size_t i = 0; i < count && !str_status(&value); i++) {
        str_clear(&value);
        config_value_print(&fields[i], (const char *)config + fields[i].offset, &value);
        if (!str_status(&value))
            visit(context, &fields[i], str_text(&value));
    }
    int status = str_status(&value);
    str_deinit(&value);
    return status;
}

static void saved_text(const struct json_t *node, struct str *out)
{
    struct jsonx_writer writer = {.out = out};
    uint64_t count;
    double real;
    bool truth;
    const char *text;
    if (jsonx_u64(node, &count) == 0)
        str_add_format(out, "%llu", (unsigned long long)count);
    else if (jsonx_f64(node, &real) == 0)
        jsonx_write_f64(&writer, NULL, real);
    else if (jsonx_bool(node, &truth) == 0)
        str_add_text(out, truth ? "true" : "false");
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
    struct reading *reading = context;
    struct str text = {0}, line = {0};
    saved_text(node, &text);
    const char *value = str_text(&text);
    const struct yaml_leaf leaf = {.path = key, .values = &value, .values_count = 1};
    int status = 0;
    if (jsonx_kind(node) == JSON_KIND_ARRAY) {
        str_add_format(&line, "%s: %s", key, value);
        str_merge_status(&line, &text);
        status = str_status(&line);
        if (!status)
            status =
                yaml_walk(line.data, line.bytes, reading->name, read_leaf, reading, reading->err);
    } else {
        status = str_status(&text);
        if (!status)
            status = read_leaf(reading, &leaf);
    }
    str_deinit(&line);
    str_deinit(&text);
    return status == -ENOMEM ? err_set(reading->err, -ENOMEM, "out of memory for a configuration")
                             : status;
}

int config_restore(const struct json_t *saved, const char *name, struct train_config *ret_config,
                   struct err *err)
{
    struct reading reading = {.config = ret_config, .by_set = true, .name = name, .err = err};
    config_set_defaults(ret_config);
    return jsonx_each((struct json_t *)saved, restore_value, &reading);
}

/* Like config_value_print, but with unquoted strings, as in saved_text. */
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
                   void (*differs)(void *context, const struct config_field *field,
                                   const char *saved_text, const char *now_text),
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
            saved_text(node, &before);
        else /* saved before the key existed: the default applied */
            add_plain_value(&before, &fields[i], (const char *)defaults + fields[i].offset);
        add_plain_value(&now, &fields[i], (const char *)config + fields[i].offset);
        if (strcmp(str_text(&before), str_text(&now)) != 0)
            differs(context, &fields[i], str_text(&before), str_text(&now));
    }
    int status = str_status(&before) || str_status(&now) ? -ENOMEM : 0;
    str_deinit(&now);
    str_deinit(&before);
    free(defaults);
    return status ? err_set(err, status, "out of memory for comparing configurations") : 0;
}
