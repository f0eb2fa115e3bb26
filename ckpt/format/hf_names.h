/*
 * hf_names — maps our tensors to those of Hugging Face's transformers: GPT2LMHeadModel and
 * LlamaForCausalLM.
 *
 * docs/reference/models.md has the table. Pure.
 */
#ifndef MILLRACE_CKPT_FORMAT_HF_NAMES_H
#define MILLRACE_CKPT_FORMAT_HF_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum hf_family { HF_GPT2, HF_LLAMA };

enum { HF_NAME_BYTES_MAX = 128, HF_PARTS_MAX = 3 };

/* Where one of our tensors lies in their model. Our matrices are [out, in]. */
struct hf_place {
    char name[HF_NAME_BYTES_MAX];
    bool transposed; /* theirs is [in, out * parts], else [out * parts, in]; false for vectors */
    /* Ours is number `part` of `parts` equal parts along their out; usually 0 of 1. */
    uint32_t part, parts;
};

/* By the model type in configurations, which is also theirs: "gpt2", "llama". False for others. */
bool hf_family_of(const char *type, enum hf_family *ret_family);

/* False if the family has no such tensor. */
bool hf_place_of(enum hf_family family, const char *ours, struct hf_place *ret_place);

#endif
