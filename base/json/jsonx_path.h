/*
 * jsonx_path — selects one node of a JSON document by a singular query of JSONPath (RFC 9535,
 * section 2.3.5.1): `$`, then `.name`, `['name']` and `[0]` in any number. A name in quotes is
 * taken as written, without escapes; negative indexes are not supported.
 *
 *     jsonx_path_check("$.boxes[0].label", err);
 *     node = jsonx_path_find(root, "$.boxes[0].label");
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

#endif
