/*
 * reduction_powersgd — exchanges gradient matrices in low-rank form (powersgd.h).
 *
 * Passes add to one buffer. After the last backward pass of a step, two arrays are summed over
 * ranks: first uncompressed tensors and P of all matrices, then Q of all matrices.
 * Orthonormalization removes the scale of P, so P Q' is the sum over ranks. Each rank keeps the
 * difference between its gradient and P Q' / ranks.
 *
 * Before start_step, gradients are summed uncompressed.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "trainer/parallel/reduction/powersgd.h"
#include "trainer/parallel/reduction/rank_sum.h"
#include "trainer/parallel/reduction/reduction.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* rank 0: uncompressed. */
struct tensor_piece {
    const struct param *param;
    uint64_t rank;
    /* Offsets: of the tensor or P in `first`, of -P / ranks in `scaled_p`, of Q in `second`. */
    struct offsets {
        uint64_t first, scaled_p, second;
    } at;
    struct gemm_plan p_gemm, q_gemm, decompress_gemm, residual_gemm;
};

/* Owner thread. */
struct powersgd {
    struct reduction base;
    void *residuals;             /* NULL without error feedback */
    struct rank_sum sum;         /* unused with one rank, like the fields below */
    struct tensor_piece *pieces; /* [pieces_count]: trained parameters */
    uint64_t pieces_count;
    struct offsets totals;            /* totals over all pieces */
    float *first, *scaled_p, *second; /* pinned; scaled_p: -P / ranks */
    uint64_t step;
    bool has_q; /* second holds the last step's Q */
};

static struct powersgd *powersgd_of(struct reduction *reduction)
{
    return (struct powersgd *)reduction;
}

static uint64_t gradient_bytes(const struct reduction_options *options)
{
    return options->partition->params->trained_elements * ops_master_bytes(options->ops);
}

static uint64_t cols_of(const struct param *param)
{
    return param->count / param->shape[0];
}

/* GEMM libraries require aligned matrices. The gaps between them are summed too, but ignored. */
static uint64_t align_elements(uint64_t elements)
{
    return (elements + PARAMS_ALIGN - 1) / PARAMS_ALIGN * PARAMS_ALIGN;
}

static int list_pieces(struct powersgd *powersgd, const struct reduction_options *options,
                       struct err *err)
{
    const struct params *params = options->partition->params;
    struct offsets *totals = &powersgd->totals;
    powersgd->pieces = calloc(params->count, sizeof *powersgd->pieces);
    if (!powersgd->pieces)
        return err_set(err, -ENOMEM, "out of memory for the compression of gradients");
    for (uint64_t i = 0; i < params->count; i++) {
        const struct param *param = &params->list[i];
        uint64_t rank = powersgd_compression_rank(&options->powersgd, param);
        if (param->frozen)
            continue;
        powersgd->pieces[powersgd->pieces_count++] =
            (struct tensor_piece){.param = param, .rank = rank, .at = *totals};
        totals->first += align_elements(rank > 0 ? param->shape[0] * rank : param->count);
        totals->scaled_p += align_elements(param->shape[0] * rank);
        totals->second += align_elements(cols_of(param) * rank);
    }
    return 0;
}

static struct rank_sum_options sum_options_of(const struct powersgd *powersgd)
{
    const struct reduction_options *options = &powersgd->base.options;
    uint64_t max = bytes_max(powersgd->totals.first, powersgd->totals.second);
    if (options->powersgd.start_step > 0)
        max = bytes_max(max, options->partition->params->trained_elements);
    return (struct rank_sum_options){.comm = options->comm,
                                     .ops = options->ops,
                                     .bucket_bytes = options->bucket_bytes,
                                     .elements_max = max,
                                     .timeout_ns = options->timeout_ns,
                                     .purpose = "gradients",
                                     .trace_name = "sum gradients"};
}

static uint32_t buffers(const struct reduction_options *options)
{
    (void)options;
    return 1;
}

static int plan_piece(struct ops *ops, struct tensor_piece *piece, struct err *err)
{
    uint64_t rows = piece->param->shape[0], cols = cols_of(piece->param), rank = piece->rank;
    const struct gemm_shape p_gemm = {.m = rows, .n = rank, .k = cols, .master_output = true};
    const struct gemm_shape q_gemm = {
        .m = cols, .n = rank, .k = rows, .trans_a = true, .master_output = true};
    struct gemm_shape decompress_gemm = {
        .m = rows, .n = cols, .k = rank, .trans_b = true, .master_output = true};
    int status = ops->table->plan_gemm(ops, &p_gemm, &piece->p_gemm, err);
    if (!status)
        status = ops->table->plan_gemm(ops, &q_gemm, &piece->q_gemm, err);
    if (!status)
        status = ops->table->plan_gemm(ops, &decompress_gemm, &piece->decompress_gemm, err);
    decompress_gemm.accumulate = true;
    return status ? status
                  : ops->table->plan_gemm(ops, &decompress_gemm, &piece->residual_gemm, err);
}

/* Adds one element so that the size is never 0. */
static size_t pinned_bytes(uint64_t elements)
{
    return (elements + 1) * sizeof(float);
}

static int alloc_pinned(struct device *device, uint64_t elements, float **ret_memory,
                        struct err *err)
{
    return device->ops->mem_alloc(device, mem_for(MEM_PINNED, MEM_FOR_COMMUNICATION),
                                  pinned_bytes(elements), (void **)ret_memory, err);
}

static void free_pinned(struct device *device, uint64_t elements, float *memory)
{
    device->ops->mem_free(device, mem_for(MEM_PINNED, MEM_FOR_COMMUNICATION), memory,
                          pinned_bytes(elements));
}

static int open_pieces(struct powersgd *powersgd, const struct reduction_options *options,
                       struct err *err)
{
    struct device *device = options->ops->device;
    int status = list_pieces(powersgd, options, err);
    for (uint64_t i = 0; i < powersgd->pieces_count && !status; i++)
        if (powersgd->pieces[i].rank > 0)
            status = plan_piece(options->ops, &powersgd->pieces[i], err);
    if (!status)
        status = alloc_pinned(device, powersgd->totals.first, &powersgd->first, err);
    if (!status && options->powersgd.error_feedback)
        status = alloc_pinned(device, powersgd->totals.scaled_p, &powersgd->scaled_p, err);
    if (!status)
        status = alloc_pinned(device, powersgd->totals.second, &powersgd->second, err);
    if (!status && options->powersgd.error_feedback)
        status = device->ops->mem_alloc(device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                        gradient_bytes(options), &powersgd->residuals, err);
    const struct rank_sum_options sum = sum_options_of(powersgd);
    return status ? status : rank_sum_open(&powersgd->sum, &sum, err);
}

static void powersgd_close(struct reduction *reduction)
{
    struct powersgd *powersgd = powersgd_of(reduction);
    struct device *device = reduction->options.ops->device;
    uint64_t bytes = gradient_bytes(&reduction->options);
    rank_sum_close(&powersgd->sum);
    device->ops->mem_free(device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS), powersgd->base.arena,
                          bytes);
    device->ops->mem_free(device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS), powersgd->residuals,
                          bytes);
    free_pinned(device, powersgd->totals.first, powersgd->first);
    free_pinned(device, powersgd->totals.scaled_p, powersgd->scaled_p);
    free_pinned(device, powersgd->totals.second, powersgd->second);
    free(powersgd->pieces);
    free(powersgd);
}

static int powersgd_open(const struct reduction_options *options, struct reduction **ret_reduction,
                         struct err *err)
{
    struct device *device = options->ops->device;
    struct powersgd *powersgd = calloc(1, sizeof *powersgd);
    if (!powersgd)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    powersgd->base.options = *options;
    int status = device->ops->mem_alloc(device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                        gradient_bytes(options), &powersgd->base.arena, err);
    if (!status && !reduction_is_local(options))
        status = open_pieces(powersgd, options, err);
    if (status) {
        powersgd_close(&powersgd->base);
        return status;
    }
    *ret_reduction = &powersgd->base;
    return 0;
}

static int powersgd_connect(struct reduction *reduction, struct err *err)
{
    return rank_sum_connect(&powersgd_of(reduction)->sum, err);
}

static int begin(struct reduction *reduction, uint64_t step, struct err *err)
{
    struct powersgd *powersgd = powersgd_of(reduction);
    struct ops *ops = reduction->options.ops;
    powersgd->step = step;
    return ops->device->ops->fill(ops->device, ops->stream, powersgd->base.arena, 0,
                                  gradient_bytes(&reduction->options), err);
}

static void *gradient_of(const struct powersgd *powersgd, const struct tensor_piece *piece,
                         void *arena)
{
    return (char *)arena +
           piece->param->trained_offset * ops_master_bytes(powersgd->base.options.ops);
}

/* Sets this step's initial Q on the host; no queued work may use it. */
static void init_q(struct powersgd *powersgd)
{
    const struct powersgd_options *options = &powersgd->base.options.powersgd;
    for (uint64_t i = 0; i < powersgd->pieces_count; i++) {
        const struct tensor_piece *piece = &powersgd->pieces[i];
        float *q = powersgd->second + piece->at.second;
        if (piece->rank > 0 && !(powersgd->has_q && options->warm_start))
            powersgd_init_q(options, piece->param, powersgd->step, piece->rank, q);
        if (piece->rank > 0)
            powersgd_orthogonalize(q, cols_of(piece->param), piece->rank);
    }
    powersgd->has_q = true;
}

/* Queues a tensor's contribution to the first sum. For a matrix, the residual is first added to the
 * gradient; a copy of the sum in the residual buffer becomes the next residual when P Q' / ranks is
 * subtracted from it. */
static int compute_p(struct powersgd *powersgd, const struct tensor_piece *piece, struct err *err)
{
    struct ops *ops = powersgd->base.options.ops;
    const struct device_ops *device = ops->device->ops;
    size_t bytes = piece->param->count * ops_master_bytes(ops);
    void *gradient = gradient_of(powersgd, piece, powersgd->base.arena);
    float *first = powersgd->first + piece->at.first;
    int status = 0;
    if (piece->rank == 0)
        return device->copy(ops->device, ops->stream, first, gradient, bytes, err);
    if (powersgd->residuals) {
        void *residual = gradient_of(powersgd, piece, powersgd->residuals);
        ops->table->tree_add(ops, gradient, residual, piece->param->count);
        status = device->copy(ops->device, ops->stream, residual, gradient, bytes, err);
    }
    ops->table->gemm(ops, &piece->p_gemm, gradient, powersgd->second + piece->at.second, NULL,
                     first);
    return status;
}

/* Orthonormalizes the summed P on the host. */
static void finish_p(struct powersgd *powersgd, const struct tensor_piece *piece)
{
    uint64_t elements = piece->param->shape[0] * piece->rank;
    float *p = powersgd->first + piece->at.first;
    powersgd_orthogonalize(p, piece->param->shape[0], piece->rank);
    if (!powersgd->residuals)
        return;
    float *scaled_p = powersgd->scaled_p + piece->at.scaled_p;
    for (uint64_t i = 0; i < elements; i++)
        scaled_p[i] = -p[i] / (float)powersgd->base.options.batching.ranks;
}

static void compute_q(struct powersgd *powersgd, const struct tensor_piece *piece)
{
    struct ops *ops = powersgd->base.options.ops;
    if (piece->rank == 0)
        return;
    if (!ops->table->is_simulated)
        finish_p(powersgd, piece);
    ops->table->gemm(ops, &piece->q_gemm, gradient_of(powersgd, piece, powersgd->base.arena),
                     powersgd->first + piece->at.first, NULL, powersgd->second + piece->at.second);
}

static int decompress(struct powersgd *powersgd, const struct tensor_piece *piece, struct err *err)
{
    struct ops *ops = powersgd->base.options.ops;
    void *gradient = gradient_of(powersgd, piece, powersgd->base.arena);
    const float *first = powersgd->first + piece->at.first,
                *q = powersgd->second + piece->at.second;
    if (piece->rank == 0)
        return ops->device->ops->copy(ops->device, ops->stream, gradient, first,
                                      piece->param->count * ops_master_bytes(ops), err);
    ops->table->gemm(ops, &piece->decompress_gemm, first, q, NULL, gradient);
    if (powersgd->residuals)
        ops->table->gemm(ops, &piece->residual_gemm, powersgd->scaled_p + piece->at.scaled_p, q,
                         NULL, gradient_of(powersgd, piece, powersgd->residuals));
    return 0;
}

static int compress(struct powersgd *powersgd, struct err *err)
{
    struct ops *ops = powersgd->base.options.ops;
    int status = ops->table->sync(ops, err);
    if (status)
        return status;
    if (!ops->table->is_simulated)
        init_q(powersgd);
    for (uint64_t i = 0; i < powersgd->pieces_count && !status; i++)
        status = compute_p(powersgd, &powersgd->pieces[i], err);
    if (!status)
        status = rank_sum_add(&powersgd->sum, powersgd->first, powersgd->totals.first, err);
    for (uint64_t i = 0; i < powersgd->pieces_count && !status; i++)
        compute_q(powersgd, &powersgd->pieces[i]);
    if (!status)
        status = rank_sum_add(&powersgd->sum, powersgd->second, powersgd->totals.second, err);
    for (uint64_t i = 0; i < powersgd->pieces_count && !status; i++)
        status = decompress(powersgd, &powersgd->pieces[i], err);
    return status;
}

static int finish(struct reduction *reduction, struct err *err)
{
    struct powersgd *powersgd = powersgd_of(reduction);
    const struct reduction_options *options = &reduction->options;
    uint64_t began_ns = clock_now_ns();
    if (reduction_is_local(options))
        return 0;
    bool compresses = powersgd->step >= options->powersgd.start_step;
    int status = compresses ? compress(powersgd, err)
                            : rank_sum_add(&powersgd->sum, powersgd->base.arena,
                                           options->partition->params->trained_elements, err);
    reduction->waited_ns += clock_now_ns() - began_ns;
    return status;
}

static const void *part(const struct reduction *reduction, uint64_t group)
{
    const struct powersgd *powersgd = (const struct powersgd *)reduction;
    const struct partition *partition = reduction->options.partition;
    return (const char *)powersgd->base.arena +
           partition_trained_part(partition, group, partition->options.rank).offset *
               ops_master_bytes(reduction->options.ops);
}

static const char *resume_warning(const struct reduction *reduction, uint64_t step)
{
    const struct powersgd_options *options = &reduction->options.powersgd;
    if (step <= options->start_step)
        return NULL;
    if (!options->error_feedback)
        return options->warm_start ? "parallel.compression: Q starts over" : NULL;
    return options->warm_start
               ? "parallel.compression: the error feedback from before this step is lost, and Q "
                 "starts over"
               : "parallel.compression: the error feedback from before this step is lost";
}

const struct reduction_ops reduction_powersgd_ops = {
    .name = "powersgd",
    .accumulates = true,
    .buffers_count = buffers,
    .open = powersgd_open,
    .connect = powersgd_connect,
    .close = powersgd_close,
    .begin = begin,
    .finish = finish,
    .get_part = part,
    .resume_warning = resume_warning,
};
