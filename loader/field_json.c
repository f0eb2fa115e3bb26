/*
 * field_json — JSON text from a whole field or from a part of its document (LOADER_FIELD_JSON).
 */
#include "loader/field_values.h"

#include "base/json/jsonx_format.h"
#include "base/json/jsonx_plain.h"

#include <string.h>

/* Sets *ret_text to the stored field, or to the value at the path; NULL: there is none. */
static int find_json(struct load_worker *worker, const struct loader_field *type,
                     const struct shard *shard, const struct view_piece *piece,
                     const char **ret_text, size_t *ret_bytes, struct err *err)
{
    const char *stored = (const char *)view_data(piece);
    struct json_t *node = NULL;
    bool is_plain = !type->path && jsonx_is_plain_object(stored, piece->want_bytes);
    int status = is_plain ? 0 : field_find_value(worker, type->path, shard, piece, &node, err);
    *ret_text = is_plain || node ? stored : NULL;
    *ret_bytes = piece->want_bytes;
    if (status || !node || !type->path)
        return status;
    str_clear(&worker->json);
    jsonx_copy(&(struct jsonx_writer){.out = &worker->json}, NULL, node);
    *ret_text = str_text(&worker->json);
    *ret_bytes = worker->json.bytes;
    status = str_status(&worker->json);
    return status ? err_set(err, status, "out of memory for a JSON value") : 0;
}

int field_decode_json(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                      uint32_t field, const struct shard *shard, const struct view_piece *piece,
                      struct err *err)
{
    const struct loader_field *type = &worker->loader->options.fields[field];
    const char *text = NULL;
    size_t bytes = 0;
    int status =
        piece->field.present ? find_json(worker, type, shard, piece, &text, &bytes, err) : 0;
    if (status)
        return status;
    if (!text) {
        text = type->default_value;
        bytes = text ? strlen(text) : 0;
    }
    if (!text)
        return field_no_value(type, shard, piece, err);
    return ragged_store(worker->loader, slot, item, field, text, bytes, &(uint64_t){bytes}, err);
}
