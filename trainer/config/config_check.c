/*
 * config_check — consistency checks between configuration keys. See config.h.
 */
#include "ckpt/ckpt.h"
#include "io/io.h"
#include "trainer/config/config.h"
#include "trainer/config/epochs.h"
#include "trainer/config/strategy.h"
#include "trainer/models/model.h"
#include "trainer/optim/schedule.h"
#include "trainer/parallel/reduction/reduction.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct check_context {
    const int *lines;
    const char *name;
    struct err *err;
};

/* Formats " at lines 4 and 7" or " at line 4 and by --set"; "" if both are defaults. */
static void describe_lines(int first, int second, char *text, size_t bytes)
{
    int upper = first > second ? first : second, lower = first > second ? second : first;
    text[0] = '\0';
    if (lower > 0 && lower != upper)
        snprintf(text, bytes, " at lines %d and %d", lower, upper);
    else if (upper > 0)
        snprintf(text, bytes, " at line %d%s", upper,
                 lower == CONFIG_LINE_SET ? " and by --set" : "");
    else if (lower == CONFIG_LINE_SET)
        snprintf(text, bytes, " by --set");
}

/* key and other may be equal. */
static int report_conflict(const struct check_context *context, const char *key, const char *other,
                           const char *what, const char *advice)
{
    char lines[64];
    describe_lines(config_key_line(context->lines, key), config_key_line(context->lines, other),
                   lines, sizeof lines);
    err_set(context->err, -EINVAL, "%s%s", what, lines);
    err_at(context->err, context->name, ERR_NO_OFFSET);
    err_advise(context->err, "%s", advice);
    return -EINVAL;
}

struct conflict {
    bool is_present;
    const char *key, *other, *what, *advice;
};

/* Reports the first conflict that is present. The list ends with an empty entry. */
static int check_conflicts(const struct check_context *context, const struct conflict *conflicts)
{
    for (const struct conflict *c = conflicts; c->key; c++)
        if (c->is_present)
            return report_conflict(context, c->key, c->other, c->what, c->advice);
    return 0;
}

static int report_invalid_value(const struct check_context *context, const char *key,
                                const struct err *why)
{
    report_conflict(context, key, key, why->what, why->advice);
    if (why->expected[0])
        err_expected(context->err, "%s", why->expected);
    if (why->found[0])
        err_found(context->err, "%s", why->found);
    return why->code;
}

static int check_train(const struct train_config *config, const struct check_context *context)
{
    struct err why = {0};
    return config_mix_check(&config->data.train, &why)
               ? report_invalid_value(context, "data.train", &why)
               : 0;
}

static int check_path(const struct check_context *context, const char *key, const char *path,
                      bool is_written)
{
    struct err why = {0};
    if ((is_written ? io_check_target(path, &why) : io_check_path(path, &why)) == 0)
        return 0;
    char what[ERR_TEXT_BYTES_MAX];
    snprintf(what, sizeof what, "%s: %.160s", key, why.what);
    report_conflict(context, key, key, what, why.advice);
    err_expected(context->err, "%s", why.expected);
    err_found(context->err, "%s", path);
    return -EINVAL;
}

static int check_paths(const struct train_config *config, const struct check_context *context)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    int status = 0;
    for (size_t i = 0; i < count && !status; i++)
        if (fields[i].kind == CONFIG_PATH)
            status = check_path(context, fields[i].key, (const char *)config + fields[i].offset,
                                fields[i].is_written);
    for (uint64_t i = 0; i < config->data.train.count && !status; i++)
        status = check_path(context, "data.train", config->data.train.sources[i].path, false);
    return status;
}

static int check_basics(const struct train_config *config, const struct check_context *context)
{
    const struct conflict conflicts[] = {
        {config->run.steps == 0 && config->run.epochs == 0, "run.steps", "run.epochs",
         "the length of the run is not set", "set run.steps or run.epochs"},
        {config->run.steps > 0 && config->run.epochs > 0, "run.steps", "run.epochs",
         "run.steps and run.epochs are both set", "remove one of them"},
        {config->batch.accumulation == 0 && (config->batch.global == 0 || config->batch.micro == 0),
         "batch.global", "batch.micro", "batch.global or batch.micro is auto",
         "set batch.accumulation, or set both to numbers"},
        {config->batch.global > 0 && config->batch.micro > 0 &&
             config->batch.global % config->batch.micro != 0,
         "batch.micro", "batch.global", "batch.micro does not divide batch.global",
         "set batch.micro to a divisor of batch.global"},
        {strcmp(config_device_name(config->device), "cpu") == 0 &&
             config->precision.compute != CONFIG_FP32,
         "precision.compute", "device", "the CPU computes in fp32 only",
         "set precision.compute: fp32, or device: cuda if there is a GPU"},
        {config->data.image.scale_min > config->data.image.scale_max, "data.image.scale",
         "data.image.scale", "data.image.scale is not in ascending order",
         "put the smaller fraction first"},
        {config->optimizer.lr < config->schedule.min_lr &&
             config->schedule.type != SCHEDULE_CONSTANT,
         "schedule.min_lr", "optimizer.lr", "schedule.min_lr is above optimizer.lr",
         "lower one or raise the other"},
        {config->optimizer.nesterov && config->optimizer.momentum <= 0, "optimizer.nesterov",
         "optimizer.momentum", "optimizer.nesterov is set without momentum",
         "set optimizer.momentum or remove optimizer.nesterov"},
        {0},
    };
    return check_conflicts(context, conflicts);
}

static int check_text(const struct train_config *config, const struct check_context *context)
{
    bool has_tokenizer = config->data.text.tokenizer[0], has_begin = config->data.text.begin[0],
         has_end = config->data.text.end[0];
    const struct conflict conflicts[] = {
        {has_tokenizer && config->model.type == MODEL_VIT, "data.text.tokenizer", "model.type",
         "data.text.tokenizer is for language models only",
         "remove it, or set model.type: gpt2, llama or qwen"},
        {has_tokenizer && config->data.text.mask == CONFIG_MASK_DOCUMENT, "data.text.mask",
         "data.text.tokenizer", "data.text.mask has no effect, as each sample is one text",
         "remove data.text.mask, or convert the texts to tokens"},
        {has_tokenizer && config->data.text.block + 1 <= (uint64_t)has_begin + has_end,
         "data.text.block", "data.text.begin",
         "data.text.block has no room for a token between begin and end", "raise data.text.block"},
        {has_tokenizer && strcmp(config->data.text.field, "npy") == 0, "data.text.tokenizer",
         "data.text.field", "data.text.tokenizer is for text, not for npy",
         "set data.text.field to the extension of the texts, such as txt, or remove "
         "data.text.tokenizer"},
        {!has_tokenizer && config->data.text.path[0], "data.text.path", "data.text.tokenizer",
         "data.text.path is set without data.text.tokenizer",
         "set data.text.tokenizer, or remove data.text.path"},
        {!has_tokenizer && has_begin, "data.text.begin", "data.text.tokenizer",
         "data.text.begin is set without data.text.tokenizer",
         "set data.text.tokenizer, or remove data.text.begin"},
        {!has_tokenizer && has_end, "data.text.end", "data.text.tokenizer",
         "data.text.end is set without data.text.tokenizer",
         "set data.text.tokenizer, or remove data.text.end"},
        {0},
    };
    return check_conflicts(context, conflicts);
}

const char *config_infeasible_mixing_key(const struct train_config *config)
{
    const char *mixes = config->data.image.mixup > 0    ? "data.image.mixup"
                        : config->data.image.cutmix > 0 ? "data.image.cutmix"
                                                        : NULL;
    return config->model.type == MODEL_VIT && config->batch.micro == 1 ? mixes : NULL;
}

bool config_gradients_bypass_host(const struct train_config *config)
{
    return config->parallel.reduction == REDUCTION_CANONICAL &&
           config->precision.reduce == CONFIG_FP32 &&
           config->parallel.compression.type == CONFIG_COMPRESSION_NONE;
}

static int check_mixing(const struct train_config *config, const struct check_context *context)
{
    const char *key = config_infeasible_mixing_key(config);
    return key ? report_conflict(context, key, "batch.micro",
                                 "mixing needs at least two images per micro-batch",
                                 "set batch.micro to 2 or more, or remove data.image.mixup and "
                                 "data.image.cutmix")
               : 0;
}

/* For a key that applies only to models with rotary positions. */
#define ROTARY(is_set, key)                                                                        \
    {                                                                                              \
        !is_rotary && (is_set), key, "model.type", key " is for model.type: llama and qwen only",  \
            "remove it or set model.type: llama"                                                   \
    }

static int check_model(const struct train_config *config, const struct check_context *context)
{
    bool is_rotary = model_is_rotary((enum model_type)config->model.type);
    const struct conflict conflicts[] = {
        {config->model.head_dim == 0 && config->model.width % config->model.heads != 0,
         "model.heads", "model.width", "model.heads does not divide model.width",
         "set model.width to a multiple of model.heads"},
        {config->model.kv_heads > 0 && config->model.heads % config->model.kv_heads != 0,
         "model.kv_heads", "model.heads", "model.kv_heads does not divide model.heads",
         "set model.heads to a multiple of model.kv_heads"},
        ROTARY(config->model.kv_heads > 0, "model.kv_heads"),
        ROTARY(config->model.head_dim > 0, "model.head_dim"),
        ROTARY(config->model.tied && config->model.type != MODEL_GPT2, "model.tied"),
        ROTARY(config->model.qk_norm, "model.qk_norm"),
        ROTARY(config->model.rope_scaling.factor != 1, "model.rope_scaling.factor"),
        {config->model.qk_norm && config->model.type != MODEL_QWEN, "model.qk_norm", "model.type",
         "model.qk_norm is for model.type: qwen only", "remove it or set model.type: qwen"},
        {config->model.rope_scaling.factor != 1 && config->model.rope_scaling.low_freq_factor >=
                                                       config->model.rope_scaling.high_freq_factor,
         "model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor",
         "model.rope_scaling.low_freq_factor is not below high_freq_factor",
         "copy both from the model's config.json; for Llama 3.1 they are 1 and 4"},
        {config->model.type == MODEL_VIT && config->data.image.size % config->model.patch != 0,
         "model.patch", "data.image.size", "model.patch does not divide data.image.size",
         "set data.image.size to a multiple of model.patch"},
        {0},
    };
    return check_conflicts(context, conflicts);
}
#undef ROTARY

static int check_best_mode(const struct train_config *config, const struct check_context *context)
{
    const char *metric = config_metric_name(config->checkpoint.keep.best.metric);
    enum ckpt_metric_mode best_mode;
    char what[ERR_TEXT_BYTES_MAX];
    if (!ckpt_guess_metric_mode(metric, &best_mode) ||
        best_mode == (enum ckpt_metric_mode)config->checkpoint.keep.best.mode)
        return 0;
    snprintf(what, sizeof what, "the best %s is the %s one", metric,
             best_mode == CKPT_MODE_MIN ? "smallest" : "largest");
    return report_conflict(context, "checkpoint.keep.best.metric", "checkpoint.keep.best.mode",
                           what,
                           best_mode == CKPT_MODE_MIN ? "set checkpoint.keep.best.mode: min"
                                                      : "set checkpoint.keep.best.mode: max");
}

static int check_saves(const struct train_config *config, const struct check_context *context)
{
    bool keeps_best = config->checkpoint.keep.best.count > 0;
    const struct conflict conflicts[] = {
        {config->checkpoint.layout == CKPT_CONSOLIDATED && !config->checkpoint.shared,
         "checkpoint.layout", "checkpoint.shared",
         "checkpoint.layout: full needs a folder that all nodes see, as all ranks write one file",
         "set checkpoint.shared: true and use a folder that all nodes see, or set "
         "checkpoint.layout: sharded"},
        {config->checkpoint.keep.last == 0 && (config->checkpoint.keep.every > 0 || keeps_best),
         "checkpoint.keep.last",
         config->checkpoint.keep.every > 0 ? "checkpoint.keep.every" : "checkpoint.keep.best.count",
         "checkpoint.keep.last: 0 keeps all checkpoints, so the other rule has no effect",
         "set checkpoint.keep.last to the number of newest checkpoints to keep, or remove the "
         "other rule"},
        {keeps_best && !config->data.val[0], "checkpoint.keep.best.count", "data.val",
         "checkpoint.keep.best needs validation data",
         "set data.val or remove checkpoint.keep.best"},
        {0},
    };
    int status = check_conflicts(context, conflicts);
    return status || !keeps_best ? status : check_best_mode(config, context);
}

static int check_loss_scale(const struct train_config *config, const struct check_context *context)
{
    uint64_t first = config->precision.loss_scale.first, least = config->precision.loss_scale.least;
    const struct conflict conflicts[] = {
        {(first & (first - 1)) != 0, "precision.loss_scale.first", "precision.loss_scale.first",
         "precision.loss_scale.first is not a power of two",
         "set it to a power of two, such as 65536"},
        {(least & (least - 1)) != 0, "precision.loss_scale.least", "precision.loss_scale.least",
         "precision.loss_scale.least is not a power of two", "set it to a power of two, such as 1"},
        {first < least, "precision.loss_scale.first", "precision.loss_scale.least",
         "precision.loss_scale.first is below precision.loss_scale.least",
         "raise one or lower the other"},
        {0},
    };
    return check_conflicts(context, conflicts);
}

static int check_compression(const struct train_config *config, const struct check_context *context)
{
    const struct strategy *strategy = strategy_at(config->parallel.strategy);
    const char *key = "parallel.compression.type";
    if (config->parallel.compression.type == CONFIG_COMPRESSION_NONE)
        return 0;
    const struct conflict conflicts[] = {
        {config->parallel.reduction == REDUCTION_CANONICAL, key, "parallel.reduction",
         "parallel.compression cannot be combined with parallel.reduction: canonical",
         "set parallel.reduction: fast, with which results depend on the number of ranks"},
        {strategy->shards != STRATEGY_SHARDS_ONE, key, "parallel.strategy",
         "parallel.compression needs unsharded gradients on each rank",
         "set parallel.strategy: ddp, or parallel.compression.type: none"},
        {config->batch.sync_each, key, "batch.sync_each",
         "parallel.compression needs gradients that are reduced once per step",
         "set batch.sync_each: false, or parallel.compression.type: none"},
        {config->precision.compute != CONFIG_FP32 || config->precision.reduce != CONFIG_FP32, key,
         config->precision.reduce != CONFIG_FP32 ? "precision.reduce" : "precision.compute",
         "parallel.compression works in fp32 only",
         "set precision.compute and precision.reduce: fp32, or parallel.compression.type: none"},
        {0},
    };
    return check_conflicts(context, conflicts);
}

static int check_local_sgd(const struct train_config *config, const struct check_context *context)
{
    const struct strategy *strategy = strategy_at(config->parallel.strategy);
    const char *key = "parallel.local_sgd.steps";
    if (config->parallel.local_sgd.steps == 0)
        return 0;
    const struct conflict conflicts[] = {
        {config->parallel.reduction == REDUCTION_CANONICAL, key, "parallel.reduction",
         "parallel.local_sgd cannot be combined with parallel.reduction: canonical",
         "set parallel.reduction: fast, with which results depend on the number of ranks"},
        {strategy->shards != STRATEGY_SHARDS_ONE, key, "parallel.strategy",
         "parallel.local_sgd needs unsharded weights and moments on each rank",
         "set parallel.strategy: ddp, or parallel.local_sgd.steps: 0"},
        {config->batch.sync_each, key, "batch.sync_each",
         "batch.sync_each has no effect with parallel.local_sgd, which sends no gradients",
         "set batch.sync_each: false, or parallel.local_sgd.steps: 0"},
        {config->parallel.compression.type != CONFIG_COMPRESSION_NONE, key,
         "parallel.compression.type",
         "parallel.compression has no effect with parallel.local_sgd, which sends no gradients",
         "set parallel.compression.type: none, or parallel.local_sgd.steps: 0"},
        {config->precision.reduce != CONFIG_FP32, key, "precision.reduce",
         "precision.reduce has no effect with parallel.local_sgd, which sends no gradients",
         "set precision.reduce: fp32, or parallel.local_sgd.steps: 0"},
        {config->parallel.check_sync > 0, key, "parallel.check_sync",
         "parallel.check_sync cannot be combined with parallel.local_sgd, as "
         "ranks differ between averages",
         "set parallel.check_sync: 0, or parallel.local_sgd.steps: 0"},
        {config->precision.compute == CONFIG_FP16, key, "precision.compute",
         "fp16 cannot be combined with parallel.local_sgd, as ranks would skip "
         "different updates",
         "set precision.compute: bf16 or fp32, or parallel.local_sgd.steps: 0"},
        {0},
    };
    return check_conflicts(context, conflicts);
}

static int check_batch_schedule(const struct train_config *config,
                                const struct check_context *context)
{
    struct epochs epochs = {0};
    struct err why = {0};
    if (epochs_parse(config->batch.schedule, &epochs, &why))
        return report_invalid_value(context, "batch.schedule", &why);
    if (epochs.changes_count > 0 && config->schedule.by == CONFIG_BY_EPOCH)
        return report_conflict(context, "batch.schedule", "schedule.by",
                               "schedule.by: epoch needs epochs of equal length in steps, which "
                               "batch.schedule changes",
                               "set schedule.by: step or remove batch.schedule");
    return 0;
}

static int check_dependencies(const struct train_config *config,
                              const struct check_context *context)
{
    const struct conflict conflicts[] = {
        {config->early_stop.patience > 0 && !config->data.val[0], "early_stop.patience", "data.val",
         "early_stop.patience needs validation data", "set data.val or remove early_stop"},
        {config->parallel.offload.params && !strategy_at(config->parallel.strategy)->shards_weights,
         "parallel.offload.params", "parallel.strategy",
         "parallel.offload.params needs a strategy that shards weights",
         "set parallel.strategy to zero3, shard_grad_op or hybrid_shard"},
        {0},
    };
    return check_conflicts(context, conflicts);
}

int config_check(const struct train_config *config, const int *lines, const char *name,
                 struct err *err)
{
    static int (*const checks[])(const struct train_config *, const struct check_context *) = {
        check_train,       check_basics,    check_paths,          check_text,
        check_mixing,      check_model,     check_batch_schedule, check_loss_scale,
        check_compression, check_local_sgd, check_dependencies,   check_saves};
    const struct check_context context = {.lines = lines, .name = name, .err = err};
    int status = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && !status; i++)
        status = checks[i](config, &context);
    return status;
}
