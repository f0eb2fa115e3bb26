/*
 * voc_object — see voc_object.h.
 */
#include "convert/source/voc_object.h"

#include "convert/source/xml.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COORDINATES = 4, NUMBER_MAX = 1 << 30 /* pixels; more than any image has per side */ };

struct reading {
    struct voc_annotation *annotation;
    const char *path;
    struct voc_object object; /* its box as in the file */
    bool has_name;
    unsigned coordinates_seen; /* bit i: box[i] */
};

void voc_annotation_deinit(struct voc_annotation *annotation)
{
    str_deinit(&annotation->objects);
    str_deinit(&annotation->names);
}

static int reject(const struct reading *reading, const struct xml_element *element,
                  const char *what, const char *expected, struct err *err)
{
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, reading->path, element->offset);
    err_expected(err, "%s", expected);
    err_found(err, "\"%.100s\"", element->text);
    return -EBADMSG;
}

static int read_number(const struct reading *reading, const struct xml_element *element,
                       double *ret_number, struct err *err)
{
    char *end;
    double number = strtod(element->text, &end);
    if (end == element->text || *end || !(fabs(number) <= NUMBER_MAX) ||
        strspn(element->text, "0123456789.+-eE") != strlen(element->text))
        return reject(reading, element, "not a number", "a decimal number of at most 2^30", err);
    *ret_number = number;
    return 0;
}

static int read_flag(const struct reading *reading, const struct xml_element *element,
                     bool *ret_flag, struct err *err)
{
    static const char *const values[] = {"0", "1", "Unspecified", ""};
    size_t i = 0;
    while (i < sizeof values / sizeof values[0] && strcmp(element->text, values[i]) != 0)
        i++;
    if (i == sizeof values / sizeof values[0])
        return reject(reading, element, "not a truth value", "0 or 1", err);
    *ret_flag = i == 1;
    return 0;
}

static int read_size(const struct reading *reading, const struct xml_element *element,
                     uint32_t *ret_size, struct err *err)
{
    double number = 0;
    int status = *element->text ? read_number(reading, element, &number, err) : 0;
    if (status || (number >= 0 && number <= UINT32_MAX && number == floor(number))) {
        *ret_size = (uint32_t)number;
        return status;
    }
    return reject(reading, element, "not a size", "a whole number of pixels", err);
}

static int read_name(struct reading *reading, const struct xml_element *element, struct err *err)
{
    struct str *names = &reading->annotation->names;
    if (reading->has_name || !*element->text)
        return reject(reading, element, "an object has no class", "one name", err);
    reading->has_name = true;
    reading->object.name_at = names->bytes;
    str_add(names, element->text, strlen(element->text) + 1);
    return 0;
}

/* VOC counts pixels from 1, and a box includes its last ones: the left edge of pixel 1 is 0, and
 * its right edge is 1. */
static int end_object(struct reading *reading, const struct xml_element *element, struct err *err)
{
    struct voc_object *object = &reading->object;
    if (!reading->has_name || reading->coordinates_seen != (1u << COORDINATES) - 1)
        return reject(reading, element, "an object is not complete",
                      "a name, and bndbox with xmin, ymin, xmax, ymax", err);
    if (object->box[2] < object->box[0] || object->box[3] < object->box[1]) {
        err_set(err, -EBADMSG, "a box has a negative width or height");
        err_at(err, reading->path, element->offset);
        err_expected(err, "xmin <= xmax and ymin <= ymax");
        err_found(err, "%g %g %g %g", object->box[0], object->box[1], object->box[2],
                  object->box[3]);
        err_advise(err, "correct the object, or remove it");
        return -EBADMSG;
    }
    object->box[0] -= 1;
    object->box[1] -= 1;
    str_add(&reading->annotation->objects, object, sizeof *object);
    reading->object = (struct voc_object){0};
    reading->has_name = false;
    reading->coordinates_seen = 0;
    return 0;
}

static int read_coordinate(struct reading *reading, const struct xml_element *element,
                           const char *name, struct err *err)
{
    static const char *const names[COORDINATES] = {"xmin", "ymin", "xmax", "ymax"};
    for (unsigned i = 0; i < COORDINATES; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        if (reading->coordinates_seen & 1u << i)
            return reject(reading, element, "an object has two boxes", "one bndbox", err);
        reading->coordinates_seen |= 1u << i;
        return read_number(reading, element, &reading->object.box[i], err);
    }
    return 0;
}

/* Returns the part of a path behind the prefix, or NULL. */
static const char *behind(const char *path, const char *prefix)
{
    size_t bytes = strlen(prefix);
    return strncmp(path, prefix, bytes) == 0 ? path + bytes : NULL;
}

static int visit_element(void *context, const struct xml_element *element, struct err *err)
{
    struct reading *reading = context;
    struct voc_annotation *annotation = reading->annotation;
    const char *path = behind(element->path, "/annotation/"), *name;
    bool is_root = !strchr(element->path + 1, '/');
    if (is_root && strcmp(element->path, "/annotation") != 0)
        return reject(reading, element, "not an annotation file of Pascal VOC",
                      "the root element annotation", err);
    if (!path)
        return 0;
    if (strcmp(path, "size/width") == 0)
        return read_size(reading, element, &annotation->width, err);
    if (strcmp(path, "size/height") == 0)
        return read_size(reading, element, &annotation->height, err);
    if (strcmp(path, "object") == 0)
        return end_object(reading, element, err);
    if ((name = behind(path, "object/bndbox/")))
        return read_coordinate(reading, element, name, err);
    if (strcmp(path, "object/name") == 0)
        return read_name(reading, element, err);
    if (strcmp(path, "object/difficult") == 0)
        return read_flag(reading, element, &reading->object.is_difficult, err);
    if (strcmp(path, "object/truncated") == 0)
        return read_flag(reading, element, &reading->object.is_truncated, err);
    if (strcmp(path, "object/occluded") == 0)
        return read_flag(reading, element, &reading->object.is_occluded, err);
    return 0;
}

int voc_annotation_parse(struct voc_annotation *annotation, const char *text, size_t bytes,
                         const char *path, struct err *err)
{
    struct reading reading = {.annotation = annotation, .path = path};
    str_clear(&annotation->objects);
    str_clear(&annotation->names);
    annotation->width = annotation->height = 0;
    int status = xml_each(text, bytes, path, visit_element, &reading, err);
    if (!status && (str_status(&annotation->objects) || str_status(&annotation->names)))
        status = err_set(err, -ENOMEM, "out of memory for annotations");
    return status;
}
