/*
 * coco_layout — finds the annotation files of a COCO dataset and the folder of each split's images.
 * The files are annotations/KIND_SPLIT.json, or as Roboflow exports them,
 * SPLIT/_annotations.coco.json or a single one next to the images.
 */
#ifndef MILLRACE_CONVERT_SOURCE_COCO_LAYOUT_H
#define MILLRACE_CONVERT_SOURCE_COCO_LAYOUT_H

#include "convert/source/coco_object.h"
#include "convert/source/source.h"

enum { COCO_FILES_MAX = 4 * CONVERT_SPLITS_MAX, COCO_NAME_BYTES_MAX = 320 };

#define COCO_EXPORT_NAME "_annotations.coco.json"

struct coco_layout_file {
    char name[COCO_NAME_BYTES_MAX]; /* path below the source */
    enum coco_kind kind;
    uint32_t split;
};

struct coco_layout {
    struct coco_layout_file files[COCO_FILES_MAX]; /* by split, then by kind */
    uint32_t files_count;
    char splits[CONVERT_SPLITS_MAX][CONVERT_SPLIT_NAME_BYTES_MAX];
    uint32_t splits_count;
};

/* -EINVAL: two files of a split have the same kind, or there are too many; -ENOTSUP: a file of
 * another kind, or none. Blocks. */
int coco_layout_find(struct coco_layout *layout, struct io *io,
                     const struct convert_options *options, struct err *err);

/* Chooses the folder of a split's images by its first one: the split's name, images/NAME, images,
 * or the source itself. -ENOENT: none has that image; -EINVAL: several have. listed_in, offset:
 * where it is listed, for messages. Blocks. */
int coco_layout_find_images(const struct convert_options *options, struct io *io, const char *split,
                            const char *first_name, const char *listed_in, uint64_t offset,
                            char folder[IO_PATH_BYTES_MAX], struct err *err);

#endif
