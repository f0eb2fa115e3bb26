/*
 * run_open — opens a run: devices, data, model, memory, and the newest checkpoint if there is one.
 * See run.h.
 *
 * The order matters: the checkpoint's state gives the position in the data, the data gives the
 * model's number of classes, and the model gives the layout of the checkpoint's arrays.
 */
#include "trainer/run/run.h"

#include "base/json/jsonx.h"
#include "comm/comm_wrapper.h"
#include "io/file_util.h"
#include "trainer/parallel/sync_check.h"
#include "trainer/run/resume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int run_take_config(struct run *run, const struct train_config *config, struct err *err)
{
    run->given = malloc(sizeof *run->given);
    run->config = malloc(sizeof *run->config);
    if (!run->given || !run->config)
        return err_set(err, -ENOMEM, "out of memory for a run's configuration");
    *run->given = *run->config = *config;
    return 0;
}

int run_open_data(struct run *run, struct ckpt_reader *reader, const char *path, struct err *err)
{
    struct cursor cursor = {0};
    int status = reader ? run_decode_cursor(ckpt_reader_state(reader), path, &cursor, err) : 0;
    if (status)
        return status;
    run_set_batch(run, cursor.epoch);
    struct loader_options options = run_loader_options(run, true);
    if (reader) {
        options.epoch = cursor.epoch;
        options.position = cursor.position;
        /* the digests are sums over the ranks */
        options.once = run->comm->rank == 0 ? cursor.once : 0;
        options.order_digest = run->comm->rank == 0 ? cursor.order : 0;
    }
    status = loader_open(&options, &run->loader, err);
    if (status)
        return status;
    run->shape = loader_shape(run->loader);
    run->reference = *loader_schema(run->loader);
    if (reader &&
        (status = resume_check_cursor(run, &cursor, ckpt_reader_state(reader), path, err)))
        return status;
    status = run_count_steps(run, cursor.epoch, err);
    if (status)
        return status;
    if (run->config->model.classes == 0)
        run->config->model.classes = run->shape.classes_count;
    if (run->config->model.vocabulary == 0)
        run->config->model.vocabulary = run->shape.vocabulary;
    return 0;
}

static int allocate(struct run *run, uint64_t bytes, void *ret_memory, struct err *err)
{
    return run->device->ops->mem_alloc(run->device, mem_for(MEM_DEVICE, MEM_FOR_ACTIVATIONS), bytes,
                                       ret_memory, err);
}

/* Allocates the memory of the model, whose size is known now. */
static int allocate_model(struct run *run, bool trains, struct err *err)
{
    uint64_t rows = model_rows(run->model);
    int status = run_open_weights(run, err);
    if (!status)
        status = allocate(run, model_activation_bytes(run->model, &run->stage),
                          &run->activations.memory, err);
    if (!status && trains)
        status = model_open_offload(run->model, &run->stage, &run->activations.offload, err);
    if (!status)
        status = allocate(run, rows * sizeof(double), &run->losses, err);
    if (!status)
        status = allocate(run, rows, &run->correct, err);
    if (!status)
        status = run_open_queue(run, err);
    return status;
}

/* trains: false for an evaluation, without gradients and moments. */
int run_open_model(struct run *run, bool trains, struct err *err)
{
    const struct train_config *c = run->config;
    if (c->model.type == MODEL_VIT && c->model.classes == 0)
        return err_set(err, -EINVAL,
                       "the data has no class names: set model.classes to the number of classes");
    if (c->model.type != MODEL_VIT && c->model.vocabulary == 0)
        return err_set(err, -EINVAL, "the data has no vocabulary: set model.vocabulary");
    const struct model_config config = run_model_config(run, trains);
    int status = model_open(&config, run->ops, run->batching.micro, &run->model, err);
    if (status)
        return status;
    run->params = model_params(run->model);
    run->stage = (struct model_stage){
        .blocks_count = config.layers, .has_embedding = true, .has_head = true};
    const struct batch_upload_options upload = run_batch_upload_options(run);
    const struct partition_options shards = run_partition_options(run, trains);
    status = partition_init(&run->partition, &shards, run->params, err);
    if (status)
        return status;
    if (run->check_memory)
        status = run->check_memory(run, trains, err);
    if (!status)
        status = allocate_model(run, trains, err);
    return status ? status : batch_upload_init(&run->upload, &upload, run->ops, err);
}

int run_open_optimizer(struct run *run, struct err *err)
{
    run_begin_policies(run);
    const struct optimizer_options optimizer = run_optimizer_options(run);
    const struct reduction_options reduction = run_reduction_options(run);
    int status = reduction_open(&reduction, &run->reduction, err);
    if (!status)
        status = run_open_mean(run, err);
    if (!status) /* one graph for each buffer written */
        status = ops_graph_init(&run->passes, run->ops,
                                (reduction_buffers(&reduction) + 1) * BATCH_UPLOAD_VARIANTS, err);
    if (!status)
        status = ops_graph_init(&run->sums, run->ops, 1, err);
    if (!status)
        status = optimizer_init(&run->optimizer, &optimizer, run->ops, &run->partition, err);
    return status;
}

/* Only the first rank writes metrics. */
static int open_metrics(struct run *run, struct err *err)
{
    char path[IO_PATH_BYTES_MAX], folder[IO_PATH_BYTES_MAX];
    int status = 0;
    if (run->comm->rank != 0)
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
        .resume = {run->step, run->evaluation.present && run->evaluation.step == run->step},
    };
    return status ? status : metrics_open(run->io, &options, &run->metrics, err);
}

static int open_ops(struct run *run, struct err *err)
{
    static const enum dtype compute[] = {
        [CONFIG_FP32] = DTYPE_F32, [CONFIG_BF16] = DTYPE_BF16, [CONFIG_FP16] = DTYPE_F16};
    const struct train_config *c = run->config;
    int status = run_open_device(run, err);
    if (!status)
        status =
            ops_open(run->device, compute[c->precision.compute], run_threads(run), &run->ops, err);
    return status;
}

int run_count_traffic(struct run *run, struct err *err)
{
    int status = comm_counted_open(run->plain_comm, &run->traffic, &run->comm, err);
    run->bulk = run->comm;
    run->serialized = run->config->parallel.debug;
    return status;
}

static int open_comm(struct run *run, struct err *err)
{
    struct comm *given = run->options->comm;
    run->ranges.comm = given;
    run->ranges.step = &run->step;
    run->plain_comm = given;
    if (given)
        comm_set_activity(given, "the beginning", 0, false);
    if (given && given->ops->set_timeout)
        given->ops->set_timeout(given, run->config->parallel.timeout_ns);
    if (!given || run->config->parallel.debug) {
        int status =
            given ? comm_checked_open(given, run->config->parallel.timeout_ns, &run->own_comm, err)
                  : comm_self_open(&run->own_comm, err);
        if (status)
            return status;
        run->plain_comm = run->own_comm;
    }
    int status = run_count_traffic(run, err);
    return status ? status : run_share_cpus(run, err);
}

/* Finds the checkpoint to resume from, if there is one. */
static int find_checkpoint(struct run *run, struct ckpt_reader **ret_reader,
                           char path[IO_PATH_BYTES_MAX], struct err *err)
{
    const struct train_config *c = run->config;
    int status = 0;
    if (c->checkpoint.dir[0])
        snprintf(run->folder, sizeof run->folder, "%s", c->checkpoint.dir);
    else
        status = io_join_path(c->run.dir, CKPT_FOLDER_NAME, run->folder, err);
    return status ? status : resume_find(run, ret_reader, path, err);
}

/* The first rank-local part: the batch, the device and the ops. */
static int open_place(struct run *run, struct err *err)
{
    struct train_config *c = run->config;
    int status = config_resolve_batch(run->given, (uint32_t)run->comm->ranks, err);
    if (status)
        return status;
    c->batch = run->given->batch;
    run->batching =
        (struct batching){.global = c->batch.global,
                          .micro = c->batch.micro,
                          .rank = (uint32_t)run->comm->rank,
                          .ranks = (uint32_t)run->comm->ranks,
                          .interleaved = c->batch.sync_each || run_reduces_each_micro(run)};
    status = batching_check(&run->batching, err);
    /* the device before the loader's threads: see trainer/ops/cpu/blas.h */
    return status ? status : open_ops(run, err);
}

/* The second rank-local part: all other inputs, and memory. */
static int open_parts(struct run *run, struct ckpt_reader *reader, const char *path,
                      struct err *err)
{
    const struct train_config *c = run->config;
    int status = run_open_data(run, reader, path, err);
    if (!status)
        status = run_look_at_validation(run, err);
    if (!status)
        status = run_open_model(run, true, err);
    if (!status)
        status = run_open_optimizer(run, err);
    if (!status && !reader)
        status = run_fill_weights(run, c->model.init[0] ? c->model.init : NULL, err);
    return status;
}

/* From here on this run owns the folder. */
static int open_state(struct run *run, struct ckpt_reader *reader, const char *path,
                      struct err *err)
{
    int status = resume_check_newest(run, err);
    if (!status && reader)
        status = resume_restore(run, reader, path, err);
    if (!status)
        status = run_begin_queue(run, err);
    if (!status)
        status = open_metrics(run, err);
    return status;
}

/* Opens the parts' own communicators; then, rank-locally, what uses them. */
int run_connect(struct run *run, struct err *err)
{
    int status = weights_connect(&run->weights, err);
    if (!status)
        status = reduction_connect(run->reduction, err);
    if (!status)
        status = run_connect_mean(run, err);
    status = run_agree(run, status, "connecting", err);
    if (status)
        return status;
    status = weights_open_gather(&run->weights, err);
    if (!status)
        status = reduction_open_exchange(run->reduction, err);
    return run_agree(run, status, "connecting", err);
}

static int open_all(struct run *run, struct ckpt_reader **reader, struct err *err)
{
    char path[IO_PATH_BYTES_MAX] = "";
    int status = open_comm(run, err);
    if (status)
        return status;
    status = find_checkpoint(run, reader, path, err);
    if (!status)
        status = open_place(run, err);
    status = run_agree(run, status, "opening the device", err);
    if (!status)
        status = run_count_shards(run, err);
    if (!status)
        status = run_open_bulk(run, err);
    if (status)
        return status;
    status = open_parts(run, *reader, path, err);
    status = run_agree(run, status, "opening the data and the model", err);
    if (!status)
        status = run_compare_data(run, run->loader, "data.train", err);
    if (!status)
        status = run_connect(run, err);
    if (!status)
        status = run_open_saver(run, err);
    if (status)
        return status;
    status = open_state(run, *reader, path, err);
    if (!status && run->config->parallel.check_sync > 0)
        status = run_open_sync_check(run, err);
    status = run_agree(run, status, "restoring the state", err);
    if (status)
        return status;
    status = weights_refresh(&run->weights, err);
    if (status) /* the others may wait for data of this rank */
        run_abort(run, status, err);
    return status;
}

/* Reads the number of classes or tokens, and the end-of-document token. */
static int look_at_validation(struct run *run, struct err *err)
{
    struct train_config *c = run->config;
    if (!c->data.val[0]) {
        err_set(err, -EINVAL, "there is nothing to evaluate on");
        err_advise(err, "set data.val");
        return -EINVAL;
    }
    struct loader_options options = run_loader_options(run, false);
    struct loader *loader;
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    run->shape = loader_shape(loader);
    run->validation_fingerprint = run->shape.fingerprint;
    /* the numerics name libraries in the loader's memory */
    status = run_name_numerics(run, err);
    loader_close(loader);
    if (status)
        return status;
    if (c->model.classes == 0)
        c->model.classes = run->shape.classes_count;
    if (c->model.vocabulary == 0)
        c->model.vocabulary = run->shape.vocabulary;
    return 0;
}

/* If the weights are a run's checkpoint, takes its micro-batch, if batch.accumulation would
 * determine it here, and the meaning of its labels and tokens. Collective, so that all ranks have
 * the same. */
static int take_from_checkpoint(struct run *run, const char *from, struct err *err)
{
    const struct ckpt_find_options any = {.below = UINT64_MAX};
    struct ckpt_reader *reader = NULL;
    if (ckpt_reader_open_collective(run->io, from, &any, run->comm, &reader, NULL, NULL))
        return 0;
    const struct json_t *state = ckpt_reader_state(reader);
    if (run->given->batch.micro == 0)
        config_keep_batch(run->given, jsonx_get(state, "config"));
    int status = data_schema_decode(state, from, &run->recorded, err);
    ckpt_reader_close(reader);
    run->reference = run->recorded.schema;
    if (!status && !run->recorded.is_recorded)
        run_log(run,
                "%s records no class names and no tokenizer: they cannot be compared with those of "
                "data.val",
                from);
    return status;
}

static int open_for_evaluation(struct run *run, const char *from, struct err *err)
{
    struct train_config *c = run->config;
    int status = run->given->batch.micro > 0
                     ? 0
                     : config_resolve_batch(run->given, (uint32_t)run->comm->ranks, err);
    if (status)
        return status;
    c->batch = run->given->batch;
    run->batching = (struct batching){.global = c->batch.micro * (uint64_t)run->comm->ranks,
                                      .micro = c->batch.micro,
                                      .rank = (uint32_t)run->comm->rank,
                                      .ranks = (uint32_t)run->comm->ranks};
    status = open_ops(run, err);
    if (!status)
        status = look_at_validation(run, err);
    if (!status)
        status = run_open_model(run, false, err);
    if (!status)
        status = run_fill_weights(run, from, err);
    if (!status)
        status = weights_refresh(&run->weights, err);
    return status;
}

int run_open_for_evaluation(struct run *run, const struct trainer_options *options,
                            run_memory_check *check_memory, const char *from, struct err *err)
{
    *run = (struct run){.options = options, .io = options->io, .check_memory = check_memory};
    int status = run_take_config(run, options->config, err);
    if (!status)
        status = open_comm(run, err);
    if (!status)
        status = run_agree(run, take_from_checkpoint(run, from, err),
                           "reading the checkpoint's state", err);
    if (!status)
        status = run_agree(run, open_for_evaluation(run, from, err),
                           "opening the data and the model", err);
    if (!status)
        status = run_compare_data(run, NULL, NULL, err);
    if (!status)
        status = run_compare_numerics(run, err);
    if (status)
        run_close(run);
    return status;
}

static int open_once(struct run *run, const struct trainer_options *options,
                     run_memory_check *check_memory, struct damaged_steps *damaged, struct err *err)
{
    *run = (struct run){
        .options = options, .io = options->io, .check_memory = check_memory, .damaged = *damaged};
    struct ckpt_reader *reader = NULL;
    int status = run_take_config(run, options->config, err);
    if (!status)
        status = open_all(run, &reader, err);
    ckpt_reader_close(reader);
    *damaged = run->damaged;
    if (status)
        run_close(run);
    return status;
}

int run_open(struct run *run, const struct trainer_options *options, run_memory_check *check_memory,
             struct err *err)
{
    struct damaged_steps damaged = {.below = UINT64_MAX};
    for (;;) {
        uint64_t below = damaged.below;
        struct err detail = {0};
        char line[ERR_LINE_BYTES_MAX];
        int status = open_once(run, options, check_memory, &damaged, &detail);
        bool has_found_damage = status && damaged.below < below;
        if (!has_found_damage || options->config->checkpoint.on_damage == CONFIG_DAMAGE_STOP) {
            if (status && err)
                *err = detail;
            return status;
        }
        if (!options->comm || options->comm->rank == 0) /* the same line on all ranks */
            log_line(options->log, LOG_WARN, "skipping a damaged checkpoint: %s",
                     err_format(&detail, line, sizeof line));
    }
}

static void release(struct run *run, void *memory, uint64_t bytes)
{
    if (memory)
        run->device->ops->mem_free(run->device, mem_for(MEM_DEVICE, MEM_FOR_ACTIVATIONS), memory,
                                   bytes);
}

void run_close(struct run *run)
{
    ckpt_saver_close(run->saver); /* first: it reads the arenas */
    if (run->ops)
        run->ops->table->sync(run->ops, NULL); /* ends all use of it */
    ops_graph_deinit(&run->passes);
    ops_graph_deinit(&run->sums);
    batch_upload_deinit(&run->upload);
    loader_close(run->loader);
    metrics_close(run->metrics);
    sync_check_close(run->sync_check);
    if (run->model) {
        uint64_t rows = model_rows(run->model);
        run_close_queue(run);
        release(run, run->correct, rows);
        release(run, run->losses, rows * sizeof(double));
        offload_close(run->activations.offload);
        release(run, run->activations.memory, model_activation_bytes(run->model, &run->stage));
    }
    weights_deinit(&run->weights);
    optimizer_deinit(&run->optimizer);
    reduction_close(run->reduction);
    rank_sum_close(&run->mean);
    partition_deinit(&run->partition);
    model_close(run->model);
    run_close_bulk(run);
    ops_close(run->ops);
    device_close(run->device);
    comm_close(run->comm);
    comm_close(run->own_comm);
    free(run->tensor_names);
    free(run->tensors);
    data_schema_deinit(&run->recorded);
    str_deinit(&run->state_json);
    str_deinit(&run->numerics_id);
    free(run->config);
    free(run->given);
    *run = (struct run){0};
}
