/*
 * webp — see webp.h. The RIFF container is "RIFF", u32, "WEBP", then chunks {name[4], u32 bytes,
 * data, padded to even} (developers.google.com/speed/webp/docs/riff_container).
 */
#include "image/formats/webp.h"

#include "base/bytes.h"
#include "image/formats/exif.h"

#include <errno.h>
#include <string.h>

#include <webp/decode.h>

enum {
    RIFF_HEADER_BYTES = 12,
    CHUNK_HEADER_BYTES = 8,
    /* Upsampling blends a row's chroma with its neighbor's, which is missing at the edge of a
     * crop. This margin around the region gives all wanted pixels their neighbors. It is even
     * because libwebp rounds the coordinates of a crop's corner down to even numbers. */
    MARGIN_PIXELS = 2,
};

static const char *error_text(VP8StatusCode code)
{
    switch (code) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return "the file ends too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return "it uses an unsupported feature";
    default:
        return "its data is invalid";
    }
}

static int decoding_error(const char *path, VP8StatusCode code, struct err *err)
{
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return err_set(err, -ENOMEM, "not enough memory to decode a WebP");
    return pixels_error("WebP", path, ERR_NO_OFFSET, error_text(code), err);
}

static uint32_t find_orientation(const uint8_t *data, size_t bytes)
{
    for (size_t at = RIFF_HEADER_BYTES; at < bytes && bytes - at >= CHUNK_HEADER_BYTES;) {
        uint64_t chunk_bytes = bytes_get_u32(data + at + 4);
        size_t begin = at + CHUNK_HEADER_BYTES;
        if (memcmp(data + at, "EXIF", 4) == 0) {
            size_t available = bytes_min(chunk_bytes, bytes - begin);
            /* some writers prepend the JPEG prefix */
            bool prefixed = available >= EXIF_PREFIX_BYTES &&
                            memcmp(data + begin, EXIF_PREFIX, EXIF_PREFIX_BYTES) == 0;
            return prefixed ? exif_orientation(data + begin, available)
                            : exif_orientation_of_tiff(data + begin, available);
        }
        at = begin + bytes_min(bytes_round_up(chunk_bytes, 2), bytes - begin);
    }
    return 1;
}

int webp_probe(const void *data, size_t bytes, const char *path, struct pixels_info *ret_info,
               struct webp_traits *ret_traits, struct err *err)
{
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(data, bytes, &features);
    if (code != VP8_STATUS_OK)
        return decoding_error(path, code, err);
    int status =
        pixels_check_size("WebP", path, (uint64_t)features.width, (uint64_t)features.height, err);
    if (status)
        return status;
    *ret_info = (struct pixels_info){.width = (uint32_t)features.width,
                                     .height = (uint32_t)features.height,
                                     .channels = 3,
                                     .orientation = find_orientation(data, bytes)};
    *ret_traits = (struct webp_traits){.lossless = features.format == 2,
                                       .has_alpha = features.has_alpha,
                                       .has_animation = features.has_animation};
    return 0;
}

int webp_begin(struct webp *webp, const void *data, size_t bytes, const char *path,
               struct pixels_info *ret_info, struct err *err)
{
    struct webp_traits traits;
    struct pixels_info info;
    int status = webp_probe(data, bytes, path, &info, &traits, err);
    if (status)
        return status;
    if (traits.has_animation)
        return pixels_error("WebP", path, ERR_NO_OFFSET, "it is an animation", err);
    *webp = (struct webp){
        .data = data, .bytes = bytes, .path = path, .width = info.width, .height = info.height};
    *ret_info = info;
    return 0;
}

/* Widens one axis of a part by the margin. */
static void widen(uint32_t *begin, uint32_t *length, uint32_t side)
{
    uint32_t from = *begin > MARGIN_PIXELS ? (*begin - MARGIN_PIXELS) & ~1u : 0;
    uint32_t end = (uint32_t)bytes_min((uint64_t)*begin + *length + MARGIN_PIXELS, side);
    *begin = from;
    *length = end - from;
}

int webp_decode_region(const struct webp *webp, const struct image_rect *region,
                       struct pixels_memory *memory, struct pixels *ret_pixels, struct err *err)
{
    struct image_rect cut = {0, 0, webp->width, webp->height};
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return err_set(err, -ENOTSUP, "libwebp has a different version than its headers");
    if (region) {
        cut = *region;
        widen(&cut.x, &cut.width, webp->width);
        widen(&cut.y, &cut.height, webp->height);
        config.options.use_cropping = 1;
        config.options.crop_left = (int)cut.x;
        config.options.crop_top = (int)cut.y;
        config.options.crop_width = (int)cut.width;
        config.options.crop_height = (int)cut.height;
    }
    size_t row_bytes = 3 * (size_t)cut.width;
    int status = pixels_reserve(memory, row_bytes * cut.height, err);
    if (status)
        return status;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = memory->data;
    config.output.u.RGBA.stride = (int)row_bytes;
    config.output.u.RGBA.size = row_bytes * cut.height;
    VP8StatusCode code = WebPDecode(webp->data, webp->bytes, &config);
    WebPFreeDecBuffer(&config.output);
    if (code != VP8_STATUS_OK)
        return decoding_error(webp->path, code, err);
    *ret_pixels = (struct pixels){
        .data = memory->data, .stride_bytes = row_bytes, .region = cut, .channels = 3};
    return 0;
}

uint32_t webp_version(void)
{
    return (uint32_t)WebPGetDecoderVersion();
}
