/*
 * coco_object — see coco_object.h.
 */
#include "convert/source/coco_object.h"

#include "base/json/jsonx_format.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct annotation_at {
    const char *path;
    uint64_t offset;
    struct json_t *root;
};

static int reject(const struct annotation_at *at, const char *what, const char *expected,
                  struct err *err)
{
    int64_t id;
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, at->path, (int64_t)at->offset);
    err_expected(err, "%s", expected);
    if (jsonx_i64(jsonx_get(at->root, "id"), &id) == 0)
        err_found(err, "annotation %" PRId64, id);
    err_advise(err, "correct the annotation, or remove it");
    return -EBADMSG;
}

/* NULL if the member is absent or null. */
static struct json_t *get(const struct annotation_at *at, const char *key)
{
    struct json_t *node = jsonx_get(at->root, key);
    return jsonx_kind(node) == JSON_KIND_NULL ? NULL : node;
}

static int check_box(const struct annotation_at *at, const struct json_t *box, struct err *err)
{
    double numbers[4];
    bool is_valid = jsonx_kind(box) == JSON_KIND_ARRAY && jsonx_count(box) == 4;
    for (size_t i = 0; i < 4 && is_valid; i++)
        is_valid = jsonx_f64(jsonx_at(box, i), &numbers[i]) == 0;
    if (!is_valid)
        return reject(at, "an annotation has no valid box",
                      "\"bbox\" with 4 numbers: left, top, width, height", err);
    return numbers[2] >= 0 && numbers[3] >= 0
               ? 0
               : reject(at, "a box has a negative width or height",
                        "\"bbox\" with left, top, width, height", err);
}

static int parse_keypoints(const struct annotation_at *at, struct coco_object *object,
                           struct err *err)
{
    size_t count = jsonx_count(object->keypoints);
    double number;
    if (!object->keypoints)
        return 0;
    bool is_valid = jsonx_kind(object->keypoints) == JSON_KIND_ARRAY && count > 0 && count % 3 == 0;
    for (size_t i = 0; i < count && is_valid; i++)
        is_valid = jsonx_f64(jsonx_at(object->keypoints, i), &number) == 0;
    object->points_count = (uint32_t)(count / 3);
    return is_valid ? 0
                    : reject(at, "an annotation has no valid keypoints",
                             "\"keypoints\" with x, y, visibility of each point", err);
}

static int parse_crowd(const struct annotation_at *at, bool *ret_is_crowd, struct err *err)
{
    const struct json_t *node = get(at, "iscrowd");
    uint64_t number = 0;
    if (!node || jsonx_bool(node, ret_is_crowd) == 0)
        return 0;
    if (jsonx_u64(node, &number) || number > 1)
        return reject(at, "an annotation is not valid", "\"iscrowd\" with 0 or 1", err);
    *ret_is_crowd = number == 1;
    return 0;
}

static int parse_box(const struct annotation_at *at, struct coco_object *object, struct err *err)
{
    double area;
    object->box = get(at, "bbox");
    object->id = get(at, "id");
    object->area = get(at, "area");
    object->segmentation = get(at, "segmentation");
    object->keypoints = get(at, "keypoints");
    int status = check_box(at, object->box, err);
    if (!status && jsonx_i64(get(at, "category_id"), &object->category_id))
        status = reject(at, "an annotation has no category", "an integer \"category_id\"", err);
    if (!status && object->area && jsonx_f64(object->area, &area))
        status = reject(at, "an annotation is not valid", "\"area\" with a number", err);
    if (!status)
        status = parse_crowd(at, &object->is_crowd, err);
    return status ? status : parse_keypoints(at, object, err);
}

int coco_object_parse(enum coco_kind kind, const char *text, size_t bytes, const char *path,
                      uint64_t offset, struct coco_object *ret_object, struct err *err)
{
    struct annotation_at at = {.path = path, .offset = offset};
    struct coco_object object = {0};
    int status = jsonx_parse_value(text, bytes, path, (int64_t)offset, &at.root, err);
    if (status)
        return status;
    object.root = at.root;
    if (jsonx_kind(at.root) != JSON_KIND_OBJECT)
        status = reject(&at, "an annotation is not a JSON object", "an object", err);
    else if (jsonx_i64(get(&at, "image_id"), &object.image_id))
        status = reject(&at, "an annotation has no image", "an integer \"image_id\"", err);
    else if (kind != COCO_CAPTIONS)
        status = parse_box(&at, &object, err);
    else if (jsonx_text(get(&at, "caption"), &object.caption))
        status = reject(&at, "an annotation has no caption", "a string \"caption\"", err);
    if (status)
        jsonx_free(at.root);
    else
        *ret_object = object;
    return status;
}

struct other_members {
    bool is_caption;
    int (*visit)(void *context, const char *name);
    void *context;
};

static int visit_member(void *context, const char *key, struct json_t *value)
{
    static const char *const known[] = {"image_id",  "bbox",        "id",
                                        "area",      "iscrowd",     "segmentation",
                                        "keypoints", "category_id", "num_keypoints"};
    static const char *const known_of_captions[] = {"image_id", "id", "caption"};
    const struct other_members *others = context;
    const char *const *names = others->is_caption ? known_of_captions : known;
    size_t count = others->is_caption ? sizeof known_of_captions / sizeof *names
                                      : sizeof known / sizeof *names;
    (void)value;
    for (size_t i = 0; i < count; i++)
        if (strcmp(key, names[i]) == 0)
            return 0;
    return others->visit(others->context, key);
}

int coco_object_each_other(const struct coco_object *object,
                           int (*visit)(void *context, const char *name), void *context)
{
    struct other_members others = {object->caption != NULL, visit, context};
    return jsonx_each(object->root, visit_member, &others);
}

/* Without keypoints, all points are 0, 0, 0, as COCO stores points that are not labeled. */
static void write_keypoints(struct jsonx_writer *json, const struct coco_object *object,
                            uint32_t points_count)
{
    for (size_t i = 0; i < 3 * (size_t)points_count; i++)
        if (object->keypoints)
            jsonx_copy(json, NULL, jsonx_at(object->keypoints, i));
        else
            jsonx_write_u64(json, NULL, 0);
}

void coco_write_objects(struct jsonx_writer *json, const struct coco_columns *columns,
                        const struct coco_object *objects, const uint32_t *classes, size_t count)
{
    jsonx_begin_array(json, "boxes");
    for (size_t i = 0; i < count; i++)
        jsonx_copy(json, NULL, objects[i].box);
    jsonx_end_array(json);
    jsonx_begin_array(json, "classes");
    for (size_t i = 0; i < count; i++)
        jsonx_write_u64(json, NULL, classes[i]);
    jsonx_end_array(json);
    jsonx_begin_array(json, "category_ids");
    for (size_t i = 0; i < count; i++)
        jsonx_write_i64(json, NULL, objects[i].category_id);
    jsonx_end_array(json);
    jsonx_begin_array(json, "iscrowd");
    for (size_t i = 0; i < count; i++)
        jsonx_write_u64(json, NULL, objects[i].is_crowd);
    jsonx_end_array(json);
    if (columns->has_areas) {
        jsonx_begin_array(json, "areas");
        for (size_t i = 0; i < count; i++)
            jsonx_copy(json, NULL, objects[i].area);
        jsonx_end_array(json);
    }
    if (columns->has_ids) {
        jsonx_begin_array(json, "ids");
        for (size_t i = 0; i < count; i++)
            jsonx_copy(json, NULL, objects[i].id);
        jsonx_end_array(json);
    }
    if (columns->points_count > 0) {
        jsonx_begin_array(json, "keypoints");
        for (size_t i = 0; i < count; i++)
            write_keypoints(json, &objects[i], columns->points_count);
        jsonx_end_array(json);
    }
}

void coco_write_segmentations(struct jsonx_writer *json, const struct coco_object *objects,
                              size_t count)
{
    jsonx_begin_array(json, NULL);
    for (size_t i = 0; i < count; i++)
        jsonx_copy(json, NULL, objects[i].segmentation);
    jsonx_end_array(json);
}
