/*
 * page_overlay — masks, boxes and keypoints of an item of a batch, drawn over a picture.
 *
 * A mask is a PNG with a fixed palette, transparent where it is PAGE_MASK_IGNORED. Boxes and
 * keypoints are SVG; if the picture has the size of the batch's images, the coordinates are exactly
 * those of the batch. All lie in a box of the class "view" (page.css).
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_OVERLAY_H
#define MILLRACE_CLI_REPORT_PAGE_OVERLAY_H

#include "base/str.h"
#include "loader/loader.h"

enum {
    PAGE_MASK_IGNORED = 255, /* the value that losses ignore by convention */
    PAGE_MARKS_MAX = 300,    /* boxes or keypoints drawn per field and item */
};

struct page_overlay {
    const char *image;                 /* draws what follows it */
    const struct loader_field *fields; /* of the loader */
    uint32_t fields_count;
    const struct loader_schema *schema; /* names of box classes */
    /* Of the image in the batch, and of the picture under the overlay, which shows the same. */
    uint32_t target_width, target_height, width, height;
};

/* Appends what item n has. *pixels: scratch. -ENOMEM. */
int page_overlay_add(const struct page_overlay *overlay, const struct batch *batch, uint32_t n,
                     struct str *pixels, struct str *out, struct err *err);
/* Appends the colors and numbers of the classes in a field of labels. */
void page_overlay_add_legend(const struct batch_field *labels, uint32_t n, struct str *out);

#endif
