/*
 * yolo_label — see yolo_label.h. The rules are those of Ultralytics (data/utils.py,
 * verify_image_label), which leaves out images that break them.
 */
#include "convert/source/yolo_label.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a line with an unrounded polygon: 65,536 points. */
enum { NUMBERS_MAX = 1 + 2 * 65536, NUMBER_BYTES_MAX = 63, BOX_NUMBERS = 5, POLYGON_NUMBERS = 7 };

/* As much as rounding may leave the image. */
static const double margin = 0.01;

struct line {
    const char *path, *text;
    size_t bytes;
    uint64_t number; /* from 1 */
};

void yolo_label_deinit(struct yolo_label *label)
{
    str_deinit(&label->objects);
    str_deinit(&label->polygons);
}

static int reject(const struct line *line, const char *what, const char *expected, struct err *err)
{
    char place[ERR_PATH_BYTES_MAX];
    snprintf(place, sizeof place, "%s:%" PRIu64, line->path, line->number);
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, place, ERR_NO_OFFSET);
    err_expected(err, "%s", expected);
    err_found(err, "\"%.*s\"", (int)(line->bytes < 150 ? line->bytes : 150), line->text);
    return -EBADMSG;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Reads the next number of a line. Returns false at its end, or sets *ret_is_bad. */
static bool read_number(const struct line *line, size_t *at, double *ret_number, bool *ret_is_bad)
{
    char text[NUMBER_BYTES_MAX + 1], *end;
    while (*at < line->bytes && is_space(line->text[*at]))
        ++*at;
    size_t begin = *at;
    while (*at < line->bytes && !is_space(line->text[*at]))
        ++*at;
    size_t bytes = *at - begin;
    if (bytes == 0)
        return false;
    *ret_is_bad = bytes > NUMBER_BYTES_MAX;
    if (*ret_is_bad)
        return false;
    memcpy(text, line->text + begin, bytes);
    text[bytes] = '\0';
    *ret_number = strtod(text, &end);
    *ret_is_bad =
        end != text + bytes || strspn(text, "0123456789.+-eE") != bytes || !isfinite(*ret_number);
    return !*ret_is_bad;
}

static int read_class(const struct line *line, double number, uint64_t classes_count,
                      uint32_t *ret_class, struct err *err)
{
    char expected[64];
    if (number >= 0 && number == floor(number) && number < (double)classes_count) {
        *ret_class = (uint32_t)number;
        return 0;
    }
    snprintf(expected, sizeof expected, "a class number below %" PRIu64, classes_count);
    int status = reject(line, "the class of an object is unknown", expected, err);
    err_advise(err, "the list of names has one for each class");
    return status;
}

/* The smallest box around the polygon. */
static void set_box(struct yolo_object *object, const double *points)
{
    double low[2] = {points[0], points[1]}, high[2] = {points[0], points[1]};
    for (size_t i = 2; i < object->polygon_count; i++) {
        low[i % 2] = fmin(low[i % 2], points[i]);
        high[i % 2] = fmax(high[i % 2], points[i]);
    }
    for (int i = 0; i < 2; i++) {
        object->box[i] = (low[i] + high[i]) / 2;
        object->box[2 + i] = high[i] - low[i];
    }
}

static int end_object(struct yolo_label *label, const struct line *line, double class_number,
                      uint64_t classes_count, struct err *err)
{
    struct yolo_object object = {0};
    const double *all = (const double *)(const void *)label->polygons.data;
    size_t before = 0;
    if (label->objects.bytes > 0) {
        const struct yolo_object *last = &yolo_objects(label)[yolo_objects_count(label) - 1];
        before = last->polygon_at + last->polygon_count;
    }
    size_t count = label->polygons.bytes / sizeof *all - before;
    int status = read_class(line, class_number, classes_count, &object.class_number, err);
    if (status)
        return status;
    if (count + 1 != BOX_NUMBERS && (count + 1 < POLYGON_NUMBERS || count % 2 != 0))
        return reject(line, "a line has another number of values",
                      "a class and 4 numbers of a box, or the points of a polygon", err);
    for (size_t i = 0; i < count; i++)
        if (all[before + i] < -margin || all[before + i] > 1 + margin)
            return reject(line, "coordinates are not fractions of the image", "numbers from 0 to 1",
                          err);
    object.polygon_at = before;
    if (count + 1 == BOX_NUMBERS) {
        memcpy(object.box, all + before, sizeof object.box);
        label->polygons.bytes -= sizeof object.box;
        if (object.box[2] < 0 || object.box[3] < 0)
            return reject(line, "a box has a negative width or height", "CLASS CX CY W H", err);
    } else {
        object.polygon_count = count;
        set_box(&object, all + before);
    }
    bool has_polygon = object.polygon_count > 0;
    if (label->objects.bytes > 0 && has_polygon != (yolo_objects(label)[0].polygon_count > 0))
        return reject(line, "a label file mixes boxes and polygons", "one kind in each file", err);
    str_add(&label->objects, &object, sizeof object);
    return 0;
}

static int parse_line(struct yolo_label *label, const struct line *line, uint64_t classes_count,
                      struct err *err)
{
    double number = 0, class_number = 0;
    bool is_bad = false;
    size_t at = 0, count = 0;
    for (; read_number(line, &at, &number, &is_bad); count++) {
        if (count == NUMBERS_MAX)
            return reject(line, "a polygon has too many points", "at most 65536", err);
        if (count == 0)
            class_number = number;
        else
            str_add(&label->polygons, &number, sizeof number);
    }
    if (is_bad)
        return reject(line, "a label is not a number", "decimal numbers separated by spaces", err);
    if (count == 0 || str_status(&label->polygons))
        return 0;
    return end_object(label, line, class_number, classes_count, err);
}

int yolo_label_parse(struct yolo_label *label, const char *text, size_t bytes,
                     uint64_t classes_count, const char *path, struct err *err)
{
    int status = 0;
    str_clear(&label->objects);
    str_clear(&label->polygons);
    struct line line = {.path = path, .text = text};
    for (size_t at = 0; at < bytes && !status; at += line.bytes + 1) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        line.text = text + at;
        line.bytes = newline ? (size_t)(newline - line.text) : bytes - at;
        line.number++;
        status = parse_line(label, &line, classes_count, err);
    }
    if (!status && (str_status(&label->objects) || str_status(&label->polygons)))
        status = err_set(err, -ENOMEM, "out of memory for labels");
    return status;
}
