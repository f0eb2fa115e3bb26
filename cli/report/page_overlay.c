#include "cli/report/page_overlay.h"

#include "base/bytes.h"
#include "cli/report/page.h"
#include "cli/report/read_fields.h"
#include "image/formats/png.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MASK_COLORS = 256,
    MASK_VALUES = 1 << 16, /* stored masks have at most 16 bits */
    MASK_OPACITY = 150,
    LEGEND_CLASSES_MAX = 12,
    LABEL_BYTES_MAX = 80, /* of a box */
};

/* ---- Colors. ---- */

/* Returns 0xRRGGBB. Consecutive numbers are the golden angle apart in hue. */
static uint32_t class_color(uint64_t number)
{
    uint32_t hue = (uint32_t)(number % 1536 * 587 % 1536), ramp = hue % 256;
    uint32_t high = number % 2 ? 215 : 255, low = number % 3 ? 40 : 90;
    uint32_t up = low + (high - low) * ramp / 255, down = low + high - up;
    switch (hue / 256) {
    case 0:
        return high << 16 | up << 8 | low;
    case 1:
        return down << 16 | high << 8 | low;
    case 2:
        return low << 16 | high << 8 | up;
    case 3:
        return low << 16 | down << 8 | high;
    case 4:
        return up << 16 | low << 8 | high;
    default:
        return high << 16 | low << 8 | down;
    }
}

/* Palette index of a mask's value. Those above 255 share the colors of lower ones. */
static uint8_t mask_index(uint32_t value)
{
    return (uint8_t)(value < MASK_COLORS ? value : 1 + (value - 1) % (MASK_COLORS - 2));
}

/* 0, often the background, and black in the palettes of PASCAL VOC and others, is black. */
static uint32_t mask_color(uint8_t index)
{
    return index ? class_color(index) : 0;
}

/* ---- Masks. ---- */

/* Labels widened from 16 bits fit. */
static uint32_t mask_value(const struct batch_field *labels, uint32_t n, uint64_t pixel)
{
    size_t bytes = dtype_bytes(labels->dtype);
    const uint8_t *at =
        (const uint8_t *)labels->data + (int64_t)n * labels->stride_bytes[0] + pixel * bytes;
    return bytes == 1 ? *at : (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static int add_mask(const struct page_overlay *overlay, const struct batch_field *labels,
                    uint32_t n, struct str *pixels, struct str *out, struct err *err)
{
    uint8_t rgba[MASK_COLORS][4];
    struct str png = {0};
    for (uint32_t i = 0; i < MASK_COLORS; i++) {
        uint32_t color = mask_color((uint8_t)i);
        rgba[i][0] = (uint8_t)(color >> 16);
        rgba[i][1] = (uint8_t)(color >> 8);
        rgba[i][2] = (uint8_t)color;
        rgba[i][3] = i == PAGE_MASK_IGNORED ? 0 : MASK_OPACITY;
    }
    str_clear(pixels);
    str_add_fill(pixels, 0, (size_t)overlay->width * overlay->height);
    if (str_status(pixels))
        return err_set(err, -ENOMEM, "out of memory for a mask");
    for (uint32_t y = 0; y < overlay->height; y++) {
        uint64_t row = (2 * (uint64_t)y + 1) * overlay->target_height / (2 * overlay->height);
        for (uint32_t x = 0; x < overlay->width; x++) {
            uint64_t column = (2 * (uint64_t)x + 1) * overlay->target_width / (2 * overlay->width);
            pixels->data[(size_t)y * overlay->width + x] =
                (char)mask_index(mask_value(labels, n, row * overlay->target_width + column));
        }
    }
    int status = png_encode_palette((const uint8_t *)pixels->data, overlay->width, overlay->height,
                                    (const uint8_t(*)[4])rgba, MASK_COLORS, &png, err);
    str_add_text(out, "<img class=\"mask\" src=\"");
    page_data_uri(out, "image/png", png.data, png.bytes);
    page_element(out, "\" alt=\"mask ", labels->name, "\"/>");
    str_merge_status(out, &png);
    str_deinit(&png);
    return status;
}

void page_overlay_add_legend(const struct batch_field *labels, uint32_t n, struct str *out)
{
    uint8_t is_present[MASK_VALUES] = {0};
    uint32_t shown = 0;
    for (uint64_t i = 0; i < labels->shape[1] * labels->shape[2]; i++)
        is_present[mask_value(labels, n, i)] = 1;
    str_add_text(out, "<span class=\"words\"><i>");
    page_text(out, labels->name);
    str_add_text(out, "</i>");
    for (uint32_t value = 0; value < MASK_VALUES; value++) {
        if (!is_present[value])
            continue;
        if (shown++ == LEGEND_CLASSES_MAX) {
            str_add_text(out, " \xe2\x80\xa6");
            break;
        }
        if (value == PAGE_MASK_IGNORED)
            str_add_text(out, " <s class=\"chip\"></s>");
        else
            str_add_format(out, " <s class=\"chip\" style=\"background:#%06" PRIx32 "\"></s>",
                           mask_color(mask_index(value)));
        str_add_format(out, "%" PRIu32, value);
    }
    str_add_text(out, "</span>");
}

/* ---- Boxes. ---- */

/* False: not a number that can be shown. */
static bool read_number(enum dtype dtype, const uint8_t *at, double *ret_number)
{
#define READ(type, name)                                                                           \
    case DTYPE_##name: {                                                                           \
        type value;                                                                                \
        memcpy(&value, at, sizeof value);                                                          \
        *ret_number = (double)value;                                                               \
        return true;                                                                               \
    }
    switch (dtype) {
        READ(uint8_t, BOOL)
        READ(uint8_t, U8)
        READ(int8_t, I8)
        READ(uint16_t, U16)
        READ(int16_t, I16)
        READ(uint32_t, U32)
        READ(int32_t, I32)
        READ(uint64_t, U64)
        READ(int64_t, I64)
        READ(float, F32)
        READ(double, F64)
    default:
        return false;
    }
#undef READ
}

/* The class names of the dataset belong to the numbers of such a field. */
static bool is_class_field(const struct loader_field *type)
{
    return strstr(type->name, "class") || strstr(type->name, "categor") ||
           strstr(type->name, "label");
}

/* Sets text to the numbers and class names that follow box `number`. Returns the class, or the
 * box's number if it is unknown. */
static uint64_t describe_box(const struct page_overlay *overlay, const struct batch *batch,
                             uint32_t n, const char *boxes_name, uint64_t number,
                             char text[LABEL_BYTES_MAX])
{
    const struct loader_schema *schema = overlay->schema;
    uint64_t color_number = number;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t f = 0; f < overlay->fields_count && used < LABEL_BYTES_MAX; f++) {
        const struct loader_field *type = &overlay->fields[f];
        const struct batch_field *field = batch_field_named(batch, type->name);
        uint64_t bytes;
        double value;
        if (type->decode != LOADER_FIELD_ARRAY || !type->follows ||
            strcmp(type->follows, boxes_name) != 0 || field->item_rank != 1)
            continue;
        const uint8_t *values = read_field_values(field, n, &bytes);
        if (!read_number(field->dtype, values + number * dtype_bytes(field->dtype), &value))
            continue;
        bool is_class = is_class_field(type) && value >= 0 && value == floor(value);
        if (is_class)
            color_number = (uint64_t)value;
        int added =
            is_class && value < (double)schema->classes_count
                ? snprintf(text + used, LABEL_BYTES_MAX - used, "%s%s", used ? " " : "",
                           schema->classes[(uint64_t)value])
                : snprintf(text + used, LABEL_BYTES_MAX - used, "%s%.6g", used ? " " : "", value);
        used += (size_t)added;
    }
    return color_number;
}

/* Above the box, or inside it at the top edge; from its left side, or to its right side. */
static void add_box_label(struct str *out, const struct page_overlay *overlay, const double box[4],
                          uint32_t color, const char *text)
{
    double size = fmax(overlay->width, overlay->height) / 20.0;
    bool is_right = box[0] > 0.6 * overlay->width;
    str_add_format(
        out, "<text x=\"%.9g\" y=\"%.9g\" text-anchor=\"%s\" ", is_right ? box[2] : box[0],
        box[1] > 1.3 * size ? box[1] - 0.3 * size : box[1] + size, is_right ? "end" : "start");
    str_add_format(out, "style=\"font-size:%.4gpx;fill:#%06" PRIx32 "\">", size, color);
    page_text(out, text);
    str_add_text(out, "</text>");
}

static void svg_begin(struct str *out, const struct page_overlay *overlay, const char *kind,
                      const char *name, uint64_t count)
{
    str_add_format(out, "<svg class=\"%s\" viewBox=\"0 0 %" PRIu32 " %" PRIu32 "\" role=\"img\" ",
                   kind, overlay->width, overlay->height);
    page_element(out, "aria-label=\"", name, "");
    str_add_format(out, ": %" PRIu64 "\">", count);
}

static void add_boxes(const struct page_overlay *overlay, const struct batch *batch, uint32_t n,
                      const struct batch_field *field, struct str *out)
{
    uint64_t bytes;
    const uint8_t *values = read_field_values(field, n, &bytes);
    uint64_t count = bytes / (4 * sizeof(float));
    double scale[] = {(double)overlay->width / overlay->target_width,
                      (double)overlay->height / overlay->target_height};
    svg_begin(out, overlay, "boxes", field->name, count);
    for (uint64_t i = 0; i < bytes_min(count, PAGE_MARKS_MAX); i++) {
        float row[4];
        double box[4];
        char text[LABEL_BYTES_MAX];
        memcpy(row, values + i * sizeof row, sizeof row);
        for (int c = 0; c < 4; c++)
            box[c] = (double)row[c] * scale[c % 2];
        uint32_t color = class_color(describe_box(overlay, batch, n, field->name, i, text));
        str_add_format(out, "<path d=\"M%.9g %.9gH%.9gV%.9gH%.9gZ\" stroke=\"#%06" PRIx32 "\"/>",
                       box[0], box[1], box[2], box[3], box[0], color);
        if (text[0])
            add_box_label(out, overlay, box, color, text);
    }
    str_add_text(out, "</svg>");
}

/* ---- Keypoints. ---- */

static void add_keypoints(const struct page_overlay *overlay, uint32_t n,
                          const struct batch_field *field, struct str *out)
{
    uint64_t bytes;
    const uint8_t *values = read_field_values(field, n, &bytes);
    uint64_t count = bytes / (3 * sizeof(float));
    double radius = fmax(overlay->width, overlay->height) / 80.0;
    svg_begin(out, overlay, "points", field->name, count);
    for (uint64_t i = 0; i < bytes_min(count, PAGE_MARKS_MAX); i++) {
        float point[3];
        memcpy(point, values + i * sizeof point, sizeof point);
        if (point[2] == 0) /* not labeled, or outside */
            continue;
        str_add_format(out, "<circle cx=\"%.9g\" cy=\"%.9g\" r=\"%.4g\" fill=\"#%06" PRIx32 "\"/>",
                       (double)point[0] * overlay->width / overlay->target_width,
                       (double)point[1] * overlay->height / overlay->target_height, radius,
                       class_color(i));
    }
    str_add_text(out, "</svg>");
}

/* ---- All. ---- */

int page_overlay_add(const struct page_overlay *overlay, const struct batch *batch, uint32_t n,
                     struct str *pixels, struct str *out, struct err *err)
{
    int status = 0;
    for (uint32_t f = 0; f < overlay->fields_count && !status; f++) {
        const struct loader_field *type = &overlay->fields[f];
        const struct batch_field *field = batch_field_named(batch, type->name);
        if (!type->follows || strcmp(type->follows, overlay->image) != 0)
            continue;
        switch (type->decode) {
        case LOADER_FIELD_LABELS:
            status = add_mask(overlay, field, n, pixels, out, err);
            break;
        case LOADER_FIELD_BOXES:
            add_boxes(overlay, batch, n, field, out);
            break;
        case LOADER_FIELD_KEYPOINTS:
            add_keypoints(overlay, n, field, out);
            break;
        default:
            break;
        }
    }
    return status;
}
