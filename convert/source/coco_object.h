/*
 * coco_object — one annotation of a COCO file: a box, keypoints or a caption.
 *
 * The format: https://cocodataset.org/#format-data.
 */
#ifndef MILLRACE_CONVERT_SOURCE_COCO_OBJECT_H
#define MILLRACE_CONVERT_SOURCE_COCO_OBJECT_H

#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"

/* What an annotation file describes. */
enum coco_kind {
    COCO_OBJECTS,
    COCO_KEYPOINTS, /* objects with keypoints */
    COCO_CAPTIONS,
    COCO_IMAGES, /* images only */
};

/* Nodes are NULL if absent. */
struct coco_object {
    struct json_t *root; /* owned by the caller: jsonx_free */
    int64_t image_id;
    /* Of captions, NULL and unspecified: */
    struct json_t *box, *id, *area, *segmentation, *keypoints;
    int64_t category_id;
    bool is_crowd;
    uint32_t points_count; /* keypoints */
    /* Of captions only: */
    const char *caption;
};

/* Parses and checks an annotation. -EBADMSG names path and offset, where the text begins. */
int coco_object_parse(enum coco_kind kind, const char *text, size_t bytes, const char *path,
                      uint64_t offset, struct coco_object *ret_object, struct err *err);
/* Calls visit with each member that struct coco_object lacks. */
int coco_object_each_other(const struct coco_object *object,
                           int (*visit)(void *context, const char *name), void *context);

/* Which members the objects of a file have. */
struct coco_columns {
    bool has_ids, has_areas; /* all of them */
    bool has_segmentations;  /* any of them */
    uint32_t points_count;   /* keypoints of each that has any; 0: none has */
};
/* Writes the arrays of an image's objects into a JSON object. classes: a class for each. */
void coco_write_objects(struct jsonx_writer *json, const struct coco_columns *columns,
                        const struct coco_object *objects, const uint32_t *classes, size_t count);
/* Writes a JSON array of the objects' segmentations, null for one without. */
void coco_write_segmentations(struct jsonx_writer *json, const struct coco_object *objects,
                              size_t count);

#endif
