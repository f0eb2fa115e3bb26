/*
 * augment_apply — chooses and applies the steps (augment.h). Magnitudes are those of
 * torchvision.transforms.RandAugment with 31 bins.
 */
#include "image/augment.h"

#include "base/philox.h"
#include "image/kernels/augment_ops.h"

#include <errno.h>
#include <stdbool.h>

enum { FRACTION_BITS = 16, ONE = 1 << FRACTION_BITS, RANDAUGMENT_KINDS = AUGMENT_HUE };

int augment_options_check(const struct augment_options *options, struct err *err)
{
    const struct {
        const char *what;
        double value, max;
    } ranges[] = {
        {"number of RandAugment operations", options->randaugment_ops, RANDAUGMENT_OPS_MAX},
        {"RandAugment magnitude", options->randaugment_magnitude, RANDAUGMENT_MAGNITUDE_MAX},
        {"brightness jitter", options->brightness, 1},
        {"contrast jitter", options->contrast, 1},
        {"saturation jitter", options->saturation, 1},
        {"hue jitter", options->hue, 0.5},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (ranges[i].value >= 0 && ranges[i].value <= ranges[i].max)
            continue;
        err_set(err, -EINVAL, "%s is out of range", ranges[i].what);
        err_expected(err, "0 to %g", ranges[i].max);
        err_found(err, "%g", ranges[i].value);
        return -EINVAL;
    }
    return 0;
}

/* ---- RandAugment. ---- */

/* 150/331 of the side at the largest magnitude. */
static int32_t translation_pixels(uint32_t side, int32_t magnitude)
{
    return (int32_t)((int64_t)side * 150 * magnitude / (331 * RANDAUGMENT_MAGNITUDE_MAX));
}

static struct augment_step make_step(enum augment_op op, int32_t magnitude, bool negative,
                                     uint32_t width, uint32_t height)
{
    int32_t sign = negative ? -1 : 1, value = 0;
    switch (op) {
    case AUGMENT_SHEAR_X:
    case AUGMENT_SHEAR_Y:
    case AUGMENT_ROTATE:
        value = sign * magnitude;
        break;
    case AUGMENT_TRANSLATE_X:
        value = sign * translation_pixels(width, magnitude);
        break;
    case AUGMENT_TRANSLATE_Y:
        value = sign * translation_pixels(height, magnitude);
        break;
    case AUGMENT_BRIGHTNESS:
    case AUGMENT_COLOR:
    case AUGMENT_CONTRAST:
    case AUGMENT_SHARPNESS:
        value = ((100 + sign * 3 * magnitude) * ONE + 50) / 100;
        break;
    case AUGMENT_POSTERIZE:
        value = 8 - (4 * magnitude + 15) / 30; /* the quotient never ends in .5 */
        break;
    case AUGMENT_SOLARIZE:
        value = 17 * (RANDAUGMENT_MAGNITUDE_MAX - magnitude);
        break;
    default:
        break;
    }
    return (struct augment_step){op, value};
}

/* ---- Jitter. ---- */

/* Maps a random word to a uniform draw from center +- range * ONE. */
static int32_t draw_value(int32_t center, double range, uint32_t word)
{
    int32_t max = (int32_t)(range * ONE + 0.5);
    return center - max + (int32_t)(((uint64_t)word * (2 * (uint64_t)max + 1)) >> 32);
}

static uint32_t add_jitter(const struct augment_options *options, struct philox_block factors,
                           uint32_t order, struct augment_step *steps)
{
    const struct {
        enum augment_op op;
        int32_t center;
        double range;
    } kinds[4] = {
        {AUGMENT_BRIGHTNESS, ONE, options->brightness},
        {AUGMENT_CONTRAST, ONE, options->contrast},
        {AUGMENT_COLOR, ONE, options->saturation},
        {AUGMENT_HUE, 0, 6 * options->hue},
    };
    uint32_t remaining[4] = {0, 1, 2, 3}, count = 0;
    order = (uint32_t)((uint64_t)order * 24 >> 32);
    for (uint32_t choices = 4; choices > 0; choices--) {
        uint32_t at = order % choices, kind = remaining[at];
        order /= choices;
        remaining[at] = remaining[choices - 1];
        if (kinds[kind].range > 0)
            steps[count++] = (struct augment_step){
                kinds[kind].op,
                draw_value(kinds[kind].center, kinds[kind].range, factors.word[kind])};
    }
    return count;
}

uint32_t augment_choose(const struct augment_options *options, uint32_t width, uint32_t height,
                        uint64_t seed, uint32_t dataset, uint32_t epoch, uint64_t sample,
                        struct augment_step steps[AUGMENT_STEPS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < options->randaugment_ops; i++) {
        struct philox_block block =
            philox_sample(seed, dataset, epoch, sample, PHILOX_RANDAUGMENT, i);
        enum augment_op op = (enum augment_op)((uint64_t)block.word[0] * RANDAUGMENT_KINDS >> 32);
        steps[count++] = make_step(op, (int32_t)options->randaugment_magnitude, block.word[1] >> 31,
                                   width, height);
    }
    if (augment_has_jitter(options)) {
        struct philox_block factors = philox_sample(seed, dataset, epoch, sample, PHILOX_JITTER, 0);
        struct philox_block order = philox_sample(seed, dataset, epoch, sample, PHILOX_JITTER, 1);
        count += add_jitter(options, factors, order.word[0], steps + count);
    }
    return count;
}

/* ---- Applying. ---- */

void augment_apply(struct augment_step step, uint8_t *rgb, uint32_t width, uint32_t height,
                   size_t stride_bytes, uint8_t *scratch)
{
    struct augment_image image = {rgb, width, height, stride_bytes, scratch};
    struct affine affine;
    if (augment_find_affine(step, width, height, &affine)) {
        struct warp warp = warp_from_affine(&affine);
        augment_warp(&image, &warp);
        return;
    }
    switch (step.op) {
    case AUGMENT_BRIGHTNESS:
        augment_brightness(&image, step.value);
        break;
    case AUGMENT_COLOR:
        augment_saturation(&image, step.value);
        break;
    case AUGMENT_CONTRAST:
        augment_contrast(&image, step.value);
        break;
    case AUGMENT_SHARPNESS:
        augment_sharpness(&image, step.value);
        break;
    case AUGMENT_POSTERIZE:
        augment_posterize(&image, step.value);
        break;
    case AUGMENT_SOLARIZE:
        augment_solarize(&image, step.value);
        break;
    case AUGMENT_AUTO_CONTRAST:
        augment_auto_contrast(&image);
        break;
    case AUGMENT_EQUALIZE:
        augment_equalize(&image);
        break;
    case AUGMENT_HUE:
        augment_hue(&image, step.value);
        break;
    default:
        break;
    }
}
