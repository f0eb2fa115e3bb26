/*
 * run_policies — batch size, number of steps, loss scale, learning rate, early stop. See run.h.
 */
#include "trainer/run/run.h"

#include <errno.h>
#include <inttypes.h>

int run_count_steps(struct run *run, uint64_t epoch, struct err *err)
{
    const struct train_config *config = run->config;
    struct epochs *epochs = &run->data.epochs;
    uint64_t batch_max = config->batch.global;
    epochs->samples = run->data.shape.samples;
    for (uint32_t i = 0; i < epochs->changes_count; i++)
        if (epochs->changes[i].multiplier * epochs->initial_batch > batch_max)
            batch_max = epochs->changes[i].multiplier * epochs->initial_batch;
    if (run->data.shape.samples < batch_max) {
        err_set(err, -EINVAL, "the training data is smaller than one batch");
        err_at(err, config->data.train.sources[0].path, ERR_NO_OFFSET);
        err_expected(err, "at least %" PRIu64 " samples", batch_max);
        err_found(err, "%" PRIu64, run->data.shape.samples);
        return -EINVAL;
    }
    uint64_t next = epochs_next_change(epochs, epoch);
    run->steps =
        config->run.steps ? config->run.steps : epochs_first_step(epochs, config->run.epochs);
    uint64_t change_step = next == UINT64_MAX ? UINT64_MAX : epochs_first_step(epochs, next);
    run->control.phase_end_step = change_step < run->steps ? change_step : run->steps;
    return 0;
}

static struct scaler make_scaler(const struct train_config *config, uint64_t rows)
{
    const struct scaler_options options = {
        .initial = (double)config->precision.loss_scale.first,
        .min = (double)config->precision.loss_scale.least,
        .window = config->precision.loss_scale.window,
        .hysteresis = config->precision.loss_scale.hysteresis,
    };
    bool is_dynamic = config->precision.compute == CONFIG_FP16;
    return is_dynamic ? scaler_begin_with(&options, rows) : scaler_begin(false, rows);
}

static double lr_scale(const struct train_config *config)
{
    uint64_t base = config->optimizer.base_batch;
    return base > 0 ? (double)config->batch.global / (double)base : 1;
}

static struct schedule make_schedule(const struct run *run)
{
    const struct train_config *config = run->config;
    double factor = lr_scale(config);
    return (struct schedule){
        .type = (enum schedule_type)config->schedule.type,
        .lr = config->optimizer.lr * factor,
        .min_lr = config->schedule.min_lr * factor,
        .warmup = config->schedule.warmup,
        .steps = run->steps,
        .unit_steps = config->schedule.by == CONFIG_BY_EPOCH ? run->data.shape.steps : 1,
    };
}

void run_init_policies(struct run *run)
{
    const struct train_config *config = run->config;
    run->update.scaler = make_scaler(config, model_rows(run->compute.model));
    run->update.schedule = make_schedule(run);
    run->control.early_stop.options = (struct early_stop_options){
        .patience = config->early_stop.patience,
        .min_delta = config->early_stop.min_delta,
        .wants_largest = config->early_stop.metric == CONFIG_METRIC_VAL_ACCURACY,
    };
    if (config->optimizer.base_batch > 0)
        run_log(run,
                "learning rate: at most %g for a batch of %" PRIu64
                ", scaled from %g for a batch of %" PRIu64,
                run->update.schedule.lr, config->batch.global, config->optimizer.lr,
                config->optimizer.base_batch);
}
