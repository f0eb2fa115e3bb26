/*
 * collective — see collective.h. Compiled without ThreadSanitizer's instrumentation, because one
 * lane reads and writes on behalf of the others. Copies use loops for the same reason: memcpy is
 * always intercepted.
 */
#include "tests/cuda_on_cpu/collective.h"

#include "base/numeric/half.h"
#include "tests/cuda_on_cpu/violation.h"

enum { LANES = BLOCK_WARP_THREADS };

static int shuffle_source(const struct collective_shuffle *mine, int lane)
{
    int first = lane / mine->width * mine->width, within = lane - first, source = within;
    switch (mine->kind) {
    case SHUFFLE_INDEX:
        source = mine->operand & (mine->width - 1);
        break;
    case SHUFFLE_UP:
        source = within - mine->operand;
        break;
    case SHUFFLE_DOWN:
        source = within + mine->operand;
        break;
    case SHUFFLE_XOR:
        source = within ^ mine->operand;
        break;
    }
    return source < 0 || source >= mine->width ? lane : first + source;
}

static void shuffle(uint32_t mask, void *const arguments[LANES])
{
    const struct collective_shuffle *agreed = arguments[__builtin_ctz(mask)];
    for (int lane = 0; lane < LANES; lane++) {
        struct collective_shuffle *mine = arguments[lane];
        if (!(mask >> lane & 1))
            continue;
        if (mine->kind != agreed->kind || mine->width != agreed->width ||
            mine->bytes != agreed->bytes ||
            (mine->kind != SHUFFLE_INDEX && mine->operand != agreed->operand))
            shim_violation("lane %d and its warp disagree on a shuffle", lane);
        if (mine->width < 1 || mine->width > LANES || (mine->width & (mine->width - 1)))
            shim_violation("a shuffle's width of %d is not a power of two up to 32", mine->width);
        int from = shuffle_source(mine, lane);
        if (!(mask >> from & 1))
            shim_violation("lane %d shuffles from lane %d, half_index is not in the mask %08x",
                           lane, from, mask);
        const struct collective_shuffle *source = arguments[from];
        for (size_t i = 0; i < mine->bytes; i++)
            mine->result[i] = source->value[i];
    }
}

static void vote(uint32_t mask, void *const arguments[LANES])
{
    uint32_t ballot = 0;
    for (int lane = 0; lane < LANES; lane++)
        if (mask >> lane & 1 && ((struct collective_vote *)arguments[lane])->predicate)
            ballot |= UINT32_C(1) << lane;
    for (int lane = 0; lane < LANES; lane++)
        if (mask >> lane & 1)
            ((struct collective_vote *)arguments[lane])->ballot = ballot;
}

static uint32_t element(const uint32_t row[4], int column)
{
    return row[column / 2] >> (column % 2 * 16) & 0xffff;
}

static void matrices(void *const arguments[LANES])
{
    const struct collective_matrices *first = arguments[0];
    for (int lane = 0; lane < LANES; lane++) {
        struct collective_matrices *mine = arguments[lane];
        if (mine->transposed != first->transposed)
            shim_violation("lane %d and its warp disagree on loading matrices", lane);
        int group = lane / 4, pair = lane % 4;
        for (int m = 0; m < 4; m++) {
            struct collective_matrices *const *row =
                (struct collective_matrices *const *)arguments + m * 8;
            if (mine->transposed)
                mine->result[m] = element(row[2 * pair]->row, group) |
                                  element(row[2 * pair + 1]->row, group) << 16;
            else
                mine->result[m] = row[group]->row[pair];
        }
    }
}

static float widen(uint32_t pair, int half_index, bool is_fp16)
{
    uint16_t bits = (uint16_t)(pair >> (half_index * 16));
    return is_fp16 ? half_from_f16(bits) : half_from_bf16(bits);
}

enum { M = 16, N = 8, K = 16 };

static void product(void *const arguments[LANES])
{
    double a[M][K], b[K][N];
    const struct collective_product *first = arguments[0];
    for (int lane = 0; lane < LANES; lane++) {
        const struct collective_product *mine = arguments[lane];
        if (mine->is_fp16 != first->is_fp16)
            shim_violation("lane %d and its warp disagree on the type of a product", lane);
        int group = lane / 4, pair = lane % 4;
        for (int half_index = 0; half_index < 2; half_index++) {
            for (int r = 0; r < 4; r++)
                a[group + r % 2 * 8][2 * pair + half_index + r / 2 * 8] =
                    widen(mine->a[r], half_index, mine->is_fp16);
            for (int r = 0; r < 2; r++)
                b[2 * pair + half_index + r * 8][group] =
                    widen(mine->b[r], half_index, mine->is_fp16);
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        struct collective_product *mine = arguments[lane];
        for (int r = 0; r < 4; r++) {
            int row = lane / 4 + r / 2 * 8, column = lane % 4 * 2 + r % 2;
            double sum = mine->c[r];
            for (int k = 0; k < K; k++)
                sum += a[row][k] * b[k][column];
            mine->c[r] = (float)sum;
        }
    }
}

void collective_compute(enum collective kind, uint32_t mask, void *const arguments[LANES])
{
    switch (kind) {
    case COLLECTIVE_SHUFFLE:
        shuffle(mask, arguments);
        break;
    case COLLECTIVE_VOTE:
        vote(mask, arguments);
        break;
    case COLLECTIVE_MATRICES:
        matrices(arguments);
        break;
    case COLLECTIVE_PRODUCT:
        product(arguments);
        break;
    case COLLECTIVE_SYNC:
    case COLLECTIVE_KIND_COUNT:
        break;
    }
}
