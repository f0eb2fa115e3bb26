/*
 * jsonx_path — selects one node of a JSON document by a singular query of JSONPath (RFC 9535,
 * section 2.3.5.1): `$`, then `.name`, `['name']` and `[0]` in any number. A name in quotes is
 * taken as written, without escapes; negative indexes are not supported.
 *
 *     jsonx_path_check("$.boxes[0].label", err);
 *     node = jsonx_path_find(root, "$.boxes[0].label");
 *
 * A path of a list may also have one `[*]`, the elements of an array:
 *
 *     jsonx_path_check_list("$.objects[*].bbox", err);
 *     list = jsonx_path_find_list(root, "$.objects[*].bbox");
 *     node = jsonx_list_at(&list, 0);                        // that of $.objects[0].bbox
 */
#ifndef MILLRACE_BASE_JSON_JSONX_PATH_H
#define MILLRACE_BASE_JSON_JSONX_PATH_H

#include "base/err.h"
#include "base/json/jsonx.h"

enum { JSONX_PATH_NAME_BYTES_MAX = 256 };

/* -EINVAL with the expected form. */
int jsonx_path_check(const char *path, struct err *err);
/* Returns NULL if the document has no such node. Requires a checked path. */
struct json_t *jsonx_path_find(struct json_t *root, const char *path);

/* The elements of an array, or what a path selects in each. */
struct jsonx_list {
    struct json_t *array; /* NULL: the document has no such node; of any kind */
    const char *rest;     /* of the path, after `[*]`; NULL: there is none */
};
/* Like jsonx_path_check, for jsonx_path_find_list. */
int jsonx_path_check_list(const char *path, struct err *err);
/* Borrows root and path, which must be checked. */
struct jsonx_list jsonx_path_find_list(struct json_t *root, const char *path);
/* Returns NULL if there is no such node. i: below jsonx_count(list->array). */
struct json_t *jsonx_list_at(const struct jsonx_list *list, size_t i);

#endif
