/*
 * page_items — figures of the items of a loader's batches: the pictures with their masks, boxes and
 * keypoints (page_overlay.h), and below them the class, the key and the other fields.
 *
 *     page_items_open(&items, &options, err);
 *     page_items_add(&items, batch, n, err);
 *     page_items_show(&items, "Samples", note, &page);
 *     page_items_close(&items);
 *
 * The page depends only on the batches. No picture is added after PAGE_ITEMS_BYTES_MAX.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_ITEMS_H
#define MILLRACE_CLI_REPORT_PAGE_ITEMS_H

#include "base/str.h"
#include "image/pipeline/pipeline.h"
#include "loader/loader.h"

enum {
    PAGE_ITEMS_BYTES_MAX = 16 << 20,
    PAGE_ITEMS_QUALITY = 92,         /* of JPEGs */
    PAGE_ITEMS_TEXT_BYTES_MAX = 600, /* of a field */
};

struct page_items_options {
    const struct loader *loader;
    const struct loader_field *fields; /* of the loader, to be shown */
    uint32_t fields_count;
    bool has_image; /* of LOADER_IMAGE */
    /* The batch's images are stretched (CROP_NONE), and fields of bytes have the stored ones: that
     * of the image NAME is named PAGE_ITEMS_STORED "NAME". Shows those instead, as large as fits
     * into side_pixels, except of images without such a field. */
    bool shows_stored;
    uint32_t side_pixels;
    bool shows_positions;
};

#define PAGE_ITEMS_STORED "stored "

/* Zero it before page_items_open. Owner thread. */
struct page_items {
    struct page_items_options options;
    struct image_pipeline *pipeline; /* of stored images */
    struct str figures;
    uint64_t count;
    struct str scratch, name;
};
/* Borrows the options' pointers. Close even after a failure. */
int page_items_open(struct page_items *items, const struct page_items_options *options,
                    struct err *err);
void page_items_close(struct page_items *items);
/* Adds a figure of item n, or of a skipped item, the reason. -ENOMEM. */
int page_items_add(struct page_items *items, const struct batch *batch, uint32_t n,
                   struct err *err);
/* Appends a section. note: a sentence. */
void page_items_show(const struct page_items *items, const char *heading, const char *note,
                     struct str *out);

#endif
