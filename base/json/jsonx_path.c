/*
 * jsonx_path — see jsonx_path.h.
 */
#include "base/json/jsonx_path.h"

#include <errno.h>
#include <string.h>

/* One segment of a path: a name, or an index. */
struct segment {
    char name[JSONX_PATH_NAME_BYTES_MAX];
    bool is_index;
    size_t index;
};

static bool copy_name(struct segment *segment, const char *name, size_t bytes)
{
    if (bytes == 0 || bytes >= sizeof segment->name)
        return false;
    memcpy(segment->name, name, bytes);
    segment->name[bytes] = '\0';
    return true;
}

/* Parses ['name'], ["name"] or [0]. */
static const char *parse_bracket(const char *at, struct segment *segment)
{
    if (at[1] == '\'' || at[1] == '"') {
        const char *end = strchr(at + 2, at[1]);
        return end && end[1] == ']' && copy_name(segment, at + 2, (size_t)(end - at - 2)) ? end + 2
                                                                                          : NULL;
    }
    size_t digits = strspn(at + 1, "0123456789");
    if (digits == 0 || digits > 9 || at[1 + digits] != ']' || (at[1] == '0' && digits > 1))
        return NULL;
    segment->is_index = true;
    for (size_t i = 0; i < digits; i++)
        segment->index = segment->index * 10 + (size_t)(at[1 + i] - '0');
    return at + digits + 2;
}

/* Returns where the next segment begins; NULL: not a segment. */
static const char *parse_segment(const char *at, struct segment *segment)
{
    segment->is_index = false;
    segment->index = 0;
    if (*at == '[')
        return parse_bracket(at, segment);
    size_t bytes = *at == '.' ? strcspn(at + 1, ".[]'\"*? ") : 0;
    return copy_name(segment, at + 1, bytes) ? at + 1 + bytes : NULL;
}

static const char wildcard[] = "[*]";

static bool is_wildcard(const char *at)
{
    return strncmp(at, wildcard, strlen(wildcard)) == 0;
}

static int check_path(const char *path, unsigned wildcards_max, const char *expected,
                      struct err *err)
{
    struct segment segment;
    unsigned wildcards = 0;
    const char *at = path[0] == '$' ? path + 1 : NULL;
    while (at && *at) {
        if (is_wildcard(at) && wildcards++ < wildcards_max)
            at += strlen(wildcard);
        else
            at = parse_segment(at, &segment);
    }
    if (at)
        return 0;
    err_set(err, -EINVAL, "a JSON path has the wrong form");
    err_expected(err, "%s", expected);
    err_found(err, "\"%.100s\"", path);
    return -EINVAL;
}

int jsonx_path_check(const char *path, struct err *err)
{
    return check_path(path, 0, "$.name, $['name'] or $[0], joined as in $.boxes[0].label", err);
}

int jsonx_path_check_list(const char *path, struct err *err)
{
    return check_path(path, 1,
                      "$.name, $['name'] or $[0], joined as in $.boxes[0].label, and at most one "
                      "[*], as in $.objects[*].bbox",
                      err);
}

/* Follows segments up to the end or a wildcard, at which *at then is. */
static struct json_t *follow(struct json_t *node, const char **at)
{
    struct segment segment;
    while (**at && !is_wildcard(*at)) {
        *at = parse_segment(*at, &segment);
        node = !node              ? NULL
               : segment.is_index ? jsonx_at(node, segment.index)
                                  : jsonx_get(node, segment.name);
    }
    return node;
}

struct json_t *jsonx_path_find(struct json_t *root, const char *path)
{
    const char *at = path + 1;
    return follow(root, &at);
}

struct jsonx_list jsonx_path_find_list(struct json_t *root, const char *path)
{
    const char *at = path + 1;
    struct json_t *array = follow(root, &at);
    return (struct jsonx_list){.array = array, .rest = *at ? at + strlen(wildcard) : NULL};
}

struct json_t *jsonx_list_at(const struct jsonx_list *list, size_t i)
{
    const char *at = list->rest;
    struct json_t *node = jsonx_at(list->array, i);
    return at ? follow(node, &at) : node;
}
