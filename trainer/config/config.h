/*
 * config — what a training run is told: one YAML file, `--set a.b=value` over it, defaults below
 * it.
 *
 * One table of fields (config_fields) drives the parsing, `--set`, the printing, `millrace help
 * config` and the comparison at a resume. Unknown keys, wrong types and contradictions are errors
 * that name file, line and the nearest key.
 */
#ifndef MILLRACE_TRAINER_CONFIG_CONFIG_H
#define MILLRACE_TRAINER_CONFIG_CONFIG_H

#include "base/err.h"
#include "base/str.h"
#include "trainer/config/config_mix.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

enum { CONFIG_TEXT_BYTES_MAX = 1024 };

enum config_damage { CONFIG_DAMAGE_FALLBACK, CONFIG_DAMAGE_STOP };
enum config_save_error { CONFIG_SAVE_ERROR_CONTINUE, CONFIG_SAVE_ERROR_STOP };

/* What a token attends to of those before it in its window. */
enum config_text_mask { CONFIG_MASK_NONE, CONFIG_MASK_DOCUMENT };
enum config_precision { CONFIG_FP32, CONFIG_BF16, CONFIG_FP16 };
enum config_compression { CONFIG_COMPRESSION_NONE, CONFIG_COMPRESSION_POWERSGD };
enum config_schedule_by { CONFIG_BY_STEP, CONFIG_BY_EPOCH };

/* What a run does whose ranks compute with different kernels. */
enum config_mixed { CONFIG_MIXED_REFUSE, CONFIG_MIXED_ALLOW };
enum config_comm { CONFIG_COMM_AUTO, CONFIG_COMM_HOST, CONFIG_COMM_NCCL };
enum config_resume { CONFIG_RESUME_AUTO, CONFIG_RESUME_NEVER, CONFIG_RESUME_PATH };

enum config_metric { CONFIG_METRIC_VAL_LOSS, CONFIG_METRIC_VAL_ACCURACY };

/* How often: by steps, or by the clock. One of them is 0; both: never. */
struct config_period {
    uint64_t steps, ns;
};

/* The effective configuration. Fields stand as in the YAML; 0 in a field documented as "auto" is
 * resolved by who uses it. */
struct train_config {
    struct {
        char dir[CONFIG_TEXT_BYTES_MAX];
        uint64_t seed;
        uint64_t steps; /* 0: epochs say */
        uint64_t epochs;
        uint64_t max_time_ns;      /* 0: none */
        uint64_t stop_deadline_ns; /* 0: none */
    } run;
    uint32_t device;  /* see config_device_name */
    uint64_t threads; /* of compute; 0: one a CPU */
    struct {
        struct config_mix train;
        char val[CONFIG_TEXT_BYTES_MAX];
        uint32_t order;              /* enum order_kind */
        uint64_t lanes, window, run; /* 0: auto */
        uint64_t workers;            /* 0: auto */
        uint64_t memory_bytes;
        uint64_t timeout_ns; /* 0: none */
        struct {
            uint32_t policy; /* enum loader_bad_policy */
            double limit;    /* part of the samples delivered */
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
            double mixup, cutmix; /* alphas; 0: not so */
            double mix_prob, mix_switch_prob;
        } image;
        struct {
            char field[48];
            uint64_t block; /* 0: no text */
            uint32_t mask;  /* enum config_text_mask */
        } text;
    } data;
    struct {
        uint32_t type; /* enum model_type */
        uint64_t layers, heads, width, mlp_ratio, patch, classes, vocabulary;
        uint64_t mlp_width, kv_heads; /* 0: auto */
        double rope_base, norm_epsilon;
        uint64_t recompute, offload;        /* every so many blocks; 0: none */
        char init[CONFIG_TEXT_BYTES_MAX];   /* "": random */
        char freeze[CONFIG_TEXT_BYTES_MAX]; /* patterns, see freeze.h */
    } model;
    struct {
        uint64_t global, micro; /* 0: auto, before config_resolve_batch */
        uint64_t
            accumulation;   /* micro-batches a rank; 0: auto, and so after config_resolve_batch */
        char schedule[256]; /* see epochs.h */
        bool sync_each;
    } batch;
    struct {
        uint32_t type; /* enum update_rule */
        double lr, beta1, beta2, eps, momentum, weight_decay;
        double clip_norm, clip_value; /* 0: none */
        uint64_t base_batch;          /* 0: rates are those of the batch */
        bool nesterov;
    } optimizer;
    struct {
        uint32_t type; /* enum schedule_type */
        uint32_t by;   /* enum config_schedule_by */
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
        uint32_t strategy, reduction; /* a row of strategy_names; enum reduction_kind */
        uint32_t comm;                /* enum config_comm */
        uint32_t mixed;               /* enum config_mixed */
        uint64_t
            shard; /* ranks that hold one copy together; 0: as replicate or the strategy has it */
        uint64_t replicate;         /* copies; 0: as shard has it */
        uint64_t wrap_min_params;   /* units are joined to groups of as many; 0: each is one */
        uint64_t keep_below_params; /* groups of fewer are held whole */
        uint64_t prefetch;          /* groups */
        uint64_t groups_at_once;    /* whole for passes; 0: as prefetch has it */
        uint64_t bucket_bytes;
        struct {
            uint32_t type; /* enum config_compression */
            uint64_t rank, start_step;
            double min_rate;
            bool error_feedback, warm_start;
        } compression;
        struct {
            uint64_t steps; /* 0: gradients are summed */
        } local_sgd;
        uint64_t timeout_ns; /* of a collective; 0: none */
        bool debug;
        uint64_t check_sync; /* steps; 0: never */
        struct {
            bool optimizer, params;
        } offload;
    } parallel;
    struct {
        char dir[CONFIG_TEXT_BYTES_MAX]; /* "": run.dir/ckpt */
        struct config_period every;      /* 0: only at the end */
        bool shared;
        uint32_t layout; /* enum ckpt_layout */
        bool on_epoch_end;
        struct {
            uint64_t last;  /* 0: all */
            uint64_t every; /* steps; 0: none */
            struct {
                uint32_t metric; /* see config_metric_name */
                uint32_t mode;   /* enum ckpt_mode */
                uint64_t count;  /* 0: none */
            } best;
        } keep;
        bool async;
        uint64_t staging_bytes; /* 0: auto */
        uint32_t resume;        /* enum config_resume: auto or never */
        uint32_t owner;         /* enum io_lock_kind */
        uint32_t on_save_error; /* enum config_save_error */
        uint32_t on_damage;     /* enum config_damage */
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
        uint64_t every;                          /* steps */
        char jsonl[CONFIG_TEXT_BYTES_MAX];       /* "": run.dir/metrics.jsonl */
        char tensorboard[CONFIG_TEXT_BYTES_MAX]; /* "": no events */
    } log;
};

enum config_kind {
    CONFIG_TEXT, /* char[bytes] */
    CONFIG_PATH, /* char[bytes]: a path or URL; its scheme must be one that this build serves */
    CONFIG_BOOL,
    CONFIG_COUNT,      /* uint64_t */
    CONFIG_COUNT_AUTO, /* uint64_t, "auto" is 0 */
    CONFIG_SIZE,       /* uint64_t bytes: 64MiB */
    CONFIG_SIZE_AUTO,  /* uint64_t bytes, "auto" is 0 */
    CONFIG_DURATION,   /* uint64_t nanoseconds: 90s, 10min */
    CONFIG_PERIOD,     /* struct config_period: 500, 15min; least and most are of steps */
    CONFIG_REAL,       /* double */
    CONFIG_FRACTION,   /* double: 0.01 or 1% */
    CONFIG_CHOICE,     /* uint32_t: one of choices, by its place */
    CONFIG_PAIR,       /* two adjacent doubles: [0.9, 0.95] */
    CONFIG_MIX,        /* struct config_mix */
};

struct config_alias {
    const char *alias, *choice;
};

/* A row of the table. Immutable. */
struct config_field {
    const char *key; /* "data.image.size" */
    enum config_kind kind;
    size_t offset;              /* in struct train_config */
    size_t bytes;               /* of CONFIG_TEXT and CONFIG_PATH */
    const char *default_text;   /* as it would stand in YAML */
    double least, most;         /* of numbers */
    const char *const *choices; /* NULL-terminated, of CONFIG_CHOICE */
    const struct config_alias
        *aliases; /* other names of choices, which are taken and not listed; ended by a NULL */
    bool
        /* a resume under another value would change the order of samples or the model: refused */
        orders;
    bool
        /* between ranks: it changes neither the result nor what ranks do together, or is a path */
        may_differ;
    const char *help; /* a sentence, with the unit */
};

const struct config_field *config_fields(size_t *ret_count);
const char *config_device_name(uint32_t device); /* as device_open takes it */
/* device: null. Nothing is computed: what a run would take, move and compute is told. */
bool config_counts_only(const struct train_config *config);
const char *config_metric_name(uint32_t metric); /* as a checkpoint's state has it */

void config_set_defaults(struct train_config *config);
/* Defaults, the file, then each of sets ("a.b=value"), then config_check. -EINVAL with file and
 * line. */
int config_load(const char *path, const char *const *sets, size_t sets_count,
                struct train_config *ret_config, struct err *err);
/* The same from text in memory; name serves messages. */
int config_parse(const char *text, size_t bytes, const char *name, const char *const *sets,
                 size_t sets_count, struct train_config *ret_config, struct err *err);
enum { CONFIG_MICRO_MAX = 65536 };
/* batch.global or batch.micro, where batch.accumulation stands for it on so many ranks. -EINVAL
 * where they do not fit. */
int config_resolve_batch(struct train_config *config, uint32_t ranks, struct err *err);
/* The same as a run began with it, on whatever ranks: saved is its configuration, of
 * config_print_json. Nothing changes where that has no batch. */
void config_keep_batch(struct train_config *config, const struct json_t *saved);

/* Where a key of the table was given, beside the numbers of lines. */
enum { CONFIG_BY_DEFAULT = 0, CONFIG_BY_SET = -1 };
/* What batch.accumulation stands for becomes auto, as its default means nothing then. lines: as for
 * config_check. */
void config_mark_batch(struct train_config *config, const int *lines);
/* The key that mixes images of a micro-batch, where that has one image; NULL: none. */
const char *config_lone_mix(const struct train_config *config);
/* Are gradients only moved between ranks, by none of the sums and other types that are the host's?
 * Such may go from GPU to GPU. */
bool config_moves_gradients(const struct train_config *config);
/* Contradictions between fields. lines: of each in config_fields' order, NULL where they are not
 * known. -EINVAL with name and lines. */
int config_check(const struct train_config *config, const int *lines, const char *name,
                 struct err *err);

/* The effective configuration as YAML, every field. */
void config_print(const struct train_config *config, struct str *out);
/* The same as one JSON object of "a.b": value. */
void config_print_json(const struct train_config *config, struct str *out);
/* Reads that object again, as a checkpoint's state has it; name serves messages. Keys that it
 * lacks, from before they existed, get their defaults. -EINVAL names a key or a value of another
 * version. */
int config_restore(const struct json_t *saved, const char *name, struct train_config *ret_config,
                   struct err *err);
/* Calls visit for each field, with the value as YAML. -ENOMEM. */
int config_each(const struct train_config *config,
                void (*visit)(void *context, const struct config_field *field, const char *value),
                void *context);
/* Each field whose value differs from a saved object (of config_print_json), with both values as
 * text; a key that the saved one lacks had its default. -ENOMEM. */
int config_compare(const struct train_config *config, const struct json_t *saved,
                   void (*differs)(void *context, const struct config_field *field,
                                   const char *saved_text, const char *now_text),
                   void *context, struct err *err);

#endif
