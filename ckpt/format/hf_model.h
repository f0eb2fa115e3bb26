/*
 * hf_model — describes a model of Hugging Face's transformers: what it calls our tensors, and the
 * entries of its config.json.
 *
 * trainer/models/ has a struct hf_model for each model that transformers has, too.
 * docs/reference/models.md lists the names. Pure.
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

/* A tensor. Within a block, `ours` follows "blocks.N." and `theirs` the block_prefix and "N.". */
struct hf_tensor_map {
    const char *ours, *theirs;
    bool transposed;
    uint32_t part, parts; /* as in struct hf_location; parts 0: 1 */
};

/* What config.json says of a model. */
struct hf_config {
    uint64_t layers, heads, kv_heads, head_dim, width, mlp_width, vocabulary;
    uint64_t positions; /* of a sequence, at most */
    double norm_epsilon, rope_base;
    double
        rope_factor; /* 1: unscaled; else the next three count: see ops.h's struct rope_scaling */
    double rope_low_freq_factor, rope_high_freq_factor;
    uint64_t rope_original_positions;
    bool tied; /* the head is the embedding's table */
};

enum hf_entry_kind {
    HF_END, /* of a list */
    HF_TEXT,
    HF_FLAG,
    HF_COUNT,        /* a uint64_t of struct hf_config */
    HF_REAL,         /* a double of struct hf_config */
    HF_HEAD_DIM,     /* written only where it is not width / heads */
    HF_TIED,         /* only an untied head contradicts a tied one: it would be left out */
    HF_ROPE_SCALING, /* written only where there is one */
    HF_DOCUMENT_END, /* written, as null, unless the vocabulary is GPT-2's: transformers assumes
                      * that its last token ends documents */
    HF_NULL,
};

/* An entry of config.json. */
struct hf_entry {
    const char *name;
    enum hf_entry_kind kind;
    const char *text;
    size_t field;         /* offset in struct hf_config */
    bool is_checked;      /* a model to load must have the same; absent: default_value or flag */
    double default_value; /* 0: the number of heads */
    bool flag;
};

/* Immutable. */
struct hf_model {
    const char *type, *architecture;              /* "gpt2", "GPT2LMHeadModel" */
    const char *block_prefix;                     /* "transformer.h" */
    const struct hf_tensor_map *outside, *inside; /* of blocks; the last has no name */
    const struct hf_entry *entries;
    /* A tensor in block 0 that tells this model from the others of its type here; NULL: none. */
    const char *marker;
};

/* One of our tensors in their file. Our matrices are [out, in]. */
struct hf_location {
    char name[HF_NAME_BYTES_MAX];
    bool transposed; /* theirs is [in, out * parts], else [out * parts, in]; false for vectors */
    uint32_t part, parts; /* ours is part `part` of `parts` equal ones along their out */
};

/* False if the model has no such tensor. */
bool hf_locate(const struct hf_model *model, const char *ours, struct hf_location *ret_place);

/* Writes the entries into the object in progress. */
void hf_write_entries(const struct hf_model *model, const struct hf_config *config,
                      struct jsonx_writer *w);
/* -EINVAL names the first entry of a config.json that describes another model. path: the file's. */
int hf_check_entries(const struct hf_model *model, const struct hf_config *config,
                     const struct json_t *root, const char *path, struct err *err);

#endif
