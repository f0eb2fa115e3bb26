/*
 * yaml — see yaml.h.
 */
#include "base/yaml/yaml.h"

#include "base/str.h"
#include "base/utf8.h"
#include "base/versions.h"

#include <errno.h>
#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct yaml_walker {
    const char *name;
    int (*visit)(void *context, const struct yaml_leaf *leaf);
    void *context;
    struct err *err;
};

static int node_line(struct fy_node *node)
{
    struct fy_token *token = node ? fy_node_get_scalar_token(node) : NULL;
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    return mark ? mark->line + 1 : 0;
}

static int reject(const struct yaml_walker *walk, int line, const char *what)
{
    err_set(walk->err, -EINVAL, "%s", what);
    err_at(walk->err, walk->name, ERR_NO_OFFSET);
    err_found(walk->err, "it at line %d", line);
    return -EINVAL;
}

static int reject_long_value(const struct yaml_walker *walk, int line)
{
    reject(walk, line, "a value is too long");
    err_expected(walk->err, "at most %d bytes", YAML_VALUE_BYTES_MAX - 1);
    return -EINVAL;
}

static int copy_scalar(const struct yaml_walker *walk, struct fy_node *node,
                       char text[YAML_VALUE_BYTES_MAX])
{
    if (!fy_node_is_scalar(node) || fy_node_is_alias(node))
        return reject(walk, node_line(node), "aliases and nested values are not supported here");
    size_t bytes = 0;
    const char *scalar = fy_node_get_scalar(node, &bytes);
    if (bytes >= YAML_VALUE_BYTES_MAX)
        return reject_long_value(walk, node_line(node));
    if (bytes > 0 && memchr(scalar, '\0', bytes))
        return reject(walk, node_line(node), "a value contains a NUL");
    if (bytes > 0)
        memcpy(text, scalar, bytes);
    text[bytes] = '\0';
    return 0;
}

static int visit_mapping(const struct yaml_walker *walk, struct fy_node *mapping,
                         const char *prefix, int depth);

static bool is_list_of_mappings(struct fy_node *value)
{
    return value && fy_node_is_sequence(value) &&
           fy_node_is_mapping(fy_node_sequence_get_by_index(value, 0));
}

static int visit_entries(const struct yaml_walker *walk, struct fy_node *list, const char *path,
                         int line, int depth)
{
    int count = fy_node_sequence_item_count(list);
    if (count < 0 || count > YAML_MAPPINGS_MAX)
        return reject(walk, line, "a list has too many entries");
    struct yaml_leaf leaf = {
        .path = path, .line = line, .is_sequence = true, .mappings_count = (size_t)count};
    int status = walk->visit(walk->context, &leaf);
    for (int i = 0; i < count && !status; i++) {
        struct fy_node *item = fy_node_sequence_get_by_index(list, i);
        char entry[YAML_PATH_BYTES_MAX];
        if (!fy_node_is_mapping(item))
            return reject(walk, line, "a list mixes mappings and other values");
        int length = snprintf(entry, sizeof entry, "%s[%d]", path, i);
        if (length < 0 || (size_t)length >= sizeof entry)
            return reject(walk, line, "keys are nested too deeply");
        status = visit_mapping(walk, item, entry, depth + 1);
    }
    return status;
}

/* Appends the values of a sequence to texts, each with its NUL. */
static int copy_sequence(const struct yaml_walker *walk, struct fy_node *sequence, int line,
                         struct str *texts, size_t *ret_count)
{
    char text[YAML_VALUE_BYTES_MAX];
    void *iterator = NULL;
    struct fy_node *item;
    size_t count = 0;
    for (; (item = fy_node_sequence_iterate(sequence, &iterator)); count++) {
        if (count == YAML_VALUES_MAX)
            return reject(walk, line, "a list has too many entries");
        int status = copy_scalar(walk, item, text);
        if (status)
            return status;
        str_add(texts, text, strlen(text) + 1);
    }
    *ret_count = count;
    return 0;
}

static int visit_sequence(const struct yaml_walker *walk, struct fy_node *sequence,
                          const char *path, int line)
{
    struct str texts = {0};
    struct yaml_leaf leaf = {.path = path, .line = line, .is_sequence = true};
    int status = copy_sequence(walk, sequence, line, &texts, &leaf.values_count);
    const char **values = status ? NULL : calloc(leaf.values_count + 1, sizeof *values);
    if (!status && (!values || str_status(&texts)))
        status = err_set(walk->err, -ENOMEM, "out of memory for a list");
    const char *text = str_text(&texts);
    for (size_t i = 0; i < leaf.values_count && !status; i++, text += strlen(text) + 1)
        values[i] = text;
    leaf.values = values;
    if (!status)
        status = walk->visit(walk->context, &leaf);
    free(values);
    str_deinit(&texts);
    return status;
}

static int visit_leaf(const struct yaml_walker *walk, struct fy_node *value, const char *path,
                      int line)
{
    char text[YAML_VALUE_BYTES_MAX] = "";
    const char *const values[] = {text};
    const struct yaml_leaf leaf = {.path = path, .line = line, .values = values, .values_count = 1};
    if (value && fy_node_is_sequence(value))
        return visit_sequence(walk, value, path, line);
    int status = value ? copy_scalar(walk, value, text) : 0;
    return status ? status : walk->visit(walk->context, &leaf);
}

static int visit_mapping(const struct yaml_walker *walk, struct fy_node *mapping,
                         const char *prefix, int depth)
{
    void *iterator = NULL;
    struct fy_node_pair *pair;
    while ((pair = fy_node_mapping_iterate(mapping, &iterator))) {
        struct fy_node *key = fy_node_pair_key(pair), *value = fy_node_pair_value(pair);
        int line = node_line(key);
        char name[YAML_VALUE_BYTES_MAX], path[YAML_PATH_BYTES_MAX];
        int status = copy_scalar(walk, key, name);
        if (status)
            return status;
        int length = snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] ? "." : "", name);
        if (length < 0 || (size_t)length >= sizeof path || depth == YAML_DEPTH_MAX)
            return reject(walk, line, "keys are nested too deeply");
        if (value && fy_node_is_mapping(value))
            status = visit_mapping(walk, value, path, depth + 1);
        else if (is_list_of_mappings(value))
            status = visit_entries(walk, value, path, line, depth);
        else
            status = visit_leaf(walk, value, path, line);
        if (status)
            return status;
    }
    return 0;
}

/* For blank text, libfyaml returns neither a document nor an error. */
static bool is_blank(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '#')
            while (i + 1 < bytes && text[i + 1] != '\n')
                i++;
        else if (!strchr(" \t\r\n", text[i]) || text[i] == '\0')
            return false;
    }
    return true;
}

/* Prevents an infinite loop in libfyaml on a directive with invalid UTF-8. */
static int check_encoding(const struct yaml_walker *walk, const char *text, size_t bytes)
{
    for (size_t at = 0, count; at < bytes; at += count) {
        count = utf8_sequence_bytes((const unsigned char *)text + at, bytes - at);
        if (count > 0 && text[at] != '\0')
            continue;
        err_set(walk->err, -EINVAL, "the configuration is not UTF-8 text");
        err_at(walk->err, walk->name, (int64_t)at);
        err_found(walk->err, "byte 0x%02x", (unsigned char)text[at]);
        return -EINVAL;
    }
    return 0;
}

/* Rejects additional documents, which libfyaml would silently ignore. */
static int check_one_document(const struct yaml_walker *walk, const char *text, size_t bytes)
{
    bool begun = false, ended = false;
    int number = 1;
    for (size_t at = 0; at < bytes; number++) {
        const char *line = text + at, *newline = memchr(line, '\n', bytes - at);
        size_t length = newline ? (size_t)(newline - line) : bytes - at;
        at += length + 1;
        if (length > 0 && line[0] == '%')
            return reject(walk, number, "YAML directives are not supported");
        bool begins = length >= 3 && memcmp(line, "---", 3) == 0;
        if (is_blank(line, length))
            continue;
        if (ended || (begins && begun))
            return reject(walk, number, "the configuration has more than one YAML document");
        begun = true;
        ended = length >= 3 && memcmp(line, "...", 3) == 0;
    }
    return 0;
}

int yaml_walk(const char *text, size_t bytes, const char *name,
              int (*visit)(void *context, const struct yaml_leaf *leaf), void *context,
              struct err *err)
{
    struct yaml_walker walk = {.name = name, .visit = visit, .context = context, .err = err};
    int status = check_encoding(&walk, text, bytes);
    if (!status)
        status = check_one_document(&walk, text, bytes);
    if (status)
        return status;
    struct fy_diag_cfg diagnostics = {.fp = NULL, .level = FYET_ERROR, .module_mask = ~0u};
    struct fy_diag *diag = fy_diag_create(&diagnostics);
    if (!diag)
        return err_set(err, -ENOMEM, "out of memory for a YAML parser");
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg parse = {.flags = FYPCF_QUIET, .diag = diag};
    struct fy_document *document = fy_document_build_from_string(&parse, text, bytes);
    if (!document && !is_blank(text, bytes)) {
        void *iterator = NULL;
        struct fy_diag_error *error = fy_diag_errors_iterate(diag, &iterator);
        err_set(err, -EINVAL, "the configuration is not valid YAML");
        err_at(err, name, ERR_NO_OFFSET);
        err_found(err, "%s at line %d", error && error->msg ? error->msg : "a syntax error",
                  error ? error->line : 0);
        status = -EINVAL;
    } else if (document) {
        struct fy_node *root = fy_document_root(document);
        if (!root)
            status = 0;
        else if (fy_node_is_mapping(root))
            status = visit_mapping(&walk, root, "", 0);
        else
            status = reject(&walk, 1, "the configuration is not a mapping of keys");
        fy_document_destroy(document);
    }
    fy_diag_destroy(diag);
    return status;
}

const char *yaml_version(char *text)
{
    snprintf(text, VERSION_TEXT_BYTES, "libfyaml %s", fy_library_version());
    return text;
}
