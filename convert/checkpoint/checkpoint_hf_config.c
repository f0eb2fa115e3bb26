/*
 * checkpoint_hf_config — see checkpoint_hf.h.
 */
#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"
#include "convert/checkpoint/checkpoint_hf.h"
#include "trainer/models/models.h"

#include <errno.h>
#include <stdio.h>

static const struct json_t *saved_config(const struct ckpt_reader *reader)
{
    return jsonx_get(ckpt_reader_state(reader), "config");
}

int checkpoint_hf_find_model(const struct ckpt_reader *reader, const struct hf_model **ret_model,
                             struct err *err)
{
    const char *name = "";
    enum model_type type;
    const struct hf_model *const *models = NULL;
    if (jsonx_text(jsonx_get(saved_config(reader), "model.type"), &name) == 0 &&
        model_type_find(name, &type))
        models = model_hf_models(type);
    for (; models && *models; models++)
        if (!(*models)->marker || manifest_find_tensor(&reader->manifest, (*models)->marker)) {
            *ret_model = *models;
            return 0;
        }
    err_set(err, -ENOTSUP, "transformers does not support the model of the checkpoint");
    err_at(err, reader->path, ERR_NO_OFFSET);
    err_expected(err, "model.type gpt2, llama or qwen in its configuration");
    err_found(err, "%.64s", *name ? name : "no configuration");
    err_advise(err, "convert it with `--to full`");
    return -ENOTSUP;
}

static int find_dimension(const struct ckpt_reader *reader, const char *name, uint32_t axis,
                          uint64_t *ret_extent, struct err *err)
{
    const struct manifest_tensor *tensor = manifest_find_tensor(&reader->manifest, name);
    if (tensor && axis < tensor->rank) {
        *ret_extent = tensor->shape[axis];
        return 0;
    }
    err_set(err, -EBADMSG, "the checkpoint has no matrix \"%s\"", name);
    err_at(err, reader->path, ERR_NO_OFFSET);
    return -EBADMSG;
}

static int fill_dimensions(const struct ckpt_reader *reader, struct hf_config *config,
                           struct err *err)
{
    const char *up = manifest_find_tensor(&reader->manifest, "blocks.0.mlp.gate.weight")
                         ? "blocks.0.mlp.gate.weight"
                         : "blocks.0.mlp.fc.weight";
    int status = find_dimension(reader, "embed.tokens.weight", 0, &config->vocabulary, err);
    if (!status)
        status = find_dimension(reader, "embed.tokens.weight", 1, &config->width, err);
    if (!status)
        status = find_dimension(reader, up, 0, &config->mlp_width, err);
    if (!status && manifest_find_tensor(&reader->manifest, "embed.positions.weight"))
        return find_dimension(reader, "embed.positions.weight", 0, &config->positions, err);
    return status ? status
                  : jsonx_get_u64(saved_config(reader), "data.text.block", &config->positions,
                                  reader->path, err);
}

/* A key that is "auto", or missing as in older checkpoints, gets its default. */
static int fill_config(const struct ckpt_reader *reader, struct hf_config *config, struct err *err)
{
    const struct json_t *saved = saved_config(reader);
    int status = fill_dimensions(reader, config, err);
    if (!status)
        status = jsonx_get_u64(saved, "model.layers", &config->layers, reader->path, err);
    if (!status)
        status = jsonx_get_u64(saved, "model.heads", &config->heads, reader->path, err);
    if (!status && config->heads == 0)
        status = err_set(err, -EBADMSG, "the checkpoint's model has zero heads");
    if (status)
        return status;
    config->kv_heads = config->heads;
    config->head_dim = config->width / config->heads;
    config->norm_epsilon = 1e-5;
    config->rope_base = 10000;
    config->rope_factor = 1;
    jsonx_u64(jsonx_get(saved, "model.kv_heads"), &config->kv_heads);
    jsonx_u64(jsonx_get(saved, "model.head_dim"), &config->head_dim);
    jsonx_f64(jsonx_get(saved, "model.norm_epsilon"), &config->norm_epsilon);
    jsonx_f64(jsonx_get(saved, "model.rope_base"), &config->rope_base);
    jsonx_f64(jsonx_get(saved, "model.rope_scaling.factor"), &config->rope_factor);
    jsonx_f64(jsonx_get(saved, "model.rope_scaling.low_freq_factor"),
              &config->rope_low_freq_factor);
    jsonx_f64(jsonx_get(saved, "model.rope_scaling.high_freq_factor"),
              &config->rope_high_freq_factor);
    jsonx_u64(jsonx_get(saved, "model.rope_scaling.original_max_position_embeddings"),
              &config->rope_original_positions);
    config->tied = !manifest_find_tensor(&reader->manifest, "head.weight");
    return 0;
}

static void write_dtype(struct jsonx_writer *w, const struct ckpt_reader *reader,
                        const struct tensor_cast *cast)
{
    static const struct {
        enum dtype dtype;
        const char *torch;
    } names[] = {{DTYPE_F64, "float64"},           {DTYPE_F32, "float32"},
                 {DTYPE_BF16, "bfloat16"},         {DTYPE_F16, "float16"},
                 {DTYPE_F8_E4M3, "float8_e4m3fn"}, {DTYPE_F8_E5M2, "float8_e5m2"}};
    const struct manifest_tensor *tensor =
        manifest_find_tensor(&reader->manifest, "embed.tokens.weight");
    for (size_t i = 0; tensor && i < sizeof names / sizeof names[0]; i++)
        if (names[i].dtype == tensor_stream_dtype(cast, tensor->dtype))
            jsonx_write_string(w, "torch_dtype", names[i].torch);
}

int checkpoint_hf_write_config(const struct ckpt_reader *reader, const struct hf_model *model,
                               const struct tensor_cast *cast, struct str *out,
                               bool *ret_has_tied_head, struct err *err)
{
    struct jsonx_writer w = {.out = out};
    struct hf_config config = {0};
    int status = fill_config(reader, &config, err);
    if (status)
        return status;
    jsonx_begin_object(&w, NULL);
    jsonx_begin_array(&w, "architectures");
    jsonx_write_string(&w, NULL, model->architecture);
    jsonx_end_array(&w);
    jsonx_write_string(&w, "model_type", model->type);
    write_dtype(&w, reader, cast);
    hf_write_entries(model, &config, &w);
    jsonx_end_object(&w);
    str_add_text(out, "\n");
    *ret_has_tied_head = config.tied;
    return str_status(out) ? err_set(err, str_status(out), "out of memory for a configuration") : 0;
}
