/*
 * hf_model — maps our tensor names to those of Hugging Face's transformers, and describes the
 * entries of config.json.
 *
 * trainer/models/ has a struct hf_model for each model that transformers supports.
 * docs/reference/models.md lists the names.
 */
#ifndef MILLRACE_CKPT_FORMAT_HF_MODEL_H
#define MILLRACE_CKPT_FORMAT_HF_MODEL_H

#include "base/err.h"
#include "base/json/jsonx_writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

enum { HF_NAME_BYTES_MAX = 128, HF_PARTS_MAX = 3 };

/* The names of a tensor. Within a block, `ours` follows "blocks.N." and `theirs` follows
 * block_prefix and "N.". */
struct hf_tensor_map {
    const char *ours, *theirs;
    bool transposed;
    uint32_t part, parts; /* as in struct hf_location; parts 0 means 1 */
};

/* From config.json. */
struct hf_config {
    uint64_t layers, heads, kv_heads, head_dim, width, mlp_width, vocabulary;
    uint64_t positions; /* maximum sequence length */
    double norm_epsilon, rope_base;
    double rope_factor; /* 1: unscaled; else see struct rope_scaling */
    double rope_low_freq_factor, rope_high_freq_factor;
    uint64_t rope_original_positions;
    bool tied; /* the head shares the embedding's table */
};

enum hf_entry_kind {
    HF_END,
    HF_TEXT,
    HF_FLAG,
    HF_COUNT,        /* a uint64_t field */
    HF_REAL,         /* a double field */
    HF_HEAD_DIM,     /* written only if it differs from width / heads */
    HF_TIED,         /* rejects an untied head for a tied model */
    HF_ROPE_SCALING, /* written only if scaling applies */
    /* Written as null unless the vocabulary is GPT-2's: transformers assumes that the last token
     * ends documents. */
    HF_DOCUMENT_END,
    HF_NULL,
};

struct hf_entry {
    const char *name;
    enum hf_entry_kind kind;
    const char *text;
    size_t field;
    bool is_checked;      /* a loaded model must match; if absent, default_value or flag applies */
    double default_value; /* 0: the number of heads */
    bool flag;
};

/* Immutable. */
struct hf_model {
    const char *type, *architecture; /* "gpt2", "GPT2LMHeadModel" */
    const char *block_prefix;        /* "transformer.h" */
    const struct hf_tensor_map *model_tensors,
        *block_tensors; /* end with an entry without a name */
    const struct hf_entry *entries;
    /* A tensor in block 0 that distinguishes this model from our other models with its type; NULL:
     * none. */
    const char *marker;
};

/* Where one of our tensors is in a Hugging Face file. Our matrices are [out, in]. */
struct hf_location {
    char name[HF_NAME_BYTES_MAX];
    bool transposed; /* theirs is [in, out * parts], else [out * parts, in]; false for vectors */
    uint32_t part, parts; /* ours is one of `parts` equal slices along out */
};

/* False if the model has no such tensor. */
bool hf_locate(const struct hf_model *model, const char *ours, struct hf_location *ret_location);

/* Writes the entries into the current object. */
void hf_write_entries(const struct hf_model *model, const struct hf_config *config,
                      struct jsonx_writer *w);
/* -EINVAL names the first entry that describes a different model. path: config.json's path, for
 * errors. */
int hf_check_entries(const struct hf_model *model, const struct hf_config *config,
                     const struct json_t *root, const char *path, struct err *err);

#endif
