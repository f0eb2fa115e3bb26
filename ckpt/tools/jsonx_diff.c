#include "ckpt/tools/jsonx_diff.h"

#include "base/json/jsonx_format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MIN = 16 };

/* Sets *ret_text to the node's canonical text, from malloc; NULL for NULL. */
static int format_node(struct json_t *node, char **ret_text)
{
    struct str text = {0};
    int status = node ? jsonx_format(node, &text) : 0;
    if (status)
        str_deinit(&text);
    else
        *ret_text = text.data;
    return status;
}

static int reserve_entry(struct jsonx_diff *diff)
{
    if (diff->count < diff->capacity)
        return 0;
    size_t capacity = diff->capacity ? 2 * diff->capacity : ENTRIES_MIN;
    struct jsonx_diff_entry *entries = realloc(diff->entries, capacity * sizeof *entries);
    if (!entries)
        return -ENOMEM;
    diff->entries = entries;
    diff->capacity = capacity;
    return 0;
}

static int compare_leaf(struct jsonx_diff *diff, const struct str *path, struct json_t *a,
                        struct json_t *b)
{
    struct jsonx_diff_entry entry = {0};
    int status = format_node(a, &entry.a);
    if (!status)
        status = format_node(b, &entry.b);
    bool same = !status && entry.a && entry.b && strcmp(entry.a, entry.b) == 0;
    if (!status && !same) {
        entry.path = strdup(str_text(path));
        status = entry.path ? reserve_entry(diff) : -ENOMEM;
        if (!status) {
            diff->entries[diff->count++] = entry;
            return 0;
        }
    }
    free(entry.path);
    free(entry.a);
    free(entry.b);
    return status;
}

static int compare_nodes(struct jsonx_diff *diff, struct str *path, struct json_t *a,
                         struct json_t *b);

static int compare_member(struct jsonx_diff *diff, struct str *path, const char *key,
                          struct json_t *a, struct json_t *b)
{
    size_t parent_bytes = path->bytes;
    str_add_format(path, ".%s", key);
    int status = str_status(path);
    if (status)
        return status;
    status = compare_nodes(diff, path, a, b);
    path->bytes = parent_bytes;
    path->data[parent_bytes] = '\0';
    return status;
}

static int compare_objects(struct jsonx_diff *diff, struct str *path, struct json_t *a,
                           struct json_t *b)
{
    struct jsonx_member *of_a = NULL, *of_b = NULL;
    size_t count_a = 0, count_b = 0, i = 0, k = 0;
    int status = jsonx_members(a, &of_a, &count_a);
    if (!status)
        status = jsonx_members(b, &of_b, &count_b);
    while (!status && (i < count_a || k < count_b)) {
        int order = i == count_a ? 1 : k == count_b ? -1 : strcmp(of_a[i].key, of_b[k].key);
        const char *key = order <= 0 ? of_a[i].key : of_b[k].key;
        struct json_t *in_a = order <= 0 ? of_a[i++].value : NULL;
        struct json_t *in_b = order >= 0 ? of_b[k++].value : NULL;
        status = compare_member(diff, path, key, in_a, in_b);
    }
    free(of_a);
    free(of_b);
    return status;
}

/* jsonx_parse limits the depth of the recursion. */
static int compare_nodes(struct jsonx_diff *diff, struct str *path, struct json_t *a,
                         struct json_t *b)
{
    bool objects =
        (!a || jsonx_kind(a) == JSON_KIND_OBJECT) && (!b || jsonx_kind(b) == JSON_KIND_OBJECT);
    if (objects && jsonx_count(a) + jsonx_count(b) > 0)
        return compare_objects(diff, path, a, b);
    return a || b ? compare_leaf(diff, path, a, b) : 0;
}

int jsonx_diff_collect(struct jsonx_diff *diff, const char *root, struct json_t *a,
                       struct json_t *b)
{
    struct str path = {0};
    str_add_text(&path, root);
    int status = str_status(&path);
    if (!status)
        status = compare_nodes(diff, &path, a, b);
    str_deinit(&path);
    return status;
}

void jsonx_diff_deinit(struct jsonx_diff *diff)
{
    for (size_t i = 0; i < diff->count; i++) {
        free(diff->entries[i].path);
        free(diff->entries[i].a);
        free(diff->entries[i].b);
    }
    free(diff->entries);
    *diff = (struct jsonx_diff){0};
}
