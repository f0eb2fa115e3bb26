/*
 * mixup — combines two pictures of a batch: mixup blends them (Zhang et al., "mixup: beyond
 * empirical risk minimization", ICLR 2018), cutmix pastes a box of one into the other (Yun et
 * al., "CutMix", ICCV 2019).
 *
 *     mixup_open(&options, &mixup, err);
 *     choice = mixup_choose(mixup, width, height, seed, dataset, epoch, sample);
 *     mixup_apply(choice, picture, partner, width, height);
 *     // weight of the picture's own label: mixup_label_weight(choice, width, height)
 *
 * The choice for a sample depends only on (seed, dataset, epoch, sample)
 * (docs/reference/images.md); the caller chooses the partner picture. Integer arithmetic gives the
 * same pixels on any CPU.
 */
#ifndef MILLRACE_IMAGE_MIXUP_H
#define MILLRACE_IMAGE_MIXUP_H

#include "base/err.h"
#include "image/rect.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable. With both alphas 0, mixing is off. */
struct mixup_options {
    double mixup_alpha, cutmix_alpha; /* for Beta(alpha, alpha), at most 100; 0: off */
    /* Probability of mixing a picture, and of cutmix if both kinds are on. */
    double probability, switch_probability;
};
/* -EINVAL with detail if a limit above is exceeded. */
int mixup_options_check(const struct mixup_options *options, struct err *err);

static inline bool mixup_is_on(const struct mixup_options *options)
{
    return options->mixup_alpha > 0 || options->cutmix_alpha > 0;
}

/* Immutable, so any thread may use it. */
struct mixup;

/* Checks the options and computes the tables, which takes one or two milliseconds. -EINVAL with
 * detail, -ENOMEM. */
int mixup_open(const struct mixup_options *options, struct mixup **ret_mixup, struct err *err);
void mixup_close(struct mixup *mixup); /* NULL is fine */

enum mixup_kind { MIXUP_NONE, MIXUP_BLEND, MIXUP_PASTE };

struct mixup_choice {
    enum mixup_kind kind;
    uint32_t weight;       /* MIXUP_BLEND: of the picture, in units of 1/BLEND_ONE (blend.h) */
    struct image_rect box; /* MIXUP_PASTE: pixels from the partner; may be empty */
};

/* Chooses how to mix a sample's picture of width x height pixels. */
struct mixup_choice mixup_choose(const struct mixup *mixup, uint32_t width, uint32_t height,
                                 uint64_t seed, uint32_t dataset, uint32_t epoch, uint64_t sample);
/* Returns the weight 0..1 of the picture's own label: its blend weight or its share of the area. */
float mixup_label_weight(struct mixup_choice choice, uint32_t width, uint32_t height);
/* Stores the mixture in picture. Both are RGB without gaps between rows, and must not overlap. */
void mixup_apply(struct mixup_choice choice, uint8_t *picture, const uint8_t *partner,
                 uint32_t width, uint32_t height);

#ifdef __cplusplus
}
#endif

#endif
