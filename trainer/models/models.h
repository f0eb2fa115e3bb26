/*
 * models — the list of models.
 */
#ifndef MILLRACE_TRAINER_MODELS_MODELS_H
#define MILLRACE_TRAINER_MODELS_MODELS_H

#include <stdbool.h>

/* MODEL(name, NAME): `name` is the value of model.type, MODEL_NAME is its enum model_type, and
 * name.c defines model_kind_name (model_kind.h). New rows go last. */
#define MODELS(MODEL)                                                                              \
    MODEL(vit, VIT)                                                                                \
    MODEL(gpt2, GPT2)                                                                              \
    MODEL(llama, LLAMA)                                                                            \
    MODEL(qwen, QWEN)

enum model_type {
#define MODEL(name, NAME) MODEL_##NAME,
    MODELS(MODEL)
#undef MODEL
};

struct hf_model;

const char *model_type_name(enum model_type type);
/* False if no model has that name. */
bool model_type_find(const char *name, enum model_type *ret_type);
/* True if model.rope_base and related keys apply. */
bool model_is_rotary(enum model_type type);
/* The corresponding Hugging Face models, NULL-terminated; NULL: none. */
const struct hf_model *const *model_hf_models(enum model_type type);

#endif
