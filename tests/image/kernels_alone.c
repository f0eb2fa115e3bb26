/*
 * kernels_alone — compares a processor's best kernels with plain C, in a program that needs only
 * image/ and base/. It is compiled for processors that this machine can only emulate
 * (kernels_arm.sh). Prints what it compared, and hashes of random augmentations, which are the same
 * on all processors; exits with 1 if bytes differ.
 */
#include "image/augment.h"
#include "image/kernels/blend.h"
#include "image/kernels/color.h"
#include "image/kernels/resample.h"
#include "image/mixup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 1000, ROWS_MAX = 300, COLUMNS_MAX = 300, COUNT_MAX = 100 };

static uint32_t random_state = 20240917;

/* A linear congruential generator (Numerical Recipes), because rand() differs between C
 * libraries. */
static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)random_state * below >> 32);
}

static uint8_t source[ROWS_MAX * COLUMNS_MAX], wanted[ROWS_MAX * COUNT_MAX],
    given[ROWS_MAX * COUNT_MAX];

static int count_differing_passes(void)
{
    struct resample_plan plan = {0};
    struct err err;
    int differ = 0;
    for (int i = 0; i < PASSES; i++) {
        uint32_t rows = 1 + draw(ROWS_MAX), columns = 1 + draw(COLUMNS_MAX),
                 count = 1 + draw(COUNT_MAX);
        uint32_t den = 1 + draw(4), begin = draw(rows * den), length = 1 + draw(rows * den - begin);
        bool transposed = draw(2);
        if (resample_plan_init(&plan, (struct resample_span){begin, length, den}, rows, count,
                               draw(2), &err))
            return -1;
        for (size_t k = 0; k < sizeof source; k++)
            source[k] = i % 8 ? (uint8_t)draw(256) : 255;
        struct resample_rows from = {source, columns, plan.source_first, columns};
        size_t stride_bytes = transposed ? count : columns, bytes = (size_t)count * columns;
        resample_columns(IMAGE_KERNELS_PLAIN, &plan, &from, transposed, wanted, stride_bytes);
        resample_columns(image_kernels_best(), &plan, &from, transposed, given, stride_bytes);
        differ += memcmp(wanted, given, bytes) != 0;
    }
    resample_plan_deinit(&plan);
    return differ;
}

static int count_differing_lines(void)
{
    uint8_t y[256], cb[256], cr[256], plain[768], best[768];
    int differ = 0;
    for (int i = 0; i < 256; i++)
        y[i] = (uint8_t)i;
    for (int chroma = 0; chroma < 1 << 16; chroma++) {
        memset(cb, chroma >> 8, sizeof cb);
        memset(cr, chroma & 255, sizeof cr);
        color_ycbcr_to_rgb(IMAGE_KERNELS_PLAIN, y, cb, cr, plain, 256);
        color_ycbcr_to_rgb(image_kernels_best(), y, cb, cr, best, 256);
        differ += memcmp(plain, best, sizeof plain) != 0;
        color_planes_to_rgb(IMAGE_KERNELS_PLAIN, y, cb, cr, plain, 251);
        color_planes_to_rgb(image_kernels_best(), y, cb, cr, best, 251);
        differ += memcmp(plain, best, 3 * 251) != 0;
    }
    return differ;
}

/* Hash of 50 images with random augmentations, whose geometry is computed in doubles. */
static uint64_t hash_augmented(void)
{
    enum { IMAGES = 50, SIDE = 61 };
    static uint8_t rgb[3 * SIDE * SIDE], scratch[sizeof rgb];
    struct augment_options options = {16, 17, 0.4, 0.4, 0.4, 0.1};
    struct augment_step steps[AUGMENT_STEPS_MAX];
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (uint64_t image = 0; image < IMAGES; image++) {
        for (size_t i = 0; i < sizeof rgb; i++)
            rgb[i] = (uint8_t)draw(256);
        uint32_t count = augment_choose(&options, SIDE, SIDE, 5, 0, 1, image, steps);
        for (uint32_t i = 0; i < count; i++) {
            augment_apply(steps[i], rgb, SIDE, SIDE, 3 * SIDE, scratch);
            for (size_t k = 0; k < sizeof rgb; k++)
                hash = (hash ^ rgb[k]) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

static int count_differing_blends(void)
{
    enum { BYTES = 251 };
    uint8_t own[BYTES], other[BYTES], plain[BYTES], best[BYTES];
    int differ = 0;
    for (uint32_t weight = 0; weight <= BLEND_ONE; weight++) {
        for (int i = 0; i < BYTES; i++) {
            own[i] = (uint8_t)draw(256);
            other[i] = (uint8_t)draw(256);
        }
        memcpy(plain, own, BYTES);
        memcpy(best, own, BYTES);
        blend_bytes(IMAGE_KERNELS_PLAIN, plain, other, BYTES, weight);
        blend_bytes(image_kernels_best(), best, other, BYTES, weight);
        differ += memcmp(plain, best, BYTES) != 0;
    }
    return differ;
}

/* Hash of the mixup and cutmix choices for 2000 samples; their tables are computed in doubles. */
static uint64_t hash_mixed(void)
{
    struct mixup_options options = {0.2, 0.8, 0.9, 0.5};
    struct mixup *mixup;
    struct err err;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    if (mixup_open(&options, &mixup, &err))
        return 0;
    for (uint64_t sample = 0; sample < 2000; sample++) {
        struct mixup_choice choice = mixup_choose(mixup, 224, 160, 5, 0, 1, sample);
        const uint32_t words[] = {choice.kind,  choice.own_weight, choice.box.x,
                                  choice.box.y, choice.box.width,  choice.box.height};
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            hash = (hash ^ words[i]) * UINT64_C(0x100000001b3);
    }
    mixup_close(mixup);
    return hash;
}

int main(void)
{
    int passes = count_differing_passes(), lines = count_differing_lines(),
        blends = count_differing_blends();
    printf("%s: %d of %d passes, %d lines of colours and %d blends differ from plain C\n",
           image_kernels_name(image_kernels_best()), passes, PASSES, lines, blends);
    printf("changed: %016" PRIx64 " %016" PRIx64 "\n", hash_augmented(), hash_mixed());
    return passes || lines || blends;
}
