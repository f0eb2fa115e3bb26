/*
 * label — decodes the label of an image (struct loader_label).
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "base/json/jsonx_path.h"
#include "shards/dataset/class_number.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool label_is_stored_class(const struct loader_label *label)
{
    return !label->path && !label->map && (!label->from || strcmp(label->from, "cls") == 0);
}

static int read_classes(struct loader *loader, const char *path, struct err *err)
{
    struct name_list *list = &loader->class_list;
    int status = name_list_read(loader->io, path, NAME_LIST_CLASSES, list, err);
    if (status)
        return status;
    loader->class_names = calloc(list->count, sizeof *loader->class_names);
    if (!loader->class_names)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu64 " class names", list->count);
    for (uint64_t i = 0; i < list->count; i++)
        loader->class_names[i] = name_set_at(&list->names, i);
    return 0;
}

int label_open(struct loader *loader, struct err *err)
{
    struct loader_label *label = &loader->options.image.label;
    loader->label_path = label->path ? strdup(label->path) : NULL;
    if (label->path && !loader->label_path)
        return err_set(err, -ENOMEM, "out of memory for the path of labels");
    label->path = loader->label_path;
    int status = label->path ? jsonx_path_check(label->path, err) : 0;
    return !status && label->map ? read_classes(loader, label->map, err) : status;
}

void label_close(struct loader *loader)
{
    free(loader->label_path);
    free(loader->class_names);
    name_list_deinit(&loader->class_list);
}

/* found: the value as text. */
static int bad_label(const struct loader *loader, const struct shard *shard,
                     const struct view_piece *piece, const char *found, size_t bytes,
                     struct err *err)
{
    const struct loader_label *label = &loader->options.image.label;
    err_set(err, -EBADMSG, "field \"%s\"%s%.80s is not a class%s", piece->extension,
            label->path ? " at " : "", label->path ? label->path : "",
            loader->class_list.count ? "" : " number");
    err_at(err, shard->path, (int64_t)piece->want_offset);
    if (loader->class_list.count)
        err_expected(err, "one of the %" PRIu64 " class names", loader->class_list.count);
    else if (loader->labels_count)
        err_expected(err, "0 to %" PRIu64, loader->labels_count - 1);
    else
        err_expected(err, label->path ? "an integer" : "a decimal number");
    err_found(err, "\"%.*s\"", (int)bytes_min(bytes, 60), found);
    return -EBADMSG;
}

static size_t trim_end(const char *text, size_t bytes)
{
    while (bytes > 0 && memchr("\n\r\t ", text[bytes - 1], 4))
        bytes--;
    return bytes;
}

/* The value at the path, as text; number: room for an integer. */
static int find_text(struct load_worker *worker, const struct shard *shard,
                     const struct view_piece *piece, char number[24], const char **ret_text,
                     size_t *ret_bytes, struct err *err)
{
    const struct loader *loader = worker->loader;
    struct json_t *node;
    int64_t integer;
    const char *data = (const char *)view_data(piece);
    *ret_text = data;
    *ret_bytes = trim_end(data, piece->want_bytes);
    if (!loader->options.image.label.path)
        return 0;
    int status =
        field_find_value(worker, loader->options.image.label.path, shard, piece, &node, err);
    if (status)
        return status;
    if (node && !jsonx_i64(node, &integer)) {
        *ret_text = number;
        *ret_bytes = (size_t)snprintf(number, 24, "%" PRId64, integer);
        return 0;
    }
    if (!node || !loader->class_list.count || jsonx_text(node, ret_text))
        return bad_label(loader, shard, piece, data, piece->want_bytes, err);
    *ret_bytes = strlen(*ret_text);
    return 0;
}

int label_decode(struct load_worker *worker, const struct shard *shard,
                 const struct view_piece *piece, int32_t *ret_label, struct err *err)
{
    const struct loader *loader = worker->loader;
    char number[24];
    const char *text;
    size_t bytes;
    int32_t label = 0;
    int status = find_text(worker, shard, piece, number, &text, &bytes, err);
    if (status)
        return status;
    if (loader->class_list.count) {
        uint32_t found = 0;
        status = name_set_find(&loader->class_list.names, text, bytes, &found) ? 0 : -EBADMSG;
        label = (int32_t)found;
    } else {
        status = class_number_parse(text, bytes, loader->labels_count, &label);
    }
    if (status)
        return bad_label(loader, shard, piece, text, bytes, err);
    *ret_label = loader->label_map ? loader->label_map[label] : label;
    return 0;
}
