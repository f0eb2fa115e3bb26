#include "cli/report/page_sheet.h"

#include "cli/report/page.h"
#include "image/jpeg/jpeg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    TEXT_BYTES_MAX = 160, /* of a text field */
    CLASS_NAME_BYTES_MAX = 256,
};

int page_sheet_open(const struct dataset *dataset, struct page_sheet *sheet, struct err *err)
{
    /* image_pipeline_decode_whole ignores the target size */
    struct image_options options = {.width = SHEET_SIDE_PIXELS,
                                    .height = SHEET_SIDE_PIXELS,
                                    .crop = crop_options_default(CROP_NONE)};
    sheet->dataset = dataset;
    return image_pipeline_open(&options, &sheet->pipeline, err);
}

void page_sheet_close(struct page_sheet *sheet)
{
    image_pipeline_close(sheet->pipeline);
    str_deinit(&sheet->figures);
    str_deinit(&sheet->thumbnail);
}

const char *page_class_name(const struct dataset *dataset, int64_t number, char *name, size_t bytes)
{
    if (number < 0)
        name[0] = '\0';
    else if (dataset && (uint64_t)number < dataset->classes_count)
        snprintf(name, bytes, "%s", dataset->classes[number]);
    else
        snprintf(name, bytes, "%" PRId64, number);
    return name;
}

/* The alt text names class and key. */
static void show_picture(struct page_sheet *sheet, const struct survey_sample *sample,
                         const struct str *jpeg, uint32_t width, uint32_t height)
{
    struct str *out = &sheet->figures;
    char name[CLASS_NAME_BYTES_MAX];
    str_add_text(out, "<img src=\"");
    page_data_uri(out, "image/jpeg", jpeg->data, jpeg->bytes);
    str_add_text(out, "\" alt=\"");
    page_text(out, page_class_name(sheet->dataset, sample->class_number, name, sizeof name));
    str_add_text(out, sample->class_number < 0 ? "picture of " : ": picture of ");
    page_text_bytes(out, sample->key, sample->key_bytes);
    str_add_format(out, "\" width=\"%" PRIu32 "\" height=\"%" PRIu32 "\"/>", width, height);
}

static void show_note(struct str *out, const char *text, size_t bytes)
{
    str_add_text(out, "<span class=\"none\">");
    page_text_bytes(out, text, bytes);
    str_add_text(out, "</span>");
}

static int show_thumbnail(struct page_sheet *sheet, const struct survey_sample *sample,
                          const uint8_t *data, size_t bytes, struct err *err)
{
    const uint8_t *rgb;
    uint32_t width, height;
    struct err detail = {0};
    int status = image_pipeline_decode_whole(sheet->pipeline, data, bytes, NULL,
                                             (struct image_bounds){SHEET_SIDE_PIXELS}, &rgb, &width,
                                             &height, &detail);
    if (status == -EBADMSG) {
        show_note(&sheet->figures, detail.what, strlen(detail.what));
        return 0;
    }
    if (status)
        return err_set(err, status, "cannot create a thumbnail: %s", detail.what);
    str_clear(&sheet->thumbnail);
    status = jpeg_encode(rgb, width, height, (size_t)width * 3, SHEET_QUALITY, 0, &sheet->thumbnail,
                         err);
    if (!status)
        show_picture(sheet, sample, &sheet->thumbnail, width, height);
    return status;
}

/* Fields to show, in order of preference. */
static const struct {
    const char *extension;
    bool is_picture; /* else text */
} displayed_fields[] = {
    {"jpg", true}, {"jpeg", true}, {"png", true},   {"webp", true},
    {"ppm", true}, {"txt", false}, {"json", false},
};

/* *ret_is_picture: whether an image or its placeholder is shown. */
static int show_field(struct page_sheet *sheet, struct survey *survey,
                      const struct survey_sample *sample, bool *ret_is_picture, struct err *err)
{
    static const char too_large[] = "image too large for this page", nothing[] = "nothing to show";
    struct str *out = &sheet->figures;
    const uint8_t *data;
    size_t bytes;
    *ret_is_picture = false;
    for (size_t i = 0; i < sizeof displayed_fields / sizeof displayed_fields[0]; i++) {
        size_t bytes_max = displayed_fields[i].is_picture ? SURVEY_READ_BYTES_MAX : TEXT_BYTES_MAX;
        int status = survey_read(survey, sample, displayed_fields[i].extension, bytes_max, &data,
                                 &bytes, err);
        if (status)
            return status;
        if (bytes == 0)
            continue;
        *ret_is_picture = displayed_fields[i].is_picture;
        if (displayed_fields[i].is_picture && out->bytes <= SHEET_BYTES_MAX)
            return show_thumbnail(sheet, sample, data, bytes, err);
        if (displayed_fields[i].is_picture)
            show_note(out, too_large, strlen(too_large));
        else
            show_note(out, (const char *)data, bytes);
        return 0;
    }
    show_note(out, nothing, strlen(nothing));
    return 0;
}

static int show_caption(struct page_sheet *sheet, struct survey *survey,
                        const struct survey_sample *sample, struct err *err)
{
    struct str *out = &sheet->figures;
    const uint8_t *data;
    size_t bytes;
    int status = survey_read(survey, sample, "txt", TEXT_BYTES_MAX, &data, &bytes, err);
    if (status || bytes == 0)
        return status;
    str_add_text(out, "<span class=\"words\">");
    page_text_bytes(out, (const char *)data, bytes);
    str_add_text(out, "</span>");
    return 0;
}

int page_sheet_add(struct page_sheet *sheet, struct survey *survey,
                   const struct survey_sample *sample, struct err *err)
{
    struct str *out = &sheet->figures;
    char name[CLASS_NAME_BYTES_MAX];
    if (sheet->count == SHEET_SAMPLES_MAX)
        return 0;
    bool is_picture;
    str_add_text(out, "<figure>");
    int status = show_field(sheet, survey, sample, &is_picture, err);
    str_add_text(out, "<div>");
    if (sample->class_number >= 0) {
        page_class_name(sheet->dataset, sample->class_number, name, sizeof name);
        page_element(out, "<b>", name, "</b> ");
    }
    str_add_text(out, "<span class=\"key\">");
    page_text_bytes(out, sample->key, sample->key_bytes);
    str_add_text(out, "</span>");
    if (!status && is_picture)
        status = show_caption(sheet, survey, sample, err);
    str_add_text(out, "</div></figure>\n");
    sheet->count++;
    return status;
}
