#include "cli/report/page_items.h"

#include "base/bytes.h"
#include "base/utf8.h"
#include "cli/report/page.h"
#include "cli/report/page_overlay.h"
#include "cli/report/read_fields.h"
#include "image/jpeg/jpeg.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { ENLARGED_PIXELS = 96 }; /* a smaller picture is enlarged without smoothing */

struct picture {
    const uint8_t *rgb;
    uint32_t width, height;
    size_t stride_bytes;
};

int page_items_open(struct page_items *items, const struct page_items_options *options,
                    struct err *err)
{
    /* image_pipeline_decode_whole ignores the target size */
    const struct image_options image = {.width = options->side_pixels,
                                        .height = options->side_pixels,
                                        .crop = crop_options_default(CROP_NONE)};
    items->options = *options;
    return options->shows_stored ? image_pipeline_open(&image, &items->pipeline, err) : 0;
}

void page_items_close(struct page_items *items)
{
    image_pipeline_close(items->pipeline);
    str_deinit(&items->figures);
    str_deinit(&items->scratch);
    str_deinit(&items->name);
}

static void add_note(struct str *out, const char *text)
{
    page_element(out, "<span class=\"none\">", text, "</span>");
}

/* ---- Pictures. ---- */

/* Sets *ret_stored to the field of bytes with the stored image; NULL: there is none. */
static int find_stored(struct page_items *items, const struct batch *batch, const char *name,
                       const struct batch_field **ret_stored, struct err *err)
{
    *ret_stored = NULL;
    if (!items->options.shows_stored)
        return 0;
    str_clear(&items->name);
    str_add_format(&items->name, PAGE_ITEMS_STORED "%s", name);
    if (str_status(&items->name))
        return err_set(err, -ENOMEM, "out of memory for a picture");
    *ret_stored = batch_field_named(batch, str_text(&items->name));
    return 0;
}

static int find_picture(struct page_items *items, const struct batch *batch, uint32_t n,
                        const struct batch_field *image, struct picture *picture, struct err *err)
{
    const struct batch_field *stored;
    int status = find_stored(items, batch, image->name, &stored, err);
    if (status)
        return status;
    if (!stored) {
        *picture = (struct picture){.rgb = (const uint8_t *)image->data +
                                           (int64_t)n * image->stride_bytes[0],
                                    .width = (uint32_t)image->shape[2],
                                    .height = (uint32_t)image->shape[1],
                                    .stride_bytes = (size_t)image->stride_bytes[1]};
        return 0;
    }
    uint64_t bytes;
    const uint8_t *data = read_field_values(stored, n, &bytes);
    status = image_pipeline_decode_whole(items->pipeline, data, bytes, NULL,
                                         (struct image_bounds){items->options.side_pixels},
                                         &picture->rgb, &picture->width, &picture->height, err);
    picture->stride_bytes = 3 * (size_t)picture->width;
    return status;
}

static int add_picture(struct page_items *items, const struct batch *batch, uint32_t n,
                       const struct batch_field *image, struct err *err)
{
    struct str *out = &items->figures, *jpeg = &items->scratch;
    const struct batch_item *item = &batch->items[n];
    struct picture picture;
    if (out->bytes > PAGE_ITEMS_BYTES_MAX) {
        add_note(out, "not shown: the page has enough pictures");
        return 0;
    }
    int status = find_picture(items, batch, n, image, &picture, err);
    str_clear(jpeg);
    if (!status)
        status = jpeg_encode(picture.rgb, picture.width, picture.height, picture.stride_bytes,
                             PAGE_ITEMS_QUALITY, 0, jpeg, err);
    if (status)
        return status;
    bool is_small = picture.width < ENLARGED_PIXELS && picture.height < ENLARGED_PIXELS;
    str_add_text(out, is_small ? "<div class=\"view small\"><img src=\""
                               : "<div class=\"view\"><img src=\"");
    page_data_uri(out, "image/jpeg", jpeg->data, jpeg->bytes);
    str_add_text(out, "\" alt=\"picture of ");
    page_text_bytes(out, item->key, item->key_bytes);
    str_add_format(out, "\" width=\"%" PRIu32 "\" height=\"%" PRIu32 "\"/>", picture.width,
                   picture.height);
    struct page_overlay overlay = {.image = image->name,
                                   .fields = items->options.fields,
                                   .fields_count = items->options.fields_count,
                                   .schema = loader_schema(items->options.loader),
                                   .target_width = (uint32_t)image->shape[2],
                                   .target_height = (uint32_t)image->shape[1],
                                   .width = picture.width,
                                   .height = picture.height};
    status = page_overlay_add(&overlay, batch, n, &items->scratch, out, err);
    str_add_text(out, "</div>");
    return status;
}

/* The images of options.fields, besides that of LOADER_IMAGE. */
static uint32_t count_further_images(const struct page_items *items)
{
    uint32_t count = 0;
    for (uint32_t f = 0; f < items->options.fields_count; f++)
        count += items->options.fields[f].decode == LOADER_FIELD_IMAGE;
    return count;
}

/* Images of fields have their name below. */
static int add_named_picture(struct page_items *items, const struct batch *batch, uint32_t n,
                             const char *name, struct err *err)
{
    str_add_text(&items->figures, "<div>");
    int status = add_picture(items, batch, n, batch_field_named(batch, name), err);
    page_element(&items->figures, "<span class=\"words\"><i>", name, "</i></span></div>");
    return status;
}

static int add_pictures(struct page_items *items, const struct batch *batch, uint32_t n,
                        struct err *err)
{
    const struct page_items_options *options = &items->options;
    struct str *out = &items->figures;
    int status = 0;
    if (count_further_images(items) == 0)
        return options->has_image
                   ? add_picture(items, batch, n, batch_field_named(batch, "image"), err)
                   : 0;
    str_add_text(out, "<div class=\"views\">");
    if (options->has_image)
        status = add_named_picture(items, batch, n, "image", err);
    for (uint32_t f = 0; f < options->fields_count && !status; f++)
        if (options->fields[f].decode == LOADER_FIELD_IMAGE)
            status = add_named_picture(items, batch, n, options->fields[f].name, err);
    str_add_text(out, "</div>");
    return status;
}

/* ---- The text below them. ---- */

static void add_class_name(struct page_items *items, int32_t number)
{
    const struct loader_schema *schema = loader_schema(items->options.loader);
    if (number >= 0 && (uint64_t)number < schema->classes_count)
        page_text(&items->figures, schema->classes[number]);
    else
        str_add_format(&items->figures, "%" PRId32, number);
}

/* With mixup or CutMix, both classes and their weights. */
static void add_label(struct page_items *items, const struct batch *batch, uint32_t n)
{
    struct str *out = &items->figures;
    const struct batch_field *labels = batch_field_named(batch, "label"),
                             *partners = batch_field_named(batch, "partner_label"),
                             *weights = batch_field_named(batch, "label_weight");
    if (!labels || ((const int32_t *)labels->data)[n] < 0)
        return;
    str_add_text(out, "<b>");
    add_class_name(items, ((const int32_t *)labels->data)[n]);
    double weight = weights ? (double)((const float *)weights->data)[n] : 1;
    if (partners && weight < 1) {
        str_add_format(out, " %.0f %% + ", 100 * weight);
        add_class_name(items, ((const int32_t *)partners->data)[n]);
        str_add_format(out, " %.0f %%", 100 * (1 - weight));
    }
    str_add_text(out, "</b> ");
}

/* Appends the beginning of a text, to the end of a character. */
static void add_text(struct str *out, const uint8_t *text, uint64_t bytes)
{
    uint64_t shown = bytes_min(bytes, PAGE_ITEMS_TEXT_BYTES_MAX);
    while (shown < bytes && shown > 0 && (text[shown] & 0xc0) == 0x80)
        shown--;
    page_text_bytes(out, text, shown);
    if (shown < bytes)
        str_add_text(out, "\xe2\x80\xa6");
}

static void add_array_shape(struct str *out, const struct batch_field *field, uint32_t n)
{
    str_add_format(out, "%s [", dtype_name(field->dtype));
    for (uint32_t d = 0; d < field->item_rank; d++)
        str_add_format(out, "%s%" PRId64, d ? ", " : "",
                       field->shapes[(uint64_t)n * field->item_rank + d]);
    str_add_text(out, "]");
}

static void add_field(struct page_items *items, const struct batch *batch, uint32_t n,
                      const struct loader_field *type)
{
    struct str *out = &items->figures;
    const struct batch_field *field = batch_field_named(batch, type->name);
    uint64_t bytes;
    char size[STR_SIZE_BYTES];
    if (type->follows && type->decode == LOADER_FIELD_ARRAY)
        return; /* drawn with its boxes */
    if (type->decode == LOADER_FIELD_IMAGE)
        return; /* shown above */
    if (type->decode == LOADER_FIELD_BOXES || type->decode == LOADER_FIELD_KEYPOINTS) {
        int64_t count = field->shapes[(uint64_t)n * field->item_rank];
        if (count > PAGE_MARKS_MAX)
            page_format(out, "The first %d of %" PRId64 " %s are drawn. ", PAGE_MARKS_MAX, count,
                        type->name);
        return;
    }
    if (type->decode == LOADER_FIELD_LABELS) {
        page_overlay_add_legend(field, n, out);
        return;
    }
    page_element(out, "<span class=\"words\"><i>", type->name, "</i> ");
    const uint8_t *values = field->offsets ? read_field_values(field, n, &bytes) : NULL;
    if (type->decode == LOADER_FIELD_STR || type->decode == LOADER_FIELD_JSON) {
        add_text(out, values, bytes);
    } else if (type->decode == LOADER_FIELD_TOKENS) {
        struct jsonx_writer json = {.out = &items->scratch};
        str_clear(&items->scratch);
        read_field_write_tokens(field, n, NULL, &json);
        add_text(out, (const uint8_t *)str_text(&items->scratch), items->scratch.bytes);
    } else if (type->decode == LOADER_FIELD_BYTES) {
        str_add_text(out, str_format_size(bytes, size));
    } else if (type->decode == LOADER_FIELD_ARRAY) {
        add_array_shape(out, field, n);
    } else {
        str_clear(&items->scratch);
        read_fields_add_file(type, batch, n, &items->scratch);
        page_text(out, str_text(&items->scratch));
    }
    str_add_text(out, "</span>");
}

/* ---- Figures. ---- */

static const char *reason_of_skip(const struct page_items *items, struct sample_ref ref)
{
    const struct loader_bad_sample *list;
    uint64_t count = loader_quarantine(items->options.loader, &list);
    for (uint64_t i = 0; i < count; i++)
        if (list[i].ref.dataset == ref.dataset && list[i].ref.epoch == ref.epoch &&
            list[i].ref.sample == ref.sample)
            return list[i].reason;
    return "unusable sample";
}

int page_items_add(struct page_items *items, const struct batch *batch, uint32_t n, struct err *err)
{
    struct str *out = &items->figures;
    const struct batch_item *item = &batch->items[n];
    int status = 0;
    str_add_text(out, "<figure>");
    if (item->skipped)
        add_note(out, reason_of_skip(items, item->ref));
    else
        status = add_pictures(items, batch, n, err);
    str_add_text(out, "<div>");
    if (!item->skipped)
        add_label(items, batch, n);
    str_add_text(out, "<span class=\"key\">");
    if (items->options.shows_positions)
        str_add_format(out, "%" PRIu64 " \xc2\xb7 ", item->position);
    page_text_bytes(out, item->key, item->key_bytes);
    str_add_text(out, "</span>");
    for (uint32_t f = 0; f < items->options.fields_count && !item->skipped; f++)
        add_field(items, batch, n, &items->options.fields[f]);
    str_add_text(out, "</div></figure>\n");
    str_merge_status(out, &items->scratch);
    items->count++;
    return status;
}

/* A checkbox that hides elements of the class `kind` (page.css). */
static void add_switch(const struct page_items *items, enum loader_field_decode decode,
                       const char *kind, const char *label, struct str *out)
{
    uint32_t f = 0;
    while (f < items->options.fields_count && items->options.fields[f].decode != decode)
        f++;
    if (f < items->options.fields_count)
        str_add_format(out,
                       "<input type=\"checkbox\" checked=\"checked\" id=\"%s\"/>"
                       "<label for=\"%s\">%s</label>\n",
                       kind, kind, label);
}

void page_items_show(const struct page_items *items, const char *heading, const char *note,
                     struct str *out)
{
    page_section_begin(out, heading, note);
    add_switch(items, LOADER_FIELD_LABELS, "masks", "masks", out);
    add_switch(items, LOADER_FIELD_BOXES, "boxes", "boxes", out);
    add_switch(items, LOADER_FIELD_KEYPOINTS, "points", "keypoints", out);
    str_add_text(out, "<div class=\"sheet items\">\n");
    str_add(out, items->figures.data, items->figures.bytes);
    str_add_text(out, "</div>\n");
    page_section_end(out);
    str_merge_status(out, &items->figures);
}
