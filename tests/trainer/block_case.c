/*
 * block_case — see block_case.h.
 */
#include "tests/trainer/block_case.h"

#include "tests/support/test.h"
#include "tests/trainer/model_case.h"

#include <stdlib.h>
#include <string.h>

struct block_config block_variant(unsigned variant, bool bias)
{
    bool qk_norm = variant & 32;
    return (struct block_config){.width = BLOCK_WIDTH,
                                 .heads = 4,
                                 .kv_heads = variant & 4 ? 2 : 4,
                                 .head_dim = qk_norm ? 6 : 0,
                                 .qk_norm = qk_norm,
                                 .qkv_bias = qk_norm,
                                 .mlp_width = 24,
                                 .norm = variant & 1 ? NORM_RMS : NORM_LAYER,
                                 .epsilon = 1e-5,
                                 .rope = variant & 2,
                                 .rope_base = 100,
                                 .swiglu = variant & 8,
                                 .causal = variant & 16,
                                 .bias = bias,
                                 .deviation = 0.3,
                                 .residual_deviation = 0.2};
}

static double *random_array(uint64_t count, uint64_t seed, double scale)
{
    double *array = malloc(count * sizeof *array);
    assert_non_null(array);
    for (uint64_t i = 0; i < count; i++)
        array[i] = scale * case_random(seed, i);
    return array;
}

void block_case_open(struct block_case *c, struct ops *ops, const struct block_config *config)
{
    struct err err;
    struct block_offsets first, second;
    *c = (struct block_case){.ops = ops, .stream = BLOCK_ITEMS * BLOCK_TOKENS * config->width};
    /* this computes the second of two blocks: its offsets are relative to its group and equal the
     * first block's */
    assert_ok(block_describe(config, &c->params, "blocks.0", &first, &err), &err);
    assert_ok(block_describe(config, &c->params, "blocks.1", &second, &err), &err);
    assert_memory_equal(&first, &second, sizeof first);
    assert_ok(block_plan(&c->block, config, &second, ops, BLOCK_ITEMS, BLOCK_TOKENS, &err), &err);
    c->weights = calloc(c->params.elements, sizeof *c->weights);
    c->gradients = calloc(c->params.elements, sizeof *c->gradients);
    assert_non_null(c->weights);
    params_init_values(&c->params, 9, DTYPE_F64, c->weights);
    for (uint64_t p = 0; p < c->params.count; p++) {
        const struct param *param = &c->params.list[p];
        for (uint64_t i = param->offset; i < param->offset + param->count; i++)
            c->weights[i] += 0.2 * case_random(4, i);
    }
    c->x = random_array(c->stream, 1, 1.0);
    c->r = random_array(c->stream, 2, 1.0);
    c->out = random_array(c->stream, 3, 1.0);
    c->d = random_array(c->stream, 3, 1.0);
    c->saved = malloc(c->block.saved_bytes);
    c->scratch = malloc(c->block.scratch_bytes);
    assert_non_null(c->saved);
    assert_non_null(c->scratch);
}

void block_case_close(struct block_case *c)
{
    params_deinit(&c->params);
    free(c->weights);
    free(c->gradients);
    free(c->x);
    free(c->r);
    free(c->out);
    free(c->d);
    free(c->saved);
    free(c->scratch);
}

double block_case_loss(struct block_case *c)
{
    memset(c->saved, 0xff, c->block.saved_bytes);
    block_forward(&c->block, c->weights + c->params.groups[1].offset, c->saved, c->x, NULL, c->out);
    double sum = 0;
    for (uint64_t i = 0; i < c->stream; i++)
        sum += c->out[i] * c->r[i];
    return sum;
}

void block_case_backward(struct block_case *c)
{
    const struct param_group *group = &c->params.groups[1];
    memset(c->scratch, 0xff, c->block.scratch_bytes);
    memset(c->gradients + group->offset, 0xff, group->elements * sizeof *c->gradients);
    memcpy(c->d, c->r, c->stream * sizeof *c->d);
    const struct unit_gradients gradients = {&c->params, 1, c->gradients + group->trained_offset};
    block_backward(&c->block, c->weights + group->offset, c->saved, c->x, NULL, c->scratch,
                   &gradients, c->d);
}
