/*
 * initial_weights — see initial_weights.h.
 */
#include "trainer/models/initial_weights.h"

#include "base/json/jsonx.h"
#include "ckpt/format/hf_model.h"
#include "ckpt/load/weights.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_BYTES_MAX = 1 << 20 };

struct initial_weights {
    char path[IO_PATH_BYTES_MAX];
    const struct model_config *config;
    const struct params *params;
    struct weights *source;
    const struct hf_model *hf; /* NULL: not in transformers */
    float *transpose_buffer;
    uint64_t transpose_capacity;
    struct err *err;
};

/* The values that config.json must have; unchecked ones stay 0. */
static struct hf_config hf_config_of(const struct model_config *c)
{
    return (struct hf_config){
        .layers = c->layers,
        .heads = c->heads,
        .kv_heads = c->language.kv_heads ? c->language.kv_heads : c->heads,
        .head_dim = c->language.head_dim ? c->language.head_dim : c->width / c->heads,
        .width = c->width,
        .norm_epsilon = model_is_rotary(c->type) ? c->language.norm_epsilon : 1e-5,
        .rope_base = c->language.rope_base,
        .rope_factor = c->language.rope_scaling.factor ? c->language.rope_scaling.factor : 1,
        .rope_low_freq_factor = c->language.rope_scaling.low_freq_factor,
        .rope_high_freq_factor = c->language.rope_scaling.high_freq_factor,
        .rope_original_positions = c->language.rope_scaling.original_positions,
        .tied = c->language.tied,
    };
}

static int check_config_file(const struct initial_weights *l, struct io *io)
{
    char folder[IO_PATH_BYTES_MAX], path[IO_PATH_BYTES_MAX], *text = NULL;
    size_t bytes = 0;
    struct io_stat info;
    struct json_t *root = NULL;
    int status = io->names->stat(io, l->path, &info, l->err);
    if (status)
        return status;
    if (info.kind == IO_ENTRY_FOLDER)
        snprintf(folder, sizeof folder, "%s", l->path);
    else
        io_parent_path(l->path, folder);
    status = io_join_path(folder, "config.json", path, l->err);
    if (status || io->names->stat(io, path, &info, NULL))
        return status;
    status = io_read_file(io, path, CONFIG_BYTES_MAX, &text, &bytes, l->err);
    if (!status)
        status = jsonx_parse(text, bytes, path, 0, &root, l->err);
    if (!status) {
        const struct hf_config config = hf_config_of(l->config);
        status = hf_check_entries(l->hf, &config, root, path, l->err);
    }
    jsonx_free(root);
    free(text);
    return status;
}

static void format_shape(const uint64_t *shape, uint32_t rank, char text[128])
{
    int used = snprintf(text, 128, "[");
    for (uint32_t d = 0; d < rank && used < 100; d++)
        used += snprintf(text + used, 128 - (size_t)used, "%s%" PRIu64, d ? ", " : "", shape[d]);
    snprintf(text + used, 128 - (size_t)used, "]");
}

/* may_have_more_rows: the tensor may have more rows than the model. */
static int check_shape(const struct initial_weights *l, const struct weights_tensor *found,
                       const uint64_t *shape, uint32_t rank, bool may_have_more_rows)
{
    const struct manifest_tensor *tensor = found->tensor;
    bool fits = tensor->rank == rank;
    for (uint32_t d = 0; d < rank && fits; d++)
        fits = tensor->shape[d] == shape[d] ||
               (d == 0 && may_have_more_rows && tensor->shape[d] > shape[d]);
    if (fits)
        return 0;
    char expected[128], found_shape[128];
    format_shape(shape, rank, expected);
    format_shape(tensor->shape, tensor->rank, found_shape);
    err_set(l->err, -EINVAL, "tensor \"%.100s\" does not have the model's shape", tensor->name);
    err_at(l->err, found->reader->path, ERR_NO_OFFSET);
    err_expected(l->err, "%s", expected);
    err_found(l->err, "%s", found_shape);
    err_advise(l->err, "set `model:` to the sizes of these weights");
    return -EINVAL;
}

/* Finds a tensor by its Hugging Face name. Files of a bare model omit the first component of the
 * name. A tied table is stored once: by transformers under the embedding's name, by safetensors'
 * save_model under the head's. */
static bool find_hf_tensor(const struct initial_weights *l, const struct param *param,
                           struct hf_location *location, struct weights_tensor *ret_tensor)
{
    if (!l->hf || !hf_locate(l->hf, param->name, location))
        return false;
    const char *bare = strchr(location->name, '.') + 1;
    if (weights_find(l->source, location->name, ret_tensor))
        return true;
    if (strcmp(param->name, "head.weight") == 0)
        return hf_locate(l->hf, "embed.tokens.weight", location) &&
               weights_find(l->source, location->name, ret_tensor);
    if (weights_find(l->source, bare, ret_tensor))
        return true;
    return strcmp(param->name, "embed.tokens.weight") == 0 &&
           weights_find(l->source, "lm_head.weight", ret_tensor);
}

static int reserve_transpose_buffer(struct initial_weights *l, uint64_t count)
{
    if (count <= l->transpose_capacity)
        return 0;
    float *memory = realloc(l->transpose_buffer, count * sizeof *memory);
    if (!memory)
        return err_set(l->err, -ENOMEM, "out of memory for a tensor of %" PRIu64 " elements",
                       count);
    l->transpose_buffer = memory;
    l->transpose_capacity = count;
    return 0;
}

/* The source is [in, out * parts], the target [out, in]. */
static int load_transposed(struct initial_weights *l, const struct param *param,
                           const struct hf_location *location, const struct weights_tensor *found,
                           float *target)
{
    uint64_t out = param->shape[0], in = param->shape[1];
    const uint64_t shape[2] = {in, out * location->parts}, start[2] = {0, out * location->part},
                   extent[2] = {in, out};
    int status = check_shape(l, found, shape, 2, false);
    if (!status)
        status = reserve_transpose_buffer(l, param->count);
    if (!status)
        status = weights_read(found, start, extent, l->transpose_buffer, l->err);
    for (uint64_t o = 0; o < out && !status; o++)
        for (uint64_t i = 0; i < in; i++)
            target[o * in + i] = l->transpose_buffer[i * out + o];
    return status;
}

static int load_untransposed(struct initial_weights *l, const struct param *param,
                             const struct hf_location *location, const struct weights_tensor *found,
                             float *target)
{
    const uint64_t shape[2] = {param->shape[0] * location->parts, param->shape[1]};
    const uint64_t start[2] = {param->shape[0] * location->part, 0};
    bool may_have_more_rows = strcmp(param->name, "embed.positions.weight") == 0 && l->hf;
    int status = check_shape(l, found, shape, param->rank, may_have_more_rows);
    return status ? status : weights_read(found, start, param->shape, target, l->err);
}

static int load_param(struct initial_weights *l, const struct param *param, float *target)
{
    struct weights_tensor found;
    struct hf_location location = {.parts = 1};
    if (weights_find(l->source, param->name, &found))
        return load_untransposed(l, param, &location, &found, target);
    if (find_hf_tensor(l, param, &location, &found))
        return location.transposed ? load_transposed(l, param, &location, &found, target)
                                   : load_untransposed(l, param, &location, &found, target);
    err_set(l->err, -ENOENT, "there is no tensor for %s", param->name);
    err_at(l->err, l->path, ERR_NO_OFFSET);
    err_expected(l->err, "%s%s%s", param->name, location.name[0] ? " or " : "", location.name);
    err_advise(l->err, "list the tensors with `millrace inspect`");
    return -ENOENT;
}

/* Rejects weights of a deeper model. */
static int check_depth(const struct initial_weights *l)
{
    struct weights_tensor found;
    struct hf_location location;
    struct param next = {0};
    snprintf(next.name, sizeof next.name, "blocks.%" PRIu32 ".norm1.weight", l->config->layers);
    if (!weights_find(l->source, next.name, &found) && !find_hf_tensor(l, &next, &location, &found))
        return 0;
    err_set(l->err, -EINVAL, "the weights belong to a model with more layers");
    err_at(l->err, l->path, ERR_NO_OFFSET);
    err_expected(l->err, "%" PRIu32, l->config->layers);
    err_found(l->err, "tensor %.100s", found.tensor->name);
    err_advise(l->err, "set model.layers");
    return -EINVAL;
}

static const struct hf_model *hf_model_of(const struct model_config *config,
                                          const struct params *params)
{
    const struct hf_model *const *hf = model_hf_models(config->type);
    while (hf && *hf && (*hf)->marker && !params_find(params, (*hf)->marker))
        hf++;
    return hf ? *hf : NULL;
}

int initial_weights_open(struct io *io, const char *path, const struct model_config *config,
                         const struct params *params, const struct log *log,
                         struct initial_weights **ret_weights, struct err *err)
{
    struct initial_weights *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(err, -ENOMEM, "out of memory for the initial weights");
    snprintf(l->path, sizeof l->path, "%s", path);
    l->config = config;
    l->params = params;
    l->err = err;
    l->hf = hf_model_of(config, params);
    int status = weights_open(io, path, &l->source, log, err);
    if (!status && l->hf)
        status = check_config_file(l, io);
    if (!status)
        status = check_depth(l);
    if (status)
        initial_weights_close(l);
    else
        *ret_weights = l;
    return status;
}

int initial_weights_load_group(struct initial_weights *l, uint64_t group, float *values,
                               struct err *err)
{
    const struct param_group *g = &l->params->groups[group];
    int status = 0;
    l->err = err;
    for (uint64_t p = g->first; p < g->first + g->count && !status; p++)
        status =
            load_param(l, &l->params->list[p], values + (l->params->list[p].offset - g->offset));
    return status;
}

void initial_weights_close(struct initial_weights *l)
{
    if (!l)
        return;
    weights_close(l->source);
    free(l->transpose_buffer);
    free(l);
}
