/*
 * normalize — see normalize.h.
 */
#include "image/normalize.h"

#include "base/numeric/half.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Options. ---- */

struct normalize_options normalize_options_default(void)
{
    return (struct normalize_options){.dtype = DTYPE_U8, .channels = 3, .std = {1, 1, 1}};
}

static float value_of(const struct normalize_options *options, uint32_t channel, uint32_t level)
{
    return ((float)level / 255.0f - (float)options->mean[channel]) / (float)options->std[channel];
}

static bool fits(const struct normalize_options *options, float value)
{
    return isfinite(options->dtype == DTYPE_F16    ? half_from_f16(half_to_f16(value))
                    : options->dtype == DTYPE_BF16 ? half_from_bf16(half_to_bf16(value))
                                                   : value);
}

static int wrong_scale(const struct normalize_options *options, uint32_t channel, const char *what,
                       const char *expected, struct err *err)
{
    err_set(err, -EINVAL, "%s", what);
    err_expected(err, "%s", expected);
    err_found(err, "mean %g, std %g", options->mean[channel], options->std[channel]);
    return -EINVAL;
}

int normalize_options_check(const struct normalize_options *options, struct err *err)
{
    if (options->channels != 1 && options->channels != 3) {
        err_set(err, -EINVAL, "images cannot have that number of channels");
        err_expected(err, "3 for RGB, or 1 for gray");
        err_found(err, "%" PRIu32, options->channels);
        return -EINVAL;
    }
    if (options->dtype != DTYPE_U8 && options->dtype != DTYPE_F32 && options->dtype != DTYPE_F16 &&
        options->dtype != DTYPE_BF16) {
        err_set(err, -EINVAL, "images cannot have that type");
        err_expected(err, "U8, F32, F16 or BF16");
        err_found(err, "%s", dtype_name(options->dtype));
        return -EINVAL;
    }
    for (uint32_t c = 0; c < options->channels; c++) {
        if (options->dtype == DTYPE_U8 && (options->mean[c] != 0 || options->std[c] != 1))
            return wrong_scale(options, c, "images of bytes cannot be normalized",
                               "F32, F16 or BF16, or mean 0 and std 1", err);
        if (!((float)options->std[c] > 0) || !isfinite((float)options->std[c]) ||
            !fits(options, value_of(options, c, 0)) || !fits(options, value_of(options, c, 255)))
            return wrong_scale(options, c, "images cannot be normalized by that mean and std",
                               "a positive std, and values that the type can hold", err);
    }
    return 0;
}

/* ---- Pictures. ---- */

void normalize_init(struct normalize *normalize, const struct normalize_options *options)
{
    *normalize = (struct normalize){.options = *options};
    for (uint32_t c = 0; c < options->channels; c++)
        for (uint32_t level = 0; level < 256; level++) {
            float value = value_of(options, c, level);
            uint32_t *bits = &normalize->values[c][level];
            switch (options->dtype) {
            case DTYPE_F32:
                memcpy(bits, &value, sizeof value);
                break;
            case DTYPE_F16:
                *bits = half_to_f16(value);
                break;
            case DTYPE_BF16:
                *bits = half_to_bf16(value);
                break;
            default:
                *bits = level;
                break;
            }
        }
}

static void find_gray(const uint8_t *rgb, size_t count, uint8_t *gray)
{
    for (size_t i = 0; i < count; i++)
        gray[i] = (uint8_t)((19595u * rgb[3 * i] + 38470u * rgb[3 * i + 1] +
                             7471u * rgb[3 * i + 2] + 32768) >>
                            16);
}

/* Values of one channel, and the distance between them. */
struct channel {
    void *values;
    size_t step;
};

static void map_levels(const struct normalize *normalize, uint32_t number, const uint8_t *levels,
                       size_t levels_step, size_t count, struct channel to)
{
    const uint32_t *table = normalize->values[number];
    uint8_t *bytes = to.values;
    uint16_t *halves = to.values;
    uint32_t *singles = to.values;
    switch (dtype_bytes(normalize->options.dtype)) {
    case 1:
        for (size_t i = 0; i < count; i++)
            bytes[i * to.step] = levels[i * levels_step];
        break;
    case 2:
        for (size_t i = 0; i < count; i++)
            halves[i * to.step] = (uint16_t)table[levels[i * levels_step]];
        break;
    default:
        for (size_t i = 0; i < count; i++)
            singles[i * to.step] = table[levels[i * levels_step]];
        break;
    }
}

void normalize_apply(const struct normalize *normalize, const uint8_t *rgb, size_t pixels_count,
                     void *values)
{
    enum { BLOCK_PIXELS = 1024 }; /* stays in the L1 cache from one channel to the next */
    const struct normalize_options *options = &normalize->options;
    uint32_t channels = options->channels;
    bool is_planar = options->layout == IMAGE_LAYOUT_CHW;
    size_t value_bytes = dtype_bytes(options->dtype);
    uint8_t gray[BLOCK_PIXELS];
    for (size_t at = 0, count; at < pixels_count; at += count, rgb += 3 * count) {
        count = pixels_count - at < BLOCK_PIXELS ? pixels_count - at : BLOCK_PIXELS;
        if (channels == 1)
            find_gray(rgb, count, gray);
        for (uint32_t c = 0; c < channels; c++) {
            size_t first = is_planar ? c * pixels_count + at : at * channels + c;
            map_levels(normalize, c, channels == 1 ? gray : rgb + c, channels, count,
                       (struct channel){(uint8_t *)values + first * value_bytes,
                                        is_planar ? 1 : channels});
        }
    }
}
