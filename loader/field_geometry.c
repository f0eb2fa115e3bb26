/*
 * field_geometry — the image to which a field belongs: "image", or one of options.fields that is an
 * image with a size and crop of its own. Whatever follows an image has its geometry.
 *
 * Each worker has a pipeline for each of these images. It holds the geometry of the item being
 * decoded, so an image is decoded before what follows it (item.c).
 */
#include "loader/state.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of images that are not fields. */
enum { MAIN_IMAGE = LOADER_FIELDS_MAX, NO_IMAGE };

bool field_follows_boxes(const struct loader_field *field)
{
    return field->follows && field->decode == LOADER_FIELD_ARRAY;
}

bool field_has_geometry(const struct loader_field *field)
{
    return field->decode == LOADER_FIELD_IMAGE && !field->follows;
}

static uint32_t find_image(const struct loader_options *options, const char *name)
{
    if (options->decode == LOADER_IMAGE && strcmp(name, "image") == 0)
        return MAIN_IMAGE;
    for (uint32_t i = 0; i < options->fields_count; i++)
        if (field_has_geometry(&options->fields[i]) && options->fields[i].name &&
            strcmp(name, options->fields[i].name) == 0)
            return i;
    return NO_IMAGE;
}

/* The number of the image that the field is or follows. */
static uint32_t image_of(const struct loader_options *options, uint32_t field)
{
    return field_has_geometry(&options->fields[field])
               ? field
               : find_image(options, options->fields[field].follows);
}

/* ---- Checks. ---- */

static int wrong_follows(const struct loader_field *field, const char *advice, struct err *err)
{
    err_set(err, -EINVAL, "field \"%.80s\" cannot follow %s%.80s%s", field->name,
            field->follows ? "\"" : "nothing", field->follows ? field->follows : "",
            field->follows ? "\"" : "");
    err_advise(err, "%s", advice);
    return -EINVAL;
}

static int check_boxes_exist(const struct loader_options *options, const struct loader_field *field,
                             struct err *err)
{
    if (field->decode == LOADER_FIELD_ARRAY && field->rank > 0)
        for (uint32_t i = 0; i < options->fields_count; i++)
            if (options->fields[i].decode == LOADER_FIELD_BOXES && options->fields[i].name &&
                strcmp(options->fields[i].name, field->follows) == 0)
                return 0;
    return wrong_follows(field,
                         "only images, labels, boxes and keypoints follow an image; an array of at "
                         "least one dimension may follow a field of boxes",
                         err);
}

static int check_own_geometry(const struct loader_field *field, struct err *err)
{
    if (field->image.width > 0 && field->image.height > 0)
        return 0;
    err_set(err, -EINVAL, "field \"%.80s\" is an image without a size", field->name);
    err_advise(err, "set its size, or let it follow another image");
    return -EINVAL;
}

static int check_no_geometry(const struct loader_field *field, struct err *err)
{
    const struct crop_options *crop = &field->image.crop;
    bool has_crop = crop->kind != CROP_NONE || crop->flip ||
                    crop->scale_max > 0; /* as crop_options_default has set it */
    if (field->image.width == 0 && field->image.height == 0 && !has_crop &&
        !augment_is_on(&field->image.augment))
        return 0;
    err_set(err, -EINVAL, "field \"%.80s\" %s, but has a size, crop, scale, flip or augmentation",
            field->name, field->follows ? "follows another" : "is no image");
    if (field->follows)
        err_advise(err, "remove them: it gets those of \"%.80s\"", field->follows);
    else
        err_advise(err, "remove them");
    return -EINVAL;
}

static int check_image_exists(const struct loader_options *options,
                              const struct loader_field *field, struct err *err)
{
    const char *advice = NULL;
    uint32_t image = field->follows ? find_image(options, field->follows) : NO_IMAGE;
    if (!field->follows)
        advice = "labels, boxes and keypoints follow an image: \"image\", or a field";
    else if (image == NO_IMAGE && strcmp(field->follows, "image") == 0)
        advice = "a record has no image: set decode to LOADER_IMAGE";
    else if (image == NO_IMAGE)
        advice = "follow \"image\", or a field that is an image and follows none";
    else if (image == MAIN_IMAGE && mixup_is_on(&options->image.mixup))
        advice = "mixup and cutmix do not mix it: turn them off";
    return advice ? wrong_follows(field, advice, err) : 0;
}

static int check_visible_min(const struct loader_field *field, struct err *err)
{
    if (field->visible_min >= 0 && field->visible_min <= 1)
        return 0;
    err_set(err, -EINVAL, "visible_min of field \"%.80s\" is out of range", field->name);
    err_expected(err, "0 to 1");
    err_found(err, "%g", field->visible_min);
    return -EINVAL;
}

static int check_labels_dtype(const struct loader_field *field, struct err *err)
{
    if (field->decode != LOADER_FIELD_LABELS || field->dtype == DTYPE_U8 ||
        field->dtype == DTYPE_U16 || field->dtype == DTYPE_I32 || field->dtype == DTYPE_I64)
        return 0;
    err_set(err, -EINVAL, "field \"%.80s\" cannot be labels of that type", field->name);
    err_expected(err, "U8, U16, I32 or I64");
    err_found(err, "%s", dtype_name(field->dtype));
    err_advise(err, "set its dtype");
    return -EINVAL;
}

int field_check_follows(const struct loader_options *options, const struct loader_field *field,
                        struct err *err)
{
    if (field_has_geometry(field))
        return check_own_geometry(field, err);
    bool belongs_to_image = field->decode >= LOADER_FIELD_LABELS;
    int status = belongs_to_image ? check_image_exists(options, field, err)
                 : field->follows ? check_boxes_exist(options, field, err)
                                  : 0;
    if (!status)
        status = check_no_geometry(field, err);
    if (status || !belongs_to_image)
        return status;
    status = check_visible_min(field, err);
    return status ? status : check_labels_dtype(field, err);
}

/* ---- Sizes. ---- */

/* Whether workers decode the image to a picture of their own first. */
static bool field_is_normalized(const struct loader_field *field)
{
    return field->decode == LOADER_FIELD_IMAGE && normalize_is_on(&field->normalize);
}

uint64_t loader_picture_bytes_max(const struct loader *loader)
{
    const struct loader_options *options = &loader->options;
    uint64_t bytes = loader_needs_picture(loader) ? loader_picture_bytes(loader) : 0;
    for (uint32_t f = 0; f < options->fields_count; f++) {
        if (!field_is_normalized(&options->fields[f]))
            continue;
        const struct field_size size = field_target_size(loader, f);
        bytes = bytes_max(bytes, 3 * (uint64_t)size.width * size.height);
    }
    return bytes;
}

uint32_t loader_geometries(const struct loader *loader)
{
    const struct loader_options *options = &loader->options;
    uint32_t count = options->decode == LOADER_IMAGE;
    for (uint32_t f = 0; f < options->fields_count; f++)
        count += field_has_geometry(&options->fields[f]);
    return count;
}

struct field_size field_target_size(const struct loader *loader, uint32_t field)
{
    const struct loader_options *options = &loader->options;
    uint32_t image = image_of(options, field);
    if (image == MAIN_IMAGE)
        return (struct field_size){options->image.width, options->image.height};
    return (struct field_size){options->fields[image].image.width,
                               options->fields[image].image.height};
}

/* ---- Normalization. ---- */

int field_normalizes_open(struct loader *loader, struct err *err)
{
    const struct loader_options *options = &loader->options;
    for (uint32_t f = 0; f < options->fields_count; f++) {
        if (!field_is_normalized(&options->fields[f]))
            continue;
        if (!loader->pool.field_normalizes)
            loader->pool.field_normalizes =
                calloc(options->fields_count, sizeof *loader->pool.field_normalizes);
        if (!loader->pool.field_normalizes)
            return err_set(err, -ENOMEM, "out of memory for the fields");
        normalize_init(&loader->pool.field_normalizes[f], &options->fields[f].normalize);
    }
    return 0;
}

const struct normalize *field_normalize(const struct loader *loader, uint32_t field)
{
    return field_is_normalized(&loader->options.fields[field])
               ? &loader->pool.field_normalizes[field]
               : NULL;
}

/* ---- Pipelines. ---- */

static int open_pipeline(struct load_worker *worker, uint32_t number, struct err *err)
{
    const struct loader_options *options = &worker->loader->options;
    const struct loader_field *field = &options->fields[number];
    struct image_options image = image_options_from_loader(options);
    image.width = field->image.width;
    image.height = field->image.height;
    image.crop = field->image.crop;
    image.augment = field->image.augment;
    image.is_read_next = field_is_normalized(field);
    int status = image_pipeline_open(&image, &worker->field_pipelines[number], err);
    if (status)
        image_name_error(field->name, err);
    return status;
}

int field_pipelines_open(struct load_worker *worker, struct err *err)
{
    const struct loader_options *options = &worker->loader->options;
    int status = 0;
    if (options->decode == LOADER_IMAGE) {
        const struct image_options image = image_options_from_loader(options);
        status = image_pipeline_open(&image, &worker->pipeline, err);
    }
    if (status || options->fields_count == 0)
        return status;
    worker->field_pipelines = calloc(options->fields_count, sizeof *worker->field_pipelines);
    if (!worker->field_pipelines)
        return err_set(err, -ENOMEM, "out of memory for a worker");
    for (uint32_t f = 0; !status && f < options->fields_count; f++)
        if (field_has_geometry(&options->fields[f]))
            status = open_pipeline(worker, f, err);
    return status;
}

void field_pipelines_close(struct load_worker *worker)
{
    image_pipeline_close(worker->pipeline);
    for (uint32_t f = 0; worker->field_pipelines && f < worker->loader->options.fields_count; f++)
        image_pipeline_close(worker->field_pipelines[f]);
    free(worker->field_pipelines);
}

struct image_pipeline *field_pipeline(const struct load_worker *worker, uint32_t field)
{
    uint32_t image = image_of(&worker->loader->options, field);
    return image == MAIN_IMAGE ? worker->pipeline : worker->field_pipelines[image];
}
