/*
 * checkpoint_hf_config — see checkpoint_hf.h.
 */
#include "base/json.h"
#include "base/json_writer.h"
#include "convert/checkpoint_hf.h"

#include <errno.h>

enum { GPT2_VOCABULARY = 50257 }; /* whose last token ends documents, as transformers takes for granted */

int checkpoint_hf_family(const struct ckpt_reader *reader, enum hf_family *ret_family, struct err *err)
{
    const char *type = "";
    const struct json_t *config = json_get(ckpt_reader_state(reader), "config");
    if (json_text(json_get(config, "model.type"), &type) == 0 && hf_family_of(type, ret_family))
        return 0;
    err_set(err, -EINVAL, "the checkpoint is of no model that transformers has");
    err_at(err, reader->path, ERR_NO_OFFSET);
    err_expected(err, "model.type gpt2 or llama in its configuration");
    err_found(err, "%.64s", *type ? type : "no configuration");
    err_advise(err, "convert it with `--to full`");
    return -EINVAL;
}

static int dimension(const struct ckpt_reader *reader, const char *name, uint32_t index, uint64_t *ret_value,
                     struct err *err)
{
    const struct manifest_tensor *tensor = manifest_find(&reader->manifest, name);
    if (tensor && index < tensor->rank) {
        *ret_value = tensor->shape[index];
        return 0;
    }
    err_set(err, -EBADMSG, "the checkpoint has no matrix \"%s\"", name);
    return err_at(err, reader->path, ERR_NO_OFFSET), -EBADMSG;
}

static int write_gpt2(const struct ckpt_reader *reader, const struct json_t *config, struct json_writer *w,
                      struct err *err)
{
    uint64_t layers, heads, vocabulary, width, positions, mlp;
    int status = json_get_u64(config, "model.layers", &layers, reader->path, err);
    if (!status)
        status = json_get_u64(config, "model.heads", &heads, reader->path, err);
    if (!status)
        status = dimension(reader, "embed.tokens.weight", 0, &vocabulary, err);
    if (!status)
        status = dimension(reader, "embed.tokens.weight", 1, &width, err);
    if (!status)
        status = dimension(reader, "embed.positions.weight", 0, &positions, err);
    if (!status)
        status = dimension(reader, "blocks.0.mlp.fc.weight", 0, &mlp, err);
    if (status)
        return status;
    json_write_string(w, "activation_function", "gelu_new");
    json_write_f64(w, "layer_norm_epsilon", 1e-5);
    json_write_u64(w, "n_embd", width);
    json_write_u64(w, "n_head", heads);
    json_write_u64(w, "n_inner", mlp);
    json_write_u64(w, "n_layer", layers);
    json_write_u64(w, "n_positions", positions);
    json_write_bool(w, "tie_word_embeddings", true);
    json_write_u64(w, "vocab_size", vocabulary);
    if (vocabulary != GPT2_VOCABULARY) {
        json_write_null(w, "bos_token_id");
        json_write_null(w, "eos_token_id");
    }
    return 0;
}

static int write_llama(const struct ckpt_reader *reader, const struct json_t *config, struct json_writer *w,
                       struct err *err)
{
    uint64_t layers, heads, kv_heads, vocabulary, width, block, mlp;
    double epsilon, base;
    int status = json_get_u64(config, "model.layers", &layers, reader->path, err);
    if (!status)
        status = json_get_u64(config, "model.heads", &heads, reader->path, err);
    if (!status)
        status = json_get_u64(config, "data.text.block", &block, reader->path, err);
    if (!status)
        status = json_get_f64(config, "model.norm_epsilon", &epsilon, reader->path, err);
    if (!status)
        status = json_get_f64(config, "model.rope_base", &base, reader->path, err);
    if (!status)
        status = dimension(reader, "embed.tokens.weight", 0, &vocabulary, err);
    if (!status)
        status = dimension(reader, "embed.tokens.weight", 1, &width, err);
    if (!status)
        status = dimension(reader, "blocks.0.mlp.gate.weight", 0, &mlp, err);
    if (status)
        return status;
    if (json_u64(json_get(config, "model.kv_heads"), &kv_heads))
        kv_heads = heads; /* "auto" */
    json_write_bool(w, "attention_bias", false);
    json_write_null(w, "bos_token_id");
    json_write_null(w, "eos_token_id");
    json_write_string(w, "hidden_act", "silu");
    json_write_u64(w, "hidden_size", width);
    json_write_u64(w, "intermediate_size", mlp);
    json_write_u64(w, "max_position_embeddings", block);
    json_write_u64(w, "num_attention_heads", heads);
    json_write_u64(w, "num_hidden_layers", layers);
    json_write_u64(w, "num_key_value_heads", kv_heads);
    json_write_f64(w, "rms_norm_eps", epsilon);
    json_write_f64(w, "rope_theta", base);
    json_write_bool(w, "tie_word_embeddings", false);
    json_write_u64(w, "vocab_size", vocabulary);
    return 0;
}

int checkpoint_hf_config(const struct ckpt_reader *reader, enum hf_family family, struct str *out,
                         struct err *err)
{
    bool llama = family == HF_LLAMA;
    const struct json_t *config = json_get(ckpt_reader_state(reader), "config");
    struct json_writer w = {.out = out};
    json_begin_object(&w, NULL);
    json_begin_array(&w, "architectures");
    json_write_string(&w, NULL, llama ? "LlamaForCausalLM" : "GPT2LMHeadModel");
    json_end_array(&w);
    json_write_string(&w, "model_type", llama ? "llama" : "gpt2");
    json_write_string(&w, "torch_dtype", "float32");
    int status = llama ? write_llama(reader, config, &w, err) : write_gpt2(reader, config, &w, err);
    json_end_object(&w);
    str_add_text(out, "\n");
    if (!status && str_status(out))
        status = err_set(err, str_status(out), "out of memory for a configuration");
    return status;
}
