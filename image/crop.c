/*
 * crop — see crop.h.
 */
#include "image/crop.h"

#include "base/philox.h"

#include <errno.h>
#include <math.h>

enum {
    TRIES = 10,
    UNIT_BITS = 24, /* bits of philox_uniform */
};

struct crop_options crop_options_default(enum crop_kind kind)
{
    return (struct crop_options){
        .kind = kind,
        .scale_min = 0.08,
        .scale_max = 1,
        .ratio_min = 3.0 / 4,
        .ratio_max = 4.0 / 3,
        .center_fraction = 1,
        .flip = kind == CROP_RANDOM,
    };
}

int crop_options_check(const struct crop_options *options, struct err *err)
{
    bool scale_fits = options->scale_min > 0 && options->scale_min <= options->scale_max &&
                      options->scale_max <= 1;
    bool ratio_fits = options->ratio_min > 0 && options->ratio_min <= options->ratio_max &&
                      isfinite(options->ratio_max);
    if (options->kind == CROP_RANDOM && !scale_fits) {
        err_set(err, -EINVAL, "range of crop areas is invalid");
        err_expected(err, "0 < minimum <= maximum <= 1");
        err_found(err, "%g to %g", options->scale_min, options->scale_max);
        return -EINVAL;
    }
    if (options->kind == CROP_RANDOM && !ratio_fits) {
        err_set(err, -EINVAL, "range of crop ratios is invalid");
        err_expected(err, "0 < minimum <= maximum");
        err_found(err, "%g to %g", options->ratio_min, options->ratio_max);
        return -EINVAL;
    }
    if (options->kind == CROP_CENTER &&
        !(options->center_fraction > 0 && options->center_fraction <= 1)) {
        err_set(err, -EINVAL, "fraction of the center crop is invalid");
        err_expected(err, "above 0, at most 1");
        err_found(err, "%g", options->center_fraction);
        return -EINVAL;
    }
    return 0;
}

static uint32_t clamp_side(double side, uint32_t max)
{
    return side < 1 ? 1 : side > max ? max : (uint32_t)side;
}

static struct image_rect center_rect(uint32_t width, uint32_t height, uint32_t crop_width,
                                     uint32_t crop_height)
{
    return (struct image_rect){(width - crop_width) / 2, (height - crop_height) / 2, crop_width,
                               crop_height};
}

static struct image_rect crop_center(const struct crop_options *options, uint32_t width,
                                     uint32_t height)
{
    uint32_t shorter = width < height ? width : height;
    uint32_t side = clamp_side(floor(shorter * options->center_fraction), shorter);
    return center_rect(width, height, side, side);
}

static uint32_t draw_below(uint32_t word, uint32_t count)
{
    return (uint32_t)((uint64_t)word * count >> 32);
}

/* Returns min * (max / min)^u for the 24-bit u of philox_uniform(word). Repeated square roots give
 * the powers 1/2, 1/4, ... */
static double draw_ratio(double min, double max, uint32_t word)
{
    double ratio = min, power = max / min;
    for (uint32_t bit = 1u << 31; bit >= 1u << (32 - UNIT_BITS); bit >>= 1) {
        power = sqrt(power);
        if (word & bit)
            ratio *= power;
    }
    return ratio;
}

static struct image_rect crop_fallback(const struct crop_options *options, uint32_t width,
                                       uint32_t height)
{
    double ratio = (double)width / height;
    if (ratio < options->ratio_min)
        return center_rect(width, height, width,
                           clamp_side(rint(width / options->ratio_min), height));
    if (ratio > options->ratio_max)
        return center_rect(width, height, clamp_side(rint(height * options->ratio_max), width),
                           height);
    return center_rect(width, height, width, height);
}

static struct image_rect crop_random(const struct crop_options *options, uint32_t width,
                                     uint32_t height, uint64_t seed, uint32_t dataset,
                                     uint32_t epoch, uint64_t sample)
{
    double area = (double)width * height;
    for (uint32_t draw = 0; draw < TRIES; draw++) {
        struct philox_block random = philox_sample(seed, dataset, epoch, sample, PHILOX_CROP, draw);
        double scale = options->scale_min +
                       (options->scale_max - options->scale_min) * philox_uniform(random.word[0]);
        double ratio = draw_ratio(options->ratio_min, options->ratio_max, random.word[1]);
        double crop_width = rint(sqrt(area * scale * ratio)),
               crop_height = rint(sqrt(area * scale / ratio));
        if (crop_width < 1 || crop_width > width || crop_height < 1 || crop_height > height)
            continue;
        struct image_rect rect = {.width = (uint32_t)crop_width, .height = (uint32_t)crop_height};
        rect.y = draw_below(random.word[2], height - rect.height + 1);
        rect.x = draw_below(random.word[3], width - rect.width + 1);
        return rect;
    }
    return crop_fallback(options, width, height);
}

struct crop crop_choose(const struct crop_options *options, uint32_t width, uint32_t height,
                        uint64_t seed, uint32_t dataset, uint32_t epoch, uint64_t sample)
{
    struct crop crop = {.rect = {0, 0, width, height}};
    if (options->kind == CROP_CENTER)
        crop.rect = crop_center(options, width, height);
    if (options->kind == CROP_RANDOM)
        crop.rect = crop_random(options, width, height, seed, dataset, epoch, sample);
    if (options->flip)
        crop.flip = philox_sample(seed, dataset, epoch, sample, PHILOX_FLIP, 0).word[0] >> 31;
    return crop;
}
