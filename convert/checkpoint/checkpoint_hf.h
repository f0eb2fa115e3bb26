/*
 * checkpoint_hf — writes a model's config.json for transformers.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_HF_H
#define MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_HF_H

#include "base/str.h"
#include "ckpt/format/hf_model.h"
#include "ckpt/load/reader.h"
#include "ckpt/load/tensor_stream.h"

/* Finds the model that the checkpoint's state describes. -ENOTSUP: transformers does not support
 * the model, or the checkpoint has no state. */
int checkpoint_hf_find_model(const struct ckpt_reader *reader, const struct hf_model **ret_model,
                             struct err *err);
/* Appends config.json: sizes from the tensors, dtype from the embedding after `cast`, the rest from
 * the state. *ret_has_tied_head: the head shares the embedding's table. */
int checkpoint_hf_write_config(const struct ckpt_reader *reader, const struct hf_model *model,
                               const struct tensor_cast *cast, struct str *out,
                               bool *ret_has_tied_head, struct err *err);

#endif
