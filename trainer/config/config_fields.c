/*
 * config_fields — the table of configuration keys. See config.h.
 */
#include "ckpt/ckpt.h"
#include "io/file_util.h"
#include "loader/loader.h"
#include "trainer/config/config.h"
#include "trainer/config/data_fields.h"
#include "trainer/config/strategy.h"
#include "trainer/models/model.h"
#include "trainer/ops/scaler.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"
#include "trainer/parallel/reduction/reduction.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const device_names[] = {"auto", "cpu", "cuda", "null", NULL};
static const char *const order_names[] = {
    [ORDER_SHUFFLE] = "shuffle", [ORDER_FULL] = "full", [ORDER_SEQUENTIAL] = "sequential", NULL};
static const char *const policy_names[] = {
    [LOADER_BAD_STOP] = "stop", [LOADER_BAD_SUBSTITUTE] = "substitute", NULL};
static const char *const crop_names[] = {
    [CROP_NONE] = "none", [CROP_CENTER] = "center", [CROP_RANDOM] = "random", NULL};
#define MODEL(name, NAME) #name,
static const char *const model_names[] = {MODELS(MODEL) NULL};
#undef MODEL
static const char *const schedule_names[] = {[SCHEDULE_CONSTANT] = "constant",
                                             [SCHEDULE_LINEAR] = "linear",
                                             [SCHEDULE_COSINE] = "cosine",
                                             [SCHEDULE_WARMUP_LINEAR] = "warmup_linear",
                                             NULL};
static const char *const schedule_by_names[] = {
    [CONFIG_BY_STEP] = "step", [CONFIG_BY_EPOCH] = "epoch", NULL};
#define ROW(name, ...) #name,
static const char *const optimizer_names[] = {UPDATE_RULES(ROW) NULL};
#undef ROW
static const char *const precision_names[] = {
    [CONFIG_FP32] = "fp32", [CONFIG_BF16] = "bf16", [CONFIG_FP16] = "fp16", NULL};
static const char *const reduction_names[] = {
    [REDUCTION_CANONICAL] = "canonical", [REDUCTION_FAST] = "fast", NULL};
static const char *const compression_names[] = {
    [CONFIG_COMPRESSION_NONE] = "none", [CONFIG_COMPRESSION_POWERSGD] = "powersgd", NULL};
static const char *const comm_names[] = {
    [CONFIG_COMM_AUTO] = "auto", [CONFIG_COMM_HOST] = "host", [CONFIG_COMM_NCCL] = "nccl", NULL};
static const char *const mixed_names[] = {
    [CONFIG_MIXED_REFUSE] = "refuse", [CONFIG_MIXED_ALLOW] = "allow", NULL};
static const char *const mask_names[] = {
    [CONFIG_MASK_NONE] = "none", [CONFIG_MASK_DOCUMENT] = "document", NULL};
static const char *const layout_names[] = {
    [CKPT_SHARDED] = "sharded", [CKPT_CONSOLIDATED] = "full", NULL};
static const char *const owner_names[] = {
    [IO_LOCK_AUTO] = "auto", [IO_LOCK_KERNEL] = "lock", [IO_LOCK_LEASE] = "lease", NULL};
static const char *const damage_names[] = {
    [CONFIG_DAMAGE_FALLBACK] = "fallback", [CONFIG_DAMAGE_STOP] = "stop", NULL};
static const char *const metric_names[] = {
    [CONFIG_METRIC_VAL_LOSS] = "val_loss", [CONFIG_METRIC_VAL_ACCURACY] = "val_accuracy", NULL};
static const char *const mode_names[] = {[CKPT_MODE_MIN] = "min", [CKPT_MODE_MAX] = "max", NULL};
static const char *const resume_names[] = {
    [CONFIG_RESUME_AUTO] = "auto", [CONFIG_RESUME_NEVER] = "never", NULL};
static const char *const save_error_names[] = {
    [CONFIG_SAVE_ERROR_CONTINUE] = "continue", [CONFIG_SAVE_ERROR_STOP] = "stop", NULL};

#define AT(field)                                                                                  \
    .offset = offsetof(struct train_config, field),                                                \
    .bytes = sizeof(((struct train_config *)0)->field)
#define FIXED      .fixed_on_resume = true
#define MAY_DIFFER .may_differ_by_rank = true
#define WRITTEN    .is_written = true

enum { COUNT_MAX = 1 << 30 };
#define SAMPLES_MAX 281474976710656.0 /* 2^48 */

static const struct config_field fields[] = {
    {"run.dir", CONFIG_PATH, AT(run.dir), "runs/a", MAY_DIFFER, WRITTEN,
     .help = "run folder, for checkpoints and metrics"},
    {"run.seed", CONFIG_COUNT, AT(run.seed), "0", 0, 9e15, FIXED,
     .help = "seed of every random choice"},
    {"run.steps", CONFIG_COUNT, AT(run.steps), "0", 0, COUNT_MAX,
     .help = "number of updates; 0: run.epochs sets the length"},
    {"run.epochs", CONFIG_COUNT, AT(run.epochs), "0", 0, COUNT_MAX,
     .help = "epochs to train, if run.steps is 0"},
    {"run.max_time", CONFIG_DURATION, AT(run.max_time_ns), "0s", 0, 1e18,
     .help = "time limit: the run saves and stops with status 75 before it passes, for example 23h "
             "in a 24-hour job; 0s: no limit"},
    {"run.stop_deadline", CONFIG_DURATION, AT(run.stop_deadline_ns), "0s", 0, 1e18, MAY_DIFFER,
     .help = "maximum time to finish the step and save after a stop request, after which the run "
             "gives up with status 1; 0s: no limit"},
    {"device", CONFIG_CHOICE, AT(device), "auto", .choices = device_names,
     .help = "compute device; auto: a GPU, or the CPU if there is none (a GPU that cannot be used "
             "is an error); null: compute nothing, as with --dry-run"},
    {"threads", CONFIG_COUNT_AUTO, AT(threads), "auto", 0, 256, MAY_DIFFER,
     .help = "compute threads; does not change results"},

    {"data.train", CONFIG_MIX, AT(data.train), "\"\"", MAY_DIFFER,
     .help = "dataset.json of the training data, its folder, or a pattern of tars; or a list of "
             "{path, weight} to sample from several datasets by weight"},
    {"data.val", CONFIG_PATH, AT(data.val), "\"\"", MAY_DIFFER,
     .help = "validation data, as for data.train; empty: no evaluation"},
    {"data.order", CONFIG_CHOICE, AT(data.order), "shuffle", .choices = order_names, FIXED,
     .help = "order of the training samples"},
    {"data.sample.keys", CONFIG_PATH, AT(data.sample.keys), "\"\"", MAY_DIFFER,
     .help = "text file of the keys of the samples to train on, one per line; empty: all"},
    {"data.sample.order", CONFIG_PATH, AT(data.sample.order), "\"\"", MAY_DIFFER,
     .help = "text file of keys: train on these samples in this order, which may repeat samples, "
             "instead of data.order"},
    {"data.sample.weights", CONFIG_PATH, AT(data.sample.weights), "\"\"", MAY_DIFFER,
     .help = "text file of lines with a key, a tab and a weight: draw samples with replacement in "
             "proportion to their weights, as many per epoch as there are lines, instead of "
             "data.order"},
    {"data.sample.where", CONFIG_TEXT, AT(data.sample.where), "\"\"",
     .help =
         "condition on index fields, such as score >= 0.5 && width >= 256: train on the samples "
         "that meet it, also of those in data.sample.keys; empty: all"},
    {"data.sample.balance", CONFIG_TEXT, AT(data.sample.balance), "\"\"",
     .help = "class, or the name of an index field with integers: draw samples with replacement so "
             "that all classes are equally likely, as many per epoch as there are samples, instead "
             "of data.order"},
    {"data.repeat", CONFIG_COUNT, AT(data.repeat), "1", 1, COUNT_MAX, FIXED,
     .help = "how often an epoch repeats each sample, each time with another augmentation"},
    {"data.lanes", CONFIG_COUNT_AUTO, AT(data.lanes), "auto", 0, COUNT_MAX, FIXED,
     .help = "number of shuffle lanes; auto: batch.global, or four times that for a dataset that "
             "convert did not shuffle"},
    {"data.window", CONFIG_COUNT_AUTO, AT(data.window), "auto", 0, SAMPLES_MAX, FIXED,
     .help = "samples per lane that are shuffled together; auto: 1, no window"},
    {"data.run", CONFIG_COUNT_AUTO, AT(data.run), "auto", 0, SAMPLES_MAX, FIXED,
     .help = "length of a run: adjacent samples of a shard that a lane reads together, in an order "
             "of its own; auto: about 1 MiB"},
    {"data.workers", CONFIG_COUNT_AUTO, AT(data.workers), "auto", 0, 256, MAY_DIFFER,
     .help = "decoding threads; does not change results"},
    {"data.memory", CONFIG_SIZE, AT(data.memory_bytes), "256MiB", 1 << 20, 1e15, MAY_DIFFER,
     .help =
         "memory budget of a loader: batches, read-ahead and scratch; evaluations have their own"},
    {"data.timeout", CONFIG_DURATION, AT(data.timeout_ns), "0s", 0, 1e18, MAY_DIFFER,
     .help = "maximum wait for data, after which the run fails; 0s: no limit"},
    {"data.bad_samples.policy", CONFIG_CHOICE, AT(data.bad_samples.policy), "substitute",
     .choices = policy_names, FIXED, .help = "how to handle a sample that cannot be used"},
    {"data.bad_samples.limit", CONFIG_FRACTION, AT(data.bad_samples.limit), "1%", 0, 1,
     .help = "maximum fraction of bad samples over all ranks, relative to the epoch's samples or "
             "the delivered samples, whichever is more; exceeding it ends the run"},
    {"data.image.field", CONFIG_TEXT, AT(data.image.field), "jpg;jpeg;png;webp;ppm", FIXED,
     .help = "extension of the image member; if several are separated by ; the first that a sample "
             "has is used"},
    {"data.image.size", CONFIG_COUNT, AT(data.image.size), "224", 1, 4096, FIXED,
     .help = "side of the square model input, in pixels"},
    {"data.image.max_pixels", CONFIG_COUNT, AT(data.image.max_pixels), "134217728", 1,
     LOADER_PIXELS_MAX,
     .help =
         "maximum pixels of a stored image, which bounds memory; larger images are bad samples"},
    {"data.image.crop", CONFIG_CHOICE, AT(data.image.crop), "random", .choices = crop_names, FIXED,
     .help = "how to crop training images; evaluation uses the center"},
    {"data.image.scale", CONFIG_PAIR, AT(data.image.scale_min), "[0.08, 1]", 0.001, 1, FIXED,
     .help = "minimum and maximum fraction of the image's area that a random crop covers"},
    {"data.image.flip", CONFIG_BOOL, AT(data.image.flip), "true", FIXED,
     .help = "mirror training images left to right with probability 1/2"},
    {"data.image.randaugment.ops", CONFIG_COUNT, AT(data.image.randaugment.ops), "0", 0, 16, FIXED,
     .help = "RandAugment: number of random operations per training image; 0: none"},
    {"data.image.randaugment.magnitude", CONFIG_COUNT, AT(data.image.randaugment.magnitude), "9", 0,
     30, FIXED, .help = "RandAugment: strength of the operations, up to 30"},
    {"data.image.jitter.brightness", CONFIG_FRACTION, AT(data.image.jitter.brightness), "0", 0, 1,
     FIXED,
     .help = "x: scale the brightness of a training image by a random factor from [1 - x, 1 + x]"},
    {"data.image.jitter.contrast", CONFIG_FRACTION, AT(data.image.jitter.contrast), "0", 0, 1,
     FIXED, .help = "x: scale the contrast by a random factor from [1 - x, 1 + x]"},
    {"data.image.jitter.saturation", CONFIG_FRACTION, AT(data.image.jitter.saturation), "0", 0, 1,
     FIXED, .help = "x: scale the saturation by a random factor from [1 - x, 1 + x]"},
    {"data.image.jitter.hue", CONFIG_FRACTION, AT(data.image.jitter.hue), "0", 0, 0.5, FIXED,
     .help = "x: rotate the hue by a random fraction of the color circle from [-x, x]"},
    {"data.image.mixup", CONFIG_REAL, AT(data.image.mixup), "0", 0, 100, FIXED,
     .help = "alpha of mixup: blend each training image and label with the previous one of the "
             "micro-batch, in a proportion drawn from Beta(alpha, alpha); 0: none"},
    {"data.image.cutmix", CONFIG_REAL, AT(data.image.cutmix), "0", 0, 100, FIXED,
     .help = "alpha of CutMix: paste a box of the previous image instead, with an area fraction "
             "drawn from Beta(alpha, alpha); 0: none"},
    {"data.image.mix_prob", CONFIG_FRACTION, AT(data.image.mix_prob), "1", 0, 1, FIXED,
     .help = "probability of mixing an image with mixup or cutmix"},
    {"data.image.mix_switch_prob", CONFIG_FRACTION, AT(data.image.mix_switch_prob), "0.5", 0, 1,
     FIXED, .help = "probability of using cutmix rather than mixup, if both are on"},
    {"data.label.from", CONFIG_TEXT, AT(data.label.from), "cls", FIXED,
     .help = "extension of the member with the image's label; if several are separated by ; the "
             "first that a sample has is used"},
    {"data.label.path", CONFIG_TEXT, AT(data.label.path), "\"\"", FIXED,
     .help = "where the label is in a JSON member, for example $.class.id; empty: the label is the "
             "whole member"},
    {"data.label.map", CONFIG_PATH, AT(data.label.map), "\"\"", MAY_DIFFER,
     .help = "text file of class names, one per line, the first for class 0; labels are names from "
             "it. Empty: labels are class numbers"},
    {"data.text.field", CONFIG_TEXT, AT(data.text.field), "npy", FIXED,
     .help = "extension of the member with tokens, or with data.text.tokenizer text, such as txt; "
             "if several are separated by ; the first that a sample has is used"},
    {"data.text.tokenizer", CONFIG_PATH, AT(data.text.tokenizer), "\"\"", MAY_DIFFER,
     .help = "tokenizer.json, or a folder with GPT-2's encoder.json and vocab.bpe, for a dataset "
             "of texts: each sample is one text, whose first data.text.block + 1 tokens are used; "
             "empty: the dataset has tokens, as convert writes them for text"},
    {"data.text.path", CONFIG_TEXT, AT(data.text.path), "\"\"", FIXED,
     .help = "with data.text.tokenizer: where the text is in a JSON member, for example $.text; "
             "empty: the text is the whole member"},
    {"data.text.begin", CONFIG_TEXT, AT(data.text.begin), "\"\"", FIXED,
     .help = "with data.text.tokenizer: token before each text, for example <|begin_of_text|>; "
             "empty: none"},
    {"data.text.end", CONFIG_TEXT, AT(data.text.end), "\"\"", FIXED,
     .help = "with data.text.tokenizer: token after each text, for example <|endoftext|>; empty: "
             "none"},
    {"data.text.block", CONFIG_COUNT, AT(data.text.block), "256", 1, DATA_TEXT_BLOCK_MAX, FIXED,
     .help = "tokens per sequence of a language model"},
    {"data.text.mask", CONFIG_CHOICE, AT(data.text.mask), "none", .choices = mask_names, FIXED,
     .help = "document: tokens attend only to their own document; none: to all earlier tokens of "
             "the window"},

    {"model.type", CONFIG_CHOICE, AT(model.type), "vit", .choices = model_names, FIXED,
     .help = "model architecture"},
    {"model.layers", CONFIG_COUNT, AT(model.layers), "6", 1, 1024, FIXED,
     .help = "transformer blocks"},
    {"model.heads", CONFIG_COUNT, AT(model.heads), "6", 1, 1024, FIXED,
     .help = "attention heads; divides width"},
    {"model.width", CONFIG_COUNT, AT(model.width), "384", 1, 65536, FIXED,
     .help = "features per token"},
    {"model.mlp_ratio", CONFIG_COUNT, AT(model.mlp_ratio), "4", 1, 64, FIXED,
     .help = "hidden features of the MLP, as a multiple of model.width"},
    {"model.mlp_width", CONFIG_COUNT_AUTO, AT(model.mlp_width), "auto", 0, 1 << 22, FIXED,
     .help = "hidden features of the MLP; auto: mlp_ratio times width"},
    {"model.kv_heads", CONFIG_COUNT_AUTO, AT(model.kv_heads), "auto", 0, 1024, FIXED,
     .help = "llama, qwen: key and value heads; divides heads; auto: same as heads"},
    {"model.head_dim", CONFIG_COUNT_AUTO, AT(model.head_dim), "auto", 0, 4096, FIXED,
     .help = "llama, qwen: features of a head; auto: width / heads"},
    {"model.rope_base", CONFIG_REAL, AT(model.rope_base), "10000", 1, 1e12, FIXED,
     .help = "llama, qwen: base of the rotary positions (rope_theta)"},
    {"model.rope_scaling.factor", CONFIG_REAL, AT(model.rope_scaling.factor), "1", 1, 1e6, FIXED,
     .help =
         "llama, qwen: scaling of rotary positions as in Llama 3.1 (rope_type llama3); 1: none"},
    {"model.rope_scaling.low_freq_factor", CONFIG_REAL, AT(model.rope_scaling.low_freq_factor), "1",
     1e-3, 1e6, FIXED,
     .help = "scaled wavelengths begin at original_max_position_embeddings over this"},
    {"model.rope_scaling.high_freq_factor", CONFIG_REAL, AT(model.rope_scaling.high_freq_factor),
     "4", 1e-3, 1e6, FIXED,
     .help = "unscaled wavelengths end at original_max_position_embeddings over this"},
    {"model.rope_scaling.original_max_position_embeddings", CONFIG_COUNT,
     AT(model.rope_scaling.original_max_position_embeddings), "8192", 1, 1 << 24, FIXED,
     .help = "context length before scaling, in tokens"},
    {"model.norm_epsilon", CONFIG_REAL, AT(model.norm_epsilon), "1e-5", 1e-12, 1, FIXED,
     .help = "llama, qwen: added to the mean square in norms"},
    {"model.qk_norm", CONFIG_BOOL, AT(model.qk_norm), "false", FIXED,
     .help = "qwen: true: norms of q and k, as in Qwen3; false: biases of q, k and v, as in Qwen2"},
    {"model.tied", CONFIG_BOOL, AT(model.tied), "false", FIXED,
     .help = "llama, qwen: the head uses the embedding's weights (tie_word_embeddings), as gpt2 "
             "always does"},
    {"model.patch", CONFIG_COUNT, AT(model.patch), "16", 1, 4096, FIXED,
     .help = "ViT: side of a patch in pixels; divides data.image.size"},
    {"model.classes", CONFIG_COUNT_AUTO, AT(model.classes), "auto", 0, 1 << 20, FIXED,
     .help = "ViT: number of classes; auto: the dataset's"},
    {"model.vocabulary", CONFIG_COUNT_AUTO, AT(model.vocabulary), "auto", 0, 1 << 24, FIXED,
     .help = "language models: vocabulary size in tokens; auto: the dataset's"},

    {"model.init", CONFIG_PATH, AT(model.init), "\"\"", MAY_DIFFER,
     .help = "initial weights: a checkpoint, a safetensors file or a Hugging Face folder; empty: "
             "random"},

    {"model.freeze", CONFIG_TEXT, AT(model.freeze), "\"\"",
     .help = "comma-separated name patterns of parameters to freeze; the last match wins: "
             "\"embed.*, blocks.0.*\", or all but the head: \"*, !head.*\""},
    {"model.recompute", CONFIG_COUNT, AT(model.recompute), "0", 0, 1024,
     .help = "repeat the forward pass of every Nth block in the backward pass, to save memory; 0: "
             "none; does not change results"},
    {"model.offload", CONFIG_COUNT, AT(model.offload), "0", 0, 1024,
     .help = "keep activations of every Nth block that is not recomputed in pinned host memory; 0: "
             "none; does not change results"},

    {"batch.global", CONFIG_COUNT_AUTO, AT(batch.global), "256", 1, COUNT_MAX, FIXED,
     .help = "samples per update, over all ranks; auto: follows from batch.accumulation"},
    {"batch.micro", CONFIG_COUNT_AUTO, AT(batch.micro), "32", 1, CONFIG_MICRO_MAX, FIXED,
     .help = "samples per forward and backward pass; divides batch.global; auto: follows from "
             "batch.accumulation"},
    {"batch.accumulation", CONFIG_COUNT_AUTO, AT(batch.accumulation), "auto", 1, COUNT_MAX,
     .help = "micro-batches per rank and update, instead of one of the two keys above; auto: "
             "follows from them and the number of ranks; a resumed run keeps its original batch"},
    {"batch.schedule", CONFIG_TEXT, AT(batch.schedule), "\"\"", FIXED,
     .help = "comma-separated EPOCH:TIMES, for example \"4:2, 8:4\": from EPOCH on, an update has "
             "TIMES times batch.global samples; EPOCH is at least 1, as epoch 0 always uses "
             "batch.global"},
    {"batch.sync_each", CONFIG_BOOL, AT(batch.sync_each), "false",
     .help = "reduce gradients after every micro-batch; no effect on one rank"},

    {"optimizer.type", CONFIG_CHOICE, AT(optimizer.type), "adamw", .choices = optimizer_names,
     .help = "update rule; lion needs 1/3 to 1/10 of adamw's learning rate, betas of [0.9, 0.99] "
             "and 3 to 10 times its weight decay"},
    {"optimizer.lr", CONFIG_REAL, AT(optimizer.lr), "3e-4", 0, 1e3, .help = "peak learning rate"},
    {"optimizer.base_batch", CONFIG_COUNT, AT(optimizer.base_batch), "0", 0, COUNT_MAX,
     .help = "global batch size for which the learning rates are meant; they are multiplied by "
             "batch.global / base_batch; 0: no scaling"},
    {"optimizer.betas", CONFIG_PAIR, AT(optimizer.beta1), "[0.9, 0.95]", 0, 0.9999999,
     .help = "adamw: decay rates of the two moments; lion: of the update's momentum and of the "
             "stored momentum"},
    {"optimizer.eps", CONFIG_REAL, AT(optimizer.eps), "1e-8", 0, 1,
     .help = "adamw: added to the square root of the second moment"},
    {"optimizer.momentum", CONFIG_REAL, AT(optimizer.momentum), "0.9", 0, 0.9999999,
     .help = "sgd: decay rate of the momentum; 0: none"},
    {"optimizer.nesterov", CONFIG_BOOL, AT(optimizer.nesterov), "false",
     .help = "sgd: use Nesterov momentum"},
    {"optimizer.weight_decay", CONFIG_REAL, AT(optimizer.weight_decay), "0.1", 0, 1e3,
     .help = "weight decay of matrices; adamw and lion: decoupled and multiplied by the learning "
             "rate; sgd: added to the gradient"},
    {"optimizer.clip_norm", CONFIG_REAL, AT(optimizer.clip_norm), "1.0", 0, 1e9,
     .help = "maximum norm of all gradients together; 0: no clipping"},
    {"optimizer.clip_value", CONFIG_REAL, AT(optimizer.clip_value), "0", 0, 1e9,
     .help = "maximum absolute gradient element, applied after clip_norm; 0: no clipping"},

    {"schedule.type", CONFIG_CHOICE, AT(schedule.type), "cosine", .choices = schedule_names,
     .help =
         "learning rate schedule after the warm-up; warmup_linear: linear to 0, ignoring min_lr"},
    {"schedule.by", CONFIG_CHOICE, AT(schedule.by), "step", .choices = schedule_by_names,
     .help = "unit of the schedule: the rate changes with each update, or once per epoch; warmup "
             "then counts epochs"},
    {"schedule.warmup", CONFIG_COUNT, AT(schedule.warmup), "100", 0, COUNT_MAX,
     .help = "length of the linear warm-up in updates, or in epochs with schedule.by: epoch"},
    {"schedule.min_lr", CONFIG_REAL, AT(schedule.min_lr), "3e-5", 0, 1e3,
     .help = "final learning rate"},

    {"precision.compute", CONFIG_CHOICE, AT(precision.compute), "fp32", .choices = precision_names,
     .help = "element type of activations and matrix products; bf16 and fp16 (with loss scaling) "
             "need a GPU"},
    {"precision.reduce", CONFIG_CHOICE, AT(precision.reduce), "fp32", .choices = precision_names,
     .help = "element type of gradients in transit; they are added in fp32; bf16 and fp16 halve "
             "the traffic, but results then depend on the number of ranks"},
    {"precision.loss_scale.first", CONFIG_COUNT, AT(precision.loss_scale.first), "65536", 1,
     SCALER_MAX, .help = "fp16: initial loss scale, a power of two"},
    {"precision.loss_scale.window", CONFIG_COUNT, AT(precision.loss_scale.window), "2000", 1,
     COUNT_MAX, .help = "fp16: steps without overflow after which the loss scale doubles"},
    {"precision.loss_scale.hysteresis", CONFIG_COUNT, AT(precision.loss_scale.hysteresis), "1", 1,
     COUNT_MAX,
     .help = "fp16: number of overflows after a doubling of the loss scale until it is halved; "
             "each later overflow halves it again"},
    {"precision.loss_scale.least", CONFIG_COUNT, AT(precision.loss_scale.least), "1", 1, SCALER_MAX,
     .help = "fp16: minimum loss scale, a power of two; an overflow at this scale ends the run"},
    {"parallel.strategy", CONFIG_CHOICE, AT(parallel.strategy), "ddp", .choices = strategy_names,
     .aliases = strategy_aliases,
     .help =
         "model state to shard over ranks, which trades traffic for memory; ddp: none; zero1: the "
         "moments; zero2: also the gradients; zero3: also the weights. Aliases: no_shard for ddp, "
         "full_shard for zero3, deepspeed_stage_0 to 3 for ddp, zero1, zero2, zero3. Does not "
         "change results"},
    {"parallel.shard", CONFIG_COUNT, AT(parallel.shard), "0", 0, 1 << 20,
     .help = "number of ranks that hold one copy of the sharded state; divides the number of "
             "ranks; 0: all ranks, or with hybrid_shard those of one machine"},
    {"parallel.replicate", CONFIG_COUNT, AT(parallel.replicate), "0", 0, 1 << 20,
     .help = "number of copies of the sharded state; must divide the number of ranks; if "
             "parallel.shard is set, their product must be the number of ranks; 0: derived "
             "from parallel.shard"},
    {"parallel.wrap_min_params", CONFIG_COUNT, AT(parallel.wrap_min_params), "0", 0, 1e12,
     .help = "join adjacent blocks (including the embedding and the head) into groups of at least "
             "this many parameters, which are gathered, reduced and updated together; 0: each "
             "block is a group; does not change results with reduction: canonical"},
    {"parallel.keep_below_params", CONFIG_COUNT, AT(parallel.keep_below_params), "0", 0, 1 << 30,
     .help = "do not shard blocks (including the embedding and the head) with fewer parameters "
             "than this"},
    {"parallel.prefetch", CONFIG_COUNT, AT(parallel.prefetch), "1", 0, 64,
     .help = "sharded weights: number of blocks to gather ahead of use; does not change results"},
    {"parallel.groups_at_once", CONFIG_COUNT, AT(parallel.groups_at_once), "0", 0, 1 << 20,
     .help = "sharded weights: maximum number of blocks whose full weights a rank holds at a time; "
             "0: set by the strategy and prefetch; does not change results"},
    {"parallel.bucket", CONFIG_SIZE, AT(parallel.bucket_bytes), "8MiB", 1, 1e12,
     .help = "size of the buckets in which gradients are sent; does not change results with "
             "reduction: canonical"},
    {"parallel.reduction", CONFIG_CHOICE, AT(parallel.reduction), "canonical",
     .choices = reduction_names,
     .help = "how to add the gradients of micro-batches; canonical: same bits on any number of "
             "ranks; fast: no such guarantee, but less memory, and on one rank less time"},
    {"parallel.compression.type", CONFIG_CHOICE, AT(parallel.compression.type), "none",
     .choices = compression_names,
     .help = "gradient compression, with reduction: fast and ddp; powersgd: send each matrix as a "
             "product of two low-rank matrices"},
    {"parallel.compression.rank", CONFIG_COUNT, AT(parallel.compression.rank), "1", 1, 1024,
     .help = "powersgd: columns of the low-rank matrices"},
    {"parallel.compression.start_step", CONFIG_COUNT, AT(parallel.compression.start_step), "10", 0,
     COUNT_MAX, .help = "updates before compression starts"},
    {"parallel.compression.min_rate", CONFIG_REAL, AT(parallel.compression.min_rate), "2", 0, 1e6,
     .help = "powersgd: minimum compression ratio; matrices below it are sent uncompressed"},
    {"parallel.compression.error_feedback", CONFIG_BOOL, AT(parallel.compression.error_feedback),
     "true",
     .help = "powersgd: add the compression error to the next gradient; needs another buffer for "
             "all gradients"},
    {"parallel.compression.warm_start", CONFIG_BOOL, AT(parallel.compression.warm_start), "true",
     .help = "powersgd: start each update from the low-rank matrices of the previous one"},
    {"parallel.local_sgd.steps", CONFIG_COUNT, AT(parallel.local_sgd.steps), "0", 0, COUNT_MAX,
     .help =
         "with reduction: fast and ddp, ranks apply their own gradients, and average weights after "
         "this many updates and before each evaluation and save; 0: gradients are summed"},
    {"parallel.comm", CONFIG_CHOICE, AT(parallel.comm), "auto", .choices = comm_names,
     .help = "transport of weights and gradients between GPUs; host: through host memory, so ranks "
             "can share a GPU; nccl: directly; auto: nccl if each rank has its own GPU; does not "
             "change results"},
    {"parallel.mixed", CONFIG_CHOICE, AT(parallel.mixed), "refuse", .choices = mixed_names,
     .help = "ranks with different compute kernels (processors, GPUs or libraries); refuse: end "
             "the run before its first step; allow: train without bit-identical results, and "
             "record every rank's numerics_id in checkpoints"},
    {"parallel.timeout", CONFIG_DURATION, AT(parallel.timeout_ns), "10min", 0, 1e18,
     .help = "maximum time that ranks wait for another in a step before the run ends; 0: no limit. "
             "In saves and loads it applies only to ranks that do not respond"},
    {"parallel.check_sync", CONFIG_COUNT, AT(parallel.check_sync), "0", 0, COUNT_MAX,
     .help = "updates between checks for flipped bits: ranks compare replicated state with each "
             "other, and state that only they hold with its earlier value; 0: never"},
    {"parallel.debug", CONFIG_BOOL, AT(parallel.debug), "false",
     .help = "compare each collective call across ranks to find where they diverge; slow; does not "
             "change results"},
    {"parallel.offload.optimizer", CONFIG_BOOL, AT(parallel.offload.optimizer), "false",
     .help = "keep the moments, and with bf16 and fp16 the fp32 weights, in pinned host memory; "
             "does not change results"},
    {"parallel.offload.params", CONFIG_BOOL, AT(parallel.offload.params), "false",
     .help = "keep weights in pinned host memory and copy blocks to the device when needed; "
             "requires a strategy that shards weights, also on one rank; does not change results"},

    {"checkpoint.dir", CONFIG_PATH, AT(checkpoint.dir), "\"\"", MAY_DIFFER, WRITTEN,
     .help = "checkpoint folder; empty: ckpt in run.dir"},
    {"checkpoint.shared", CONFIG_BOOL, AT(checkpoint.shared), "true",
     .help = "whether all nodes see the same checkpoint folder; false: each node has its own, for "
             "the files of its ranks"},
    {"checkpoint.layout", CONFIG_CHOICE, AT(checkpoint.layout), "sharded", .choices = layout_names,
     .help = "sharded: one file per rank; full: the weights in one model.safetensors, written by "
             "all ranks, and the optimizer's state in one file per rank"},
    {"checkpoint.every", CONFIG_INTERVAL, AT(checkpoint.every), "500", 0, COUNT_MAX,
     .help = "updates between saves, or a time such as 15min; 0: only at the end"},
    {"checkpoint.on_epoch_end", CONFIG_BOOL, AT(checkpoint.on_epoch_end), "false",
     .help = "also save at the end of each epoch of the training data"},
    {"checkpoint.async", CONFIG_BOOL, AT(checkpoint.async), "true",
     .help = "continue training while a checkpoint is written"},
    {"checkpoint.keep.last", CONFIG_COUNT, AT(checkpoint.keep.last), "3", 0, COUNT_MAX,
     .help = "number of newest checkpoints to keep; 0: all"},
    {"checkpoint.keep.every", CONFIG_COUNT, AT(checkpoint.keep.every), "0", 0, COUNT_MAX,
     .help = "also keep checkpoints whose step is a multiple of this; 0: none"},
    {"checkpoint.keep.best.metric", CONFIG_CHOICE, AT(checkpoint.keep.best.metric), "val_loss",
     .choices = metric_names,
     .help = "metric that ranks the best checkpoints; every evaluated step is then saved"},
    {"checkpoint.keep.best.mode", CONFIG_CHOICE, AT(checkpoint.keep.best.mode), "min",
     .choices = mode_names, .help = "whether the smallest or the largest metric is best"},
    {"checkpoint.keep.best.count", CONFIG_COUNT, AT(checkpoint.keep.best.count), "0", 0, COUNT_MAX,
     .help = "number of best checkpoints to also keep; 0: none"},
    {"checkpoint.staging", CONFIG_SIZE_AUTO, AT(checkpoint.staging_bytes), "auto", 4 << 20, 1e15,
     .help = "memory for writing a checkpoint and for copies made before updates; auto: 64 MiB, or "
             "with a GPU the size of the checkpoint up to 1 GiB. Each block takes 1 MiB, even "
             "short ones of layout full"},
    {"checkpoint.owner", CONFIG_CHOICE, AT(checkpoint.owner), "auto", .choices = owner_names,
     .help = "how to keep a second run out of the folder; lock: a kernel lock; lease: renewed "
             "every 5 s, for storage shared between machines; auto: depends on the file system"},
    {"checkpoint.resume", CONFIG_CHOICE, AT(checkpoint.resume), "auto", .choices = resume_names,
     .help = "auto: resume from the newest complete checkpoint in the folder; never: fail if there "
             "is one; --resume takes precedence"},
    {"checkpoint.on_save_error", CONFIG_CHOICE, AT(checkpoint.on_save_error), "continue",
     .choices = save_error_names, .help = "what to do after a failed save"},
    {"checkpoint.on_damage", CONFIG_CHOICE, AT(checkpoint.on_damage), "fallback",
     .choices = damage_names,
     .help = "if the newest checkpoint is damaged: fallback: warn and resume from the newest "
             "undamaged one; stop: end the run"},

    {"eval.every", CONFIG_COUNT, AT(eval.every), "500", 0, COUNT_MAX,
     .help = "updates between evaluations; 0: only at the end"},
    {"early_stop.patience", CONFIG_COUNT, AT(early_stop.patience), "0", 0, COUNT_MAX,
     .help = "number of consecutive evaluations without improvement that ends the run; 0: never"},
    {"early_stop.min_delta", CONFIG_REAL, AT(early_stop.min_delta), "0", 0, 1e9,
     .help = "an evaluation counts as better if it beats the best earlier one by more than this"},
    {"early_stop.metric", CONFIG_CHOICE, AT(early_stop.metric), "val_loss", .choices = metric_names,
     .help = "metric to compare; val_loss: smaller is better; val_accuracy: larger is better"},
    {"log.every", CONFIG_COUNT, AT(log.every), "10", 1, COUNT_MAX, MAY_DIFFER,
     .help = "updates between progress lines"},
    {"log.jsonl", CONFIG_PATH, AT(log.jsonl), "\"\"", MAY_DIFFER, WRITTEN,
     .help = "metrics file; empty: metrics.jsonl below run.dir"},
    {"log.tensorboard", CONFIG_PATH, AT(log.tensorboard), "\"\"", MAY_DIFFER, WRITTEN,
     .help = "folder for the same metrics as TensorBoard event files, in its subfolders train and "
             "validation; empty: none"},
};

const char *config_device_name(uint32_t device)
{
    return device_names[device];
}

bool config_is_null_device(const struct train_config *config)
{
    return strcmp(config_device_name(config->device), "null") == 0;
}

const char *config_metric_name(uint32_t metric)
{
    return metric_names[metric];
}

const struct config_field *config_fields(size_t *ret_count)
{
    *ret_count = sizeof fields / sizeof fields[0];
    return fields;
}

/* Users often pass a dataset's folder instead of a configuration. */
static int reject_folder(struct io *io, const char *path, struct err *err)
{
    struct io_stat info;
    if (io->names->stat(io, path, &info, NULL) || info.kind != IO_ENTRY_FOLDER)
        return 0;
    err_set(err, -EINVAL, "the configuration is a folder");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "a YAML file");
    err_advise(err, "put the path of a dataset under data.train in that file");
    return -EINVAL;
}

int config_load(const char *path, const char *const *sets, size_t sets_count,
                struct train_config *ret_config, struct err *err)
{
    enum { CONFIG_BYTES_MAX = 1 << 20 };
    struct io *io;
    char *text = NULL;
    size_t bytes = 0;
    int status = io_open(path, NULL, &io, err);
    if (status)
        return status;
    status = reject_folder(io, path, err);
    if (!status)
        status = io_read_file(io, path, CONFIG_BYTES_MAX, &text, &bytes, err);
    io_close(io);
    if (!status)
        status = config_parse(text, bytes, path, sets, sets_count, ret_config, err);
    free(text);
    return status;
}
