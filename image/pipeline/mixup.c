/*
 * mixup — see mixup.h.
 */
#include "image/mixup.h"

#include "base/philox.h"
#include "image/kernels/blend.h"
#include "image/pipeline/beta.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct mixup {
    uint64_t mix_threshold, paste_threshold; /* smaller words mix or paste; 2^32: all words */
    struct beta blend_beta, paste_beta;      /* initialized only for kinds that are on */
};

/* ---- Options. ---- */

static int check_alpha(const char *what, double alpha, struct err *err)
{
    if (alpha >= 0 && alpha <= BETA_ALPHA_MAX)
        return 0;
    err_set(err, -EINVAL, "%s alpha is out of range", what);
    err_expected(err, "0 to %d", BETA_ALPHA_MAX);
    err_found(err, "%g", alpha);
    return -EINVAL;
}

static int check_probability(const char *what, double probability, struct err *err)
{
    if (probability >= 0 && probability <= 1)
        return 0;
    err_set(err, -EINVAL, "the probability %s is out of range", what);
    err_expected(err, "0 to 1");
    err_found(err, "%g", probability);
    return -EINVAL;
}

int mixup_options_check(const struct mixup_options *options, struct err *err)
{
    int status = check_alpha("mixup", options->mixup_alpha, err);
    if (!status)
        status = check_alpha("cutmix", options->cutmix_alpha, err);
    if (!status)
        status = check_probability("of mixing an image", options->probability, err);
    return status ? status : check_probability("of cutmix", options->switch_probability, err);
}

/* ---- Life cycle. ---- */

static uint64_t word_threshold(double probability)
{
    return (uint64_t)(probability * 4294967296.0 + 0.5);
}

int mixup_open(const struct mixup_options *options, struct mixup **ret_mixup, struct err *err)
{
    int status = mixup_options_check(options, err);
    if (status)
        return status;
    struct mixup *mixup = calloc(1, sizeof *mixup);
    if (!mixup)
        return err_set(err, -ENOMEM, "out of memory for the tables of mixup and cutmix");
    bool blends = options->mixup_alpha > 0, pastes = options->cutmix_alpha > 0;
    mixup->mix_threshold = blends || pastes ? word_threshold(options->probability) : 0;
    mixup->paste_threshold = word_threshold(!pastes   ? 0
                                            : !blends ? 1
                                                      : options->switch_probability);
    if (blends)
        beta_init(&mixup->blend_beta, options->mixup_alpha);
    if (pastes)
        beta_init(&mixup->paste_beta, options->cutmix_alpha);
    *ret_mixup = mixup;
    return 0;
}

void mixup_close(struct mixup *mixup)
{
    free(mixup);
}

/* ---- Choosing. ---- */

/* Chooses one side of a box that covers area / BETA_ONE of the picture around a uniform center,
 * clipped to the picture. Returns its length in pixels. */
static uint32_t choose_side(uint32_t side, uint32_t area, uint32_t word, uint32_t *ret_begin)
{
    uint32_t half = (uint32_t)sqrt((double)((uint64_t)side * side * area / (4 * BETA_ONE)));
    uint32_t center = (uint32_t)((uint64_t)word * side >> 32);
    uint32_t end = side - center < half ? side : center + half;
    *ret_begin = center < half ? 0 : center - half;
    return end - *ret_begin;
}

struct mixup_choice mixup_choose(const struct mixup *mixup, uint32_t width, uint32_t height,
                                 uint64_t seed, uint32_t dataset, uint32_t epoch, uint64_t sample)
{
    struct philox_block random = philox_sample(seed, dataset, epoch, sample, PHILOX_MIXUP, 0);
    struct mixup_choice choice = {.kind = MIXUP_NONE};
    if (random.word[0] >= mixup->mix_threshold)
        return choice;
    if (random.word[1] >= mixup->paste_threshold) {
        enum { STEP = BETA_ONE / BLEND_ONE };
        choice.kind = MIXUP_BLEND;
        choice.weight = (beta_draw(&mixup->blend_beta, random.word[2]) + STEP / 2) / STEP;
        return choice;
    }
    struct philox_block center = philox_sample(seed, dataset, epoch, sample, PHILOX_MIXUP, 1);
    uint32_t area = BETA_ONE - beta_draw(&mixup->paste_beta, random.word[2]);
    choice.kind = MIXUP_PASTE;
    choice.box.width = choose_side(width, area, center.word[0], &choice.box.x);
    choice.box.height = choose_side(height, area, center.word[1], &choice.box.y);
    return choice;
}

float mixup_label_weight(struct mixup_choice choice, uint32_t width, uint32_t height)
{
    uint64_t area = (uint64_t)width * height;
    switch (choice.kind) {
    case MIXUP_BLEND:
        return (float)choice.weight / BLEND_ONE;
    case MIXUP_PASTE:
        return (float)((double)(area - (uint64_t)choice.box.width * choice.box.height) /
                       (double)area);
    case MIXUP_NONE:
        break;
    }
    return 1;
}

/* ---- Applying. ---- */

static void paste(struct image_rect box, uint8_t *picture, const uint8_t *partner, uint32_t width)
{
    for (uint32_t y = box.y; y < box.y + box.height; y++) {
        size_t at = 3 * ((size_t)y * width + box.x);
        memcpy(picture + at, partner + at, 3 * (size_t)box.width);
    }
}

void mixup_apply(struct mixup_choice choice, uint8_t *picture, const uint8_t *partner,
                 uint32_t width, uint32_t height)
{
    switch (choice.kind) {
    case MIXUP_BLEND:
        blend_bytes(image_kernels_best(), picture, partner, 3 * (size_t)width * height,
                    choice.weight);
        break;
    case MIXUP_PASTE:
        paste(choice.box, picture, partner, width);
        break;
    case MIXUP_NONE:
        break;
    }
}
