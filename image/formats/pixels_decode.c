/*
 * pixels_decode — see pixels.h.
 */
#include "image/formats/pixels.h"

#include "image/formats/png.h"
#include "image/formats/ppm.h"
#include "image/formats/webp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct pixels_decoder {
    enum image_kind kind; /* of the last pixels_begin */
    struct png_decoder png;
    struct webp webp;
    struct ppm ppm;
    struct pixels_memory memory;
};

/* ---- Kinds. ---- */

static bool begins_with(const uint8_t *data, size_t bytes, const char *magic, size_t magic_bytes)
{
    return bytes >= magic_bytes && memcmp(data, magic, magic_bytes) == 0;
}

enum image_kind image_kind_of(const void *data, size_t bytes)
{
    const uint8_t *head = data;
    /* libjpeg skips bytes before the next marker. */
    if (begins_with(head, bytes, "\xff\xd8", 2))
        return IMAGE_JPEG;
    if (begins_with(head, bytes, "\x89PNG\r\n\x1a\n", 8))
        return IMAGE_PNG;
    if (begins_with(head, bytes, "RIFF", 4) && bytes >= IMAGE_KIND_BYTES &&
        memcmp(head + 8, "WEBP", 4) == 0)
        return IMAGE_WEBP;
    if (begins_with(head, bytes, "P6", 2) && bytes > 2 && (head[2] <= ' ' || head[2] == '#'))
        return IMAGE_PPM;
    return IMAGE_UNKNOWN;
}

const char *image_kind_name(enum image_kind kind)
{
    static const char *const names[IMAGE_KIND_COUNT] = {"image", "JPEG", "PNG", "WebP", "PPM"};
    return names[kind];
}

/* ---- Shared by the decoders. ---- */

int pixels_reserve(struct pixels_memory *memory, size_t bytes, struct err *err)
{
    if (bytes <= memory->bytes)
        return 0;
    free(memory->data);
    memory->data = malloc(bytes);
    memory->bytes = memory->data ? bytes : 0;
    return memory->data
               ? 0
               : err_set(err, -ENOMEM, "out of memory for %zu bytes of decoded pixels", bytes);
}

int pixels_error(const char *kind, const char *path, int64_t offset, const char *why,
                 struct err *err)
{
    err_set(err, -EBADMSG, "%s cannot be decoded", kind);
    err_at(err, path, offset);
    err_found(err, "%s", why);
    err_advise(err, "replace the file or leave it out");
    return -EBADMSG;
}

int pixels_check_size(const char *kind, const char *path, uint64_t width, uint64_t height,
                      struct err *err)
{
    if (width >= 1 && height >= 1 && width <= PIXELS_SIDE_MAX && height <= PIXELS_SIDE_MAX &&
        width * height <= PIXELS_MAX)
        return 0;
    err_set(err, -EBADMSG, "size of a %s is not supported", kind);
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "1 to %d pixels per side, at most %d in total", PIXELS_SIDE_MAX, PIXELS_MAX);
    err_found(err, "%" PRIu64 " x %" PRIu64, width, height);
    err_advise(err, "replace the file or leave it out");
    return -EBADMSG;
}

/* ---- The decoder. ---- */

int pixels_begin(struct pixels_decoder *decoder, enum image_kind kind, const void *data,
                 size_t bytes, const char *path, struct pixels_info *ret_info, struct err *err)
{
    decoder->kind = kind;
    switch (kind) {
    case IMAGE_PNG:
        return png_begin(&decoder->png, data, bytes, path, ret_info, err);
    case IMAGE_WEBP:
        return webp_begin(&decoder->webp, data, bytes, path, ret_info, err);
    case IMAGE_PPM:
        return ppm_begin(&decoder->ppm, data, bytes, path, ret_info, err);
    default:
        return pixels_error("image", path, 0, "it is not a JPEG, PNG, WebP or PPM", err);
    }
}

int pixels_decode_region(struct pixels_decoder *decoder, const struct image_rect *region,
                         struct pixels *ret_pixels, struct err *err)
{
    switch (decoder->kind) {
    case IMAGE_PNG:
        return png_decode_region(&decoder->png, region, &decoder->memory, ret_pixels, err);
    case IMAGE_WEBP:
        return webp_decode_region(&decoder->webp, region, &decoder->memory, ret_pixels, err);
    default:
        *ret_pixels = ppm_pixels(&decoder->ppm);
        return 0;
    }
}

int pixels_decoder_open(struct pixels_decoder **ret_decoder, struct err *err)
{
    struct pixels_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder)
        return err_set(err, -ENOMEM, "out of memory for an image decoder");
    *ret_decoder = decoder;
    return 0;
}

void pixels_decoder_close(struct pixels_decoder *decoder)
{
    if (!decoder)
        return;
    png_decoder_deinit(&decoder->png);
    free(decoder->memory.data);
    free(decoder);
}
