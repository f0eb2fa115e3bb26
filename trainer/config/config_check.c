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

struct check {
    const int *lines;
    const char *name;
    struct err *err;
};

/* Returns the line, CONFIG_BY_SET, or CONFIG_BY_DEFAULT. */
static int line_of(const struct check *check, const char *key)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].key, key) == 0)
            return check->lines ? check->lines[i] : CONFIG_BY_DEFAULT;
    return CONFIG_BY_DEFAULT;
}

/* Formats " at lines 4 and 7", " at line 4 and by --set"; "" if both are defaults. */
static void describe_places(int first, int second, char *text, size_t bytes)
{
    int upper = first > second ? first : second, lower = first > second ? second : first;
    text[0] = '\0';
    if (lower > 0 && lower != upper)
        snprintf(text, bytes, " at lines %d and %d", lower, upper);
    else if (upper > 0)
        snprintf(text, bytes, " at line %d%s", upper,
                 lower == CONFIG_BY_SET ? " and by --set" : "");
    else if (lower == CONFIG_BY_SET)
        snprintf(text, bytes, " by --set");
}

/* key and other may be equal. */
static int contradiction(const struct check *check, const char *key, const char *other,
                         const char *what, const char *advice)
{
    char places[64];
    describe_places(line_of(check, key), line_of(check, other), places, sizeof places);
    err_set(check->err, -EINVAL, "%s%s", what, places);
    err_at(check->err, check->name, ERR_NO_OFFSET);
    err_advise(check->err, "%s", advice);
    return -EINVAL;
}

static int check_train(const struct train_config *config, const struct check *check)
{
    struct err why = {0};
    int status = config_mix_check(&config->data.train, &why);
    if (!status)
        return 0;
    contradiction(check, "data.train", "data.train", why.what, why.advice);
    if (why.expected[0])
        err_expected(check->err, "%s", why.expected);
    if (why.found[0])
        err_found(check->err, "%s", why.found);
    return status;
}

static int check_path(const struct check *check, const char *key, const char *path)
{
    struct err why = {0};
    if (io_check_path(path, &why) == 0)
        return 0;
    char what[ERR_TEXT_BYTES_MAX];
    snprintf(what, sizeof what, "%s: %.160s", key, why.what);
    contradiction(check, key, key, what, why.advice);
    err_expected(check->err, "%s", why.expected);
    err_found(check->err, "%s", path);
    return -EINVAL;
}

static int check_paths(const struct train_config *config, const struct check *check)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    int status = 0;
    for (size_t i = 0; i < count && !status; i++)
        if (fields[i].kind == CONFIG_PATH)
            status = check_path(check, fields[i].key, (const char *)config + fields[i].offset);
    for (uint64_t i = 0; i < config->data.train.count && !status; i++)
        status = check_path(check, "data.train", config->data.train.sources[i].path);
    return status;
}

static int check_run(const struct train_config *config, const struct check *check)
{
    int status = check_train(config, check);
    if (status)
        return status;
    if (config->run.steps == 0 && config->run.epochs == 0)
        return contradiction(check, "run.steps", "run.epochs", "the length of the run is not set",
                             "set run.steps or run.epochs");
    if (config->run.steps > 0 && config->run.epochs > 0)
        return contradiction(check, "run.steps", "run.epochs",
                             "run.steps and run.epochs are both set", "remove one of them");
    if (config->batch.accumulation == 0 && (config->batch.global == 0 || config->batch.micro == 0))
        return contradiction(check, "batch.global", "batch.micro",
                             "batch.global or batch.micro is auto",
                             "set batch.accumulation, or give both as numbers");
    if (config->batch.global > 0 && config->batch.micro > 0 &&
        config->batch.global % config->batch.micro != 0)
        return contradiction(check, "batch.micro", "batch.global",
                             "batch.micro does not divide batch.global",
                             "set batch.micro to a divisor of batch.global");
    if (strcmp(config_device_name(config->device), "cpu") == 0 &&
        config->precision.compute != CONFIG_FP32)
        return contradiction(check, "precision.compute", "device", "the CPU computes in fp32 only",
                             "set precision.compute: fp32, or device: cuda if there is a GPU");
    if (config->data.image.scale_min > config->data.image.scale_max)
        return contradiction(check, "data.image.scale", "data.image.scale",
                             "data.image.scale is not in ascending order",
                             "put the smaller fraction first");
    if (config->optimizer.lr < config->schedule.min_lr &&
        config->schedule.type != SCHEDULE_CONSTANT)
        return contradiction(check, "schedule.min_lr", "optimizer.lr",
                             "schedule.min_lr is above optimizer.lr",
                             "lower one or raise the other");
    if (config->optimizer.nesterov && config->optimizer.momentum <= 0)
        return contradiction(check, "optimizer.nesterov", "optimizer.momentum",
                             "optimizer.nesterov is set without momentum",
                             "set optimizer.momentum or remove optimizer.nesterov");
    return 0;
}

const char *config_lone_mix(const struct train_config *config)
{
    const char *mixes = config->data.image.mixup > 0    ? "data.image.mixup"
                        : config->data.image.cutmix > 0 ? "data.image.cutmix"
                                                        : NULL;
    return config->model.type == MODEL_VIT && config->batch.micro == 1 ? mixes : NULL;
}

bool config_moves_gradients(const struct train_config *config)
{
    return config->parallel.reduction == REDUCTION_CANONICAL &&
           config->precision.reduce == CONFIG_FP32 &&
           config->parallel.compression.type == CONFIG_COMPRESSION_NONE;
}

static int check_mixing(const struct train_config *config, const struct check *check)
{
    const char *mixes = config_lone_mix(config);
    if (!mixes)
        return 0;
    return contradiction(
        check, mixes, "batch.micro", "mixing needs at least two images per micro-batch",
        "set batch.micro to 2 or more, or remove data.image.mixup and data.image.cutmix");
}

static int check_model(const struct train_config *config, const struct check *check)
{
    if (config->model.head_dim == 0 && config->model.width % config->model.heads != 0)
        return contradiction(check, "model.heads", "model.width",
                             "model.heads does not divide model.width",
                             "set model.width to a multiple of model.heads");
    if (config->model.kv_heads > 0 && config->model.heads % config->model.kv_heads != 0)
        return contradiction(check, "model.kv_heads", "model.heads",
                             "model.kv_heads does not divide model.heads",
                             "set model.heads to a multiple of model.kv_heads");
    const struct {
        const char *key;
        bool is_set;
    } rotary[] = {{"model.kv_heads", config->model.kv_heads > 0},
                  {"model.head_dim", config->model.head_dim > 0},
                  {"model.tied", config->model.tied && config->model.type != MODEL_GPT2},
                  {"model.qk_norm", config->model.qk_norm},
                  {"model.rope_scaling.factor", config->model.rope_scaling.factor != 1}};
    for (size_t i = 0; i < sizeof rotary / sizeof rotary[0]; i++)
        if (rotary[i].is_set && !model_is_rotary((enum model_type)config->model.type)) {
            char what[96];
            snprintf(what, sizeof what, "%s is for model.type: llama and qwen only", rotary[i].key);
            return contradiction(check, rotary[i].key, "model.type", what,
                                 "remove it or set model.type: llama");
        }
    if (config->model.qk_norm && config->model.type != MODEL_QWEN)
        return contradiction(check, "model.qk_norm", "model.type",
                             "model.qk_norm is for model.type: qwen only",
                             "remove it or set model.type: qwen");
    if (config->model.rope_scaling.factor != 1 &&
        config->model.rope_scaling.low_freq_factor >= config->model.rope_scaling.high_freq_factor)
        return contradiction(check, "model.rope_scaling.low_freq_factor",
                             "model.rope_scaling.high_freq_factor",
                             "model.rope_scaling.low_freq_factor is not below high_freq_factor",
                             "set them as the model's config.json has them; Llama 3.1 has 1 and 4");
    if (config->model.type == MODEL_VIT && config->data.image.size % config->model.patch != 0)
        return contradiction(check, "model.patch", "data.image.size",
                             "model.patch does not divide data.image.size",
                             "set data.image.size to a multiple of model.patch");
    return 0;
}

static int check_best_mode(const struct train_config *config, const struct check *check)
{
    const char *metric = config_metric_name(config->checkpoint.keep.best.metric);
    enum ckpt_mode good;
    char what[ERR_TEXT_BYTES_MAX];
    if (!ckpt_metric_mode(metric, &good) ||
        good == (enum ckpt_mode)config->checkpoint.keep.best.mode)
        return 0;
    snprintf(what, sizeof what, "the best %s is the %s one", metric,
             good == CKPT_MIN ? "smallest" : "largest");
    return contradiction(check, "checkpoint.keep.best.metric", "checkpoint.keep.best.mode", what,
                         good == CKPT_MIN ? "set checkpoint.keep.best.mode: min"
                                          : "set checkpoint.keep.best.mode: max");
}

static int check_saves(const struct train_config *config, const struct check *check)
{
    if (config->checkpoint.layout == CKPT_CONSOLIDATED && !config->checkpoint.shared)
        return contradiction(check, "checkpoint.layout", "checkpoint.shared",
                             "checkpoint.layout: full needs a folder that all nodes see, as all "
                             "ranks write one file",
                             "set checkpoint.shared: true and use a folder that all nodes see, or "
                             "set checkpoint.layout: sharded");
    if (config->checkpoint.keep.last == 0 &&
        (config->checkpoint.keep.every > 0 || config->checkpoint.keep.best.count > 0))
        return contradiction(
            check, "checkpoint.keep.last",
            config->checkpoint.keep.every > 0 ? "checkpoint.keep.every"
                                              : "checkpoint.keep.best.count",
            "checkpoint.keep.last: 0 keeps all checkpoints, so the other rule has no effect",
            "set checkpoint.keep.last to the number of newest checkpoints to keep, or remove the "
            "other rule");
    if (config->checkpoint.keep.best.count == 0)
        return 0;
    if (!config->data.val[0])
        return contradiction(check, "checkpoint.keep.best.count", "data.val",
                             "checkpoint.keep.best needs validation data",
                             "set data.val or remove checkpoint.keep.best");
    return check_best_mode(config, check);
}

static int check_loss_scale(const struct train_config *config, const struct check *check)
{
    uint64_t first = config->precision.loss_scale.first, least = config->precision.loss_scale.least;
    if ((first & (first - 1)) != 0)
        return contradiction(check, "precision.loss_scale.first", "precision.loss_scale.first",
                             "precision.loss_scale.first is not a power of two",
                             "set it to a power of two, such as 65536");
    if ((least & (least - 1)) != 0)
        return contradiction(check, "precision.loss_scale.least", "precision.loss_scale.least",
                             "precision.loss_scale.least is not a power of two",
                             "set it to a power of two, such as 1");
    if (first < least)
        return contradiction(check, "precision.loss_scale.first", "precision.loss_scale.least",
                             "precision.loss_scale.first is below precision.loss_scale.least",
                             "raise one or lower the other");
    return 0;
}

static int check_compression(const struct train_config *config, const struct check *check)
{
    const struct strategy *strategy = strategy_of(config->parallel.strategy);
    const char *key = "parallel.compression.type";
    if (config->parallel.compression.type == CONFIG_COMPRESSION_NONE)
        return 0;
    if (config->parallel.reduction == REDUCTION_CANONICAL)
        return contradiction(
            check, key, "parallel.reduction",
            "parallel.compression cannot be combined with parallel.reduction: canonical",
            "set parallel.reduction: fast, with which results depend on the number of ranks");
    if (strategy->shards != STRATEGY_ONE)
        return contradiction(check, key, "parallel.strategy",
                             "parallel.compression needs unsharded gradients on each rank",
                             "set parallel.strategy: ddp, or parallel.compression.type: none");
    if (config->batch.sync_each)
        return contradiction(check, key, "batch.sync_each",
                             "parallel.compression needs gradients that are reduced once per step",
                             "set batch.sync_each: false, or parallel.compression.type: none");
    if (config->precision.compute != CONFIG_FP32 || config->precision.reduce != CONFIG_FP32)
        return contradiction(
            check, key,
            config->precision.reduce != CONFIG_FP32 ? "precision.reduce" : "precision.compute",
            "parallel.compression works in fp32 only",
            "set precision.compute and precision.reduce: fp32, or parallel.compression.type: none");
    return 0;
}

static int check_local_sgd(const struct train_config *config, const struct check *check)
{
    const struct strategy *strategy = strategy_of(config->parallel.strategy);
    const char *key = "parallel.local_sgd.steps";
    if (config->parallel.local_sgd.steps == 0)
        return 0;
    if (config->parallel.reduction == REDUCTION_CANONICAL)
        return contradiction(
            check, key, "parallel.reduction",
            "parallel.local_sgd cannot be combined with parallel.reduction: canonical",
            "set parallel.reduction: fast, with which results depend on the number of ranks");
    if (strategy->shards != STRATEGY_ONE)
        return contradiction(check, key, "parallel.strategy",
                             "parallel.local_sgd needs unsharded weights and moments on each rank",
                             "set parallel.strategy: ddp, or parallel.local_sgd.steps: 0");
    if (config->batch.sync_each)
        return contradiction(
            check, key, "batch.sync_each",
            "batch.sync_each has no effect with parallel.local_sgd, which sends no gradients",
            "set batch.sync_each: false, or parallel.local_sgd.steps: 0");
    if (config->parallel.compression.type != CONFIG_COMPRESSION_NONE)
        return contradiction(
            check, key, "parallel.compression.type",
            "parallel.compression has no effect with parallel.local_sgd, which sends no gradients",
            "set parallel.compression.type: none, or parallel.local_sgd.steps: 0");
    if (config->precision.reduce != CONFIG_FP32)
        return contradiction(
            check, key, "precision.reduce",
            "precision.reduce has no effect with parallel.local_sgd, which sends no gradients",
            "set precision.reduce: fp32, or parallel.local_sgd.steps: 0");
    if (config->parallel.check_sync > 0)
        return contradiction(check, key, "parallel.check_sync",
                             "parallel.check_sync cannot be combined with parallel.local_sgd, as "
                             "ranks differ between averages",
                             "set parallel.check_sync: 0, or parallel.local_sgd.steps: 0");
    if (config->precision.compute == CONFIG_FP16)
        return contradiction(check, key, "precision.compute",
                             "fp16 cannot be combined with parallel.local_sgd, as ranks would skip "
                             "different updates",
                             "set precision.compute: bf16 or fp32, or parallel.local_sgd.steps: 0");
    return 0;
}

static int check_batch_schedule(const struct train_config *config, const struct check *check)
{
    struct epochs epochs = {0};
    struct err why = {0};
    int status = epochs_parse(config->batch.schedule, &epochs, &why);
    if (status) {
        contradiction(check, "batch.schedule", "batch.schedule", why.what, why.advice);
        err_expected(check->err, "%s", why.expected);
        err_found(check->err, "%s", why.found);
        return status;
    }
    if (epochs.changes_count > 0 && config->schedule.by == CONFIG_BY_EPOCH)
        return contradiction(check, "batch.schedule", "schedule.by",
                             "schedule.by: epoch needs epochs of equal length in steps, which "
                             "batch.schedule changes",
                             "set schedule.by: step or remove batch.schedule");
    return 0;
}

static int check_early_stop(const struct train_config *config, const struct check *check)
{
    if (config->early_stop.patience == 0 || config->data.val[0])
        return 0;
    return contradiction(check, "early_stop.patience", "data.val",
                         "early_stop.patience needs validation data",
                         "set data.val or remove early_stop");
}

static int check_parallel(const struct train_config *config, const struct check *check)
{
    if (config->parallel.offload.params && !strategy_of(config->parallel.strategy)->shards_weights)
        return contradiction(check, "parallel.offload.params", "parallel.strategy",
                             "parallel.offload.params needs a strategy that shards weights",
                             "set parallel.strategy to zero3, shard_grad_op or hybrid_shard");
    return 0;
}

int config_check(const struct train_config *config, const int *lines, const char *name,
                 struct err *err)
{
    const struct check check = {.lines = lines, .name = name, .err = err};
    int status = check_run(config, &check);
    if (!status)
        status = check_paths(config, &check);
    if (!status)
        status = check_mixing(config, &check);
    if (!status)
        status = check_model(config, &check);
    if (!status)
        status = check_batch_schedule(config, &check);
    if (!status)
        status = check_loss_scale(config, &check);
    if (!status)
        status = check_compression(config, &check);
    if (!status)
        status = check_local_sgd(config, &check);
    if (!status)
        status = check_early_stop(config, &check);
    if (!status)
        status = check_parallel(config, &check);
    return status ? status : check_saves(config, &check);
}
