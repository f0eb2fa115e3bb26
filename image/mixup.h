/*
 * mixup — two pictures of a batch become one: mixup blends them (Zhang et al., "mixup: beyond
 * empirical risk minimization", ICLR 2018), cutmix pastes a box of one into the other (Yun et al.,
 * "CutMix", ICCV 2019).
 *
 *     mixup_open(&options, &mixup, err);
 *     choice = mixup_choose(mixup, width, height, seed, dataset, epoch, sample);
 *     mixup_apply(choice, own, other, width, height);
 *     // the picture's own label counts mixup_own_part(choice, width, height), the other's the rest
 *
 * What happens to a sample is a pure function of (seed, dataset, epoch, sample), by its Philox
 * words (docs/reference/images.md); which other picture takes part is the caller's to say. Pixels
 * are changed in integers: the same on any CPU.
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
    double mixup_alpha, cutmix_alpha; /* of Beta(alpha, alpha), up to 100; 0: not this way */
    double probability,
        switch_probability; /* that a picture is mixed; that it is by cutmix where both are on */
};
/* -EINVAL with detail unless within the limits above. */
int mixup_options_check(const struct mixup_options *options, struct err *err);

static inline bool mixup_is_on(const struct mixup_options *options)
{
    return options->mixup_alpha > 0 || options->cutmix_alpha > 0;
}

/* Immutable: any thread. */
struct mixup;

/* The options are checked, the tables made, in a millisecond or two. -EINVAL with detail,
 * -ENOMEM. */
int mixup_open(const struct mixup_options *options, struct mixup **ret_mixup, struct err *err);
void mixup_close(struct mixup *mixup); /* NULL is fine */

enum mixup_kind { MIXUP_NONE, MIXUP_BLEND, MIXUP_PASTE };

struct mixup_choice {
    enum mixup_kind kind;
    uint32_t own_weight;   /* MIXUP_BLEND: of BLEND_ONE (blend.h) */
    struct image_rect box; /* MIXUP_PASTE: what the other's pixels take; may be empty */
};

/* For a sample's picture of width x height pixels. */
struct mixup_choice mixup_choose(const struct mixup *mixup, uint32_t width, uint32_t height,
                                 uint64_t seed, uint32_t dataset, uint32_t epoch, uint64_t sample);
/* What the picture's own label counts: its weight, or its part of the area; 0..1. */
float mixup_own_part(struct mixup_choice choice, uint32_t width, uint32_t height);
/* own becomes the mixture. Both are RGB, rows without gaps; they do not overlap. */
void mixup_apply(struct mixup_choice choice, uint8_t *own, const uint8_t *other, uint32_t width,
                 uint32_t height);

#ifdef __cplusplus
}
#endif

#endif
