/*
 * encode_item — see encode_item.h.
 */
#include "convert/dataset/encode_item.h"

#include "base/bytes.h"
#include "convert/dataset/encode_image.h"
#include "image/pipeline/check.h"
#include "io/file_util.h"
#include "shards/format/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item_encoder {
    struct io *io;
    const struct source *source;
    struct io_queue *queue;
    struct image_encoder *images;
    struct str file;         /* an image's file; for text, its bytes */
    struct bpe_encoder *bpe; /* if the source has one */
    struct str tokens;       /* of a piece of text */
};

int item_encoder_open(struct io *io, const struct source *source, struct item_encoder **ret_encoder,
                      struct err *err)
{
    struct item_encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder)
        return err_set(err, -ENOMEM, "out of memory for an encoder");
    encoder->io = io;
    encoder->source = source;
    int status = io->ops->queue_open(io, 1, &encoder->queue, err);
    if (!status)
        status = image_encoder_open(source->options, &encoder->images, err);
    if (!status && source->bpe)
        status = bpe_encoder_open(source->bpe, &encoder->bpe, err);
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
    if (encoder->queue)
        encoder->io->ops->queue_close(encoder->queue);
    bpe_encoder_close(encoder->bpe);
    str_deinit(&encoder->tokens);
    str_deinit(&encoder->file);
    free(encoder);
}

void encoded_item_deinit(struct encoded_item *item)
{
    str_deinit(&item->data);
}

/* Appends count bytes at offset of a listed file to out. */
static int read_part(struct item_encoder *encoder, uint64_t file, uint64_t offset, uint64_t count,
                     struct str *out, const char *path, struct err *err)
{
    return source_read_file(encoder->source, encoder->io, encoder->queue, file, path, offset, count,
                            out, err);
}

/* Adds a field whose data is everything appended to out->data after the first `start` bytes. */
static void end_field(struct encoded_item *out, const char *extension, size_t start)
{
    struct encoded_field *field = &out->fields[out->fields_count++];
    snprintf(field->extension, sizeof field->extension, "%s", extension);
    field->at = start;
    field->bytes = out->data.bytes - start;
}

static int encode_image(struct item_encoder *encoder, uint64_t file, struct encoded_item *out,
                        const char *path, char extension[SHARD_EXTENSION_BYTES_MAX],
                        struct err *err)
{
    str_clear(&encoder->file);
    int status =
        read_part(encoder, file, 0, encoder->source->files[file].bytes, &encoder->file, path, err);
    return status ? status
                  : image_encode(encoder->images, &encoder->file, path, extension, &out->data,
                                 &out->jpegs, err);
}

/* Sorts the fields by extension in byte order; extensions may have changed. If two are now equal,
 * their files can't be in one sample. */
static int order_fields(struct encoded_item *out, const char *path, struct err *err)
{
    for (uint32_t i = 1; i < out->fields_count; i++) {
        struct encoded_field field = out->fields[i];
        uint32_t at = i;
        for (; at > 0 && strcmp(out->fields[at - 1].extension, field.extension) > 0; at--)
            out->fields[at] = out->fields[at - 1];
        out->fields[at] = field;
        if (at > 0 && strcmp(out->fields[at - 1].extension, field.extension) == 0) {
            err_set(err, -EBADMSG, "two images of a sample have the same name");
            err_at(err, path, ERR_NO_OFFSET);
            err_found(err, "two files with the extension %s", field.extension);
            err_advise(err, "remove or rename one of them");
            return -EBADMSG;
        }
    }
    return 0;
}

static void add_class(const struct source *source, uint64_t file, struct encoded_item *out)
{
    size_t start = out->data.bytes;
    str_add_format(&out->data, "%" PRIu32, source->files[file].class_number);
    end_field(out, "cls", start);
}

static int encode_files(struct item_encoder *encoder, const struct source_item *item,
                        struct encoded_item *out, struct err *err)
{
    const struct source *source = encoder->source;
    uint64_t first = source->first_files[item->number], end = source->first_files[item->number + 1];
    bool class_is_due = source->kind == SOURCE_CLASSES;
    char path[IO_PATH_BYTES_MAX], extension[SHARD_EXTENSION_BYTES_MAX];
    for (uint64_t file = first; file < end; file++) {
        source_file_extension(source, file, extension);
        if (class_is_due && strcmp(extension, "cls") > 0) {
            add_class(source, file, out);
            class_is_due = false;
        }
        size_t start = out->data.bytes;
        int status = source_file_path(source, file, path, err);
        if (!status && image_is_expected(extension))
            status = encode_image(encoder, file, out, path, extension, err);
        else if (!status)
            status = read_part(encoder, file, 0, source->files[file].bytes, &out->data, path, err);
        if (status)
            return status;
        end_field(out, extension, start);
    }
    if (class_is_due)
        add_class(source, first, out);
    return order_fields(out, path, err);
}

/* The piece that contains a token of the stream: the first that ends after it. */
static uint64_t find_piece(const struct source *source, uint64_t token)
{
    uint64_t low = 0, high = source->pieces_count - 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (source->pieces[middle].tokens_end > token)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Appends `count` bytes of a document as tokens of two bytes each. */
static int add_byte_tokens(struct item_encoder *encoder, uint64_t file, uint64_t offset,
                           uint64_t count, struct str *out, const char *path, struct err *err)
{
    int status = read_part(encoder, file, offset, count, &encoder->file, path, err);
    if (status)
        return status;
    if (str_reserve(out, count * SOURCE_TOKEN_BYTES))
        return err_set(err, -ENOMEM, "out of memory for tokens");
    for (uint64_t i = 0; i < count; i++)
        bytes_put_u16(out->data + out->bytes + i * SOURCE_TOKEN_BYTES,
                      (uint8_t)encoder->file.data[i]);
    out->bytes += count * SOURCE_TOKEN_BYTES;
    return 0;
}

/* Appends `count` tokens of a piece from its token `first` on. Their number must not have changed
 * since they were counted. */
static int add_bpe_tokens(struct item_encoder *encoder, const struct text_chunk *piece,
                          uint64_t tokens, uint64_t first, uint64_t count, struct str *out,
                          const char *path, struct err *err)
{
    int status =
        read_part(encoder, piece->file, piece->offset, piece->bytes, &encoder->file, path, err);
    str_clear(&encoder->tokens);
    if (!status)
        status = bpe_encode(encoder->bpe, encoder->file.data, encoder->file.bytes, &encoder->tokens,
                            err);
    if (!status && encoder->tokens.bytes != tokens * SOURCE_TOKEN_BYTES) {
        status = err_set(err, -ESTALE, "the file changed after its tokens were counted");
        err_at(err, path, (int64_t)piece->offset);
    }
    if (!status)
        str_add(out, encoder->tokens.data + first * SOURCE_TOKEN_BYTES, count * SOURCE_TOKEN_BYTES);
    return status;
}

/* Appends the tokens of the stream from *at to the piece's end or `end`, and advances *at. */
static int add_piece(struct item_encoder *encoder, const struct text_chunk *piece, uint64_t *at,
                     uint64_t end, struct str *out, struct err *err)
{
    const struct source *source = encoder->source;
    char path[IO_PATH_BYTES_MAX];
    uint64_t begin = piece > source->pieces ? piece[-1].tokens_end : 0;
    uint64_t text_end = piece->tokens_end - (text_chunk_ends_document(source, piece) ? 1 : 0);
    uint64_t stop = bytes_min(text_end, end);
    if (*at < stop) {
        str_clear(&encoder->file);
        int status = source_file_path(source, piece->file, path, err);
        if (!status && source->bpe)
            status = add_bpe_tokens(encoder, piece, text_end - begin, *at - begin, stop - *at, out,
                                    path, err);
        else if (!status)
            status = add_byte_tokens(encoder, piece->file, *at - begin, stop - *at, out, path, err);
        if (status)
            return status;
        *at = stop;
    }
    if (*at < end && *at < piece->tokens_end) {
        uint8_t mark[SOURCE_TOKEN_BYTES];
        bytes_put_u16(mark, (uint16_t)source_document_end(source));
        str_add(out, mark, sizeof mark);
        ++*at;
    }
    return 0;
}

static int encode_tokens(struct item_encoder *encoder, const struct source_item *item,
                         struct encoded_item *out, struct err *err)
{
    const struct source *source = encoder->source;
    uint64_t at, count;
    uint8_t header[NPY_HEADER_BYTES];
    source_item_tokens(source, item->number, &at, &count);
    npy_encode_header(DTYPE_U16, count, header);
    str_add(&out->data, header, sizeof header);
    uint64_t end = at + count;
    for (const struct text_chunk *piece = &source->pieces[find_piece(source, at)]; at < end;
         piece++) {
        int status = add_piece(encoder, piece, &at, end, &out->data, err);
        if (status)
            return status;
    }
    end_field(out, "npy", 0);
    return 0;
}

int item_encode(struct item_encoder *encoder, const struct source_item *item,
                struct encoded_item *out, struct err *err)
{
    str_clear(&out->data);
    out->fields_count = 0;
    out->jpegs = (struct convert_jpegs){0};
    if (item->bytes > SOURCE_ITEM_BYTES_MAX) {
        err_set(err, -EFBIG, "the files of a sample are too large");
        err_at(err, item->key, ERR_NO_OFFSET);
        err_expected(err, "at most %d bytes", SOURCE_ITEM_BYTES_MAX);
        err_found(err, "%" PRIu64, item->bytes);
        return -EFBIG;
    }
    int status = encoder->source->kind == SOURCE_TEXT ? encode_tokens(encoder, item, out, err)
                                                      : encode_files(encoder, item, out, err);
    if (!status && str_status(&out->data))
        status = err_set(err, -ENOMEM, "out of memory for a sample");
    return status;
}
