/*
 * coco_file — an annotation file of COCO. One pass finds its images, categories and annotations;
 * later, the annotations of an image are read by their offsets.
 *
 * Memory per annotation: 16 bytes, and during the pass 32 more. Per image during the pass: 32 bytes
 * and its name.
 */
#ifndef MILLRACE_CONVERT_SOURCE_COCO_FILE_H
#define MILLRACE_CONVERT_SOURCE_COCO_FILE_H

#include "base/hash.h"
#include "base/name_set.h"
#include "convert/source/coco_object.h"
#include "convert/source/file_list.h"

/* An annotation in the file. */
struct coco_span {
    uint64_t offset;
    uint32_t bytes;
    uint32_t image; /* number in the source */
};

/* Immutable once listed. */
struct coco_file {
    char path[IO_PATH_BYTES_MAX];
    struct listed_file file; /* size and identity */
    enum coco_kind kind;
    uint32_t split;
    struct coco_columns columns;
    struct str spans; /* struct coco_span, by image, then by offset */
};

struct coco_image {
    int64_t id;
    uint64_t name_at; /* of file_name, in names */
    uint64_t offset;
    uint32_t width, height; /* 0: unknown */
};

struct coco_category {
    int64_t id;
    uint64_t name_at; /* in names */
    uint64_t offset;
};

/* An annotation of which the image and the category are not yet checked. */
struct coco_reference {
    int64_t image_id, category_id;
    uint64_t offset;
    uint32_t bytes;
};

/* What a pass finds, in the file's order. Zero-initialize. */
struct coco_listing {
    struct str images;      /* struct coco_image */
    struct str categories;  /* struct coco_category */
    struct str references;  /* struct coco_reference */
    struct str names;       /* each with its NUL */
    struct name_set others; /* members of annotations that are not stored */
};
void coco_listing_deinit(struct coco_listing *listing);

/* Reads the file at file->path, of file->kind. Sets file->file and columns. Updates the hash with
 * its bytes. -EBADMSG names the offset of what is not valid. Blocks. */
int coco_file_list(struct coco_file *file, struct io *io, const atomic_int *stop,
                   struct hash_stream *hash, struct coco_listing *listing, struct err *err);

/* The spans of an image. */
const struct coco_span *coco_file_find(const struct coco_file *file, uint32_t image,
                                       size_t *ret_count);

#endif
