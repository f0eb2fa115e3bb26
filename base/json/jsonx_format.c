/*
 * jsonx_format — see jsonx_format.h.
 */
#include "base/json/jsonx_format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct collect {
    struct jsonx_member *members;
    size_t count;
};

static int collect_member(void *context, const char *key, struct json_t *value)
{
    struct collect *collect = context;
    collect->members[collect->count++] = (struct jsonx_member){key, value};
    return 0;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct jsonx_member *)a)->key, ((const struct jsonx_member *)b)->key);
}

int jsonx_members(struct json_t *object, struct jsonx_member **ret_members, size_t *ret_count)
{
    struct collect collect = {.members = calloc(jsonx_count(object) + 1, sizeof *collect.members)};
    if (!collect.members)
        return -ENOMEM;
    jsonx_each(object, collect_member, &collect);
    qsort(collect.members, collect.count, sizeof *collect.members, compare_keys);
    *ret_members = collect.members;
    *ret_count = collect.count;
    return 0;
}

struct walk {
    struct jsonx_writer *writer;
    bool by_key;
};

static int write_node(struct walk *walk, const char *key, struct json_t *node);

static int write_member(void *context, const char *key, struct json_t *value)
{
    return write_node(context, key, value);
}

static int write_members_by_key(struct walk *walk, struct json_t *object)
{
    struct jsonx_member *members;
    size_t count;
    int status = jsonx_members(object, &members, &count);
    if (status)
        return status;
    for (size_t i = 0; i < count && !status; i++)
        status = write_node(walk, members[i].key, members[i].value);
    free(members);
    return status;
}

static int write_object(struct walk *walk, const char *key, struct json_t *node)
{
    jsonx_begin_object(walk->writer, key);
    int status =
        walk->by_key ? write_members_by_key(walk, node) : jsonx_each(node, write_member, walk);
    jsonx_end_object(walk->writer);
    return status;
}

static int write_array(struct walk *walk, const char *key, struct json_t *node)
{
    int status = 0;
    jsonx_begin_array(walk->writer, key);
    for (size_t i = 0; i < jsonx_count(node) && !status; i++)
        status = write_node(walk, NULL, jsonx_at(node, i));
    jsonx_end_array(walk->writer);
    return status;
}

static int write_node(struct walk *walk, const char *key, struct json_t *node)
{
    struct jsonx_writer *writer = walk->writer;
    int64_t integer = 0;
    double real = 0;
    bool flag = false;
    const char *text = "";
    switch (jsonx_kind(node)) {
    case JSON_KIND_OBJECT:
        return write_object(walk, key, node);
    case JSON_KIND_ARRAY:
        return write_array(walk, key, node);
    case JSON_KIND_NULL:
        jsonx_write_null(writer, key);
        return 0;
    case JSON_KIND_BOOL:
        jsonx_bool(node, &flag);
        jsonx_write_bool(writer, key, flag);
        return 0;
    case JSON_KIND_INT:
        jsonx_i64(node, &integer);
        jsonx_write_i64(writer, key, integer);
        return 0;
    case JSON_KIND_REAL:
        jsonx_f64(node, &real);
        jsonx_write_f64(writer, key, real);
        return 0;
    case JSON_KIND_STRING:
        jsonx_text(node, &text);
        jsonx_write_string(writer, key, text);
        return 0;
    }
    return 0;
}

int jsonx_format(struct json_t *node, struct str *out)
{
    struct jsonx_writer writer = {.out = out};
    int status = write_node(&(struct walk){&writer, true}, NULL, node);
    return status ? status : str_status(out);
}

void jsonx_copy(struct jsonx_writer *writer, const char *key, struct json_t *node)
{
    (void)write_node(&(struct walk){writer, false}, key, node); /* only sorting can fail */
}
