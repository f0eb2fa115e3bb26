/*
 * field_image — decodes the fields that follow the geometry of an image, except images: labels,
 * boxes with what follows them, and keypoints (field_values.h).
 */
#include "loader/field_values.h"

#include "image/pipeline/geometry.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Of the image that the field follows. */
static const struct image_geometry *field_geometry(const struct load_worker *worker, uint32_t field)
{
    return image_pipeline_geometry(field_pipeline(worker, field));
}

/* ---- Labels. ---- */

static int wrong_size(const struct image_geometry *geometry, const struct shard *shard,
                      const struct view_piece *piece, uint64_t width, uint64_t height,
                      struct err *err)
{
    err_set(err, -EBADMSG, "the mask in field \"%s\" has another size than the image",
            piece->extension);
    err_at(err, shard->path, (int64_t)piece->want_offset);
    err_expected(err, "%" PRIu32 " x %" PRIu32 " pixels, as the upright image",
                 geometry->source_width, geometry->source_height);
    err_found(err, "%" PRIu64 " x %" PRIu64, width, height);
    return -EBADMSG;
}

static int decode_png(struct load_worker *worker, const struct image_geometry *geometry,
                      const struct shard *shard, const struct view_piece *piece,
                      struct image_mask *ret_mask, struct err *err)
{
    struct image_rect region = {.width = geometry->source_width};
    struct pixels_info info;
    geometry_find_rows(geometry, &region.y, &region.height);
    int status =
        png_begin(&worker->png, view_data(piece), piece->want_bytes, shard->path, &info, err);
    if (!status &&
        (info.width != geometry->source_width || info.height != geometry->source_height)) {
        png_decoder_deinit(&worker->png);
        return wrong_size(geometry, shard, piece, info.width, info.height, err);
    }
    if (!status)
        status = png_decode_mask(&worker->png, &region, &worker->labels, ret_mask, err);
    if (status)
        err->offset = (int64_t)piece->want_offset;
    return status;
}

static int decode_npy(const struct loader_field *type, const struct image_geometry *geometry,
                      const struct shard *shard, const struct view_piece *piece,
                      struct image_mask *ret_mask, struct err *err)
{
    struct npy npy;
    int status = field_decode_array(shard, piece, &npy, err);
    if (status)
        return status;
    if ((npy.dtype != DTYPE_U8 && npy.dtype != DTYPE_U16) || npy.rank != 2) {
        const struct loader_field expected = {
            .name = type->name, .dtype = type->dtype == DTYPE_U8 ? DTYPE_U8 : DTYPE_U16, .rank = 2};
        return field_wrong_array(&expected, shard, piece, &npy, err);
    }
    if (npy.shape[1] != geometry->source_width || npy.shape[0] != geometry->source_height)
        return wrong_size(geometry, shard, piece, npy.shape[1], npy.shape[0], err);
    uint32_t value_bytes = (uint32_t)dtype_bytes(npy.dtype);
    *ret_mask = (struct image_mask){.data = view_data(piece) + npy.header_bytes,
                                    .value_bytes = value_bytes,
                                    .stride_bytes = npy.shape[1] * value_bytes};
    return 0;
}

static int decode_labels(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                         uint32_t number, const struct shard *shard, const struct view_piece *piece,
                         struct err *err)
{
    const struct loader_field *type = &worker->loader->options.fields[number];
    const struct image_geometry *geometry = field_geometry(worker, number);
    const struct batch_field *field = batch_field_named(&slot->batch, type->name);
    bool is_png = image_kind_of(view_data(piece), piece->want_bytes) == IMAGE_PNG;
    struct image_mask mask;
    int status = is_png ? decode_png(worker, geometry, shard, piece, &mask, err)
                        : decode_npy(type, geometry, shard, piece, &mask, err);
    if (status)
        return status;
    if (mask.value_bytes > dtype_bytes(type->dtype)) {
        err_set(err, -EBADMSG, "the mask in field \"%s\" has 16 bits per pixel", piece->extension);
        err_at(err, shard->path, (int64_t)piece->want_offset);
        err_advise(err, "request labels of type U16, I32 or I64");
        return -EBADMSG;
    }
    geometry_sample_mask(geometry, &mask, (uint8_t *)field->data + item * field->stride_bytes[0],
                         dtype_bytes(type->dtype));
    return 0;
}

/* ---- Boxes. ---- */

static struct image_box stored_box(const struct loader_field *type,
                                   const struct image_geometry *geometry, const double row[4])
{
    struct image_box box = {row[0], row[1], row[2], row[3]};
    if (type->box_format == LOADER_BOX_XYWH)
        box = (struct image_box){row[0], row[1], row[0] + row[2], row[1] + row[3]};
    if (type->box_format == LOADER_BOX_CXCYWH)
        box = (struct image_box){row[0] - row[2] / 2, row[1] - row[3] / 2, row[0] + row[2] / 2,
                                 row[1] + row[3] / 2};
    if (type->is_normalized)
        box = (struct image_box){box.x0 * geometry->source_width, box.y0 * geometry->source_height,
                                 box.x1 * geometry->source_width, box.y1 * geometry->source_height};
    return box;
}

static int negative_box(const struct shard *shard, const struct view_piece *piece, uint64_t number,
                        struct err *err)
{
    err_set(err, -EBADMSG, "box %" PRIu64 " in field \"%s\" has a negative width or height", number,
            piece->extension);
    err_at(err, shard->path, (int64_t)piece->want_offset);
    err_advise(err, "check the format of the boxes (box_format)");
    return -EBADMSG;
}

/* Stores the remaining boxes, and which they are in worker->kept_boxes. */
static int decode_boxes(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                        uint32_t field, const struct shard *shard, const struct view_piece *piece,
                        uint64_t *ret_count, struct err *err)
{
    const struct loader_field *type = &worker->loader->options.fields[field];
    const struct image_geometry *geometry = field_geometry(worker, field);
    uint64_t kept = 0;
    double *rows;
    int status = field_read_rows(worker, type, 4, shard, piece, &rows, ret_count, err);
    if (!status)
        status = pixels_reserve(&worker->kept_boxes, *ret_count + 1, err);
    for (uint64_t i = 0; !status && i < *ret_count; i++) {
        struct image_box box = stored_box(type, geometry, rows + 4 * i);
        if (box.x1 < box.x0 || box.y1 < box.y0)
            return negative_box(shard, piece, i, err);
        double remaining = geometry_map_box(geometry, &box);
        bool is_kept = remaining > 0 && remaining >= type->visible_min;
        worker->kept_boxes.data[i] = is_kept;
        if (!is_kept)
            continue;
        /* in place: a row of floats is shorter than one of doubles */
        const float row[4] = {(float)box.x0, (float)box.y0, (float)box.x1, (float)box.y1};
        memcpy(worker->numbers.data + kept++ * sizeof row, row, sizeof row);
    }
    return status ? status
                  : ragged_store(worker->loader, slot, item, field, worker->numbers.data,
                                 kept * 4 * sizeof(float), (uint64_t[]){kept, 4}, err);
}

/* Stores the entries of the boxes that remain. */
static int decode_follower(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                           uint32_t field, uint64_t boxes, const struct shard *shard,
                           const struct view_piece *piece, struct err *err)
{
    const struct loader_field *type = &worker->loader->options.fields[field];
    struct field_numbers numbers;
    uint64_t kept = 0;
    int status = field_read_numbers(worker, type, shard, piece, &numbers, err);
    if (status)
        return status;
    if (numbers.shape[0] != boxes) {
        err_set(err, -EBADMSG, "field \"%.80s\" does not have one entry for each of \"%.80s\"",
                type->name, type->follows);
        err_at(err, shard->path, (int64_t)piece->want_offset);
        err_expected(err, "%" PRIu64, boxes);
        err_found(err, "%" PRIu64, numbers.shape[0]);
        return -EBADMSG;
    }
    uint64_t row_bytes = boxes ? numbers.bytes / boxes : 0;
    if (!type->path) /* a JSON array is there already */
        status = pixels_reserve(&worker->numbers, numbers.bytes + 1, err);
    for (uint64_t i = 0; !status && i < boxes; i++)
        if (worker->kept_boxes.data[i])
            memmove(worker->numbers.data + kept++ * row_bytes, numbers.data + i * row_bytes,
                    row_bytes);
    numbers.shape[0] = kept;
    return status ? status
                  : ragged_store(worker->loader, slot, item, field, worker->numbers.data,
                                 kept * row_bytes, numbers.shape, err);
}

static int decode_boxes_and_followers(struct load_worker *worker, struct load_slot *slot,
                                      uint32_t item, uint32_t field, const struct shard *shard,
                                      const struct view_piece *pieces, struct err *err)
{
    const struct loader_options *options = &worker->loader->options;
    uint64_t boxes = 0;
    int status = decode_boxes(worker, slot, item, field, shard, &pieces[field], &boxes, err);
    for (uint32_t f = 0; !status && f < options->fields_count; f++)
        if (field_follows_boxes(&options->fields[f]) &&
            strcmp(options->fields[f].follows, options->fields[field].name) == 0)
            status = decode_follower(worker, slot, item, f, boxes, shard, &pieces[f], err);
    return status;
}

/* ---- Keypoints. ---- */

static int decode_keypoints(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                            uint32_t field, const struct shard *shard,
                            const struct view_piece *piece, struct err *err)
{
    const struct loader_field *type = &worker->loader->options.fields[field];
    const struct image_geometry *geometry = field_geometry(worker, field);
    uint64_t count = 0;
    double *rows;
    int status = field_read_rows(worker, type, 3, shard, piece, &rows, &count, err);
    for (uint64_t i = 0; !status && i < count; i++) {
        double x = rows[3 * i], y = rows[3 * i + 1], visibility = rows[3 * i + 2];
        if (type->is_normalized) {
            x *= geometry->source_width;
            y *= geometry->source_height;
        }
        bool is_inside = visibility != 0 && geometry_map_point(geometry, &x, &y);
        const float row[3] = {is_inside ? (float)x : 0, is_inside ? (float)y : 0,
                              is_inside ? (float)visibility : 0};
        memcpy(worker->numbers.data + i * sizeof row, row, sizeof row);
    }
    return status ? status
                  : ragged_store(worker->loader, slot, item, field, worker->numbers.data,
                                 count * 3 * sizeof(float), (uint64_t[]){count, 3}, err);
}

int field_decode_of_image(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                          uint32_t field, const struct shard *shard,
                          const struct view_piece *pieces, struct err *err)
{
    const struct loader_field *type = &worker->loader->options.fields[field];
    switch (type->decode) {
    case LOADER_FIELD_LABELS:
        return decode_labels(worker, slot, item, field, shard, &pieces[field], err);
    case LOADER_FIELD_BOXES:
        return decode_boxes_and_followers(worker, slot, item, field, shard, pieces, err);
    default:
        return decode_keypoints(worker, slot, item, field, shard, &pieces[field], err);
    }
}
