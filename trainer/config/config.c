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

/* "auto" is 0. */
static bool takes_auto(const struct config_field *field)
{
    return field->kind == CONFIG_COUNT_AUTO || field->kind == CONFIG_SIZE_AUTO;
}

/* A plain number is in steps, else it is a duration. */
static int read_period(const struct config_field *field, const char *text,
                       struct config_period *target)
{
    struct config_period period = {0};
    bool is_count = *text && strspn(text, "0123456789") == strlen(text);
    errno = 0;
    if (is_count)
        period.steps = strtoull(text, NULL, 10);
    else if (str_parse_duration(text, &period.ns))
        return -EINVAL;
    if (errno || (double)period.steps < field->least || (double)period.steps > field->most)
        return -ERANGE;
    *target = period;
    return 0;
}

/* Reads one field from its values. 0, -EINVAL (wrong value), -ERANGE. */
static int read_value(const struct config_field *field, const char *const *values, size_t count,
                      void *target)
{
    const char *text = count > 0 ? values[0] : "";
    if (count != (field->kind == CONFIG_PAIR ? 2 : 1))
        return -EINVAL;
    double reals[2];
    if (field->kind == CONFIG_REAL || field->kind == CONFIG_FRACTION ||
        field->kind == CONFIG_PAIR) {
        for (size_t i = 0; i < count; i++) {
            char *end;
            reals[i] = strtod(values[i], &end);
            if (end == values[i])
                return -EINVAL;
            if (field->kind == CONFIG_FRACTION && *end == '%') {
                reals[i] /= 100;
                end++;
            }
            if (*end || !isfinite(reals[i]))
                return -EINVAL;
            if (reals[i] < field->least || reals[i] > field->most)
                return -ERANGE;
        }
        memcpy(target, reals, count * sizeof reals[0]);
        return 0;
    }
    if (field->kind == CONFIG_PERIOD)
        return read_period(field, text, target);
    uint64_t number;
    char *end;
    if (takes_auto(field) && strcmp(text, "auto") == 0) {
        *(uint64_t *)target = 0;
        return 0;
    }
    switch (field->kind) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
        if (strlen(text) >= field->bytes)
            return -ERANGE;
        snprintf(target, field->bytes, "%s", text);
        return 0;
    case CONFIG_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return -EINVAL;
        *(bool *)target = text[0] == 't';
        return 0;
    case CONFIG_SIZE_AUTO:
    case CONFIG_SIZE:
        if (str_parse_size(text, &number))
            return -EINVAL;
        break;
    case CONFIG_DURATION:
        if (str_parse_duration(text, &number))
            return -EINVAL;
        break;
    case CONFIG_COUNT_AUTO:
    case CONFIG_COUNT:
        if (text[0] < '0' || text[0] > '9')
            return -EINVAL;
        errno = 0;
        number = strtoull(text, &end, 10);
        if (*end)
            return -EINVAL;
        if (errno)
            return -ERANGE;
        break;
    case CONFIG_CHOICE:
        for (const struct config_alias *a = field->aliases; a && a->alias; a++)
            if (strcmp(text, a->alias) == 0)
                text = a->choice;
        for (uint32_t i = 0; field->choices[i]; i++) {
            if (strcmp(text, field->choices[i]) == 0) {
                *(uint32_t *)target = i;
                return 0;
            }
        }
        return -EINVAL;
    default:
        return -EINVAL;
    }
    if ((double)number < field->least || (double)number > field->most)
        return -ERANGE;
    *(uint64_t *)target = number;
    return 0;
}

/* Describes the values that a field accepts, for messages. */
static void describe(const struct config_field *field, char *text, size_t bytes)
{
    static const char *const names[] = {
        [CONFIG_TEXT] = "text",
        [CONFIG_BOOL] = "true or false",
        [CONFIG_COUNT] = "a whole number",
        [CONFIG_COUNT_AUTO] = "a whole number or auto",
        [CONFIG_SIZE] = "a size such as 64MiB",
        [CONFIG_SIZE_AUTO] = "a size such as 64MiB, or auto,",
        [CONFIG_DURATION] = "a duration such as 90s or 10min",
        [CONFIG_PERIOD] = "a duration such as 15min, or a whole number of steps",
        [CONFIG_REAL] = "a number",
        [CONFIG_FRACTION] = "a fraction such as 0.01 or 1%",
        [CONFIG_PAIR] = "two numbers in brackets",
        [CONFIG_MIX] = "a path, or a list of {path: text, weight: number}",
    };
    if (field->kind == CONFIG_CHOICE) {
        size_t used = (size_t)snprintf(text, bytes, "one of");
        for (size_t i = 0; field->choices[i] && used < bytes; i++)
            used += (size_t)snprintf(text + used, bytes - used, "%s %s", i ? "," : "",
                                     field->choices[i]);
    } else if (field->kind == CONFIG_TEXT || field->kind == CONFIG_PATH) {
        snprintf(text, bytes, "text of less than %zu bytes", field->bytes);
    } else if (field->kind == CONFIG_BOOL || field->kind == CONFIG_MIX) {
        snprintf(text, bytes, "%s", names[field->kind]);
    } else {
        snprintf(text, bytes, "%s from %.15g to %.15g", names[field->kind], field->least,
                 field->most);
    }
}

struct reading {
    struct train_config *config;
    int *lines; /* of each field, for config_check; NULL: not needed */
    bool by_set;
    const char *name;
    struct err *err;
};

/* Values from --set have no line. */
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

/* The rest of the leaf's path after the field's key: "", "[0].path"; NULL if the path does not
 * belong to the field. */
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
            status = read_value(field, leaf->values, leaf->values_count, target);
        if (status == -ENOENT)
            break;
        if (!status) {
            /* an entry of a list has the list's line */
            if (reading->lines && (!rest[0] || reading->by_set))
                reading->lines[i] = reading->by_set ? CONFIG_BY_SET : leaf->line;
            return 0;
        }
        char wanted[ERR_TEXT_BYTES_MAX];
        if (rest[0])
            snprintf(wanted, sizeof wanted,
                     strstr(rest, "].weight") ? "a number above 0, such as 3 or 0.25" : "a path");
        else
            describe(field, wanted, sizeof wanted);
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
    if (value[0] != '[') { /* verbatim: a path may contain YAML syntax */
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

static void add_value(struct str *out, const struct config_field *field, const void *source)
{
    const double *reals = source;
    if (takes_auto(field) && *(const uint64_t *)source == 0) {
        str_add_text(out, "auto");
        return;
    }
    switch (field->kind) {
    case CONFIG_TEXT:
    case CONFIG_PATH: {
        struct jsonx_writer writer = {.out = out};
        jsonx_write_string(&writer, NULL, source);
        break;
    }
    case CONFIG_BOOL:
        str_add_text(out, *(const bool *)source ? "true" : "false");
        break;
    case CONFIG_COUNT:
    case CONFIG_COUNT_AUTO:
    case CONFIG_SIZE:
    case CONFIG_SIZE_AUTO:
        str_add_format(out, "%llu", (unsigned long long)*(const uint64_t *)source);
        break;
    case CONFIG_DURATION:
        str_add_format(out, "%.15gms", (double)*(const uint64_t *)source / 1e6);
        break;
    case CONFIG_PERIOD: {
        const struct config_period *period = source;
        if (period->ns > 0)
            str_add_format(out, "%.15gms", (double)period->ns / 1e6);
        else
            str_add_format(out, "%llu", (unsigned long long)period->steps);
        break;
    }
    case CONFIG_REAL:
    case CONFIG_FRACTION: {
        struct jsonx_writer writer = {.out = out};
        jsonx_write_f64(&writer, NULL, reals[0]);
        break;
    }
    case CONFIG_PAIR: {
        struct jsonx_writer writer = {.out = out};
        jsonx_begin_array(&writer, NULL);
        jsonx_write_f64(&writer, NULL, reals[0]);
        jsonx_write_f64(&writer, NULL, reals[1]);
        jsonx_end_array(&writer);
        break;
    }
    case CONFIG_CHOICE:
        str_add_text(out, field->choices[*(const uint32_t *)source]);
        break;
    case CONFIG_MIX:
        config_mix_print(source, out);
        break;
    }
}

void config_print(const struct train_config *config, struct str *out)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    const char *open = ""; /* the path of the last line's mapping, with its dot */
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
        add_value(out, &fields[i], (const char *)config + fields[i].offset);
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
        add_value(&value, &fields[i], (const char *)config + fields[i].offset);
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
        add_value(&value, &fields[i], (const char *)config + fields[i].offset);
        if (!str_status(&value))
            visit(context, &fields[i], str_text(&value));
    }
    int status = str_status(&value);
    str_deinit(&value);
    return status;
}

/* Formats a saved JSON value as add_value does. */
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

/* Reads one "a.b": value of a saved object as the YAML it came from. */
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

/* As add_value, but without quotes around strings, as read from a saved configuration. */
static void add_plain_value(struct str *out, const struct config_field *field, const void *source)
{
    const struct config_mix *mix = source;
    if (field->kind == CONFIG_TEXT || field->kind == CONFIG_PATH)
        str_add_text(out, source);
    else if (field->kind == CONFIG_MIX && mix->count == 1)
        str_add_text(out, mix->sources[0].path);
    else
        add_value(out, field, source);
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
