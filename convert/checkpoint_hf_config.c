/*
 * checkpoint_hf_config — see checkpoint_hf.h.
 */
#include "base/jsonx.h"
#include "base/jsonx_writer.h"
#include "convert/checkpoint_hf.h"

#include <errno.h>

enum {
    /* Its last token ends documents, as transformers assumes. */
    GPT2_VOCABULARY = 50257
};

int checkpoint_hf_family(const struct ckpt_reader *reader, enum hf_family *ret_family,
                         struct err *err)
{
    const char *type = "";
    const struct json_t *config = jsonx_get(ckpt_reader_state(reader), "config");
    if (jsonx_text(jsonx_get(config, "model.type"), &type) == 0 && hf_family_of(type, ret_family))
        return 0;
    err_set(err, -ENOTSUP, "the checkpoint is of no model that transformers has");
    err_at(err, reader->path, ERR_NO_OFFSET);
    err_expected(err, "model.type gpt2 or llama in its configuration");
    err_found(err, "%.64s", *type ? type : "no configuration");
    err_advise(err, "convert it with `--to full`");
    return -ENOTSUP;
}

enum kind {
    A_TEXT, /* from */
    A_REAL, /* real */
    A_FLAG, /* flag */
    A_NULL,
    /* the count that the run's configuration has under the key `from`, else under `otherwise` */
    OF_COUNT,
    OF_REAL, /* the number that it has under the key `from` */
    OF_SIDE, /* the extent of the tensor `from` along `axis` */
};

/* An entry of config.json and the source of its value. */
struct entry {
    const char *name;
    enum kind kind;
    const char *from, *otherwise;
    uint32_t axis;
    double real;
    bool flag;
};

static const struct entry gpt2[] = {
    {"activation_function", A_TEXT, "gelu_new"},
    {"layer_norm_epsilon", A_REAL, .real = 1e-5},
    {"n_embd", OF_SIDE, "embed.tokens.weight", .axis = 1},
    {"n_head", OF_COUNT, "model.heads"},
    {"n_inner", OF_SIDE, "blocks.0.mlp.fc.weight", .axis = 0},
    {"n_layer", OF_COUNT, "model.layers"},
    {"n_positions", OF_SIDE, "embed.positions.weight", .axis = 0},
    {"tie_word_embeddings", A_FLAG, .flag = true},
    {"vocab_size", OF_SIDE, "embed.tokens.weight", .axis = 0},
};

static const struct entry gpt2_without_document_end[] = {
    {"bos_token_id", A_NULL},
    {"eos_token_id", A_NULL},
};

static const struct entry llama[] = {
    {"attention_bias", A_FLAG, .flag = false},
    {"bos_token_id", A_NULL},
    {"eos_token_id", A_NULL},
    {"hidden_act", A_TEXT, "silu"},
    {"hidden_size", OF_SIDE, "embed.tokens.weight", .axis = 1},
    {"intermediate_size", OF_SIDE, "blocks.0.mlp.gate.weight", .axis = 0},
    {"max_position_embeddings", OF_COUNT, "data.text.block"},
    {"num_attention_heads", OF_COUNT, "model.heads"},
    {"num_hidden_layers", OF_COUNT, "model.layers"},
    /* kv_heads may be "auto". */
    {"num_key_value_heads", OF_COUNT, "model.kv_heads", .otherwise = "model.heads"},
    {"rms_norm_eps", OF_REAL, "model.norm_epsilon"},
    {"rope_theta", OF_REAL, "model.rope_base"},
    {"tie_word_embeddings", A_FLAG, .flag = false},
    {"vocab_size", OF_SIDE, "embed.tokens.weight", .axis = 0},
};

static int find_side(const struct ckpt_reader *reader, const char *name, uint32_t axis,
                     uint64_t *ret_extent, struct err *err)
{
    const struct manifest_tensor *tensor = manifest_find(&reader->manifest, name);
    if (tensor && axis < tensor->rank) {
        *ret_extent = tensor->shape[axis];
        return 0;
    }
    err_set(err, -EBADMSG, "the checkpoint has no matrix \"%s\"", name);
    err_at(err, reader->path, ERR_NO_OFFSET);
    return -EBADMSG;
}

static int find_count(const struct ckpt_reader *reader, const struct entry *entry,
                      uint64_t *ret_count, struct err *err)
{
    const struct json_t *config = jsonx_get(ckpt_reader_state(reader), "config");
    if (entry->otherwise && jsonx_u64(jsonx_get(config, entry->from), ret_count))
        return jsonx_get_u64(config, entry->otherwise, ret_count, reader->path, err);
    return jsonx_get_u64(config, entry->from, ret_count, reader->path, err);
}

static int write_entry(struct jsonx_writer *w, const struct ckpt_reader *reader,
                       const struct entry *entry, struct err *err)
{
    const struct json_t *config = jsonx_get(ckpt_reader_state(reader), "config");
    uint64_t count = 0;
    double real = entry->real;
    int status = 0;
    switch (entry->kind) {
    case A_TEXT:
        jsonx_write_string(w, entry->name, entry->from);
        return 0;
    case A_FLAG:
        jsonx_write_bool(w, entry->name, entry->flag);
        return 0;
    case A_NULL:
        jsonx_write_null(w, entry->name);
        return 0;
    case OF_COUNT:
    case OF_SIDE:
        status = entry->kind == OF_COUNT ? find_count(reader, entry, &count, err)
                                         : find_side(reader, entry->from, entry->axis, &count, err);
        jsonx_write_u64(w, entry->name, count);
        return status;
    case OF_REAL:
        status = jsonx_get_f64(config, entry->from, &real, reader->path, err);
        break;
    case A_REAL:
        break;
    }
    jsonx_write_f64(w, entry->name, real);
    return status;
}

static int write_entries(struct jsonx_writer *w, const struct ckpt_reader *reader,
                         const struct entry *entries, size_t count, struct err *err)
{
    int status = 0;
    for (size_t i = 0; i < count && !status; i++)
        status = write_entry(w, reader, &entries[i], err);
    return status;
}

#define WRITE_ALL(entries)                                                                         \
    write_entries(w, reader, entries, sizeof(entries) / sizeof(entries)[0], err)

static int write_gpt2(struct jsonx_writer *w, const struct ckpt_reader *reader, struct err *err)
{
    uint64_t vocabulary = 0;
    int status = WRITE_ALL(gpt2);
    if (!status)
        status = find_side(reader, "embed.tokens.weight", 0, &vocabulary, err);
    if (!status && vocabulary != GPT2_VOCABULARY)
        status = WRITE_ALL(gpt2_without_document_end);
    return status;
}

static int write_llama(struct jsonx_writer *w, const struct ckpt_reader *reader, struct err *err)
{
    return WRITE_ALL(llama);
}

/* PyTorch's name of a floating-point dtype; NULL for others, which a model's embedding never
 * has. */
static const char *torch_name(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F64:
        return "float64";
    case DTYPE_F32:
        return "float32";
    case DTYPE_BF16:
        return "bfloat16";
    case DTYPE_F16:
        return "float16";
    case DTYPE_F8_E4M3:
        return "float8_e4m3fn";
    case DTYPE_F8_E5M2:
        return "float8_e5m2";
    default:
        return NULL;
    }
}

static void write_dtype(struct jsonx_writer *w, const struct ckpt_reader *reader,
                        const struct flat_cast *cast)
{
    const struct manifest_tensor *tensor = manifest_find(&reader->manifest, "embed.tokens.weight");
    const char *name = tensor ? torch_name(flat_dtype(cast, tensor->dtype)) : NULL;
    if (name)
        jsonx_write_string(w, "torch_dtype", name);
}

int checkpoint_hf_config(const struct ckpt_reader *reader, enum hf_family family,
                         const struct flat_cast *cast, struct str *out, struct err *err)
{
    bool is_llama = family == HF_LLAMA;
    struct jsonx_writer w = {.out = out};
    jsonx_begin_object(&w, NULL);
    jsonx_begin_array(&w, "architectures");
    jsonx_write_string(&w, NULL, is_llama ? "LlamaForCausalLM" : "GPT2LMHeadModel");
    jsonx_end_array(&w);
    jsonx_write_string(&w, "model_type", is_llama ? "llama" : "gpt2");
    write_dtype(&w, reader, cast);
    int status = is_llama ? write_llama(&w, reader, err) : write_gpt2(&w, reader, err);
    jsonx_end_object(&w);
    str_add_text(out, "\n");
    if (!status && str_status(out))
        status = err_set(err, str_status(out), "out of memory for a configuration");
    return status;
}
