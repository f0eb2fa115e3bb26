/*
 * page_sheet — a contact sheet: figures with a thumbnail or other content, class and key.
 *
 * Has at most SHEET_SAMPLES_MAX figures, and adds no image after SHEET_BYTES_MAX.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_SHEET_H
#define MILLRACE_CLI_REPORT_PAGE_SHEET_H

#include "cli/report/survey.h"
#include "image/pipeline/pipeline.h"

enum {
    SHEET_SAMPLES_MAX = 96,
    SHEET_SIDE_PIXELS = 192, /* longer side; displayed at half the size */
    SHEET_QUALITY = 80,      /* about 5 KB each */
    SHEET_BYTES_MAX = 4 << 20,
};

/* Zero it before page_sheet_open. Owner thread. */
struct page_sheet {
    const struct dataset *dataset; /* for class names; NULL: none */
    struct image_pipeline *pipeline;
    struct str figures;
    uint64_t count;
    struct str thumbnail; /* scratch */
};
/* Borrows dataset. Close even after a failure. */
int page_sheet_open(const struct dataset *dataset, struct page_sheet *sheet, struct err *err);
void page_sheet_close(struct page_sheet *sheet);
/* Adds a figure. An undecodable image is labeled as such and is not an error. */
int page_sheet_add(struct page_sheet *sheet, struct survey *survey,
                   const struct survey_sample *sample, struct err *err);

/* Formats the class's name or, without one, its number; "" if negative. Returns name. */
const char *page_class_name(const struct dataset *dataset, int64_t number, char *name,
                            size_t bytes);

#endif
