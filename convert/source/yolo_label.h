/*
 * yolo_label — the objects of an image, from a label file of YOLO: lines of `CLASS CX CY W H` or
 * `CLASS X Y X Y X Y ...`, in fractions of the image's width and height.
 */
#ifndef MILLRACE_CONVERT_SOURCE_YOLO_LABEL_H
#define MILLRACE_CONVERT_SOURCE_YOLO_LABEL_H

#include "base/err.h"
#include "base/str.h"

struct yolo_object {
    uint32_t class_number;
    double box[4];     /* center x, center y, width, height */
    size_t polygon_at; /* index of its first number in polygons */
    size_t polygon_count;
};

/* Zero-initialize. */
struct yolo_label {
    struct str objects;  /* struct yolo_object */
    struct str polygons; /* double: x, y of each point */
};
void yolo_label_deinit(struct yolo_label *label);

/* Replaces the label, keeping its memory. -EBADMSG names path and line. -ENOMEM. */
int yolo_label_parse(struct yolo_label *label, const char *text, size_t bytes,
                     uint64_t classes_count, const char *path, struct err *err);

static inline size_t yolo_objects_count(const struct yolo_label *label)
{
    return label->objects.bytes / sizeof(struct yolo_object);
}

static inline const struct yolo_object *yolo_objects(const struct yolo_label *label)
{
    return (const struct yolo_object *)(const void *)label->objects.data;
}

#endif
