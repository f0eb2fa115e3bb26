/*
 * resume — see resume.h.
 */
#include "trainer/run/resume.h"

#include "base/json/jsonx.h"
#include "ckpt/format/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config_comparison {
    const struct run *run;
    const char *path;
    uint64_t refused_count;
    struct err *err;
};

static void report_difference(void *context, const struct config_field *field, const char *saved,
                              const char *now)
{
    struct config_comparison *comparison = context;
    bool is_path = strcmp(field->key, "run.dir") == 0 || strcmp(field->key, "checkpoint.dir") == 0;
    if (!field->fixed_on_resume) {
        if (!is_path)
            run_log(comparison->run, "%s was %s, is now %s", field->key, saved, now);
        return;
    }
    if (comparison->refused_count++ > 0)
        return;
    err_set(comparison->err, -EINVAL, "%s cannot change in the middle of a run", field->key);
    err_at(comparison->err, comparison->path, ERR_NO_OFFSET);
    err_expected(comparison->err, "%s", saved);
    err_found(comparison->err, "%s", now);
    err_advise(comparison->err, "set it back, or start a new run with a different run.dir");
}

/* batch.accumulation would resolve differently on a different number of ranks. */
static void restore_batch(struct run *run, const struct json_t *saved)
{
    uint64_t micros_per_step =
        run->original_config->batch.accumulation * (uint64_t)run->ranks.comm->ranks;
    config_restore_batch(run->original_config, saved);
    uint64_t global = run->original_config->batch.global, micro = run->original_config->batch.micro;
    bool is_kept = micros_per_step > 0 && run->original_config->batch.accumulation == 0;
    if (is_kept && global / micro != micros_per_step)
        run_log(run,
                "batch: %" PRIu64 " samples per update in micro-batches of %" PRIu64
                ", as when the run began, regardless of batch.accumulation on these ranks",
                global, micro);
}

/* Defaults of the configuration change with the version, so this comes before comparing them. */
static int check_order_version(const struct json_t *state, const char *path, struct err *err)
{
    uint64_t version;
    int status = jsonx_get_u64(jsonx_get(state, "loader"), "order_version", &version, path, err);
    if (status || version == ORDER_VERSION)
        return status;
    err_set(err, -EINVAL, "the run was begun with another version of the order of samples");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "order version %u", (unsigned)ORDER_VERSION);
    err_found(err, "order version %" PRIu64, version);
    err_advise(err, "finish the run with the version of millrace that began it, or begin a new run "
                    "with its weights (model.init)");
    return -EINVAL;
}

static int refuse_other_storage(const struct run *run, struct err *err)
{
    err_set(err, -EXDEV, "the checkpoint to resume from is not on the storage of run.dir");
    err_at(err, run->options->resume_path, ERR_NO_OFFSET);
    err_advise(err, "copy it with `millrace ckpt copy`, and resume from the copy");
    return -EXDEV;
}

int resume_find(struct run *run, struct ckpt_reader **ret_reader, char path[IO_PATH_BYTES_MAX],
                struct err *err)
{
    const struct ckpt_find_options find_options = {
        .below = run->saving.damaged_steps.before_step,
        .stop_at_damage = run->config->checkpoint.on_damage == CONFIG_DAMAGE_STOP,
    };
    char search_path[IO_PATH_BYTES_MAX];
    int status = 0;
    if (run->options->resume == CONFIG_RESUME_PATH &&
        !io_serves(run->io, run->options->resume_path))
        return refuse_other_storage(run, err);
    if (run->options->resume == CONFIG_RESUME_PATH)
        status = ckpt_resolve_folder(run->io, run->options->resume_path, search_path, err);
    else
        strcpy(search_path, run->saving.folder);
    if (!status)
        status = ckpt_reader_open_collective(run->io, search_path, &find_options, run->ranks.comm,
                                             ret_reader, run->options->log, err);
    if (status == -ENOENT && *run->saving.damaged_steps.newest_path) {
        err_set(err, -EBADMSG, "no checkpoint is left to resume from: all are damaged");
        err_at(err, search_path, ERR_NO_OFFSET);
        err_advise(err, "restore one from a copy, or move the folder away to start over");
        return -EBADMSG;
    }
    if (status == -EBADMSG && find_options.stop_at_damage)
        err_advise(
            err, "set checkpoint.on_damage to fallback, or resume from another step with --resume");
    if (status == -ENOENT && run->options->resume != CONFIG_RESUME_PATH) {
        err_clear(err); /* no checkpoint: a new run */
        return 0;
    }
    if (status)
        return status;
    strcpy(path, ckpt_reader_path(*ret_reader));
    if (run->options->resume == CONFIG_RESUME_NEVER) {
        err_set(err, -EEXIST, "the run's folder already holds a checkpoint");
        err_at(err, path, ERR_NO_OFFSET);
        err_advise(err, "resume from it with --resume auto, or give a different run.dir");
        return -EEXIST;
    }
    status = check_order_version(ckpt_reader_state(*ret_reader), path, err);
    if (status)
        return status;
    struct config_comparison comparison = {.run = run, .path = path, .err = err};
    const struct json_t *saved = jsonx_get(ckpt_reader_state(*ret_reader), "config");
    run->step = ckpt_reader_step(*ret_reader);
    restore_batch(run, saved);
    status = config_compare(run->original_config, saved, report_difference, &comparison, err);
    if (status)
        return status;
    return comparison.refused_count > 0 ? -EINVAL : 0;
}

static int find_newest(const struct run *run, char path[IO_PATH_BYTES_MAX], uint64_t *ret_step,
                       struct err *err)
{
    const struct ckpt_find_options any = {.below = UINT64_MAX},
                                   find_options = {.below = run->saving.damaged_steps.before_step};
    int status = ckpt_find_collective(run->io, run->saving.folder, &any, run->ranks.comm, path,
                                      ret_step, NULL, err);
    if (!status && *run->saving.damaged_steps.newest_path &&
        strcmp(path, run->saving.damaged_steps.newest_path) == 0)
        status = ckpt_find_collective(run->io, run->saving.folder, &find_options, run->ranks.comm,
                                      path, ret_step, NULL, err);
    return status;
}

int resume_check_newest(const struct run *run, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    uint64_t newest = 0;
    int status = find_newest(run, path, &newest, err);
    if (status == -ENOENT)
        err_clear(err);
    else if (status)
        return status;
    if (newest == run->step || (run->options->resume == CONFIG_RESUME_PATH && newest < run->step))
        return 0;
    if (run->options->resume == CONFIG_RESUME_PATH) {
        err_set(err, -EEXIST, "the run's folder holds a later checkpoint than the one to resume");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "none after step %" PRIu64, run->step);
        err_advise(err, "give a different run.dir for the new branch, or remove the later steps");
        return -EEXIST;
    }
    err_set(err, -EAGAIN, "another run saved a checkpoint here a moment ago");
    err_at(err, path, ERR_NO_OFFSET);
    err_advise(err, "run the same command again");
    return -EAGAIN;
}

/* Reports the first difference. -EINVAL or -ESTALE. */
static int compare_datasets(const struct run *run, const struct json_t *saved, struct err *err)
{
    const struct loader_dataset *list;
    uint64_t now = loader_datasets(run->data.loader, &list),
             before = jsonx_count(saved) ? jsonx_count(saved) : 1;
    if (now != before) {
        err_set(err, -EINVAL, "the number of training datasets differs from the saved one");
        err_expected(err, "%" PRIu64, before);
        err_found(err, "%" PRIu64, now);
        return -EINVAL;
    }
    for (size_t i = 0; i < jsonx_count(saved); i++) {
        const struct json_t *entry = jsonx_at(saved, i);
        const char *fingerprint = "";
        char found[17];
        uint64_t weight = 0;
        snprintf(found, sizeof found, "%016" PRIx64, list[i].fingerprint);
        if (jsonx_text(jsonx_get(entry, "fingerprint"), &fingerprint) ||
            strcmp(fingerprint, found) != 0) {
            err_set(err, -ESTALE,
                    "data.train[%zu], %.200s, is not the dataset that the run was saved with", i,
                    list[i].path);
            err_expected(err, "fingerprint %.16s", fingerprint);
            err_found(err, "%s", found);
            return -ESTALE;
        }
        if (jsonx_u64(jsonx_get(entry, "weight"), &weight) || weight != list[i].weight) {
            err_set(err, -EINVAL,
                    "the weight of data.train[%zu], %.200s, cannot change in the middle of a run",
                    i, list[i].path);
            err_expected(err, "%" PRIu64 " (all weights divided by their greatest common divisor)",
                         weight);
            err_found(err, "%" PRIu64, list[i].weight);
            return -EINVAL;
        }
    }
    return 0;
}

/* The fingerprint covers shards, but neither class names nor the tokenizer. */
static int check_schema(const struct run *run, const struct json_t *state, const char *path,
                        struct err *err)
{
    struct data_schema saved = {0};
    int status = data_schema_decode(state, path, &saved, err);
    if (!status)
        status = data_schema_compare(&saved, &run->data.reference_schema, err);
    data_schema_deinit(&saved);
    return status;
}

#define ORDER_FORMAT                                                                               \
    "dataset %016" PRIx64 ", order %s, seed %" PRIu64 ", lanes %" PRIu64 ", window %" PRIu64       \
    ", run %" PRIu64

int resume_check_cursor(const struct run *run, const struct cursor *cursor,
                        const struct json_t *state, const char *path, struct err *err)
{
    const struct order_params *saved = &cursor->params, *now = &run->data.shape.order;
    bool same_data =
        cursor->fingerprint == run->data.shape.fingerprint && saved->samples == now->samples;
    bool same_order = saved->kind == now->kind && saved->seed == now->seed &&
                      saved->lanes == now->lanes && saved->window == now->window &&
                      saved->run == now->run;
    if (same_data && same_order)
        return check_schema(run, state, path, err);
    int status = compare_datasets(run, jsonx_get(jsonx_get(state, "loader"), "mix"), err);
    if (status) {
        err_at(err, path, ERR_NO_OFFSET);
        err_advise(err, "resume with the data and the weights that the run began with");
        return status;
    }
    status = same_data ? -EINVAL : -ESTALE;
    err_set(err, status,
            same_data ? "the order of samples differs from the saved one"
                      : "the training data differs from the saved one");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, ORDER_FORMAT, cursor->fingerprint, order_kind_name(saved->kind), saved->seed,
                 saved->lanes, saved->window, saved->run);
    err_found(err, ORDER_FORMAT, run->data.shape.fingerprint, order_kind_name(now->kind), now->seed,
              now->lanes, now->window, now->run);
    err_advise(err, "resume with the data and the order that the run began with");
    return status;
}

/* Non-finite values are saved as null. */
static int read_metric(const struct json_t *metrics, const char *key, double *ret_value)
{
    const struct json_t *value = jsonx_get(metrics, key);
    if (!value || jsonx_kind(value) != JSON_KIND_NULL)
        return jsonx_f64(value, ret_value);
    *ret_value = (double)NAN;
    return 0;
}

static void restore_evaluation(struct run *run, const struct json_t *state)
{
    const struct json_t *metrics = jsonx_get(state, "metrics");
    struct evaluation *e = &run->control.evaluation;
    e->is_present = jsonx_u64(jsonx_get(metrics, "val_step"), &e->step) == 0 &&
                    read_metric(metrics, "val_loss", &e->loss) == 0 &&
                    read_metric(metrics, "val_accuracy", &e->accuracy) == 0;
}

static void restore_window(struct run *run, const struct json_t *state)
{
    const struct json_t *window = jsonx_get(state, "window"), *losses = jsonx_get(window, "losses");
    struct step_totals totals = {0};
    if (jsonx_count(losses) != EXACT_SUM_WORDS ||
        jsonx_u64(jsonx_get(window, "valid_count"), &totals.valid_count))
        return;
    for (int i = 0; i < EXACT_SUM_WORDS; i++)
        if (jsonx_i64(jsonx_at(losses, (size_t)i), &totals.losses.limb[i]))
            return;
    run->queue.window = totals;
}

static int check_optimizer(const struct run *run, const struct json_t *state, const char *path,
                           struct err *err)
{
    const char *saved, *now = optimizer_rule_name(run->update.optimizer.options.rule);
    int status = jsonx_get_string(jsonx_get(state, "optimizer"), "type", &saved, path, err);
    if (status || strcmp(saved, now) == 0)
        return status;
    err_set(err, -EINVAL, "optimizer.type cannot change in the middle of a run");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "%s", saved);
    err_found(err, "%s", now);
    err_advise(err, "set it back, or start a new run with model.init: %.400s", path);
    return -EINVAL;
}

/* Keeps the initial scale if the saved one is missing or invalid. */
static void restore_scaler(struct run *run, const struct json_t *state)
{
    const struct json_t *object = jsonx_get(state, "scaler");
    struct scaler scaler = run->update.scaler;
    if (scaler.is_dynamic && jsonx_f64(jsonx_get(object, "scale"), &scaler.scale) == 0 &&
        jsonx_u64(jsonx_get(object, "clean_steps_count"), &scaler.clean_steps_count) == 0 &&
        jsonx_u64(jsonx_get(object, "overflows_count"), &scaler.overflows_count) == 0 &&
        scaler_is_valid(&scaler))
        run->update.scaler = scaler;
}

/* Ignores the counters of a different metric. */
static void restore_early_stop(struct run *run, const struct json_t *state)
{
    const struct json_t *object = jsonx_get(state, "early_stop");
    struct early_stop stop = run->control.early_stop;
    const char *metric;
    if (stop.options.patience == 0 || jsonx_text(jsonx_get(object, "metric"), &metric) ||
        strcmp(metric, config_metric_name(run->config->early_stop.metric)) != 0 ||
        jsonx_u64(jsonx_get(object, "best_step"), &stop.best_step) ||
        jsonx_u64(jsonx_get(object, "waited_count"), &stop.waited_count))
        return;
    stop.has_best = jsonx_f64(jsonx_get(object, "best"), &stop.best) == 0;
    run->control.early_stop = stop;
    if (early_stop_is_over(&stop))
        run_log(run,
                "this run ended early, after step %" PRIu64 ": early_stop.patience above %" PRIu64
                " continues it",
                run->step, stop.waited_count);
}

/* A step requested by path has no fallback. */
static void record_damage(struct run *run, const char *path)
{
    if (run->options->resume == CONFIG_RESUME_PATH && strcmp(path, run->options->resume_path) == 0)
        return;
    run->saving.damaged_steps.before_step = run->step;
    if (!*run->saving.damaged_steps.newest_path)
        snprintf(run->saving.damaged_steps.newest_path,
                 sizeof run->saving.damaged_steps.newest_path, "%s", path);
}

/* Selects the tensors that this rank holds and the checkpoint contains. */
static int choose_tensors(const struct run *run, const struct manifest *manifest,
                          struct run_tensors *ret_tensors, struct err *err)
{
    uint64_t tensors_count = 0;
    int status = run_tensors_describe(&run->compute, &run->update.optimizer,
                                      run->compute.partition.options.rank, true, ret_tensors, err);
    for (uint64_t i = 0; i < ret_tensors->count && !status; i++) {
        const char *name = ret_tensors->list[i].name;
        bool is_moment = strncmp(name, CKPT_OPTIMIZER_PREFIX, strlen(CKPT_OPTIMIZER_PREFIX)) == 0;
        if (!is_moment || manifest_find_tensor(manifest, name))
            ret_tensors->list[tensors_count++] = ret_tensors->list[i];
    }
    if (!status && tensors_count < ret_tensors->count)
        run_log(run,
                "%" PRIu64 " moments are not in the checkpoint because their parameters were "
                "frozen: they start at zero",
                ret_tensors->count - tensors_count);
    ret_tensors->count = tensors_count;
    return status;
}

int resume_restore(struct run *run, struct ckpt_reader *reader, const char *path, struct err *err)
{
    const struct json_t *state = ckpt_reader_state(reader);
    struct run_tensors tensors = {0};
    int status = check_optimizer(run, state, path, err);
    if (!status)
        status = jsonx_get_u64(jsonx_get(state, "optimizer"), "updates_count",
                               &run->update.optimizer.updates, path, err);
    if (!status)
        status = choose_tensors(run, ckpt_reader_manifest(reader), &tensors, err);
    status = run_ranks_agree(&run->ranks, status, "reading the state", err);
    if (!status)
        status = ckpt_reader_load_collective(reader, run->ranks.comm, tensors.list, tensors.count,
                                             run->compute.device, err);
    run_tensors_deinit(&tensors);
    if (status == -EBADMSG)
        record_damage(run, path);
    if (status)
        return status;
    restore_evaluation(run, state);
    restore_window(run, state);
    restore_scaler(run, state);
    restore_early_stop(run, state);
    const char *saved_id = ckpt_reader_numerics_id(reader);
    if (run->ranks.comm->rank == 0 && strcmp(saved_id, str_text(&run->saving.numerics_id)) != 0)
        log_line(run->options->log, LOG_WARN,
                 "the bits may differ from the run that saved this checkpoint: it used %s, this "
                 "run uses %s",
                 saved_id, str_text(&run->saving.numerics_id));
    run_log(run, "resuming at step %" PRIu64 " from %s", run->step, path);
    const char *warning = reduction_resume_warning(run->update.reduction, saved_id, run->step);
    if (warning)
        run_log(run, "%s", warning);
    return 0;
}
