#include "cli/report/page_values.h"

#include "cli/report/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES_MAX = 512 };

struct key_path {
    struct str *out;
    const char *prefix; /* "image." */
};

static void show_value(struct str *out, struct json_t *node)
{
    int64_t integer;
    double real;
    bool flag;
    const char *text;
    if (jsonx_kind(node) == JSON_KIND_ARRAY) {
        for (size_t i = 0; i < jsonx_count(node); i++) {
            str_add_text(out, i ? ", " : "");
            show_value(out, jsonx_at(node, i));
        }
    } else if (jsonx_i64(node, &integer) == 0) {
        page_format(out, "%" PRId64, integer);
    } else if (jsonx_f64(node, &real) == 0) {
        page_format(out, "%.10g", real);
    } else if (jsonx_bool(node, &flag) == 0) {
        page_text(out, flag ? "true" : "false");
    } else if (jsonx_text(node, &text) == 0) {
        page_text(out, text[0] ? text : "\"\"");
    } else {
        page_text(out, jsonx_kind(node) == JSON_KIND_OBJECT ? "{…}" : "null");
    }
}

static int show_entry(void *context, const char *key, struct json_t *value)
{
    struct key_path *parent = context;
    char path[KEY_BYTES_MAX], entry[KEY_BYTES_MAX];
    snprintf(path, sizeof path, "%s%s", parent->prefix, key);
    if (jsonx_kind(value) == JSON_KIND_OBJECT) {
        size_t bytes = strlen(path);
        snprintf(path + bytes, sizeof path - bytes, ".");
        return jsonx_each(value, show_entry, &(struct key_path){parent->out, path});
    }
    /* lists of objects have keys such as "train[0].path" */
    if (jsonx_kind(jsonx_at(value, 0)) == JSON_KIND_OBJECT) {
        for (size_t i = 0; i < jsonx_count(value); i++) {
            snprintf(entry, sizeof entry, "%.*s[%zu].", (int)(sizeof entry - 32), path, i);
            jsonx_each(jsonx_at(value, i), show_entry, &(struct key_path){parent->out, entry});
        }
        return 0;
    }
    page_row_begin(parent->out);
    page_cell(parent->out, path);
    str_add_text(parent->out, "<td>");
    show_value(parent->out, value);
    str_add_text(parent->out, "</td>");
    page_row_end(parent->out);
    return 0;
}

void page_values_table(struct str *out, const char *heading, const char *note, const char *caption,
                       struct json_t *object)
{
    static const struct page_column columns[] = {{"key", false}, {"value", false}};
    page_table_begin(out, heading, note, caption, columns, sizeof columns / sizeof columns[0]);
    (void)jsonx_each(object, show_entry, &(struct key_path){out, ""});
    page_table_end(out);
}
