/*
 * config — the configuration of a training run: defaults, overridden by a YAML file, then by `--set
 * a.b=value`.
 *
 * One table (config_fields) drives parsing, printing, `millrace help config` and the comparison on
 * resume. Errors name file, line and nearest key.
 */
#ifndef MILLRACE_TRAINER_CONFIG_CONFIG_H
#define MILLRACE_TRAINER_CONFIG_CONFIG_H

#include "base/err.h"
#include "base/str.h"
#include "io/io.h"
#include "loader/parts/where.h"
#include "trainer/config/config_value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

enum { CONFIG_TEXT_BYTES_MAX = 1024 };

enum config_damage_policy { CONFIG_DAMAGE_FALLBACK, CONFIG_DAMAGE_STOP };
enum config_save_error_policy { CONFIG_SAVE_ERROR_CONTINUE, CONFIG_SAVE_ERROR_STOP };

enum config_text_mask { CONFIG_MASK_NONE, CONFIG_MASK_DOCUMENT };
enum config_precision { CONFIG_FP32, CONFIG_BF16, CONFIG_FP16 };
enum config_compression { CONFIG_COMPRESSION_NONE, CONFIG_COMPRESSION_POWERSGD };
enum config_schedule_unit { CONFIG_BY_STEP, CONFIG_BY_EPOCH };

enum config_mixed_numerics { CONFIG_MIXED_REFUSE, CONFIG_MIXED_ALLOW };
enum config_comm { CONFIG_COMM_AUTO, CONFIG_COMM_HOST, CONFIG_COMM_NCCL };
enum config_resume_mode { CONFIG_RESUME_AUTO, CONFIG_RESUME_NEVER, CONFIG_RESUME_PATH };

enum config_metric { CONFIG_METRIC_VAL_LOSS, CONFIG_METRIC_VAL_ACCURACY };

/* Structured like the YAML, without data.fields (data_fields.h). "auto" is stored as 0; the code
 * that uses the field resolves it. */
struct train_config {
    struct {
        char dir[IO_PATH_BYTES_MAX];
        uint64_t seed;
        uint64_t steps; /* 0: run.epochs decides */
        uint64_t epochs;
        uint64_t max_time_ns;      /* 0: none */
        uint64_t stop_deadline_ns; /* 0: none */
    } run;
    uint32_t device;  /* see config_device_name */
    uint64_t threads; /* for compute; 0: one per CPU */
    struct {
        struct config_mix train;
        char val[IO_PATH_BYTES_MAX];
        uint32_t order;              /* enum order_kind */
        uint64_t lanes, window, run; /* 0: auto */
        struct {
            char keys[IO_PATH_BYTES_MAX], order[IO_PATH_BYTES_MAX], weights[IO_PATH_BYTES_MAX];
            char where[WHERE_BYTES_MAX], balance[SHARD_NUMBER_NAME_BYTES_MAX];
        } sample; /* "": all samples */
        uint64_t repeat;
        uint64_t workers; /* 0: auto */
        uint64_t memory_bytes;
        uint64_t timeout_ns; /* 0: none */
        struct {
            uint32_t policy; /* enum loader_bad_policy */
            double limit;    /* fraction of delivered samples */
        } bad_samples;
        struct {
            char field[128];
            uint64_t size, max_pixels;
            uint32_t crop; /* enum crop_kind */
            double scale_min, scale_max;
            bool flip;
            struct {
                uint64_t ops, magnitude;
            } randaugment;
            struct {
                double brightness, contrast, saturation, hue;
            } jitter;
            double mixup, cutmix; /* alpha; 0: off */
            double mix_prob, mix_switch_prob;
        } image;
        struct {
            char from[128];
            char path[CONFIG_TEXT_BYTES_MAX];
            char map[IO_PATH_BYTES_MAX];
        } label;
        struct {
            char field[128];
            char tokenizer[IO_PATH_BYTES_MAX]; /* "": the field has tokens */
            char path[CONFIG_TEXT_BYTES_MAX];
            char begin[128], end[128];
            uint64_t block;
            uint32_t mask; /* enum config_text_mask */
        } text;
    } data;
    struct {
        uint32_t type; /* enum model_type */
        uint64_t layers, heads, width, mlp_ratio, patch, classes, vocabulary;
        uint64_t mlp_width, kv_heads, head_dim; /* 0: auto */
        double rope_base, norm_epsilon;
        struct {
            double factor, low_freq_factor, high_freq_factor;
            uint64_t original_max_position_embeddings;
        } rope_scaling;
        bool tied, qk_norm;
        uint64_t recompute, offload;        /* every nth block; 0: none */
        char init[IO_PATH_BYTES_MAX];       /* "": random */
        char freeze[CONFIG_TEXT_BYTES_MAX]; /* patterns, see freeze.h */
    } model;
    struct {
        uint64_t global, micro; /* 0: auto, before config_resolve_batch */
        uint64_t accumulation;  /* micro-batches per rank; 0: auto, or resolved */
        char schedule[256];     /* see epochs.h */
        bool sync_each;
    } batch;
    struct {
        uint32_t type; /* enum update_rule */
        double lr, beta1, beta2, eps, momentum, weight_decay;
        double clip_norm, clip_value; /* 0: none */
        uint64_t base_batch;          /* 0: do not scale learning rates */
        bool nesterov;
    } optimizer;
    struct {
        uint32_t type; /* enum schedule_type */
        uint32_t by;   /* enum config_schedule_unit */
        uint64_t warmup;
        double min_lr;
    } schedule;
    struct {
        uint32_t compute, reduce; /* enum config_precision */
        struct {
            uint64_t first, least, window, hysteresis; /* see scaler.h */
        } loss_scale;
    } precision;
    struct {
        uint32_t strategy, reduction; /* index in strategy_names; enum reduction_kind */
        uint32_t comm;                /* enum config_comm */
        uint32_t mixed;               /* enum config_mixed_numerics */
        uint64_t shard;               /* ranks per copy; 0: from replicate or the strategy */
        uint64_t replicate;           /* copies; 0: from shard */
        uint64_t wrap_min_params;     /* minimum size of a group; 0: one block per group */
        uint64_t keep_below_params;   /* smaller groups are not sharded */
        uint64_t prefetch;            /* number of groups */
        uint64_t groups_at_once;      /* maximum number gathered; 0: from prefetch */
        uint64_t bucket_bytes;
        struct {
            uint32_t type; /* enum config_compression */
            uint64_t rank, start_step;
            double min_rate;
            bool error_feedback, warm_start;
        } compression;
        struct {
            uint64_t steps; /* 0: sum gradients instead */
        } local_sgd;
        uint64_t timeout_ns; /* per collective; 0: none */
        bool debug;
        uint64_t check_sync; /* steps; 0: never */
        struct {
            bool optimizer, params;
        } offload;
    } parallel;
    struct {
        char dir[IO_PATH_BYTES_MAX];  /* "": run.dir/ckpt */
        struct config_interval every; /* 0: only at the end */
        bool shared;
        uint32_t layout; /* enum ckpt_layout */
        bool on_epoch_end;
        struct {
            uint64_t last;  /* 0: all */
            uint64_t every; /* steps; 0: none */
            struct {
                uint32_t metric; /* see config_metric_name */
                uint32_t mode;   /* enum ckpt_metric_mode */
                uint64_t count;  /* 0: none */
            } best;
        } keep;
        bool async;
        uint64_t staging_bytes; /* 0: auto */
        uint32_t resume;        /* enum config_resume_mode: auto or never */
        uint32_t owner;         /* enum io_lock_kind */
        uint32_t on_save_error; /* enum config_save_error_policy */
        uint32_t on_damage;     /* enum config_damage_policy */
    } checkpoint;
    struct {
        uint64_t every; /* steps; 0: only at the end */
    } eval;
    struct {
        uint64_t patience; /* evaluations; 0: never */
        double min_delta;
        uint32_t metric; /* see config_metric_name */
    } early_stop;
    struct {
        uint64_t every;                      /* steps */
        char jsonl[IO_PATH_BYTES_MAX];       /* "": run.dir/metrics.jsonl */
        char tensorboard[IO_PATH_BYTES_MAX]; /* "": no events */
    } log;
};

const struct config_field *config_fields(size_t *ret_count);
const char *config_device_name(uint32_t device); /* in the form that device_open accepts */
/* The null device only counts memory, traffic and operations. */
bool config_is_null_device(const struct train_config *config);
const char *config_metric_name(uint32_t metric); /* the key in a checkpoint's state */

void config_set_defaults(struct train_config *config);
/* Applies the defaults, the file and the sets ("a.b=value"), then checks the result. -EINVAL with
 * file and line. */
int config_load(const char *path, const char *const *sets, size_t sets_count,
                struct train_config *ret_config, struct err *err);
/* Like config_load, for text in memory. name: for messages. */
int config_parse(const char *text, size_t bytes, const char *name, const char *const *sets,
                 size_t sets_count, struct train_config *ret_config, struct err *err);
enum { CONFIG_MICRO_MAX = 65536 };
/* Computes batch.global or batch.micro from batch.accumulation and the number of ranks. -EINVAL
 * on contradictions. */
int config_resolve_batch(struct train_config *config, uint32_t ranks, struct err *err);
/* Restores the batch of a saved config_print_json object, on any number of ranks. */
void config_restore_batch(struct train_config *config, const struct json_t *saved);

/* Instead of a line number: the key is not set, or set by --set. */
enum { CONFIG_LINE_DEFAULT = 0, CONFIG_LINE_SET = -1 };
/* lines: by field, in config_fields' order; NULL: unknown. */
int config_key_line(const int *lines, const char *key);
/* Resets the batch key that batch.accumulation replaces to auto. lines: as for config_key_line. */
void config_clear_derived_batch(struct train_config *config, const int *lines);
/* Returns the key that enables mixing if micro-batches are too small to mix; otherwise NULL. */
const char *config_infeasible_mixing_key(const struct train_config *config);
/* Whether the host neither sums nor converts gradients. */
bool config_gradients_bypass_host(const struct train_config *config);
/* Checks for contradictory fields. lines: as for config_key_line. -EINVAL with name and lines. */
int config_check(const struct train_config *config, const int *lines, const char *name,
                 struct err *err);

/* Prints all fields as YAML. */
void config_print(const struct train_config *config, struct str *out);
/* Prints all fields as one JSON object of "a.b": value. */
void config_print_json(const struct train_config *config, struct str *out);
/* Parses a config_print_json object. Missing keys get their defaults. -EINVAL names an unknown key
 * or wrong value. */
int config_restore(const struct json_t *saved, const char *name, struct train_config *ret_config,
                   struct err *err);
/* value: in YAML syntax. -ENOMEM. */
int config_each_field(const struct train_config *config,
                      void (*visit)(void *context, const struct config_field *field,
                                    const char *value),
                      void *context);
/* Calls report for each field that differs from a config_print_json object. Missing keys count as
 * defaults. -ENOMEM. */
int config_compare(const struct train_config *config, const struct json_t *saved,
                   void (*report)(void *context, const struct config_field *field,
                                  const char *saved_text, const char *current_text),
                   void *context, struct err *err);

#endif
