/*
 * hf_case — helpers for the tests against Hugging Face's transformers: tiny models and millrace's
 * logits.
 */
#ifndef MILLRACE_TESTS_TRAINER_HF_CASE_H
#define MILLRACE_TESTS_TRAINER_HF_CASE_H

#include "io/io.h"
#include "trainer/models/model.h"

/* The same as in tests/oracle/hf.py. */
enum { HF_ITEMS = 2, HF_BLOCK = 12, HF_VOCABULARY = 61 };
extern const struct model_config hf_gpt2, hf_llama, hf_llama3, hf_qwen2, hf_qwen3;

/* A Python with transformers, run with network access disabled; skips the test if there is none. */
const char *hf_need_python(void);
/* Loads all groups of the weights at path into an arena. */
int hf_load(const struct model_config *config, struct io *io, const char *path,
            const struct params *params, float *weights, struct err *err);
/* Checks that a model with the weights at path computes the logits in folder/logits.f32 from the
 * tokens in folder/tokens.i32. */
void hf_check_logits(const struct model_config *config, struct io *io, const char *path,
                     const char *folder);

#endif
