/*
 * enlarge_plan — plans rows of blocks and runs them (enlarge.h).
 *
 * Neighboring outputs of an enlargement are at most one sample apart, so the samples of a block
 * lie in a window no longer than the block, unless mirroring separates the channels of a pixel from
 * those of its neighbor.
 */
#include "image/kernels/enlarge.h"

#include "image/kernels/enlarge_block.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Plain C. ---- */

static void run_plain(const struct enlarge_plan *plan, const uint8_t *source, uint8_t *target)
{
    for (uint32_t i = 0; i < plan->row_bytes; i++) {
        const uint8_t *near = source + plan->first[i];
        int32_t change = (near[plan->channels] - near[0]) * plan->second_coefficient[i];
        target[i] = (uint8_t)(near[0] + ((change + (1 << (RESAMPLE_FRACTION_BITS - 1))) >>
                                         RESAMPLE_FRACTION_BITS));
    }
}

static const struct enlarge_blocks blocks_plain = {.block_bytes = 0,
                                                   .run = run_plain}; /* no blocks */

/* ---- Plans. ---- */

static const struct enlarge_blocks *blocks_of(enum image_kernels kernels)
{
    static const struct enlarge_blocks *const blocks[IMAGE_KERNELS_COUNT] = {
        [IMAGE_KERNELS_PLAIN] = &blocks_plain,
#ifdef __aarch64__
        [IMAGE_KERNELS_NEON] = &enlarge_blocks_neon,
#endif
#ifdef __x86_64__
        [IMAGE_KERNELS_AVX2] = &enlarge_blocks_avx2,
        [IMAGE_KERNELS_AVX512] = &enlarge_blocks_avx512,
#endif
    };
    return blocks[kernels];
}

static int plan_reserve(struct enlarge_plan *plan, uint32_t bytes, struct err *err)
{
    if (bytes <= plan->capacity)
        return 0;
    enlarge_plan_deinit(plan);
    plan->first = malloc(bytes * sizeof *plan->first);
    plan->second_coefficient = malloc(bytes * sizeof *plan->second_coefficient);
    plan->window = malloc(bytes * sizeof *plan->window);
    plan->index = malloc(bytes);
    plan->factor = malloc(bytes * sizeof *plan->factor);
    if (!plan->first || !plan->second_coefficient || !plan->window || !plan->index ||
        !plan->factor) {
        enlarge_plan_deinit(plan);
        return err_set(err, -ENOMEM, "out of memory for a row of %u bytes", bytes);
    }
    plan->capacity = bytes;
    return 0;
}

static void plan_bytes(struct enlarge_plan *plan, const struct resample_plan *columns)
{
    uint32_t *first = plan->first;
    int16_t *coefficient = plan->second_coefficient;
    for (uint32_t pixel = 0; pixel < columns->count; pixel++) {
        uint32_t sample = (columns->first[pixel] - columns->source_first) * plan->channels;
        for (uint32_t channel = 0; channel < plan->channels; channel++) {
            *first++ = sample + channel;
            *coefficient++ = columns->coefficients[(size_t)pixel * columns->taps_max + 1];
        }
    }
}

/* False if the bytes do not fit in a window. */
static bool plan_window(const uint32_t *first, uint32_t bytes, uint32_t *window, uint8_t *index)
{
    uint32_t begin = UINT32_MAX, end = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        begin = first[i] < begin ? first[i] : begin;
        end = first[i] > end ? first[i] : end;
    }
    *window = begin;
    for (uint32_t i = 0; i < bytes; i++)
        index[i] = (uint8_t)(first[i] - begin);
    return end - begin < bytes;
}

/* Moves the lower halves of all lanes before the upper halves. */
static void plan_factors(const int16_t *coefficient, uint32_t bytes, int16_t *factor)
{
    enum { HALF = ENLARGE_LANE_BYTES / 2 };
    for (uint32_t i = 0; i < bytes; i += ENLARGE_LANE_BYTES) {
        memcpy(factor + i / 2, coefficient + i, HALF * sizeof *factor);
        memcpy(factor + (bytes + i) / 2, coefficient + i + HALF, HALF * sizeof *factor);
    }
}

int enlarge_plan_init(struct enlarge_plan *plan, enum image_kernels kernels,
                      const struct resample_plan *columns, uint32_t channels, struct err *err)
{
    assert(channels >= 1 && channels <= ENLARGE_CHANNELS_MAX);
    plan->fits = false;
    if (columns->taps_max > ENLARGE_TAPS_MAX)
        return 0;
    uint32_t row_bytes = channels * columns->count;
    while (!blocks_of(kernels) || row_bytes < blocks_of(kernels)->block_bytes)
        kernels--;
    const struct enlarge_blocks *blocks = blocks_of(kernels);
    uint32_t block_bytes = blocks->block_bytes, window_bytes = blocks->window_bytes;
    uint32_t count = block_bytes ? (row_bytes + block_bytes - 1) / block_bytes : 0;
    int status = plan_reserve(plan, block_bytes ? count * block_bytes : row_bytes, err);
    if (status)
        return status;
    plan->fits = true; /* so far */
    plan->kernels = kernels;
    plan->channels = channels;
    plan->row_bytes = row_bytes;
    plan->blocks = count;
    plan_bytes(plan, columns);
    for (uint32_t block = 0; block < count; block++) {
        uint32_t begin = enlarge_block_begin(plan, block, block_bytes), at = block * block_bytes;
        for (uint32_t i = 0; i < block_bytes; i += window_bytes)
            plan->fits &= plan_window(plan->first + begin + i, window_bytes,
                                      plan->window + (at + i) / window_bytes, plan->index + at + i);
        plan_factors(plan->second_coefficient + begin, block_bytes, plan->factor + at);
    }
    return 0;
}

void enlarge_plan_deinit(struct enlarge_plan *plan)
{
    free(plan->first);
    free(plan->second_coefficient);
    free(plan->window);
    free(plan->index);
    free(plan->factor);
    *plan = (struct enlarge_plan){0};
}

void enlarge_row(const struct enlarge_plan *plan, const uint8_t *source, uint8_t *target)
{
    blocks_of(plan->kernels)->run(plan, source, target);
}
