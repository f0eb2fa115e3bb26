/*
 * annotated — the images of a dataset whose annotations are in other files: shared by the sources
 * for COCO, Pascal VOC and YOLO.
 *
 *     annotated_open(&list, source, true, err);
 *     annotated_add(&list, io, source, &image, err); // in the order of the items
 *
 * Memory per image: 24 bytes, its path, and its key with up to 42 bytes.
 */
#ifndef MILLRACE_CONVERT_SOURCE_ANNOTATED_H
#define MILLRACE_CONVERT_SOURCE_ANNOTATED_H

#include "base/hash.h"
#include "base/json/jsonx_writer.h"
#include "base/name_set.h"
#include "convert/source/file_list.h"

struct image_checker;

/* Zero-initialize. Immutable once listed; usable from any thread. */
struct annotated_list {
    char root[IO_PATH_BYTES_MAX];
    struct str paths;     /* below the root, each with its NUL */
    struct str images;    /* struct listed_image */
    struct name_set keys; /* of the images in their order, each after a character for its split */
};

/* Sets the root. in_pixels: annotations are in pixels. -EINVAL: options that are not for images
 * with such annotations. */
int annotated_open(struct annotated_list *list, const struct source *source, bool in_pixels,
                   struct err *err);
void annotated_deinit(struct annotated_list *list);

/* An image as an annotation file names it. Borrows all. */
struct annotated_image {
    const char *folder;    /* below the root; "" for the root */
    const char *name;      /* below the folder; gives the key */
    uint32_t split;        /* of the split folders, if there are any */
    const char *listed_in; /* path of the file that names it, for messages */
    int64_t offset;        /* in that file, or ERR_NO_OFFSET */
};
/* Adds an image; its number is the number of images before. Errors name the file that lists it.
 * -ENOENT: the image does not exist; -EEXIST: another image of the split has the same key;
 * -EBADMSG: the name is outside the folder, or not that of an image. Blocks. */
int annotated_add(struct annotated_list *list, struct io *io, struct source *source,
                  const struct annotated_image *image, struct err *err);
/* The first character of the keys of a split. */
static inline char annotated_split_char(uint32_t split)
{
    return (char)('0' + split);
}
uint64_t annotated_count(const struct annotated_list *list);
/* Path below the root. */
const char *annotated_path(const struct annotated_list *list, uint64_t number);
/* Sets the key, the split and the bytes of the image. */
void annotated_describe(const struct annotated_list *list, const struct source *source,
                        uint64_t number, struct source_item *item);
/* Updates the hash with the images' names and sizes. */
void annotated_identify(const struct annotated_list *list, struct hash_stream *hash);

/* Appends the image as the first field. width, height: what the annotations state, for the upright
 * image, or 0: unknown. listed_in: as above. -EBADMSG: the image has another size. Blocks. */
int annotated_read(const struct annotated_list *list, struct source_reader *reader,
                   struct image_checker *checker, uint64_t number, uint32_t width, uint32_t height,
                   const char *listed_in, struct source_sample *sample, struct err *err);

#endif
