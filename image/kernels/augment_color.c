/*
 * augment_color — operations that change colors without moving pixels (augment_ops.h).
 *
 * Most operations blend: (degenerate * 2^16 + factor * (value - degenerate)) / 2^16, rounded down
 * and clamped to 0..255. `degenerate` is Pillow's term (ImageEnhance) for the result at factor 0:
 * black, the pixel's gray, the mean gray, or the smoothed image.
 */
#include "image/kernels/augment_ops.h"

#include <string.h>

enum { FRACTION_BITS = 16, ONE = 1 << FRACTION_BITS, LEVELS = 256 };

static uint8_t clamp(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Factors are at most about 2 * ONE, so 32 bits suffice. */
static inline uint8_t blend(int32_t degenerate, int32_t value, int32_t factor)
{
    return clamp((degenerate * ONE + factor * (value - degenerate)) >> FRACTION_BITS);
}

/* ITU-R 601-2 luma, as in Pillow's convert("L"). */
static uint8_t gray_level(const uint8_t *pixel)
{
    return (uint8_t)((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
}

static void map_channels(const struct augment_image *image, uint8_t tables[3][LEVELS])
{
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *pixel = image->rgb + y * image->stride_bytes;
        for (uint32_t x = 0; x < image->width; x++, pixel += 3)
            for (int c = 0; c < 3; c++)
                pixel[c] = tables[c][pixel[c]];
    }
}

static void map_levels(const struct augment_image *image, const uint8_t table[LEVELS])
{
    uint8_t tables[3][LEVELS];
    for (int c = 0; c < 3; c++)
        memcpy(tables[c], table, LEVELS);
    map_channels(image, tables);
}

static void blend_levels(const struct augment_image *image, int32_t degenerate, int32_t factor)
{
    uint8_t table[LEVELS];
    for (int32_t level = 0; level < LEVELS; level++)
        table[level] = blend(degenerate, level, factor);
    map_levels(image, table);
}

void augment_brightness(const struct augment_image *image, int32_t factor)
{
    blend_levels(image, 0, factor);
}

void augment_contrast(const struct augment_image *image, int32_t factor)
{
    uint64_t sum = 0, count = (uint64_t)image->width * image->height;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            sum += gray_level(image->rgb + y * image->stride_bytes + 3 * (size_t)x);
    blend_levels(image, (int32_t)((2 * sum + count) / (2 * count)), factor);
}

void augment_saturation(const struct augment_image *image, int32_t factor)
{
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *pixel = image->rgb + y * image->stride_bytes;
        for (uint32_t x = 0; x < image->width; x++, pixel += 3) {
            uint8_t gray = gray_level(pixel);
            for (int c = 0; c < 3; c++)
                pixel[c] = blend(gray, pixel[c], factor);
        }
    }
}

/* Smooths with the rounded mean of the pixel, weighted five times, and its eight neighbors. Edge
 * pixels are unchanged. */
void augment_sharpness(const struct augment_image *image, int32_t factor)
{
    size_t row_bytes = 3 * (size_t)image->width;
    augment_copy_to_scratch(image);
    for (uint32_t y = 1; y + 1 < image->height; y++) {
        const uint8_t *above = image->scratch + (y - 1) * row_bytes, *row = above + row_bytes,
                      *below = row + row_bytes;
        uint8_t *target = image->rgb + y * image->stride_bytes;
        for (size_t i = 3; i + 3 < row_bytes; i++) {
            int32_t sum = above[i - 3] + above[i] + above[i + 3] + row[i - 3] + 5 * row[i] +
                          row[i + 3] + below[i - 3] + below[i] + below[i + 3];
            target[i] = blend((2 * sum + 13) / 26, row[i], factor);
        }
    }
}

void augment_posterize(const struct augment_image *image, int32_t bits)
{
    uint8_t table[LEVELS];
    for (int32_t level = 0; level < LEVELS; level++)
        table[level] = (uint8_t)(level & ~((1 << (8 - bits)) - 1));
    map_levels(image, table);
}

void augment_solarize(const struct augment_image *image, int32_t threshold)
{
    uint8_t table[LEVELS];
    for (int32_t level = 0; level < LEVELS; level++)
        table[level] = (uint8_t)(2 * level < threshold ? level : 255 - level);
    map_levels(image, table);
}

static void count_levels(const struct augment_image *image, uint32_t counts[3][LEVELS])
{
    memset(counts, 0, 3 * sizeof counts[0]);
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *pixel = image->rgb + y * image->stride_bytes;
        for (uint32_t x = 0; x < image->width; x++, pixel += 3)
            for (int c = 0; c < 3; c++)
                counts[c][pixel[c]]++;
    }
}

/* Maps the lowest level to 0 and the highest to 255. A channel with one level is unchanged. */
void augment_auto_contrast(const struct augment_image *image)
{
    uint32_t counts[3][LEVELS];
    uint8_t table[3][LEVELS];
    count_levels(image, counts);
    for (int c = 0; c < 3; c++) {
        int32_t low = 0, high = LEVELS - 1;
        while (counts[c][low] == 0)
            low++;
        while (counts[c][high] == 0)
            high--;
        for (int32_t level = 0; level < LEVELS; level++)
            table[c][level] =
                low == high ? (uint8_t)level : clamp((level - low) * 255 / (high - low));
    }
    map_channels(image, table);
}

/* Like Pillow's ImageOps.equalize. */
void augment_equalize(const struct augment_image *image)
{
    uint32_t counts[3][LEVELS];
    uint8_t table[3][LEVELS];
    count_levels(image, counts);
    for (int c = 0; c < 3; c++) {
        uint32_t last = LEVELS - 1;
        while (counts[c][last] == 0)
            last--;
        uint32_t step = (image->width * image->height - counts[c][last]) / 255, sum = step / 2;
        for (uint32_t level = 0; level < LEVELS; level++) {
            table[c][level] = step ? clamp((int32_t)(sum / step)) : (uint8_t)level;
            sum += counts[c][level];
        }
    }
    map_channels(image, table);
}

/* ---- Hue. ---- */

/* Position on the color circle: 0 red, 1 yellow, ... 5 magenta, in 65536ths, rounded down. */
static int32_t pixel_hue(const uint8_t *pixel, int32_t max, int32_t chroma)
{
    int32_t sector, rest;
    if (pixel[0] == max)
        sector = 0, rest = pixel[1] - pixel[2];
    else if (pixel[1] == max)
        sector = 2, rest = pixel[2] - pixel[0];
    else
        sector = 4, rest = pixel[0] - pixel[1];
    return (6 + sector) * ONE + (rest * ONE - (rest < 0 ? chroma - 1 : 0)) / chroma;
}

static void rotate_hue(uint8_t *pixel, int32_t turn)
{
    int32_t max = pixel[0], min = pixel[0];
    for (int c = 1; c < 3; c++) {
        max = pixel[c] > max ? pixel[c] : max;
        min = pixel[c] < min ? pixel[c] : min;
    }
    int32_t chroma = max - min;
    if (chroma == 0)
        return;
    int32_t hue = (pixel_hue(pixel, max, chroma) + turn) % (6 * ONE);
    int32_t step = (chroma * (hue & (ONE - 1)) + ONE / 2) >> FRACTION_BITS;
    const uint8_t levels[] = {(uint8_t)max, (uint8_t)min, (uint8_t)(min + step),
                              (uint8_t)(max - step)};
    enum { HIGH, LOW, UP, DOWN };
    static const uint8_t sectors[6][3] = {{HIGH, UP, LOW},   {DOWN, HIGH, LOW}, {LOW, HIGH, UP},
                                          {LOW, DOWN, HIGH}, {UP, LOW, HIGH},   {HIGH, LOW, DOWN}};
    const uint8_t *sector = sectors[hue >> FRACTION_BITS];
    for (int c = 0; c < 3; c++)
        pixel[c] = levels[sector[c]];
}

/* The turn is at most half the circle in either direction. */
void augment_hue(const struct augment_image *image, int32_t turn)
{
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            rotate_hue(image->rgb + y * image->stride_bytes + 3 * (size_t)x, turn);
}
