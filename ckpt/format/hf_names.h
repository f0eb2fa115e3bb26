/*
 * hf_names — where our tensors lie in Hugging Face's transformers: GPT2LMHeadModel and
 * LlamaForCausalLM.
 *
 * docs/reference/models.md has the table for people. Pure.
 */
#ifndef MILLRACE_CKPT_FORMAT_HF_NAMES_H
#define MILLRACE_CKPT_FORMAT_HF_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum hf_family { HF_GPT2, HF_LLAMA };

enum { HF_NAME_BYTES_MAX = 128, HF_PARTS_MAX = 3 };

/* One of our tensors as theirs has it. A matrix of ours is [out, in]. */
struct hf_place {
    char name[HF_NAME_BYTES_MAX];
    bool transposed; /* theirs is [in, out * parts], else [out * parts, in]; of vectors false */
    uint32_t part,
        parts; /* ours is the part-th of so many equal ones along theirs' out; mostly 0 of 1 */
};

/* By its name in configurations, which is theirs too: "gpt2", "llama". False for others. */
bool hf_family_of(const char *type, enum hf_family *ret_family);

/* False where the family has no such tensor. */
bool hf_place_of(enum hf_family family, const char *ours, struct hf_place *ret_place);

#endif
