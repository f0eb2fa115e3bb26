/*
 * hf_names — see hf_names.h.
 */
#include "ckpt/format/hf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One tensor of a family. Names in a block are preceded by `blocks.i.` here and by the family's
 * prefix there. Immutable. */
struct row {
    const char *ours, *theirs;
    bool transposed;
    uint32_t part, parts; /* parts: 0 means 1 */
};

struct family {
    const char *type, *block_prefix;
    const struct row *outside, *inside; /* of blocks; the last row has no name */
};

static const struct row gpt2_outside[] = {
    {"embed.tokens.weight", "transformer.wte.weight"},
    {"embed.positions.weight", "transformer.wpe.weight"},
    {"norm.weight", "transformer.ln_f.weight"},
    {"norm.bias", "transformer.ln_f.bias"},
    {0},
};

static const struct row gpt2_inside[] = {
    {"norm1.weight", "ln_1.weight"},
    {"norm1.bias", "ln_1.bias"},
    {"attn.q.weight", "attn.c_attn.weight", true, 0, 3},
    {"attn.k.weight", "attn.c_attn.weight", true, 1, 3},
    {"attn.v.weight", "attn.c_attn.weight", true, 2, 3},
    {"attn.q.bias", "attn.c_attn.bias", false, 0, 3},
    {"attn.k.bias", "attn.c_attn.bias", false, 1, 3},
    {"attn.v.bias", "attn.c_attn.bias", false, 2, 3},
    {"attn.proj.weight", "attn.c_proj.weight", true},
    {"attn.proj.bias", "attn.c_proj.bias"},
    {"norm2.weight", "ln_2.weight"},
    {"norm2.bias", "ln_2.bias"},
    {"mlp.fc.weight", "mlp.c_fc.weight", true},
    {"mlp.fc.bias", "mlp.c_fc.bias"},
    {"mlp.proj.weight", "mlp.c_proj.weight", true},
    {"mlp.proj.bias", "mlp.c_proj.bias"},
    {0},
};

static const struct row llama_outside[] = {
    {"embed.tokens.weight", "model.embed_tokens.weight"},
    {"norm.weight", "model.norm.weight"},
    {"head.weight", "lm_head.weight"},
    {0},
};

static const struct row llama_inside[] = {
    {"norm1.weight", "input_layernorm.weight"},
    {"attn.q.weight", "self_attn.q_proj.weight"},
    {"attn.k.weight", "self_attn.k_proj.weight"},
    {"attn.v.weight", "self_attn.v_proj.weight"},
    {"attn.proj.weight", "self_attn.o_proj.weight"},
    {"norm2.weight", "post_attention_layernorm.weight"},
    {"mlp.gate.weight", "mlp.gate_proj.weight"},
    {"mlp.up.weight", "mlp.up_proj.weight"},
    {"mlp.proj.weight", "mlp.down_proj.weight"},
    {0},
};

static const struct family families[] = {
    [HF_GPT2] = {"gpt2", "transformer.h", gpt2_outside, gpt2_inside},
    [HF_LLAMA] = {"llama", "model.layers", llama_outside, llama_inside},
};

bool hf_family_of(const char *type, enum hf_family *ret_family)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strcmp(type, families[i].type) == 0) {
            *ret_family = (enum hf_family)i;
            return true;
        }
    }
    return false;
}

/* Splits `blocks.N.` from the rest; false for other names. */
static bool split_block(const char *name, unsigned long *ret_block, const char **ret_rest)
{
    static const char prefix[] = "blocks.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *digits = name + sizeof prefix - 1;
    char *end;
    if (*digits < '0' || *digits > '9')
        return false;
    *ret_block = strtoul(digits, &end, 10);
    *ret_rest = end + 1;
    return *end == '.';
}

bool hf_place_of(enum hf_family family, const char *ours, struct hf_place *ret_place)
{
    const struct family *f = &families[family];
    unsigned long block = 0;
    const char *rest = ours;
    bool inside = split_block(ours, &block, &rest);
    const struct row *row = inside ? f->inside : f->outside;
    while (row->ours && strcmp(row->ours, rest) != 0)
        row++;
    if (!row->ours)
        return false;
    *ret_place = (struct hf_place){
        .transposed = row->transposed, .part = row->part, .parts = row->parts ? row->parts : 1};
    if (inside)
        snprintf(ret_place->name, sizeof ret_place->name, "%s.%lu.%s", f->block_prefix, block,
                 row->theirs);
    else
        snprintf(ret_place->name, sizeof ret_place->name, "%s", row->theirs);
    return true;
}
