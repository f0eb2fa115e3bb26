/*
 * hf_case — what the tests beside Hugging Face's transformers share: tiny models and the logits of
 * ours.
 */
#ifndef MILLRACE_TESTS_TRAINER_HF_CASE_H
#define MILLRACE_TESTS_TRAINER_HF_CASE_H

#include "io/io.h"
#include "trainer/models/model.h"

/* As tests/oracle/hf.py has them. */
enum { HF_ITEMS = 2, HF_BLOCK = 12, HF_VOCABULARY = 61 };
extern const struct model_config hf_gpt2, hf_llama;

/* The Python that has transformers, with the network switched off; skips the test where none has
 * it. */
const char *hf_need_python(void);
/* All groups of the weights at path, into an arena. */
int hf_load(const struct model_config *config, struct io *io, const char *path,
            const struct params *params, float *weights, struct err *err);
/* The logits of folder/tokens.i32 by the model with the weights at path are those of
 * folder/logits.f32. */
void hf_check_logits(const struct model_config *config, struct io *io, const char *path,
                     const char *folder);

#endif
