/*
 * jsonx_format — see jsonx_format.h.
 */
#include "base/json/jsonx_format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct member_list {
    struct jsonx_member *members;
    size_t count;
};

static int collect_member(void *context, const char *key, struct json_t *value)
{
    struct member_list *list = context;
    list->members[list->count++] = (struct jsonx_member){key, value};
    return 0;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct jsonx_member *)a)->key, ((const struct jsonx_member *)b)->key);
}

int jsonx_members(struct json_t *object, struct jsonx_member **ret_members, size_t *ret_count)
{
    struct member_list list = {.members = calloc(jsonx_count(object) + 1, sizeof *list.members)};
    if (!list.members)
        return -ENOMEM;
    jsonx_each(object, collect_member, &list);
    qsort(list.members, list.count, sizeof *list.members, compare_keys);
    *ret_members = list.members;
    *ret_count = list.count;
    return 0;
}

struct node_formatter {
    struct jsonx_writer *writer;
    bool sorts_keys;
};

static int write_node(struct node_formatter *formatter, const char *key, struct json_t *node);

static int write_member(void *context, const char *key, struct json_t *value)
{
    return write_node(context, key, value);
}

static int write_sorted_members(struct node_formatter *formatter, struct json_t *object)
{
    struct jsonx_member *members;
    size_t count;
    int status = jsonx_members(object, &members, &count);
    if (status)
        return status;
    for (size_t i = 0; i < count && !status; i++)
        status = write_node(formatter, members[i].key, members[i].value);
    free(members);
    return status;
}

static int write_object(struct node_formatter *formatter, const char *key, struct json_t *node)
{
    jsonx_begin_object(formatter->writer, key);
    int status = formatter->sorts_keys ? write_sorted_members(formatter, node)
                                       : jsonx_each(node, write_member, formatter);
    jsonx_end_object(formatter->writer);
    return status;
}

static int write_array(struct node_formatter *formatter, const char *key, struct json_t *node)
{
    int status = 0;
    jsonx_begin_array(formatter->writer, key);
    for (size_t i = 0; i < jsonx_count(node) && !status; i++)
        status = write_node(formatter, NULL, jsonx_at(node, i));
    jsonx_end_array(formatter->writer);
    return status;
}

static int write_node(struct node_formatter *formatter, const char *key, struct json_t *node)
{
    struct jsonx_writer *writer = formatter->writer;
    int64_t integer = 0;
    double real = 0;
    bool flag = false;
    const char *text = "";
    switch (jsonx_kind(node)) {
    case JSON_KIND_OBJECT:
        return write_object(formatter, key, node);
    case JSON_KIND_ARRAY:
        return write_array(formatter, key, node);
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
    int status = write_node(&(struct node_formatter){&writer, true}, NULL, node);
    return status ? status : str_status(out);
}

void jsonx_copy(struct jsonx_writer *writer, const char *key, struct json_t *node)
{
    (void)write_node(&(struct node_formatter){writer, false}, key,
                     node); /* only sorting can fail */
}
