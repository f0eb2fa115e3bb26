/*
 * enlarge_neon — NEON blocks (enlarge_block.h), with the arithmetic of enlarge_x86.c.
 */
#ifdef __aarch64__

#include "image/kernels/enlarge_block.h"

#include <arm_neon.h>

static void run_neon(const struct enlarge_plan *plan, const uint8_t *source, uint8_t *target)
{
    enum { BLOCK = ENLARGE_LANE_BYTES };
    for (uint32_t block = 0; block < plan->blocks; block++) {
        const int16_t *factors = plan->factor + (size_t)block * BLOCK;
        const uint8_t *window = source + plan->window[block];
        uint8x16_t index = vld1q_u8(plan->index + (size_t)block * BLOCK);
        uint8x16_t near = vqtbl1q_u8(vld1q_u8(window), index);
        uint8x16_t far = vqtbl1q_u8(vld1q_u8(window + plan->channels), index);
        int16x8_t low = vreinterpretq_s16_u16(vsubl_u8(vget_low_u8(far), vget_low_u8(near)));
        int16x8_t high = vreinterpretq_s16_u16(vsubl_high_u8(far, near));
        low = vqrdmulhq_s16(vaddq_s16(low, low), vld1q_s16(factors));
        high = vqrdmulhq_s16(vaddq_s16(high, high), vld1q_s16(factors + BLOCK / 2));
        uint8x16_t change = vreinterpretq_u8_s8(vmovn_high_s16(vmovn_s16(low), high));
        vst1q_u8(target + enlarge_block_begin(plan, block, BLOCK), vaddq_u8(near, change));
    }
}

const struct enlarge_blocks enlarge_blocks_neon = {
    .block_bytes = ENLARGE_LANE_BYTES, .window_bytes = ENLARGE_LANE_BYTES, .run = run_neon};

#endif
