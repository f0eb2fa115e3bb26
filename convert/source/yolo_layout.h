/*
 * yolo_layout — finds the image folders and class names of a YOLO dataset as Ultralytics defines
 * it: data.yaml, or folders called images and labels with classes.txt.
 */
#ifndef MILLRACE_CONVERT_SOURCE_YOLO_LAYOUT_H
#define MILLRACE_CONVERT_SOURCE_YOLO_LAYOUT_H

#include "base/name_set.h"
#include "convert/source/source.h"

struct yolo_split {
    char name[CONVERT_SPLIT_NAME_BYTES_MAX]; /* "" if it is the only one without a name */
    char folder[IO_PATH_BYTES_MAX];          /* of the images, below the source */
};

struct yolo_layout {
    struct yolo_split splits[CONVERT_SPLITS_MAX];
    uint32_t splits_count;
    struct name_set classes; /* names by class number */
};
void yolo_layout_deinit(struct yolo_layout *layout);

/* -EINVAL: the layout is ambiguous, or the class names are missing; -ENOENT: a folder of data.yaml
 * is missing; -ENOTSUP: data.yaml has lists of images or keypoints. Blocks. */
int yolo_layout_find(struct yolo_layout *layout, struct io *io,
                     const struct convert_options *options, struct err *err);

/* Stores the path with its last part "images" replaced by "labels". Returns false, and the same
 * path, if it has no such part. */
bool yolo_labels_path(const char *path, char labels[IO_PATH_BYTES_MAX]);

#endif
