/*
 * image_decode — decodes the stored images of a sample into the batch: "image" with its label, and
 * those of options.fields (field_geometry.c).
 */
#include "loader/state.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

static void store_label(const struct batch_field *labels, uint32_t item, int32_t label)
{
    if (labels->dtype == DTYPE_I64)
        ((int64_t *)labels->data)[item] = label;
    else
        ((int32_t *)labels->data)[item] = label;
}

static struct image_key key_of(const struct loader *loader, struct sample_ref ref)
{
    return (struct image_key){.seed = loader->order.seed,
                              .dataset = ref.dataset,
                              .epoch = ref.epoch,
                              .sample = ref.sample};
}

/* Converts the offset in a member to one in the shard. */
static void place_error(const struct view_piece *piece, struct err *err)
{
    if (err->offset >= 0)
        err->offset += (int64_t)piece->want_offset;
    else
        err->offset = (int64_t)piece->want_offset;
}

static void count_warnings(struct load_worker *worker, const struct image_pipeline *pipeline)
{
    atomic_fetch_add_explicit(&worker->jpeg_warnings, image_pipeline_warnings(pipeline),
                              memory_order_relaxed);
}

int image_decode(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                 const struct shard *shard, struct sample_ref ref, const struct view_piece *pieces,
                 uint32_t count, struct err *err)
{
    const struct loader *loader = worker->loader;
    const struct batch_field *images = &slot->batch.fields[0], *labels = &slot->batch.fields[1];
    const struct image_key key = key_of(loader, ref);
    const bool is_normalized = normalize_is_on(&loader->options.image.normalize);
    uint8_t *image = (uint8_t *)images->data + item * images->stride_bytes[0];
    uint8_t *rgb = is_normalized ? worker->picture : image;
    int32_t label = -1;
    size_t stride_bytes = 3 * (size_t)loader->options.image.width;
    const void *data = view_data(&pieces[0]);
    int status = pieces[0].rows.count
                     ? image_pipeline_run_rows(worker->pipeline, &pieces[0].rows, data, key, rgb,
                                               stride_bytes, err)
                     : image_pipeline_run(worker->pipeline, data, pieces[0].want_bytes, shard->path,
                                          key, rgb, stride_bytes, err);
    if (status) {
        place_error(&pieces[0], err);
        return status;
    }
    if (is_normalized)
        normalize_apply(&loader->pool.normalize, rgb, loader_pixels(loader), image);
    count_warnings(worker, worker->pipeline);
    if (count > 1)
        status = label_decode(worker, shard, &pieces[1], &label, err);
    store_label(labels, item, label);
    return status;
}

/* ---- Images of options.fields. ---- */

void image_name_error(const char *name, struct err *err)
{
    char what[ERR_TEXT_BYTES_MAX];
    snprintf(what, sizeof what, "field \"%.80s\": %.160s", name, err->what);
    memcpy(err->what, what, sizeof what);
}

int image_decode_field(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                       uint32_t field, const struct shard *shard, struct sample_ref ref,
                       const struct view_piece *piece, struct err *err)
{
    const struct loader_field *type = &worker->loader->options.fields[field];
    const struct batch_field *images = batch_field_named(&slot->batch, type->name);
    struct image_pipeline *pipeline = field_pipeline(worker, field);
    struct image_key key = key_of(worker->loader, ref);
    const struct normalize *normalize = field_normalize(worker->loader, field);
    const struct field_size size = field_target_size(worker->loader, field);
    uint8_t *image = (uint8_t *)images->data + item * images->stride_bytes[0];
    uint8_t *rgb = normalize ? worker->picture : image;
    const size_t stride_bytes = 3 * (size_t)size.width;
    key.seed ^= hash_64(type->name, strlen(type->name)); /* its own, whatever the other fields */
    int status = type->follows
                     ? image_pipeline_run_follower(pipeline, view_data(piece), piece->want_bytes,
                                                   shard->path, rgb, stride_bytes, err)
                     : image_pipeline_run(pipeline, view_data(piece), piece->want_bytes,
                                          shard->path, key, rgb, stride_bytes, err);
    if (status) {
        place_error(piece, err);
        image_name_error(piece->extension, err);
        return status;
    }
    if (normalize)
        normalize_apply(normalize, rgb, (size_t)size.width * size.height, image);
    count_warnings(worker, pipeline);
    return 0;
}
