/*
 * run_open — opens a run: devices, data, model, memory, checkpoint. See run.h.
 *
 * The order matters: the checkpoint gives the position in the data, the data the model's classes,
 * and the model the layout of the checkpoint's arrays.
 */
#include "trainer/run/run.h"

#include "base/json/jsonx.h"
#include "io/file_util.h"
#include "trainer/config/strategy.h"
#include "trainer/parallel/sync_check.h"
#include "trainer/run/resume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int run_copy_config(struct run *run, const struct train_config *config, struct err *err)
{
    run->original_config = malloc(sizeof *run->original_config);
    run->config = malloc(sizeof *run->config);
    if (!run->original_config || !run->config)
        return err_set(err, -ENOMEM, "out of memory for a run's configuration");
    *run->original_config = *run->config = *config;
    return 0;
}

int run_open_data(struct run *run, struct ckpt_reader *reader, const char *path, struct err *err)
{
    struct cursor cursor = {0};
    int status = reader ? run_decode_cursor(ckpt_reader_state(reader), path, &cursor, err) : 0;
    if (status)
        return status;
    run_data_set_batch(&run->data, run->original_config, cursor.epoch);
    run->config->batch.global = run->data.batching.global;
    struct loader_options options = run_loader_options(run, true);
    if (reader) {
        options.epoch = cursor.epoch;
        options.position = cursor.position;
        /* saved values win over defaults; for other orders than shuffle they mean nothing */
        options.lanes = options.lanes ? options.lanes : cursor.params.lanes;
        options.window = options.window ? options.window : cursor.params.window;
        options.run = options.run ? options.run : cursor.params.run;
        /* each digest is a sum over ranks */
        options.set_digest = run->ranks.comm->rank == 0 ? cursor.set_digest : 0;
        options.sequence_digest = run->ranks.comm->rank == 0 ? cursor.sequence_digest : 0;
    }
    status = loader_open(&options, &run->data.loader, err);
    if (status)
        return status;
    const struct loader_shape shape = loader_shape(run->data.loader);
    run_data_set_shape(&run->data, &shape, run->config);
    run->data.reference_schema = *loader_schema(run->data.loader);
    if (reader &&
        (status = resume_check_cursor(run, &cursor, ckpt_reader_state(reader), path, err)))
        return status;
    return run_count_steps(run, cursor.epoch, err);
}

int run_open_model(struct run *run, bool is_training, struct err *err)
{
    const struct train_config *c = run->config;
    if (c->model.type == MODEL_VIT && c->model.classes == 0)
        return err_set(err, -EINVAL,
                       "the data has no class names: set model.classes to the number of classes");
    if (c->model.type != MODEL_VIT && c->model.vocabulary == 0)
        return err_set(err, -EINVAL, "the data has no vocabulary: set model.vocabulary");
    const struct model_config config = run_model_config(run, is_training);
    int status =
        model_open(&config, run->compute.ops, run->data.batching.micro, &run->compute.model, err);
    if (status)
        return status;
    run->compute.params = model_params(run->compute.model);
    run->compute.stage = (struct model_stage){
        .blocks_count = config.layers, .has_embedding = true, .has_head = true};
    const struct batch_upload_options upload = run_batch_upload_options(run);
    const struct partition_options shards = run_partition_options(run, is_training);
    status = partition_init(&run->compute.partition, &shards, run->compute.params, err);
    if (status)
        return status;
    if (run->check_memory)
        status = run->check_memory(run, is_training, err);
    if (!status)
        status = run_open_weights(run, err);
    if (!status)
        status = run_compute_allocate(&run->compute, is_training, err);
    if (!status)
        status = run_queue_open(&run->queue, run->compute.ops, err);
    return status ? status : batch_upload_init(&run->data.upload, &upload, run->compute.ops, err);
}

int run_open_optimizer(struct run *run, struct err *err)
{
    run_init_policies(run);
    const struct optimizer_options optimizer = run_optimizer_options(run);
    const struct reduction_options reduction = run_reduction_options(run);
    int status = reduction_open(&reduction, &run->update.reduction, err);
    if (!status)
        status = run_open_averaging(run, err);
    if (!status) /* one graph per buffer written */
        status =
            ops_graph_init(&run->compute.pass_graphs, run->compute.ops,
                           (reduction_buffers_count(&reduction) + 1) * BATCH_UPLOAD_VARIANTS, err);
    if (!status)
        status = ops_graph_init(&run->update.sum_squares, run->compute.ops, 1, err);
    if (!status)
        status = optimizer_init(&run->update.optimizer, &optimizer, run->compute.ops,
                                &run->compute.partition, err);
    return status;
}

static int open_metrics(struct run *run, struct err *err)
{
    char path[IO_PATH_BYTES_MAX], folder[IO_PATH_BYTES_MAX];
    int status = 0;
    if (run->ranks.comm->rank != 0)
        return 0;
    if (run->config->log.jsonl[0])
        snprintf(path, sizeof path, "%s", run->config->log.jsonl);
    else
        status = io_join_path(run->config->run.dir, "metrics.jsonl", path, err);
    if (status)
        return status;
    io_parent_path(path, folder);
    status = run->io->names->make_folder(run->io, folder, err);
    const struct metrics_options options = {
        .path = path,
        .tensorboard = run->config->log.tensorboard,
        .resume = {run->step,
                   run->control.evaluation.is_present && run->control.evaluation.step == run->step},
    };
    return status ? status : metrics_open(run->io, &options, &run->metrics, err);
}

static int open_ops(struct run *run, struct err *err)
{
    const struct train_config *c = run->config;
    int status = run_open_device(run, err);
    if (!status)
        status = ops_open(run->compute.device, run_dtype_of_precision(c->precision.compute),
                          run_threads_count(run), &run->compute.ops, err);
    return status;
}

static int open_ranks(struct run *run, struct err *err)
{
    run->ranges.comm = run->options->comm;
    run->ranges.step = &run->step;
    return run_ranks_open(&run->ranks, run->options->comm, run->config, err);
}

static int find_checkpoint(struct run *run, struct ckpt_reader **ret_reader,
                           char path[IO_PATH_BYTES_MAX], struct err *err)
{
    const struct train_config *c = run->config;
    int status = 0;
    if (c->checkpoint.dir[0])
        snprintf(run->saving.folder, sizeof run->saving.folder, "%s", c->checkpoint.dir);
    else
        status = io_join_path(c->run.dir, CKPT_FOLDER_NAME, run->saving.folder, err);
    return status ? status : resume_find(run, ret_reader, path, err);
}

static int open_compute(struct run *run, struct err *err)
{
    struct train_config *c = run->config;
    int status = config_resolve_batch(run->original_config, (uint32_t)run->ranks.comm->ranks, err);
    if (status)
        return status;
    c->batch = run->original_config->batch;
    run->data.batching =
        run_batching(c, (uint32_t)run->ranks.comm->rank, (uint32_t)run->ranks.comm->ranks, true);
    status = batching_check(&run->data.batching, err);
    /* opens the device before the loader's threads start: see trainer/ops/cpu/blas.h */
    return status ? status : open_ops(run, err);
}

static int open_data_and_model(struct run *run, struct ckpt_reader *reader, const char *path,
                               struct err *err)
{
    const struct train_config *c = run->config;
    int status = run_open_data(run, reader, path, err);
    if (!status)
        status = run_probe_validation(run, err);
    if (!status)
        status = run_open_model(run, true, err);
    if (!status)
        status = run_open_optimizer(run, err);
    if (!status && !reader)
        status = run_init_weights(run, c->model.init[0] ? c->model.init : NULL, err);
    return status;
}

/* This run now owns the folder. */
static int open_state(struct run *run, struct ckpt_reader *reader, const char *path,
                      struct err *err)
{
    int status = resume_check_newest(run, err);
    if (!status && reader)
        status = resume_restore(run, reader, path, err);
    if (!status)
        status = run_queue_init_clip(&run->queue, &run->update.scaler,
                                     run->update.optimizer.updates, err);
    if (!status)
        status = open_metrics(run, err);
    return status;
}

int run_connect(struct run *run, struct err *err)
{
    int status = weights_connect(&run->compute.weights, err);
    if (!status)
        status = reduction_connect(run->update.reduction, err);
    if (!status && run_uses_local_sgd(run))
        status = rank_sum_connect(&run->update.averaging, err);
    status = run_ranks_agree(&run->ranks, status, "connecting", err);
    if (status)
        return status;
    status = weights_open_gather(&run->compute.weights, err);
    if (!status)
        status = reduction_open_exchange(run->update.reduction, err);
    return run_ranks_agree(&run->ranks, status, "connecting", err);
}

static int open_run_parts(struct run *run, struct ckpt_reader **reader, struct err *err)
{
    char path[IO_PATH_BYTES_MAX] = "";
    int status = open_ranks(run, err);
    if (status)
        return status;
    status = find_checkpoint(run, reader, path, err);
    if (!status)
        status = open_compute(run, err);
    status = run_ranks_agree(&run->ranks, status, "opening the device", err);
    if (!status)
        status = run_count_shards(run, err);
    if (!status)
        status = run_open_bulk_comm(run, err);
    if (status)
        return status;
    status = open_data_and_model(run, *reader, path, err);
    status = run_ranks_agree(&run->ranks, status, "opening the data and the model", err);
    if (!status)
        status = run_compare_data(run, run->data.loader, "data.train", err);
    if (!status)
        status = run_connect(run, err);
    if (!status)
        status = run_open_saver(run, err);
    if (status)
        return status;
    status = open_state(run, *reader, path, err);
    if (!status && run->config->parallel.check_sync > 0)
        status = run_open_sync_check(run, err);
    status = run_ranks_agree(&run->ranks, status, "restoring the state", err);
    if (status)
        return status;
    status = weights_refresh(&run->compute.weights, err);
    if (status) /* other ranks may wait for this rank */
        run_abort(run, status, err);
    return status;
}

static int read_validation_shape(struct run *run, struct err *err)
{
    struct train_config *c = run->config;
    if (!c->data.val[0]) {
        err_set(err, -EINVAL, "there is no validation data");
        err_advise(err, "set data.val");
        return -EINVAL;
    }
    struct loader_options options = run_loader_options(run, false);
    struct loader *loader;
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    const struct loader_shape shape = loader_shape(loader);
    run_data_set_shape(&run->data, &shape, c);
    run->data.validation_fingerprint = shape.fingerprint;
    /* numerics_id is built from library names in the loader's memory */
    status = run_describe_numerics(run, err);
    loader_close(loader);
    return status;
}

/* If `from` is a checkpoint, uses its classes and tokenizer, and with batch.accumulation its batch.
 * Collective. */
static int inherit_from_checkpoint(struct run *run, const char *from, struct err *err)
{
    const struct ckpt_find_options any = {.below = UINT64_MAX};
    struct ckpt_reader *reader = NULL;
    struct io *own_io = NULL;
    if (!io_serves(run->io, from) && io_open(from, NULL, &own_io, NULL))
        return 0;
    if (ckpt_reader_open_collective(own_io ? own_io : run->io, from, &any, run->ranks.comm, &reader,
                                    NULL, NULL)) {
        io_close(own_io);
        return 0;
    }
    const struct json_t *state = ckpt_reader_state(reader);
    config_restore_batch(run->original_config, jsonx_get(state, "config"));
    int status = data_schema_decode(state, from, &run->data.saved_schema, err);
    ckpt_reader_close(reader);
    io_close(own_io);
    run->data.reference_schema = run->data.saved_schema.schema;
    if (!status && !run->data.saved_schema.is_recorded)
        run_log(run,
                "%s records no class names and no tokenizer: they cannot be compared with those of "
                "data.val",
                from);
    return status;
}

static int open_for_evaluation(struct run *run, const char *from, struct err *err)
{
    struct train_config *c = run->config;
    int status =
        run->original_config->batch.micro > 0
            ? 0
            : config_resolve_batch(run->original_config, (uint32_t)run->ranks.comm->ranks, err);
    if (status)
        return status;
    c->batch = run->original_config->batch;
    run->data.batching =
        run_batching(c, (uint32_t)run->ranks.comm->rank, (uint32_t)run->ranks.comm->ranks, false);
    status = open_ops(run, err);
    if (!status)
        status = read_validation_shape(run, err);
    if (!status)
        status = run_open_model(run, false, err);
    if (!status)
        status = run_init_weights(run, from, err);
    if (!status)
        status = weights_refresh(&run->compute.weights, err);
    return status;
}

int run_open_for_evaluation(struct run *run, const struct trainer_options *options,
                            run_memory_check *check_memory, const char *from, struct err *err)
{
    *run = (struct run){.options = options, .io = options->io, .check_memory = check_memory};
    int status = run_copy_config(run, options->config, err);
    if (!status)
        status = open_ranks(run, err);
    if (!status)
        status = run_ranks_agree(&run->ranks, inherit_from_checkpoint(run, from, err),
                                 "reading the checkpoint's state", err);
    if (!status)
        status = run_ranks_agree(&run->ranks, open_for_evaluation(run, from, err),
                                 "opening the data and the model", err);
    if (!status)
        status = run_compare_data(run, NULL, NULL, err);
    if (!status)
        status = run_compare_numerics(run, err);
    if (status)
        run_close(run);
    return status;
}

static int open_from_newest(struct run *run, const struct trainer_options *options,
                            run_memory_check *check_memory, struct damaged_steps *damaged,
                            struct err *err)
{
    *run = (struct run){.options = options,
                        .io = options->io,
                        .check_memory = check_memory,
                        .saving.damaged_steps = *damaged};
    struct ckpt_reader *reader = NULL;
    int status = run_copy_config(run, options->config, err);
    if (!status)
        status = open_run_parts(run, &reader, err);
    ckpt_reader_close(reader);
    *damaged = run->saving.damaged_steps;
    if (status)
        run_close(run);
    return status;
}

int run_open(struct run *run, const struct trainer_options *options, run_memory_check *check_memory,
             struct err *err)
{
    struct damaged_steps damaged = {.before_step = UINT64_MAX};
    for (;;) {
        uint64_t before_step = damaged.before_step;
        struct err detail = {0};
        int status = open_from_newest(run, options, check_memory, &damaged, &detail);
        bool has_found_damage = status && damaged.before_step < before_step;
        if (!has_found_damage || options->config->checkpoint.on_damage == CONFIG_DAMAGE_STOP) {
            if (status && err)
                *err = detail;
            return status;
        }
        if (!options->comm || options->comm->rank == 0) /* all ranks have the same warning */
            log_err(options->log, LOG_WARN, &detail, "skipping a damaged checkpoint");
    }
}

void run_close(struct run *run)
{
    ckpt_saver_close(run->saving.saver); /* first: it reads weights and moments */
    if (run->compute.ops)
        run->compute.ops->table->sync(run->compute.ops,
                                      NULL); /* ends all use of the buffers below */
    ops_graph_deinit(&run->compute.pass_graphs);
    ops_graph_deinit(&run->update.sum_squares);
    run_data_close(&run->data);
    metrics_close(run->metrics);
    sync_check_close(run->sync_check);
    run_queue_close(&run->queue);
    run_compute_release(&run->compute);
    weights_deinit(&run->compute.weights);
    optimizer_deinit(&run->update.optimizer);
    reduction_close(run->update.reduction);
    rank_sum_close(&run->update.averaging);
    partition_deinit(&run->compute.partition);
    model_close(run->compute.model);
    if (run->ranks.bulk_comm != run->ranks.comm)
        comm_close(run->ranks.bulk_comm);
    comm_close(run->ranks.nccl_comm); /* uses the device */
    ops_close(run->compute.ops);
    device_close(run->compute.device);
    run_ranks_close(&run->ranks);
    run_saving_close(&run->saving);
    free(run->config);
    free(run->original_config);
    *run = (struct run){0};
}
