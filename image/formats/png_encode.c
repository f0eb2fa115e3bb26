/*
 * png_encode — see png.h.
 */
#include "image/formats/png.h"

#include <errno.h>
#include <stdlib.h>

#include <spng.h>

struct encoding {
    struct spng_ihdr header;
    struct spng_plte palette; /* with color_type INDEXED */
    struct spng_trns opacity;
};

static int encode(struct spng_ctx *codec, struct encoding *encoding, const uint8_t *pixels,
                  size_t bytes)
{
    bool has_palette = encoding->header.color_type == SPNG_COLOR_TYPE_INDEXED;
    int code = spng_set_option(codec, SPNG_ENCODE_TO_BUFFER, 1);
    if (!code)
        code = spng_set_ihdr(codec, &encoding->header);
    if (!code && has_palette)
        code = spng_set_plte(codec, &encoding->palette);
    if (!code && has_palette)
        code = spng_set_trns(codec, &encoding->opacity);
    return code ? code
                : spng_encode_image(codec, pixels, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
}

/* Appends a PNG to out. */
static int append(struct encoding *encoding, const uint8_t *pixels, uint32_t channels,
                  const char *path, struct str *out, struct err *err)
{
    uint32_t width = encoding->header.width, height = encoding->header.height;
    size_t bytes = 0;
    int status = pixels_check_size("PNG", path, width, height, err);
    if (status)
        return status;
    struct spng_ctx *codec = spng_ctx_new(SPNG_CTX_ENCODER);
    int code =
        codec ? encode(codec, encoding, pixels, (size_t)width * height * channels) : SPNG_EMEM;
    void *file = code ? NULL : spng_get_png_buffer(codec, &bytes, &code);
    if (file)
        str_add(out, file, bytes);
    free(file);
    spng_ctx_free(codec);
    if (code == SPNG_EMEM || str_status(out))
        return err_set(err, -ENOMEM, "not enough memory to encode a PNG");
    return code ? pixels_error("PNG", path, ERR_NO_OFFSET, spng_strerror(code), err) : 0;
}

int png_encode(const uint8_t *pixels, uint32_t width, uint32_t height, uint32_t channels,
               const char *path, struct str *out, struct err *err)
{
    struct encoding encoding = {.header = {.width = width,
                                           .height = height,
                                           .bit_depth = 8,
                                           .color_type = channels == 1
                                                             ? SPNG_COLOR_TYPE_GRAYSCALE
                                                             : SPNG_COLOR_TYPE_TRUECOLOR}};
    return append(&encoding, pixels, channels, path, out, err);
}

int png_encode_palette(const uint8_t *indexes, uint32_t width, uint32_t height,
                       const uint8_t (*rgba)[4], uint32_t colors_count, struct str *out,
                       struct err *err)
{
    struct encoding encoding = {.header = {.width = width,
                                           .height = height,
                                           .bit_depth = 8,
                                           .color_type = SPNG_COLOR_TYPE_INDEXED},
                                .palette = {.n_entries = colors_count},
                                .opacity = {.n_type3_entries = colors_count}};
    for (uint32_t i = 0; i < colors_count; i++) {
        encoding.palette.entries[i] =
            (struct spng_plte_entry){.red = rgba[i][0], .green = rgba[i][1], .blue = rgba[i][2]};
        encoding.opacity.type3_alpha[i] = rgba[i][3];
    }
    return append(&encoding, indexes, 1, NULL, out, err);
}
