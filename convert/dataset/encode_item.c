/*
 * encode_item — see encode_item.h.
 */
#include "convert/dataset/encode_item.h"

#include "convert/dataset/encode_image.h"
#include "convert/dataset/index_values.h"
#include "image/pipeline/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct item_encoder {
    const struct source *source;
    struct image_encoder *images;
    struct index_values_reader *numbers;
};

int item_encoder_open(const struct source *source, struct item_encoder **ret_encoder,
                      struct err *err)
{
    struct item_encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder)
        return err_set(err, -ENOMEM, "out of memory for an encoder");
    encoder->source = source;
    int status = image_encoder_open(source->options, &encoder->images, err);
    if (!status)
        status = index_values_reader_open(&source->index_fields, &encoder->numbers, err);
    if (status)
        item_encoder_close(encoder);
    else
        *ret_encoder = encoder;
    return status;
}

void item_encoder_close(struct item_encoder *encoder)
{
    if (!encoder)
        return;
    image_encoder_close(encoder->images);
    index_values_reader_close(encoder->numbers);
    free(encoder);
}

void encoded_item_deinit(struct encoded_item *item)
{
    str_deinit(&item->data);
}

/* Adds the bytes of out->data from `start` on as a field, in byte order of extensions. -EBADMSG:
 * two images of the sample now have the same extension. */
static int end_field(struct encoded_item *out, const char *extension, size_t start,
                     const char *path, struct err *err)
{
    uint32_t at = out->fields_count++;
    for (; at > 0 && strcmp(out->fields[at - 1].extension, extension) > 0; at--)
        out->fields[at] = out->fields[at - 1];
    struct encoded_field *field = &out->fields[at];
    strcpy(field->extension, extension);
    field->at = start;
    field->bytes = out->data.bytes - start;
    if (at == 0 || strcmp(field[-1].extension, extension) != 0)
        return 0;
    err_set(err, -EBADMSG, "two images of a sample have the same name");
    err_at(err, path, ERR_NO_OFFSET);
    err_found(err, "two files with the extension %s", extension);
    err_advise(err, "remove or rename one of them");
    return -EBADMSG;
}

/* Whether an image of a sample that another tool made is stored as it is, without decoding it. */
static bool keeps_image(const struct source *source, const struct image_file *file,
                        const char *type)
{
    const struct convert_options *options = source->options;
    return source->ops->is_ordered && options->store == CONVERT_STORE_ENCODED &&
           (options->jpeg == CONVERT_JPEG_KEEP || strcmp(type, "jpg") != 0 ||
            image_kind_of(file->data, file->bytes) != IMAGE_JPEG);
}

/* A PNG next to the sample's image, such as seg.png, is a mask: its values are no colors. */
static bool may_be_mask(const char *extension, const char *type)
{
    return strchr(extension, '.') && strcmp(type, "png") == 0;
}

/* Encodes an image, and changes the last part of the extension only if the format changes. */
static int encode_image_field(struct item_encoder *encoder, const struct image_file *file,
                              char extension[SHARD_EXTENSION_BYTES_MAX], struct encoded_item *out,
                              struct err *err)
{
    char type[SHARD_EXTENSION_BYTES_MAX], stored[SHARD_EXTENSION_BYTES_MAX];
    char *dot = strrchr(extension, '.'), *last = dot ? dot + 1 : extension;
    strcpy(type, strcmp(last, "jpeg") == 0 ? "jpg" : last);
    strcpy(stored, type);
    if (keeps_image(encoder->source, file, type) || may_be_mask(extension, type)) {
        str_add(&out->data, file->data, file->bytes);
        return 0;
    }
    int status = image_encode(encoder->images, file, stored, &out->data, &out->jpegs, err);
    if (status || strcmp(stored, type) == 0)
        return status;
    if ((size_t)(last - extension) + strlen(stored) >= SHARD_EXTENSION_BYTES_MAX) {
        err_set(err, -EBADMSG, "the extension of a field is too long");
        err_at(err, file->path, ERR_NO_OFFSET);
        return -EBADMSG;
    }
    strcpy(last, stored);
    return 0;
}

static int encode_field(struct item_encoder *encoder, const char *data,
                        const struct sample_field *field, struct encoded_item *out, struct err *err)
{
    const struct image_file file = {data + field->at, field->bytes, data + field->path_at};
    char extension[SHARD_EXTENSION_BYTES_MAX];
    size_t start = out->data.bytes;
    int status = 0;
    strcpy(extension, field->extension);
    if (is_image_extension(extension))
        status = encode_image_field(encoder, &file, extension, out, err);
    else
        str_add(&out->data, file.data, file.bytes);
    return status ? status : end_field(out, extension, start, file.path, err);
}

static int encode(struct item_encoder *encoder, const struct source_item *item,
                  const struct source_sample *sample, struct encoded_item *out, struct err *err)
{
    int status = 0;
    for (uint32_t i = 0; i < sample->fields_count && !status; i++)
        status = encode_field(encoder, sample->data.data, &sample->fields[i], out, err);
    if (status || item->class_number == SOURCE_NO_CLASS)
        return status;
    size_t start = out->data.bytes;
    str_add_format(&out->data, "%" PRIu32, item->class_number);
    return end_field(out, "cls", start, item->key, err);
}

int item_encode(struct item_encoder *encoder, const struct source_item *item,
                const struct source_sample *sample, struct encoded_item *out, struct err *err)
{
    str_clear(&out->data);
    out->fields_count = 0;
    out->jpegs = (struct convert_jpeg_counts){0};
    int status = encode(encoder, item, sample, out, err);
    if (!status && str_status(&out->data))
        status = err_set(err, -ENOMEM, "out of memory for a sample");
    return status ? status : index_values_read(encoder->numbers, out, item->key, err);
}

int item_read(struct source_reader *reader, const struct source_item *item,
              struct source_sample *sample, struct err *err)
{
    if (item->bytes > SOURCE_ITEM_BYTES_MAX) {
        err_set(err, -EFBIG, "the files of a sample are too large");
        err_at(err, item->key, ERR_NO_OFFSET);
        err_expected(err, "at most %d bytes", SOURCE_ITEM_BYTES_MAX);
        err_found(err, "%" PRIu64, item->bytes);
        return -EFBIG;
    }
    str_clear(&sample->data);
    sample->fields_count = 0;
    int status = reader->source->ops->read(reader, item, sample, err);
    if (!status && str_status(&sample->data))
        status = err_set(err, -ENOMEM, "out of memory for a sample");
    return status;
}
