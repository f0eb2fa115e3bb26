/*
 * run_options — converts a configuration to the options of the run's parts. See run.h.
 */
#include "trainer/config/strategy.h"
#include "trainer/run/run.h"

static void set_training_data(struct run *run, struct loader_options *options)
{
    const struct config_mix *train = &run->config->data.train;
    if (train->count == 1) {
        options->dataset = train->sources[0].path;
        return;
    }
    for (uint64_t i = 0; i < train->count; i++)
        run->data.mix[i] = (struct loader_source){.path = train->sources[i].path,
                                                  .weight = train->sources[i].weight};
    options->mix = run->data.mix;
    options->mix_count = (uint32_t)train->count;
}

static const char *text_or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static bool tokenizes_texts(const struct train_config *config)
{
    return config->model.type != MODEL_VIT && config->data.text.tokenizer[0];
}

/* A text needs a token and its target. */
static void set_text_options(struct run *run, struct loader_options *options)
{
    const struct train_config *c = run->config;
    run->data.text = (struct loader_field){.name = "tokens",
                                           .from = c->data.text.field,
                                           .decode = LOADER_FIELD_TOKENS,
                                           .path = text_or_null(c->data.text.path),
                                           .tokenizer = c->data.text.tokenizer,
                                           .begin_token = text_or_null(c->data.text.begin),
                                           .end_token = text_or_null(c->data.text.end),
                                           .length = (uint32_t)c->data.text.block + 1,
                                           .length_min = 2};
    options->decode = LOADER_RECORD;
    options->fields = &run->data.text;
    options->fields_count = 1;
}

static struct mixup_options make_mixup_options(const struct train_config *config)
{
    return (struct mixup_options){.mixup_alpha = config->data.image.mixup,
                                  .cutmix_alpha = config->data.image.cutmix,
                                  .probability = config->data.image.mix_prob,
                                  .switch_probability = config->data.image.mix_switch_prob};
}

static void set_image_options(const struct train_config *c, struct loader_options *o)
{
    o->image.crop.kind = (enum crop_kind)c->data.image.crop;
    o->image.crop.scale_min = c->data.image.scale_min;
    o->image.crop.scale_max = c->data.image.scale_max;
    o->image.crop.flip = c->data.image.flip;
    o->image.augment = (struct augment_options){
        .randaugment_ops = (uint32_t)c->data.image.randaugment.ops,
        .randaugment_magnitude = (uint32_t)c->data.image.randaugment.magnitude,
        .brightness = c->data.image.jitter.brightness,
        .contrast = c->data.image.jitter.contrast,
        .saturation = c->data.image.jitter.saturation,
        .hue = c->data.image.jitter.hue,
    };
    o->image.mixup = make_mixup_options(c);
}

static void set_training_options(struct run *run, struct loader_options *o)
{
    const struct train_config *c = run->config;
    set_training_data(run, o);
    set_image_options(c, o);
    o->order = (enum order_kind)c->data.order;
    o->selection = (struct loader_selection){.keys = text_or_null(c->data.sample.keys),
                                             .order = text_or_null(c->data.sample.order),
                                             .weights = text_or_null(c->data.sample.weights),
                                             .where = text_or_null(c->data.sample.where),
                                             .balance = text_or_null(c->data.sample.balance),
                                             .repeat = c->data.repeat};
    o->drop_last = true;
    o->epochs_max = 0;
    o->bad_fraction_max = 1; /* each step checks the limit instead */
    o->trace = run->options->trace;
}

unsigned run_threads_count(const struct run *run)
{
    return run->config->threads > 0 ? (unsigned)run->config->threads : run->ranks.cpus;
}

enum dtype run_dtype_of_precision(uint32_t precision)
{
    static const enum dtype types[] = {
        [CONFIG_FP32] = DTYPE_F32, [CONFIG_BF16] = DTYPE_BF16, [CONFIG_FP16] = DTYPE_F16};
    return types[precision];
}

/* Evaluations use micro-batches of the run's size, at least one per rank, because with some BLAS
 * kernels a row's rounding depends on its position. */
struct batching run_batching(const struct train_config *config, uint32_t rank, uint32_t ranks,
                             bool is_training)
{
    uint64_t min_global = is_training ? 0 : config->batch.micro * ranks;
    return (struct batching){
        .global = bytes_max(config->batch.global, min_global),
        .micro = config->batch.micro,
        .rank = rank,
        .ranks = ranks,
        .interleaved =
            is_training && (config->batch.sync_each ||
                            strategy_at(config->parallel.strategy)->reduces_each_micro_batch)};
}

struct loader_options run_loader_options(struct run *run, bool is_training)
{
    const struct train_config *c = run->config;
    struct loader_options o = loader_options_default();
    o.io = run->io;
    o.device = run->compute.device;
    o.order = ORDER_SEQUENTIAL;
    o.seed = c->run.seed;
    o.lanes = c->data.lanes;
    o.window = c->data.window;
    o.run = c->data.run;
    o.order_global = run->original_config->batch.global;
    o.drop_last = false;
    o.epochs_max = 1;
    o.batching = run->data.batching;
    o.decode = c->model.type == MODEL_VIT ? LOADER_IMAGE : LOADER_TOKENS;
    o.image.field = c->data.image.field;
    o.image.width = o.image.height = (uint32_t)c->data.image.size;
    o.image.pixels_max = c->data.image.max_pixels;
    o.image.crop.kind = CROP_CENTER;
    o.image.crop.flip = false;
    o.image.label = (struct loader_label){
        .from = strcmp(c->data.label.from, "cls") == 0 ? NULL : c->data.label.from,
        .path = text_or_null(c->data.label.path),
        .map = text_or_null(c->data.label.map)};
    o.image.requires_label = true;
    o.image.classes = c->model.classes;
    o.text.field = c->data.text.field;
    o.text.block = (uint32_t)c->data.text.block;
    o.text.vocabulary = c->model.vocabulary;
    if (tokenizes_texts(c))
        set_text_options(run, &o);
    o.bad_policy = (enum loader_bad_policy)c->data.bad_samples.policy;
    o.bad_fraction_max = c->data.bad_samples.limit;
    o.workers = c->data.workers > 0 ? (unsigned)c->data.workers : run->ranks.cpus;
    o.memory_bytes = c->data.memory_bytes;
    o.timeout_ns = c->data.timeout_ns;
    o.memory_only = run->is_dry_run;
    o.log = run->options->log;
    o.trace = NULL; /* each evaluation starts new threads */
    if (is_training) {
        set_training_options(run, &o);
    } else {
        o.dataset = c->data.val;
        o.reference = &run->data.reference_schema;
    }
    return o;
}

struct model_config run_model_config(const struct run *run, bool is_training)
{
    const struct train_config *c = run->config;
    const struct reduction_options reduction = run_reduction_options(run);
    return (struct model_config){
        .type = (enum model_type)c->model.type,
        .layers = (uint32_t)c->model.layers,
        .heads = (uint32_t)c->model.heads,
        .width = (uint32_t)c->model.width,
        .mlp_ratio = (uint32_t)c->model.mlp_ratio,
        .mlp_width = (uint32_t)c->model.mlp_width,
        .vision.patch = (uint32_t)c->model.patch,
        .vision.side = (uint32_t)c->data.image.size,
        .vision.classes = (uint32_t)c->model.classes,
        .language.block = (uint32_t)c->data.text.block,
        .language.vocabulary = (uint32_t)c->model.vocabulary,
        .language.kv_heads = (uint32_t)c->model.kv_heads,
        .language.head_dim = (uint32_t)c->model.head_dim,
        .language.rope_base = c->model.rope_base,
        .language.rope_scaling = {.factor = c->model.rope_scaling.factor,
                                  .low_freq_factor = c->model.rope_scaling.low_freq_factor,
                                  .high_freq_factor = c->model.rope_scaling.high_freq_factor,
                                  .original_positions =
                                      c->model.rope_scaling.original_max_position_embeddings},
        .language.tied = c->model.tied,
        .language.qk_norm = c->model.qk_norm,
        .language.norm_epsilon = c->model.norm_epsilon,
        .freeze = c->model.freeze,
        .recompute_every = (uint32_t)c->model.recompute,
        .offload_every = (uint32_t)c->model.offload,
        .group_params_min = c->parallel.wrap_min_params,
        .adds_gradients = is_training && reduction_accumulates(&reduction),
    };
}

struct batch_upload_options run_batch_upload_options(const struct run *run)
{
    const struct train_config *c = run->config;
    const struct mixup_options mixup = make_mixup_options(c);
    return (struct batch_upload_options){
        .items = run->data.batching.micro,
        .images = c->model.type == MODEL_VIT,
        .mixup = c->model.type == MODEL_VIT && mixup_is_on(&mixup),
        .side = c->data.image.size,
        .block = c->data.text.block,
        .has_lengths = tokenizes_texts(c),
        .classes = c->model.classes,
        .vocabulary = c->model.vocabulary,
        .document_starts = c->model.type != MODEL_VIT && c->data.text.mask == CONFIG_MASK_DOCUMENT,
        .document_end = (int32_t)run->data.shape.document_end,
    };
}

struct optimizer_options run_optimizer_options(const struct run *run)
{
    const struct train_config *c = run->config;
    return (struct optimizer_options){
        .rule = (enum update_rule)c->optimizer.type,
        .update = {.beta1 = c->optimizer.beta1,
                   .beta2 = c->optimizer.beta2,
                   .epsilon = c->optimizer.eps,
                   .momentum = c->optimizer.momentum,
                   .nesterov = c->optimizer.nesterov,
                   .weight_decay = c->optimizer.weight_decay},
        .clip_norm = c->optimizer.clip_norm,
        .clip_value = c->optimizer.clip_value,
        .offloads_moments = c->parallel.offload.optimizer,
    };
}

/* Evaluations and local updates hold whole weights on each rank. */
struct partition_options run_partition_options(const struct run *run, bool is_training)
{
    if (!is_training || run_uses_local_sgd(run))
        return (struct partition_options){.rank = 0, .ranks = 1, .shards = 1};
    return (struct partition_options){.rank = run->data.batching.rank,
                                      .ranks = run->data.batching.ranks,
                                      .shards = run->compute.shards_count,
                                      .keep_below_elements =
                                          run->config->parallel.keep_below_params};
}

/* The scale prevents fp16 overflow: it reduces a sum over all rows to at most their mean. */
static struct bucket_exchange_wire wire_options(const struct run *run)
{
    const struct train_config *config = run->config;
    struct bucket_exchange_wire wire = {.type = run_dtype_of_precision(config->precision.reduce),
                                        .scale = 1};
    uint64_t rows = config->model.type == MODEL_VIT ? 1 : config->data.text.block;
    if (wire.type == DTYPE_F16)
        while (wire.scale * (float)run->data.batching.global * (float)rows > 1)
            wire.scale /= 2;
    return wire;
}

struct reduction_options run_reduction_options(const struct run *run)
{
    const struct train_config *config = run->config;
    bool compresses = config->parallel.compression.type == CONFIG_COMPRESSION_POWERSGD;
    return (struct reduction_options){
        .kind = compresses ? REDUCTION_POWERSGD : (enum reduction_kind)config->parallel.reduction,
        .powersgd = {.rank = config->parallel.compression.rank,
                     .start_step = config->parallel.compression.start_step,
                     .min_rate = config->parallel.compression.min_rate,
                     .error_feedback = config->parallel.compression.error_feedback,
                     .warm_start = config->parallel.compression.warm_start,
                     .seed = config->run.seed},
        .comm = config_gradients_bypass_host(run->config) ? run->ranks.bulk_comm : run->ranks.comm,
        .ops = run->compute.ops,
        .partition = &run->compute.partition,
        .batching = run->data.batching,
        .bucket_bytes = run->config->parallel.bucket_bytes,
        .timeout_ns = run->config->parallel.timeout_ns,
        .wire = wire_options(run),
        .serialized = &run->ranks.serialized,
        .is_local = run_uses_local_sgd(run)};
}
