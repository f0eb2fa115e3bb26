/*
 * coco_file — see coco_file.h.
 */
#include "convert/source/coco_file.h"

#include "base/bytes.h"
#include "base/json/jsonx_stream.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OTHERS_MAX = 16 };

void coco_listing_deinit(struct coco_listing *listing)
{
    str_deinit(&listing->images);
    str_deinit(&listing->categories);
    str_deinit(&listing->references);
    str_deinit(&listing->names);
    name_set_deinit(&listing->others);
}

/* The arrays of the file, in the order of their bits in coco_pass.seen. */
enum coco_array { ARRAY_IMAGES, ARRAY_ANNOTATIONS, ARRAY_CATEGORIES, ARRAYS_COUNT };
static const char *const array_names[ARRAYS_COUNT] = {"images", "annotations", "categories"};

struct coco_pass {
    struct coco_file *file;
    struct io *io;
    const atomic_int *stop;
    struct io_queue *queue;
    struct hash_stream *hash;
    struct coco_listing *listing;
    uint64_t next_read; /* offset in the file */
    unsigned seen;      /* bit i: array i */
    uint64_t objects_count, ids_count, areas_count;
};

static int read_text(void *context, size_t bytes, struct str *out, struct err *err)
{
    struct coco_pass *pass = context;
    const struct listed_file *file = &pass->file->file;
    uint64_t count = bytes_min(bytes, file->bytes - pass->next_read);
    size_t start = out->bytes;
    if (pass->stop && atomic_load(pass->stop))
        return err_set(err, -EINTR, "stopped while annotations were listed");
    if (count == 0)
        return 0;
    int status = listed_file_read(file, pass->io, pass->queue, pass->file->path, pass->next_read,
                                  count, out, err);
    if (status)
        return status;
    hash_stream_update(pass->hash, out->data + start, count);
    pass->next_read += count;
    return 0;
}

static int reject(const struct coco_pass *pass, int64_t offset, const char *what,
                  const char *expected, struct err *err)
{
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, pass->file->path, offset);
    err_expected(err, "%s", expected);
    return -EBADMSG;
}

/* Reads a size; absent or null: 0. */
static int read_size(const struct json_t *node, uint32_t *ret_size)
{
    uint64_t size = 0;
    if (jsonx_kind(node) != JSON_KIND_NULL && (jsonx_u64(node, &size) || size > UINT32_MAX))
        return -EBADMSG;
    *ret_size = (uint32_t)size;
    return 0;
}

static int add_image(struct coco_pass *pass, const struct json_t *node, uint64_t offset,
                     struct err *err)
{
    struct coco_listing *listing = pass->listing;
    struct coco_image image = {.name_at = listing->names.bytes, .offset = offset};
    const char *name;
    if (jsonx_i64(jsonx_get(node, "id"), &image.id) ||
        jsonx_text(jsonx_get(node, "file_name"), &name) || !*name)
        return reject(pass, (int64_t)offset, "an image has no id or file name",
                      "an integer \"id\" and a string \"file_name\"", err);
    if (read_size(jsonx_get(node, "width"), &image.width) ||
        read_size(jsonx_get(node, "height"), &image.height))
        return reject(pass, (int64_t)offset, "an image has no valid size",
                      "\"width\" and \"height\" in pixels", err);
    str_add(&listing->names, name, strlen(name) + 1);
    str_add(&listing->images, &image, sizeof image);
    return 0;
}

static int add_category(struct coco_pass *pass, const struct json_t *node, uint64_t offset,
                        struct err *err)
{
    struct coco_listing *listing = pass->listing;
    struct coco_category category = {.name_at = listing->names.bytes, .offset = offset};
    const char *name;
    if (jsonx_i64(jsonx_get(node, "id"), &category.id) ||
        jsonx_text(jsonx_get(node, "name"), &name) || !*name)
        return reject(pass, (int64_t)offset, "a category has no id or name",
                      "an integer \"id\" and a string \"name\"", err);
    str_add(&listing->names, name, strlen(name) + 1);
    str_add(&listing->categories, &category, sizeof category);
    return 0;
}

static int add_other(void *context, const char *name)
{
    struct coco_listing *listing = context;
    uint32_t number;
    bool is_new;
    return name_set_count(&listing->others) < OTHERS_MAX
               ? name_set_add(&listing->others, name, strlen(name), &number, &is_new, NULL)
               : 0;
}

static int update_columns(struct coco_pass *pass, const struct coco_object *object, uint64_t offset,
                          struct err *err)
{
    struct coco_columns *columns = &pass->file->columns;
    pass->objects_count++;
    pass->ids_count += object->id != NULL;
    pass->areas_count += object->area != NULL;
    columns->has_segmentations |= /* tools for boxes write empty arrays */
        object->segmentation && jsonx_count(object->segmentation) > 0;
    if (object->points_count == 0)
        return 0;
    if (columns->points_count == 0)
        columns->points_count = object->points_count;
    if (columns->points_count == object->points_count)
        return 0;
    reject(pass, (int64_t)offset, "objects have different numbers of keypoints", "the same number",
           err);
    err_found(err, "%" PRIu32 ", and before %" PRIu32, object->points_count, columns->points_count);
    return -EBADMSG;
}

static int add_annotation(struct coco_pass *pass, const struct jsonx_stream_value *value,
                          struct err *err)
{
    struct coco_listing *listing = pass->listing;
    struct coco_object object;
    int status = coco_object_parse(pass->file->kind, value->text, value->bytes, pass->file->path,
                                   value->offset, &object, err);
    if (status)
        return status;
    const struct coco_reference reference = {object.image_id, object.category_id, value->offset,
                                             (uint32_t)value->bytes};
    str_add(&listing->references, &reference, sizeof reference);
    status = update_columns(pass, &object, value->offset, err);
    if (!status && coco_object_each_other(&object, add_other, listing))
        status = err_set(err, -ENOMEM, "out of memory for a set of names");
    jsonx_free(object.root);
    return status;
}

static int add_element(struct coco_pass *pass, enum coco_array array,
                       const struct jsonx_stream_value *value, struct err *err)
{
    struct json_t *root = NULL;
    if (array == ARRAY_ANNOTATIONS)
        return pass->file->kind == COCO_IMAGES ? 0 : add_annotation(pass, value, err);
    int status = jsonx_parse_value(value->text, value->bytes, pass->file->path,
                                   (int64_t)value->offset, &root, err);
    if (!status)
        status = array == ARRAY_IMAGES ? add_image(pass, root, value->offset, err)
                                       : add_category(pass, root, value->offset, err);
    jsonx_free(root);
    return status;
}

static int visit_value(struct coco_pass *pass, enum jsonx_stream_event event,
                       const struct jsonx_stream_value *value, struct err *err)
{
    struct coco_listing *listing = pass->listing;
    for (int array = 0; array < ARRAYS_COUNT; array++) {
        if (strcmp(value->key, array_names[array]) != 0)
            continue;
        if (event == JSONX_STREAM_ELEMENT) {
            int status = add_element(pass, (enum coco_array)array, value, err);
            bool is_full = str_status(&listing->images) || str_status(&listing->names) ||
                           str_status(&listing->categories) || str_status(&listing->references);
            return !status && is_full ? err_set(err, -ENOMEM, "out of memory for annotations")
                                      : status;
        }
        if (event == JSONX_STREAM_MEMBER || pass->seen & 1u << array)
            return reject(pass, (int64_t)value->offset, "not an annotation file of COCO",
                          "\"images\", \"annotations\" and \"categories\", once each, with arrays",
                          err);
        pass->seen |= 1u << array;
    }
    return 0;
}

static int check_arrays(const struct coco_pass *pass, struct err *err)
{
    unsigned needed = 1u << ARRAY_IMAGES;
    if (pass->file->kind != COCO_IMAGES)
        needed |= 1u << ARRAY_ANNOTATIONS;
    if (pass->file->kind == COCO_OBJECTS || pass->file->kind == COCO_KEYPOINTS)
        needed |= 1u << ARRAY_CATEGORIES;
    for (int array = 0; array < ARRAYS_COUNT; array++)
        if (needed & 1u << array && !(pass->seen & 1u << array)) {
            err_set(err, -EBADMSG, "not an annotation file of COCO");
            err_at(err, pass->file->path, ERR_NO_OFFSET);
            err_expected(err, "an object with the array \"%s\"", array_names[array]);
            err_advise(err, "skip the file with --ignore if it is something else");
            return -EBADMSG;
        }
    return 0;
}

static int list_values(struct coco_pass *pass, struct err *err)
{
    const struct jsonx_stream_source source = {pass->file->path, read_text, pass};
    struct jsonx_stream *stream = NULL;
    struct jsonx_stream_value value;
    int status = jsonx_stream_open(&source, &stream, err);
    while (!status && (status = jsonx_stream_next(stream, &value, err)) > JSONX_STREAM_END)
        status = visit_value(pass, (enum jsonx_stream_event)status, &value, err);
    jsonx_stream_close(stream);
    return status ? status : check_arrays(pass, err);
}

int coco_file_list(struct coco_file *file, struct io *io, const atomic_int *stop,
                   struct hash_stream *hash, struct coco_listing *listing, struct err *err)
{
    struct coco_pass pass = {
        .file = file, .io = io, .stop = stop, .hash = hash, .listing = listing};
    struct io_stat info;
    int status = io->names->stat(io, file->path, &info, err);
    if (!status)
        status = io->ops->queue_open(io, 1, &pass.queue, err);
    if (status)
        return status;
    listed_file_set(&file->file, &info);
    status = list_values(&pass, err);
    io->ops->queue_close(pass.queue);
    file->columns.has_ids = pass.ids_count == pass.objects_count;
    file->columns.has_areas = pass.areas_count == pass.objects_count;
    return status;
}

const struct coco_span *coco_file_find(const struct coco_file *file, uint32_t image,
                                       size_t *ret_count)
{
    const struct coco_span *spans = (const struct coco_span *)(const void *)file->spans.data;
    size_t count = file->spans.bytes / sizeof *spans, begin = 0, end = count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (spans[middle].image < image)
            begin = middle + 1;
        else
            end = middle;
    }
    while (end < count && spans[end].image == image)
        end++;
    *ret_count = end - begin;
    return spans + begin;
}
