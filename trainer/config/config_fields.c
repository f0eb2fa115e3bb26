/*
 * config_fields — the table of configuration keys. See config.h.
 */
#include "ckpt/ckpt.h"
#include "io/file_util.h"
#include "loader/loader.h"
#include "trainer/config/config.h"
#include "trainer/config/strategy.h"
#include "trainer/models/model.h"
#include "trainer/ops/scaler.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"
#include "trainer/parallel/reduction.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const device_names[] = {"auto", "cpu", "cuda", "null", NULL};
static const char *const order_names[] = {"shuffle", "full", "sequential", NULL};
static const char *const policy_names[] = {"stop", "substitute", NULL};
static const char *const crop_names[] = {"none", "center", "random", NULL};
#define MODEL(name, NAME) #name,
static const char *const model_names[] = {MODELS(MODEL) NULL};
#undef MODEL
static const char *const schedule_names[] = {"constant", "linear", "cosine", "warmup_linear", NULL};
static const char *const schedule_by_names[] = {"step", "epoch", NULL};
#define ROW(name, ...) #name,
static const char *const optimizer_names[] = {UPDATE_RULES(ROW) NULL};
#undef ROW
static const char *const compute_names[] = {"fp32", "bf16", "fp16", NULL};
static const char *const reduction_names[] = {"canonical", "fast", NULL};
static const char *const compression_names[] = {"none", "powersgd", NULL};
static const char *const comm_names[] = {"auto", "host", "nccl", NULL};
static const char *const mixed_names[] = {"refuse", "allow", NULL};
static const char *const mask_names[] = {"none", "document", NULL};
static const char *const layout_names[] = {"sharded", "full", NULL};
static const char *const owner_names[] = {"auto", "lock", "lease", NULL};
static const char *const damage_names[] = {"fallback", "stop", NULL};
static const char *const metric_names[] = {"val_loss", "val_accuracy", NULL};
static const char *const mode_names[] = {"min", "max", NULL};
static const char *const resume_names[] = {"auto", "never", NULL};
static const char *const save_error_names[] = {"continue", "stop", NULL};

static_assert(ORDER_SHUFFLE == 0 && ORDER_FULL == 1 && ORDER_SEQUENTIAL == 2,
              "order_names is in step");
static_assert(LOADER_BAD_STOP == 0 && LOADER_BAD_SUBSTITUTE == 1, "policy_names is in step");
static_assert(CROP_NONE == 0 && CROP_CENTER == 1 && CROP_RANDOM == 2, "crop_names is in step");
static_assert(CONFIG_MASK_NONE == 0 && CONFIG_MASK_DOCUMENT == 1, "mask_names is in step");
static_assert(CONFIG_MIXED_REFUSE == 0 && CONFIG_MIXED_ALLOW == 1, "mixed_names is in step");
static_assert(CKPT_SHARDED == 0 && CKPT_FULL == 1, "layout_names is in step");
static_assert(IO_LOCK_AUTO == 0 && IO_LOCK_KERNEL == 1 && IO_LOCK_LEASE == 2,
              "owner_names is in step");
static_assert(CONFIG_FP32 == 0 && CONFIG_BF16 == 1 && CONFIG_FP16 == 2, "compute_names is in step");
static_assert(SCHEDULE_CONSTANT == 0 && SCHEDULE_LINEAR == 1 && SCHEDULE_COSINE == 2 &&
                  SCHEDULE_WARMUP_LINEAR == 3,
              "schedule_names is in step");
static_assert(REDUCTION_CANONICAL == 0 && REDUCTION_FAST == 1, "reduction_names is in step");
static_assert(CONFIG_COMPRESSION_POWERSGD == 1, "compression_names is in step");
static_assert(CONFIG_BY_STEP == 0 && CONFIG_BY_EPOCH == 1, "schedule_by_names is in step");

static_assert(CONFIG_RESUME_AUTO == 0 && CONFIG_RESUME_NEVER == 1, "resume_names is in step");
static_assert(CKPT_MIN == 0 && CKPT_MAX == 1, "mode_names is in step");
static_assert(CONFIG_METRIC_VAL_LOSS == 0 && CONFIG_METRIC_VAL_ACCURACY == 1,
              "metric_names is in step");

#define AT(field)                                                                                  \
    .offset = offsetof(struct train_config, field),                                                \
    .bytes = sizeof(((struct train_config *)0)->field)
#define ORDERS     .orders = true
#define MAY_DIFFER .may_differ = true

enum { COUNT_MAX = 1 << 30 };
#define SAMPLES_MAX 281474976710656.0 /* 2^48 */

static const struct config_field fields[] = {
    {"run.dir", CONFIG_PATH, AT(run.dir), "runs/a", MAY_DIFFER,
     .help = "folder of the run: checkpoints and metrics go below it"},
    {"run.seed", CONFIG_COUNT, AT(run.seed), "0", 0, 9e15, ORDERS,
     .help = "key of every random choice"},
    {"run.steps", CONFIG_COUNT, AT(run.steps), "0", 0, COUNT_MAX,
     .help = "updates to make; 0: epochs say"},
    {"run.epochs", CONFIG_COUNT, AT(run.epochs), "0", 0, COUNT_MAX,
     .help = "passes over the training data, where steps is 0"},
    {"run.max_time", CONFIG_DURATION, AT(run.max_time_ns), "0s", 0, 1e18,
     .help = "the run saves and stops with status 75 before so long a time has passed since its "
             "start, as "
             "23h of a "
             "job's 24; 0s: no limit"},
    {"run.stop_deadline", CONFIG_DURATION, AT(run.stop_deadline_ns), "0s", 0, 1e18, MAY_DIFFER,
     .help = "how long a run that is asked to stop may take to end the step and save; then it "
             "gives up, with "
             "status 1; 0s: as long as it takes"},
    {"device", CONFIG_CHOICE, AT(device), "auto", .choices = device_names,
     .help = "what computes; auto: a GPU, or the cpu where there is none (a GPU that can't be used "
             "is an "
             "error); null: nothing, as with --dry-run"},
    {"threads", CONFIG_COUNT_AUTO, AT(threads), "auto", 0, 256, MAY_DIFFER,
     .help = "threads that compute; changes no bit"},

    {"data.train", CONFIG_MIX, AT(data.train), "\"\"", MAY_DIFFER,
     .help = "dataset.json of the training data, its folder, or a pattern of tars; or a list of "
             "{path, weight}: "
             "datasets that are drawn from by weight"},
    {"data.val", CONFIG_PATH, AT(data.val), "\"\"", MAY_DIFFER,
     .help = "the same of the validation data; empty: no evaluation"},
    {"data.order", CONFIG_CHOICE, AT(data.order), "shuffle", .choices = order_names, ORDERS,
     .help = "order of the training samples"},
    {"data.lanes", CONFIG_COUNT, AT(data.lanes), "64", 1, COUNT_MAX, ORDERS,
     .help = "lanes of the shuffle"},
    {"data.window", CONFIG_COUNT_AUTO, AT(data.window), "auto", 0, SAMPLES_MAX, ORDERS,
     .help = "samples a lane that are shuffled together"},
    {"data.run", CONFIG_COUNT_AUTO, AT(data.run), "auto", 0, SAMPLES_MAX, ORDERS,
     .help = "neighbours in a shard that stay neighbours until the windows shuffle them, samples"},
    {"data.workers", CONFIG_COUNT_AUTO, AT(data.workers), "auto", 0, 256, MAY_DIFFER,
     .help = "threads that decode; changes no bit"},
    {"data.memory", CONFIG_SIZE, AT(data.memory_bytes), "256MiB", 1 << 20, 1e15, MAY_DIFFER,
     .help =
         "budget of a loader: batches, read-ahead and scratch; an evaluation has one of its own"},
    {"data.timeout", CONFIG_DURATION, AT(data.timeout_ns), "0s", 0, 1e18, MAY_DIFFER,
     .help = "data that does not come for so long ends the run; 0s: never"},
    {"data.bad_samples.policy", CONFIG_CHOICE, AT(data.bad_samples.policy), "substitute",
     .choices = policy_names, ORDERS, .help = "what happens at a sample that can't be used"},
    {"data.bad_samples.limit", CONFIG_FRACTION, AT(data.bad_samples.limit), "1%", 0, 1,
     .help = "more of an epoch's samples, or of those delivered where they are more, end the run; "
             "of all ranks "
             "together"},
    {"data.image.field", CONFIG_TEXT, AT(data.image.field), "jpg;jpeg;png;webp;ppm", ORDERS,
     .help = "extension of the image member, or some with ; between them: a sample's first counts"},
    {"data.image.size", CONFIG_COUNT, AT(data.image.size), "224", 1, 4096, ORDERS,
     .help = "side of the square that the model sees, pixels"},
    {"data.image.max_pixels", CONFIG_COUNT, AT(data.image.max_pixels), "134217728", 1,
     LOADER_PIXELS_MAX,
     .help =
         "a stored image with more pixels is a bad sample: bounds the memory that decoding takes"},
    {"data.image.crop", CONFIG_CHOICE, AT(data.image.crop), "random", .choices = crop_names, ORDERS,
     .help = "how training images are cut; evaluation takes the centre"},
    {"data.image.scale", CONFIG_PAIR, AT(data.image.scale_min), "[0.08, 1]", 0.001, 1, ORDERS,
     .help = "least and largest part of the image's area that a random crop takes"},
    {"data.image.flip", CONFIG_BOOL, AT(data.image.flip), "true", ORDERS,
     .help = "mirror every other training image, left to right"},
    {"data.image.randaugment.ops", CONFIG_COUNT, AT(data.image.randaugment.ops), "0", 0, 16, ORDERS,
     .help = "RandAugment: random operations on a training image; 0: none"},
    {"data.image.randaugment.magnitude", CONFIG_COUNT, AT(data.image.randaugment.magnitude), "9", 0,
     30, ORDERS, .help = "how strong they are, of 30"},
    {"data.image.jitter.brightness", CONFIG_FRACTION, AT(data.image.jitter.brightness), "0", 0, 1,
     ORDERS,
     .help = "x: a training image is made brighter or darker by a random factor of [1 - x, 1 + x]"},
    {"data.image.jitter.contrast", CONFIG_FRACTION, AT(data.image.jitter.contrast), "0", 0, 1,
     ORDERS, .help = "the same of its contrast"},
    {"data.image.jitter.saturation", CONFIG_FRACTION, AT(data.image.jitter.saturation), "0", 0, 1,
     ORDERS, .help = "the same of its saturation"},
    {"data.image.jitter.hue", CONFIG_FRACTION, AT(data.image.jitter.hue), "0", 0, 0.5, ORDERS,
     .help = "x: its hues are turned by a random part of the circle of [-x, x]"},
    {"data.image.mixup", CONFIG_REAL, AT(data.image.mixup), "0", 0, 100, ORDERS,
     .help = "alpha of mixup: each training image is blended with the one before it in its "
             "micro-batch, "
             "labels too, by a part "
             "of Beta(alpha, alpha); 0: none"},
    {"data.image.cutmix", CONFIG_REAL, AT(data.image.cutmix), "0", 0, 100, ORDERS,
     .help = "alpha of cutmix: a box of that image is pasted instead, its area of Beta(alpha, "
             "alpha); 0: none"},
    {"data.image.mix_prob", CONFIG_FRACTION, AT(data.image.mix_prob), "1", 0, 1, ORDERS,
     .help = "probability that an image is mixed, where mixup or cutmix has an alpha"},
    {"data.image.mix_switch_prob", CONFIG_FRACTION, AT(data.image.mix_switch_prob), "0.5", 0, 1,
     ORDERS, .help = "probability that it is by cutmix, where both have one"},
    {"data.text.field", CONFIG_TEXT, AT(data.text.field), "npy", ORDERS,
     .help = "extension of the token member"},
    {"data.text.block", CONFIG_COUNT, AT(data.text.block), "256", 1, 65536, ORDERS,
     .help = "tokens that a language model sees"},
    {"data.text.mask", CONFIG_CHOICE, AT(data.text.mask), "none", .choices = mask_names, ORDERS,
     .help = "document: a token attends to its own document alone; none: to all before it in the "
             "window"},

    {"model.type", CONFIG_CHOICE, AT(model.type), "vit", .choices = model_names, ORDERS,
     .help = "what is trained"},
    {"model.layers", CONFIG_COUNT, AT(model.layers), "6", 1, 1024, ORDERS,
     .help = "transformer blocks"},
    {"model.heads", CONFIG_COUNT, AT(model.heads), "6", 1, 1024, ORDERS,
     .help = "attention heads; divides width"},
    {"model.width", CONFIG_COUNT, AT(model.width), "384", 1, 65536, ORDERS,
     .help = "features of a token"},
    {"model.mlp_ratio", CONFIG_COUNT, AT(model.mlp_ratio), "4", 1, 64, ORDERS,
     .help = "hidden features of the MLP, times width"},
    {"model.mlp_width", CONFIG_COUNT_AUTO, AT(model.mlp_width), "auto", 0, 1 << 22, ORDERS,
     .help = "hidden features of the MLP; auto: mlp_ratio times width"},
    {"model.kv_heads", CONFIG_COUNT_AUTO, AT(model.kv_heads), "auto", 0, 1024, ORDERS,
     .help = "llama, qwen: key and value heads; divides heads; auto: as many as heads"},
    {"model.head_dim", CONFIG_COUNT_AUTO, AT(model.head_dim), "auto", 0, 4096, ORDERS,
     .help = "llama, qwen: features of a head; auto: width / heads"},
    {"model.rope_base", CONFIG_REAL, AT(model.rope_base), "10000", 1, 1e12, ORDERS,
     .help = "llama, qwen: base of the rotary positions (rope_theta)"},
    {"model.rope_scaling.factor", CONFIG_REAL, AT(model.rope_scaling.factor), "1", 1, 1e6, ORDERS,
     .help =
         "llama, qwen: scaling of rotary positions as in Llama 3.1 (rope_type llama3); 1: none"},
    {"model.rope_scaling.low_freq_factor", CONFIG_REAL, AT(model.rope_scaling.low_freq_factor), "1",
     1e-3, 1e6, ORDERS, .help = "of rope_scaling"},
    {"model.rope_scaling.high_freq_factor", CONFIG_REAL, AT(model.rope_scaling.high_freq_factor),
     "4", 1e-3, 1e6, ORDERS, .help = "of rope_scaling; above low_freq_factor"},
    {"model.rope_scaling.original_max_position_embeddings", CONFIG_COUNT,
     AT(model.rope_scaling.original_max_position_embeddings), "8192", 1, 1 << 24, ORDERS,
     .help = "of rope_scaling: the context before scaling"},
    {"model.norm_epsilon", CONFIG_REAL, AT(model.norm_epsilon), "1e-5", 1e-12, 1, ORDERS,
     .help = "llama, qwen: added to the mean square in norms"},
    {"model.qk_norm", CONFIG_BOOL, AT(model.qk_norm), "false", ORDERS,
     .help = "qwen: true: norms of q and k, as in Qwen3; false: biases of q, k and v, as in Qwen2"},
    {"model.tied", CONFIG_BOOL, AT(model.tied), "false", ORDERS,
     .help = "llama, qwen: the head is the embedding's table (tie_word_embeddings); always so in "
             "gpt2"},
    {"model.patch", CONFIG_COUNT, AT(model.patch), "16", 1, 4096, ORDERS,
     .help = "side of a ViT's patch, pixels; divides data.image.size"},
    {"model.classes", CONFIG_COUNT_AUTO, AT(model.classes), "auto", 0, 1 << 20, ORDERS,
     .help = "classes of a ViT; auto: the dataset's"},
    {"model.vocabulary", CONFIG_COUNT_AUTO, AT(model.vocabulary), "auto", 0, 1 << 24, ORDERS,
     .help = "tokens that a language model knows; auto: the dataset's"},

    {"model.init", CONFIG_PATH, AT(model.init), "\"\"", MAY_DIFFER,
     .help = "weights to begin with: a checkpoint, a safetensors file or a folder of Hugging Face; "
             "empty: "
             "random"},

    {"model.freeze", CONFIG_TEXT, AT(model.freeze), "\"\"",
     .help = "names of parameters that are not trained, as patterns with commas between them, of "
             "which the "
             "last that matches counts: "
             "\"embed.*, blocks.0.*\", or all but the head: \"*, !head.*\""},
    {"model.recompute", CONFIG_COUNT, AT(model.recompute), "0", 0, 1024,
     .help = "every so many blocks one runs its forward pass again in the backward pass, for less "
             "memory; 0: "
             "none; "
             "changes no bit"},
    {"model.offload", CONFIG_COUNT, AT(model.offload), "0", 0, 1024,
     .help = "every so many of the blocks that are not recomputed one keeps its activations in "
             "pinned memory of "
             "the host, for less on the device; 0: none; changes no bit"},

    {"batch.global", CONFIG_COUNT_AUTO, AT(batch.global), "256", 1, COUNT_MAX, ORDERS,
     .help = "samples an update, over all ranks; auto: as batch.accumulation says"},
    {"batch.micro", CONFIG_COUNT_AUTO, AT(batch.micro), "32", 1, CONFIG_MICRO_MAX, ORDERS,
     .help = "samples that are computed at once; divides batch.global; auto: as batch.accumulation "
             "says"},
    {"batch.accumulation", CONFIG_COUNT_AUTO, AT(batch.accumulation), "auto", 1, COUNT_MAX,
     .help = "micro-batches a rank and update, instead of one of the two above; auto: follows from "
             "them and "
             "the ranks; a run goes on with the batch that it began with"},
    {"batch.schedule", CONFIG_TEXT, AT(batch.schedule), "\"\"", ORDERS,
     .help = "EPOCH:TIMES with commas between, EPOCH from 1 on: from that epoch on an update is of "
             "TIMES "
             "times batch.global, which epoch 0, the first, always has; \"4:2, 8:4\""},
    {"batch.sync_each", CONFIG_BOOL, AT(batch.sync_each), "false",
     .help = "reduce gradients after every micro-batch; on one rank nothing changes"},

    {"optimizer.type", CONFIG_CHOICE, AT(optimizer.type), "adamw", .choices = optimizer_names,
     .help = "update rule; sgd has momentum; lion wants a third to a tenth of adamw's learning "
             "rate, betas of [0.9, 0.99] and three to ten times its weight decay"},
    {"optimizer.lr", CONFIG_REAL, AT(optimizer.lr), "3e-4", 0, 1e3,
     .help = "largest learning rate"},
    {"optimizer.base_batch", CONFIG_COUNT, AT(optimizer.base_batch), "0", 0, COUNT_MAX,
     .help =
         "learning rates are those for a global batch of so many samples, and are multiplied by "
         "batch.global over it; 0: they "
         "are taken as they are"},
    {"optimizer.betas", CONFIG_PAIR, AT(optimizer.beta1), "[0.9, 0.95]", 0, 0.9999999,
     .help = "adamw: decay of the two moments; lion: of the update's momentum and of the stored "
             "one"},
    {"optimizer.eps", CONFIG_REAL, AT(optimizer.eps), "1e-8", 0, 1,
     .help = "adamw: added to the root of the second moment"},
    {"optimizer.momentum", CONFIG_REAL, AT(optimizer.momentum), "0.9", 0, 0.9999999,
     .help = "sgd: decay of the momentum; 0: none, and no memory for it"},
    {"optimizer.nesterov", CONFIG_BOOL, AT(optimizer.nesterov), "false",
     .help = "sgd: Nesterov's momentum"},
    {"optimizer.weight_decay", CONFIG_REAL, AT(optimizer.weight_decay), "0.1", 0, 1e3,
     .help = "decay of matrices: adamw's and lion's is decoupled and times the learning rate, sgd "
             "adds it to "
             "the gradient"},
    {"optimizer.clip_norm", CONFIG_REAL, AT(optimizer.clip_norm), "1.0", 0, 1e9,
     .help = "largest norm of all gradients together; 0: no clipping"},
    {"optimizer.clip_value", CONFIG_REAL, AT(optimizer.clip_value), "0", 0, 1e9,
     .help =
         "largest size of each element of the gradient, once the norm is clipped; 0: no clipping"},

    {"schedule.type", CONFIG_CHOICE, AT(schedule.type), "cosine", .choices = schedule_names,
     .help =
         "learning rate after the warm-up; warmup_linear: linear, down to 0 whatever min_lr is"},
    {"schedule.by", CONFIG_CHOICE, AT(schedule.by), "step", .choices = schedule_by_names,
     .help = "the rate changes with each update, or once an epoch; then warmup counts epochs"},
    {"schedule.warmup", CONFIG_COUNT, AT(schedule.warmup), "100", 0, COUNT_MAX,
     .help = "updates, or epochs, of linear warm-up"},
    {"schedule.min_lr", CONFIG_REAL, AT(schedule.min_lr), "3e-5", 0, 1e3,
     .help = "learning rate at the end"},

    {"precision.compute", CONFIG_CHOICE, AT(precision.compute), "fp32", .choices = compute_names,
     .help = "element type of activations and products; bf16 and fp16 (whose loss is scaled) need "
             "a GPU"},
    {"precision.reduce", CONFIG_CHOICE, AT(precision.reduce), "fp32", .choices = compute_names,
     .help = "element type in which gradients travel to the rank that adds them, in fp32: bf16 and "
             "fp16 are half "
             "of the bytes, and give up the promise of the same bits on any number of ranks"},
    {"precision.loss_scale.first", CONFIG_COUNT, AT(precision.loss_scale.first), "65536", 1,
     SCALER_MOST, .help = "fp16: what the loss is scaled by at first, a power of two"},
    {"precision.loss_scale.window", CONFIG_COUNT, AT(precision.loss_scale.window), "2000", 1,
     COUNT_MAX, .help = "fp16: steps without an overflow after which it doubles"},
    {"precision.loss_scale.hysteresis", CONFIG_COUNT, AT(precision.loss_scale.hysteresis), "1", 1,
     COUNT_MAX,
     .help = "fp16: the overflow at which it halves, counted since it doubled last; each later one "
             "halves "
             "it, too"},
    {"precision.loss_scale.least", CONFIG_COUNT, AT(precision.loss_scale.least), "1", 1,
     SCALER_MOST, .help = "fp16: an overflow at so small a scale, a power of two, ends the run"},
    {"parallel.strategy", CONFIG_CHOICE, AT(parallel.strategy), "ddp", .choices = strategy_names,
     .aliases = strategy_aliases,
     .help = "what ranks share of the model's state, hence the memory and the traffic of each: ddp "
             "nothing, "
             "zero1 the moments, zero2 the "
             "gradients too, "
             "zero3 the weights too; also taken: no_shard for ddp, full_shard for zero3, "
             "deepspeed_stage_0 "
             "to 3; changes no bit"},
    {"parallel.shard", CONFIG_COUNT, AT(parallel.shard), "0", 0, 1 << 20,
     .help = "ranks that hold one copy of what is shared together; divides the ranks; 0: all of "
             "them, with "
             "hybrid_shard those of a machine"},
    {"parallel.replicate", CONFIG_COUNT, AT(parallel.replicate), "0", 0, 1 << 20,
     .help = "copies of what is shared: with parallel.shard their product is the ranks, alone it "
             "divides "
             "them; 0: as parallel.shard has it"},
    {"parallel.wrap_min_params", CONFIG_COUNT, AT(parallel.wrap_min_params), "0", 0, 1e12,
     .help = "neighbouring blocks (embedding and head count as such) are joined until they have as "
             "many "
             "parameters: what is gathered, "
             "reduced and updated together; 0: each "
             "is by itself; changes no bit with reduction: canonical"},
    {"parallel.keep_below_params", CONFIG_COUNT, AT(parallel.keep_below_params), "0", 0, 1 << 30,
     .help = "blocks (embedding and head count as such) of fewer parameters are held whole by each "
             "rank"},
    {"parallel.prefetch", CONFIG_COUNT, AT(parallel.prefetch), "1", 0, 64,
     .help = "blocks whose weights are gathered before they are needed, where weights are shared; "
             "changes no "
             "bit"},
    {"parallel.groups_at_once", CONFIG_COUNT, AT(parallel.groups_at_once), "0", 0, 1 << 20,
     .help = "blocks whose weights are whole on a rank at a time, where weights are shared, at "
             "most; 0: "
             "as the strategy and prefetch have it; changes no bit"},
    {"parallel.bucket", CONFIG_SIZE, AT(parallel.bucket_bytes), "8MiB", 1, 1e12,
     .help = "gradients that travel at a time; changes no bit of canonical sums"},
    {"parallel.reduction", CONFIG_CHOICE, AT(parallel.reduction), "canonical",
     .choices = reduction_names,
     .help =
         "how gradients of micro-batches are added: canonical gives the same bits on any number of "
         "ranks; fast takes less memory, with "
         "one rank less time, and gives up that promise"},
    {"parallel.compression.type", CONFIG_CHOICE, AT(parallel.compression.type), "none",
     .choices = compression_names,
     .help = "with reduction fast and ddp, how gradients are made smaller before they travel; "
             "powersgd: "
             "matrices as products of two thin ones"},
    {"parallel.compression.rank", CONFIG_COUNT, AT(parallel.compression.rank), "1", 1, 1024,
     .help = "powersgd: columns of the thin matrices"},
    {"parallel.compression.start_step", CONFIG_COUNT, AT(parallel.compression.start_step), "10", 0,
     COUNT_MAX, .help = "updates before the first whose gradients are compressed"},
    {"parallel.compression.min_rate", CONFIG_REAL, AT(parallel.compression.min_rate), "2", 0, 1e6,
     .help = "powersgd: matrices that would not become so many times smaller travel as they are"},
    {"parallel.compression.error_feedback", CONFIG_BOOL, AT(parallel.compression.error_feedback),
     "true",
     .help = "powersgd: what was left out is added to the next gradient, for one more buffer of "
             "all gradients"},
    {"parallel.compression.warm_start", CONFIG_BOOL, AT(parallel.compression.warm_start), "true",
     .help = "powersgd: an update begins with the thin matrices of the one before"},
    {"parallel.local_sgd.steps", CONFIG_COUNT, AT(parallel.local_sgd.steps), "0", 0, COUNT_MAX,
     .help = "with reduction fast and ddp, each rank updates by its own gradients, and after so "
             "many updates "
             "the weights become the mean over "
             "ranks, as before each evaluation and save; 0: gradients are summed"},
    {"parallel.comm", CONFIG_CHOICE, AT(parallel.comm), "auto", .choices = comm_names,
     .help =
         "the way of weights and gradients between GPUs: host through its memory, which lets ranks "
         "share a GPU, nccl from one to the other; auto: nccl where each rank has a GPU of its "
         "own; changes "
         "no bit"},
    {"parallel.mixed", CONFIG_CHOICE, AT(parallel.mixed), "refuse", .choices = mixed_names,
     .help = "ranks whose processors, GPUs or libraries compute with different kernels: refuse "
             "ends the run "
             "before its first step; allow trains, gives up the promise of the same bits, and "
             "records the "
             "numerics_id of every rank in checkpoints"},
    {"parallel.timeout", CONFIG_DURATION, AT(parallel.timeout_ns), "10min", 0, 1e18,
     .help = "the run ends where ranks wait for one longer than this in a step; 0: they wait for "
             "ever; in saves "
             "and loads they wait as long as the others live, and end where one gives no answer "
             "for this long"},
    {"parallel.check_sync", CONFIG_COUNT, AT(parallel.check_sync), "0", 0, COUNT_MAX,
     .help = "updates between comparisons of what ranks hold alike, and each with what it was, to "
             "find a "
             "flipped bit; 0: never"},
    {"parallel.debug", CONFIG_BOOL, AT(parallel.debug), "false",
     .help = "ranks compare each call that they make together, to find where they differ; slower, "
             "changes no "
             "bit"},
    {"parallel.offload.optimizer", CONFIG_BOOL, AT(parallel.offload.optimizer), "false",
     .help = "keep the moments, and with bf16 and fp16 the fp32 weights, in pinned memory of the "
             "host, for "
             "less on "
             "the device; changes no bit"},
    {"parallel.offload.params", CONFIG_BOOL, AT(parallel.offload.params), "false",
     .help = "keep all weights in pinned memory of the host, whence blocks come to the device when "
             "a pass "
             "needs them, with a strategy "
             "that shares weights, on one rank too; changes no bit"},

    {"checkpoint.dir", CONFIG_PATH, AT(checkpoint.dir), "\"\"", MAY_DIFFER,
     .help = "folder of the checkpoints; empty: ckpt below run.dir"},
    {"checkpoint.shared", CONFIG_BOOL, AT(checkpoint.shared), "true",
     .help = "whether all nodes see the same folder of checkpoints; false: each node has its own, "
             "with the "
             "files of its ranks"},
    {"checkpoint.layout", CONFIG_CHOICE, AT(checkpoint.layout), "sharded", .choices = layout_names,
     .help = "sharded: a file a rank; full: the model's weights in one model.safetensors, which "
             "all ranks "
             "write together, and what the optimizer needs in a file a rank"},
    {"checkpoint.every", CONFIG_PERIOD, AT(checkpoint.every), "500", 0, COUNT_MAX,
     .help = "updates between saves, or the time between them, as 15min; 0: only at the end"},
    {"checkpoint.on_epoch_end", CONFIG_BOOL, AT(checkpoint.on_epoch_end), "false",
     .help = "save where an epoch of the training data ends, too"},
    {"checkpoint.async", CONFIG_BOOL, AT(checkpoint.async), "true",
     .help = "train on while a checkpoint is written"},
    {"checkpoint.keep.last", CONFIG_COUNT, AT(checkpoint.keep.last), "3", 0, COUNT_MAX,
     .help = "newest checkpoints that stay; 0: all"},
    {"checkpoint.keep.every", CONFIG_COUNT, AT(checkpoint.keep.every), "0", 0, COUNT_MAX,
     .help = "those whose step is a multiple of it stay, too; 0: none"},
    {"checkpoint.keep.best.metric", CONFIG_CHOICE, AT(checkpoint.keep.best.metric), "val_loss",
     .choices = metric_names,
     .help = "what the best checkpoints are best by; each evaluation is then saved"},
    {"checkpoint.keep.best.mode", CONFIG_CHOICE, AT(checkpoint.keep.best.mode), "min",
     .choices = mode_names, .help = "whether small or large is good"},
    {"checkpoint.keep.best.count", CONFIG_COUNT, AT(checkpoint.keep.best.count), "0", 0, COUNT_MAX,
     .help = "best checkpoints that stay, too; 0: none"},
    {"checkpoint.staging", CONFIG_SIZE_AUTO, AT(checkpoint.staging_bytes), "auto", 4 << 20, 1e15,
     .help =
         "memory for writing a checkpoint and for copies before updates; auto: 64 MiB, with a GPU "
         "room "
         "for the "
         "whole checkpoint up to 1 GiB. A block takes 1 MiB, also the short ones of layout full"},
    {"checkpoint.owner", CONFIG_CHOICE, AT(checkpoint.owner), "auto", .choices = owner_names,
     .help = "what keeps a second run off the folder: a lock of the kernel, or a lease that is "
             "renewed every "
             "5 s, for storage that "
             "several machines share; auto: by the kind of file system"},
    {"checkpoint.resume", CONFIG_CHOICE, AT(checkpoint.resume), "auto", .choices = resume_names,
     .help = "auto: a run goes on from the newest whole checkpoint of its folder; never: a folder "
             "that holds "
             "one is "
             "an error; --resume wins"},
    {"checkpoint.on_save_error", CONFIG_CHOICE, AT(checkpoint.on_save_error), "continue",
     .choices = save_error_names, .help = "what a run does after a save that failed"},
    {"checkpoint.on_damage", CONFIG_CHOICE, AT(checkpoint.on_damage), "fallback",
     .choices = damage_names,
     .help = "what a run does that finds its newest checkpoint damaged: go on from the newest one "
             "that is "
             "whole, aloud, or stop"},

    {"eval.every", CONFIG_COUNT, AT(eval.every), "500", 0, COUNT_MAX,
     .help = "updates between evaluations; 0: only at the end"},
    {"early_stop.patience", CONFIG_COUNT, AT(early_stop.patience), "0", 0, COUNT_MAX,
     .help = "evaluations in a row without a better one that end the run; 0: it goes to its end"},
    {"early_stop.min_delta", CONFIG_REAL, AT(early_stop.min_delta), "0", 0, 1e9,
     .help = "by how much more than this an evaluation has to beat the best one before it"},
    {"early_stop.metric", CONFIG_CHOICE, AT(early_stop.metric), "val_loss", .choices = metric_names,
     .help = "what they are compared by: val_loss is better small, val_accuracy large"},
    {"log.every", CONFIG_COUNT, AT(log.every), "10", 1, COUNT_MAX, MAY_DIFFER,
     .help = "updates between lines of progress"},
    {"log.jsonl", CONFIG_PATH, AT(log.jsonl), "\"\"", MAY_DIFFER,
     .help = "file of the metrics; empty: metrics.jsonl below run.dir"},
    {"log.tensorboard", CONFIG_PATH, AT(log.tensorboard), "\"\"", MAY_DIFFER,
     .help = "folder of the same metrics as event files for TensorBoard, in train and validation "
             "below it; "
             "empty: none"},
};

const char *config_device_name(uint32_t device)
{
    return device_names[device];
}

bool config_counts_only(const struct train_config *config)
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
static int refuse_folder(struct io *io, const char *path, struct err *err)
{
    struct io_stat info;
    if (io->names->stat(io, path, &info, NULL) || info.kind != IO_ENTRY_FOLDER)
        return 0;
    err_set(err, -EINVAL, "this is a folder, not a configuration");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "a YAML file");
    err_advise(err, "name a dataset in the file, as data.train");
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
    status = refuse_folder(io, path, err);
    if (!status)
        status = io_read_file(io, path, CONFIG_BYTES_MAX, &text, &bytes, err);
    io_close(io);
    if (!status)
        status = config_parse(text, bytes, path, sets, sets_count, ret_config, err);
    free(text);
    return status;
}
