/*
 * table_row — see table_row.h.
 */
#include "convert/source/table_row.h"

#include "base/json/jsonx_path.h"
#include "base/json/jsonx_plain.h"
#include "base/utf8.h"

#include <errno.h>
#include <string.h>

static void clear_json(struct table_row *row)
{
    for (size_t i = 0; i < table_row_members_count(row); i++)
        jsonx_free(table_row_members(row)[i].node);
    str_clear(&row->members);
    jsonx_free(row->root);
    row->root = NULL;
}

void table_row_deinit(struct table_row *row)
{
    clear_json(row);
    csv_row_deinit(&row->cells);
    str_deinit(&row->members);
}

static int check_utf8(const char *text, size_t bytes, struct err *err)
{
    size_t valid = utf8_valid_bytes(text, bytes);
    if (valid == bytes)
        return 0;
    err_set(err, -EBADMSG, "the text is not valid UTF-8");
    err_at(err, "", (int64_t)valid);
    err_found(err, "byte 0x%02x", (unsigned char)text[valid]);
    err_advise(err, "convert the list, for example with `iconv -f LATIN1 -t UTF-8`");
    return -EBADMSG;
}

static int parse_object(struct table_row *row, struct err *err)
{
    int status = jsonx_parse(row->text, row->bytes, "", 0, &row->root, err);
    if (status || jsonx_kind(row->root) == JSON_KIND_OBJECT)
        return status;
    err_set(err, -EBADMSG, "a line is not a JSON object");
    err_expected(err, "one object per line");
    err_found(err, "an array");
    err_advise(err, "write one object per line, for example with `jq -c '.[]'`");
    return -EBADMSG;
}

static int parse_cells(struct table_row *row, struct err *err)
{
    const struct table_format *format = row->format;
    int status = check_utf8(row->text, row->bytes, err);
    if (!status)
        status = csv_parse_row(row->text, row->bytes, format->delimiter, &row->cells, err);
    if (status || !format->header)
        return status;
    size_t count = csv_cells_count(&row->cells), expected = csv_cells_count(format->header);
    if (count == expected)
        return 0;
    err_set(err, -EBADMSG, "a row has %s columns than the header line",
            count < expected ? "fewer" : "more");
    err_expected(err, "%zu", expected);
    err_found(err, "%zu", count);
    if (count > expected)
        err_advise(err, "put quotes around values with %s",
                   format->delimiter == ',' ? "commas" : "tabs");
    return -EBADMSG;
}

int table_row_scan(struct table_row *row, struct err *err)
{
    struct table_member member = {.node = NULL};
    struct jsonx_span rest = {0, row->bytes};
    if (row->members.bytes > 0)
        return 0;
    while (rest.begin < rest.end && row->text[rest.begin] != '{')
        rest.begin++;
    while (jsonx_scan_next_member(row->text, &rest, &member.key, &member.value) ==
           JSON_SCAN_ELEMENT)
        str_add(&row->members, &member, sizeof member);
    return str_status(&row->members) ? err_set(err, -ENOMEM, "out of memory for a row") : 0;
}

int table_row_parse(struct table_row *row, const char *text, size_t bytes, enum table_row_mode mode,
                    struct err *err)
{
    row->text = text;
    row->bytes = bytes;
    row->status = 0;
    if (row->format->delimiter)
        return parse_cells(row, err);
    clear_json(row);
    return mode == TABLE_ROW_KNOWN || (mode == TABLE_ROW_LAZY && jsonx_is_plain_object(text, bytes))
               ? table_row_scan(row, err)
               : parse_object(row, err);
}

static bool key_is(const struct table_row *row, const struct table_member *member, const char *name,
                   size_t name_bytes)
{
    const char *key = row->text + member->key.begin, *text;
    size_t bytes = member->key.end - member->key.begin;
    if (!memchr(key, '\\', bytes))
        return bytes == name_bytes + 2 && memcmp(key + 1, name, name_bytes) == 0;
    struct json_t *node = NULL;
    bool is_same = jsonx_parse_value(key, bytes, "", 0, &node, NULL) == 0 &&
                   jsonx_text(node, &text) == 0 && strcmp(text, name) == 0;
    jsonx_free(node);
    return is_same;
}

static struct table_member *find_member(const struct table_row *row, const char *name)
{
    size_t name_bytes = strlen(name);
    for (size_t i = 0; i < table_row_members_count(row); i++)
        if (key_is(row, &table_row_members(row)[i], name, name_bytes))
            return &table_row_members(row)[i];
    return NULL;
}

static struct json_t *find_member_node(struct table_row *row, const char *name)
{
    struct table_member *member = find_member(row, name);
    if (member && !member->node)
        row->status =
            jsonx_parse_value(row->text + member->value.begin,
                              member->value.end - member->value.begin, "", 0, &member->node, NULL);
    return member && !row->status ? member->node : NULL;
}

static void set_node(struct json_t *node, struct table_value *ret_value)
{
    *ret_value = (struct table_value){.node = node};
    if (jsonx_text(node, &ret_value->text) == 0)
        ret_value->bytes = strlen(ret_value->text);
}

static bool find_cell(const struct table_row *row, const char *name, struct table_value *ret_value)
{
    size_t bytes;
    for (size_t i = 0; i < csv_cells_count(row->format->header); i++)
        if (strcmp(csv_cell_text(row->format->header, i, &bytes), name) == 0) {
            *ret_value = (struct table_value){0};
            ret_value->text = csv_cell_text(&row->cells, i, &ret_value->bytes);
            return true;
        }
    return false;
}

bool table_row_find(struct table_row *row, const char *name, struct table_value *ret_value)
{
    if (row->format->delimiter)
        return find_cell(row, name, ret_value);
    struct json_t *node = !row->root       ? find_member_node(row, name)
                          : name[0] == '$' ? jsonx_path_find(row->root, name)
                                           : jsonx_get(row->root, name);
    if (jsonx_kind(node) == JSON_KIND_NULL)
        return false;
    set_node(node, ret_value);
    return true;
}

struct member_walk {
    int (*visit)(void *context, const char *name, const struct table_value *value);
    void *context;
};

static int visit_member(void *context, const char *key, struct json_t *node)
{
    const struct member_walk *walk = context;
    struct table_value value;
    set_node(node, &value);
    return walk->visit(walk->context, key, &value);
}

bool table_row_find_text(struct table_row *row, const char *name, struct table_value *ret_value)
{
    const struct table_member *member = row->root ? NULL : find_member(row, name);
    const char *text = member ? row->text + member->value.begin : "";
    size_t bytes = member ? member->value.end - member->value.begin : 0;
    if (*text != '"' || memchr(text, '\\', bytes))
        return table_row_find(row, name, ret_value);
    *ret_value = (struct table_value){.text = text + 1, .bytes = bytes - 2};
    return true;
}

int table_row_each(const struct table_row *row,
                   int (*visit)(void *context, const char *name, const struct table_value *value),
                   void *context)
{
    if (!row->format->delimiter)
        return jsonx_each(row->root, visit_member, &(struct member_walk){visit, context});
    for (size_t i = 0; i < csv_cells_count(&row->cells); i++) {
        struct table_value value = {0};
        size_t bytes;
        value.text = csv_cell_text(&row->cells, i, &value.bytes);
        int result = visit(context, csv_cell_text(row->format->header, i, &bytes), &value);
        if (result)
            return result;
    }
    return 0;
}
