/*
 * kernels_alone — compares a processor's best kernels with plain C, in a program that needs only
 * image/ and base/. It is compiled for processors that this machine can only emulate
 * (kernels_arm.sh). Prints what it compared, and hashes of random augmentations and normalized
 * floats, which are the same on all processors; exits with 1 if bytes differ.
 */
#include "image/augment.h"
#include "image/jpeg_fast/entropy.h"
#include "image/jpeg_fast/inverse_dct.h"
#include "image/kernels/blend.h"
#include "image/kernels/color.h"
#include "image/kernels/enlarge.h"
#include "image/kernels/resample.h"
#include "image/mixup.h"
#include "image/normalize.h"

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

static int count_differing_rows(void)
{
    struct resample_plan plan = {0};
    struct enlarge_plan plain = {0}, best = {0};
    struct err err;
    int differ = 0;
    for (int i = 0; i < PASSES; i++) {
        uint32_t pixels = 1 + draw(COLUMNS_MAX), count = pixels + draw(COLUMNS_MAX),
                 channels = 1 + draw(3);
        if (resample_plan_init(&plan, (struct resample_span){0, pixels, 1}, pixels, count, draw(2),
                               &err) ||
            enlarge_plan_init(&plain, IMAGE_KERNELS_PLAIN, &plan, channels, &err) ||
            enlarge_plan_init(&best, image_kernels_best(), &plan, channels, &err))
            return -1;
        for (size_t k = 0; k < sizeof source; k++)
            source[k] = (uint8_t)draw(256);
        if (!best.fits)
            continue;
        enlarge_row(&plain, source, wanted);
        enlarge_row(&best, source, given);
        differ += memcmp(wanted, given, (size_t)count * channels) != 0;
    }
    resample_plan_deinit(&plan);
    enlarge_plan_deinit(&plain);
    enlarge_plan_deinit(&best);
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
        const uint32_t words[] = {choice.kind,  choice.weight,    choice.box.x,
                                  choice.box.y, choice.box.width, choice.box.height};
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            hash = (hash ^ words[i]) * UINT64_C(0x100000001b3);
    }
    mixup_close(mixup);
    return hash;
}

/* Hash of random pixels as normalized floats of each type. */
static uint64_t hash_normalized(void)
{
    enum { PIXELS = 1000 };
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    static uint8_t rgb[3 * PIXELS];
    static float values[3 * PIXELS];
    struct normalize_options options = normalize_options_default();
    struct normalize normalize;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)draw(256);
    memcpy(options.mean, (const double[]){0.485, 0.456, 0.406}, sizeof options.mean);
    memcpy(options.std, (const double[]){0.229, 0.224, 0.225}, sizeof options.std);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        options.dtype = dtypes[i];
        normalize_init(&normalize, &options);
        normalize_apply(&normalize, rgb, PIXELS, values);
        for (size_t k = 0; k < 3 * PIXELS * dtype_bytes(dtypes[i]); k++)
            hash = (hash ^ ((const uint8_t *)values)[k]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Blocks of a few random coefficients, some of them out of range. */
static int count_differing_transforms(void)
{
    enum { BLOCKS = 7, ROUNDS = 3000, STRIDE = 8 * BLOCKS };
    static _Alignas(32) int16_t plain[BLOCKS][64], best[BLOCKS][64];
    static uint8_t plain_samples[8 * STRIDE], best_samples[8 * STRIDE];
    int differ = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct inverse_dct_block plain_blocks[BLOCKS], best_blocks[BLOCKS];
        struct inverse_dct_quant quant;
        uint16_t factors[64];
        uint32_t size = 1 + draw(round % 50 ? 60 : 3000), count = 1 + draw(BLOCKS);
        for (int i = 0; i < 64; i++)
            factors[i] = (uint16_t)(1 + draw(round % 3 ? 20 : 255));
        inverse_dct_quant_init(&quant, factors);
        for (uint32_t i = 0; i < count; i++) {
            plain_blocks[i] = (struct inverse_dct_block){plain[i], plain_samples + 8 * i};
            best_blocks[i] = (struct inverse_dct_block){best[i], best_samples + 8 * i};
            for (uint32_t k = draw(30); k > 0; k--)
                plain[i][draw(64)] = (int16_t)((int32_t)draw(size) - (int32_t)size / 2);
            memcpy(best[i], plain[i], sizeof best[i]);
        }
        bool in_range = inverse_dct(IMAGE_KERNELS_PLAIN, &quant, plain_blocks, count, STRIDE);
        differ += in_range != inverse_dct(image_kernels_best(), &quant, best_blocks, count, STRIDE);
        for (uint32_t y = 0; y < 8 && in_range; y++)
            differ += memcmp(plain_samples + y * STRIDE, best_samples + y * STRIDE, 8 * count) != 0;
        differ += memcmp(plain, best, sizeof plain) != 0; /* zero */
    }
    return differ;
}

/* Hash of the coefficients that three streams of random bits decode to, until one is invalid. */
static uint64_t hash_decoded(void)
{
    enum { BYTES = 40000, BLOCKS = 20 };
    static uint8_t data[BYTES + ENTROPY_READ_BYTES];
    static struct entropy_block blocks[ENTROPY_STREAMS_MAX][BLOCKS + 1];
    static struct huffman_lookup dc, ac;
    /* complete but for the code of ones only: DC sizes 0 to 10, then AC runs and sizes */
    static const uint8_t dc_counts[17] = {0, 0, 1, 5, 1, 1, 1, 1, 1};
    static const uint8_t dc_symbols[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    static const uint8_t ac_counts[17] = {0, 0, 2, 1, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const uint8_t ac_symbols[] = {0x01, 0x02, 0x03, 0x00, 0x11, 0x04, 0x21, 0x31, 0x05, 0x12,
                                         0xf0, 0x22, 0x41, 0x06, 0x51, 0x61, 0x07, 0x71, 0x13};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < BYTES; i++)
        data[i] = (uint8_t)draw(256);
    if (!huffman_lookup_build(&dc, (struct huffman_table){dc_counts, dc_symbols}, true) ||
        !huffman_lookup_build(&ac, (struct huffman_table){ac_counts, ac_symbols}, false))
        return 0;
    for (uint32_t round = 0; round < 300; round++) {
        struct entropy_stream streams[ENTROPY_STREAMS_MAX] = {{0}};
        uint32_t count = 1 + round % ENTROPY_STREAMS_MAX;
        memset(blocks, 0, sizeof blocks);
        for (uint32_t i = 0; i < count; i++) {
            for (int k = 0; k <= BLOCKS; k++) {
                blocks[i][k].dc = dc.entry;
                blocks[i][k].ac = ac.entry;
            }
            streams[i] = (struct entropy_stream){.position_bits = draw(8 * BYTES / 2),
                                                 .block = blocks[i],
                                                 .end = blocks[i] + BLOCKS};
        }
        bool is_valid = entropy_decode(image_kernels_best(), data, streams, count);
        hash = (hash ^ is_valid) * UINT64_C(0x100000001b3);
        for (uint32_t i = 0; i < count; i++) {
            for (int k = 0; k < BLOCKS * 64; k++)
                hash = (hash ^ (uint16_t)blocks[i][k / 64].coefficient[k % 64]) *
                       UINT64_C(0x100000001b3);
            hash = (hash ^ streams[i].position_bits) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

int main(void)
{
    int passes = count_differing_passes(), rows = count_differing_rows(),
        lines = count_differing_lines(), blends = count_differing_blends(),
        transforms = count_differing_transforms();
    printf("%s: %d of %d passes, %d enlarged rows, %d lines of colors, %d blends and %d inverse "
           "DCTs differ from plain C\n",
           image_kernels_name(image_kernels_best()), passes, PASSES, rows, lines, blends,
           transforms);
    uint64_t augmented = hash_augmented(), mixed = hash_mixed(), decoded = hash_decoded(),
             normalized = hash_normalized();
    printf("changed: %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %016" PRIx64 "\n", augmented,
           mixed, decoded, normalized);
    return passes || rows || lines || blends || transforms;
}
