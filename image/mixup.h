/*
 * mixup — combines two pictures of a batch: mixup blends them (Zhang et al., "mixup: beyond
 * empirical risk minimization", ICLR 2018), cutmix pastes a box of one into the other (Yun et al.,
 * "CutMix", ICCV 2019).
 *
 *     mixup_open(&options, &mixup, err);
 *     choice = mixup_choose(mixup, width, height, seed, dataset, epoch, sample);
 *     mixup_apply(choice, own, other, width, height);
 *     // weight of the picture's own label: mixup_own_part(choice, width, height)
 *
 * The choice for a sample is a pure function of (seed, dataset, epoch, sample), by its Philox words
 * (docs/reference/images.md); the caller chooses the other picture. Pixels are computed in
 * integers: the same on any CPU.
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

/* Immutable. With both alphas 0 nothing is mixed. */
struct mixup_options {
    double mixup_alpha, cutmix_alpha; /* of Beta(alpha, alpha), at most 100; 0: off */
    /* Of mixing a picture; of choosing cutmix if both kinds are on. */
    double probability, switch_probability;
};
/* -EINVAL with detail outside the limits above. */
int mixup_options_check(const struct mixup_options *options, struct err *err);

static inline bool mixup_is_on(const struct mixup_options *options)
{
    return options->mixup_alpha > 0 || options->cutmix_alpha > 0;
}

/* Immutable: any thread. */
struct mixup;

/* Checks the options and computes the tables, in a millisecond or two. -EINVAL with detail,
 * -ENOMEM. */
int mixup_open(const struct mixup_options *options, struct mixup **ret_mixup, struct err *err);
void mixup_close(struct mixup *mixup); /* NULL is fine */

enum mixup_kind { MIXUP_NONE, MIXUP_BLEND, MIXUP_PASTE };

struct mixup_choice {
    enum mixup_kind kind;
    uint32_t own_weight;   /* MIXUP_BLEND: in units of 1/BLEND_ONE (blend.h) */
    struct image_rect box; /* MIXUP_PASTE: region of the other's pixels; may be empty */
};

/* For a sample's picture of width x height pixels. */
struct mixup_choice mixup_choose(const struct mixup *mixup, uint32_t width, uint32_t height,
                                 uint64_t seed, uint32_t dataset, uint32_t epoch, uint64_t sample);
/* The weight of the picture's own label: its blend weight, or its part of the area; 0..1. */
float mixup_own_part(struct mixup_choice choice, uint32_t width, uint32_t height);
/* Stores the mixture in own. Both are RGB, rows without gaps; they must not overlap. */
void mixup_apply(struct mixup_choice choice, uint8_t *own, const uint8_t *other, uint32_t width,
                 uint32_t height);

#ifdef __cplusplus
}
#endif

#endif
