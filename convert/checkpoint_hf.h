/*
 * checkpoint_hf — the configuration that transformers needs alongside a model's tensors.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_HF_H
#define MILLRACE_CONVERT_CHECKPOINT_HF_H

#include "base/str.h"
#include "ckpt/format/hf_names.h"
#include "ckpt/load/flat.h"
#include "ckpt/load/reader.h"

/* The model family that a checkpoint's state describes. -ENOTSUP if it is none of them or there is
 * no state. */
int checkpoint_hf_family(const struct ckpt_reader *reader, enum hf_family *ret_family,
                         struct err *err);
/* Appends config.json: shapes from the tensors, other values from the state's configuration, and
 * the embedding's dtype after cast. */
int checkpoint_hf_config(const struct ckpt_reader *reader, enum hf_family family,
                         const struct flat_cast *cast, struct str *out, struct err *err);

#endif
