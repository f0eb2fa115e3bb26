/*
 * voc_object — the objects of an image, from an annotation file of Pascal VOC
 * (http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html).
 */
#ifndef MILLRACE_CONVERT_SOURCE_VOC_OBJECT_H
#define MILLRACE_CONVERT_SOURCE_VOC_OBJECT_H

#include "base/err.h"
#include "base/str.h"

struct voc_object {
    size_t name_at; /* of the class, in names */
    double box[4];  /* left, top, right, bottom: edges in pixels from 0 */
    bool is_difficult, is_truncated, is_occluded;
};

/* Zero-initialize. */
struct voc_annotation {
    uint32_t width, height; /* 0: unknown */
    struct str objects;     /* struct voc_object, in the order of the file */
    struct str names;       /* each with its NUL */
};
void voc_annotation_deinit(struct voc_annotation *annotation);

/* Replaces the annotation, keeping its memory. -EBADMSG names path and the offset of the object's
 * end. -ENOMEM. */
int voc_annotation_parse(struct voc_annotation *annotation, const char *text, size_t bytes,
                         const char *path, struct err *err);

static inline size_t voc_objects_count(const struct voc_annotation *annotation)
{
    return annotation->objects.bytes / sizeof(struct voc_object);
}

static inline const struct voc_object *voc_objects(const struct voc_annotation *annotation)
{
    return (const struct voc_object *)(const void *)annotation->objects.data;
}

#endif
