/*
 * rank_sum — see rank_sum.h. Each bucket needs a reduce-scatter and an all-gather.
 */
#include "trainer/parallel/reduction/rank_sum.h"

#include "base/bytes.h"
#include "base/clock.h"

static uint64_t slice_elements(const struct rank_sum_options *options)
{
    uint64_t ranks = (uint64_t)options->comm->ranks;
    uint64_t wanted = options->bucket_bytes / ops_master_bytes(options->ops) / ranks;
    uint64_t slice = bytes_min(wanted, (options->elements_max + ranks - 1) / ranks);
    return slice > 0 ? slice : 1;
}

static size_t slice_bytes(const struct rank_sum_options *options)
{
    return slice_elements(options) * ops_master_bytes(options->ops);
}

int rank_sum_open(struct rank_sum *sum, const struct rank_sum_options *options, struct err *err)
{
    struct device *device = options->ops->device;
    size_t bytes = slice_bytes(options), ranks = (size_t)options->comm->ranks;
    *sum = (struct rank_sum){.options = *options, .slice = slice_elements(options)};
    int status = device->ops->mem_alloc(device, mem_for(MEM_PINNED, MEM_FOR_COMMUNICATION),
                                        ranks * bytes, &sum->bucket, err);
    if (!status)
        status = device->ops->mem_alloc(device, mem_for(MEM_PINNED, MEM_FOR_COMMUNICATION), bytes,
                                        &sum->sum, err);
    if (!status)
        status = device->ops->event_open(device, &sum->copied, err);
    if (status)
        rank_sum_close(sum);
    return status;
}

int rank_sum_connect(struct rank_sum *sum, struct err *err)
{
    struct comm *world = sum->options.comm;
    return world->ops->split(world, 0, world->rank, &sum->comm, err);
}

void rank_sum_close(struct rank_sum *sum)
{
    const struct rank_sum_options *options = &sum->options;
    if (!options->ops)
        return;
    struct device *device = options->ops->device;
    if (sum->copied)
        device->ops->event_close(device, sum->copied);
    if (sum->has_failed) {
        comm_retain(sum->bucket);
        comm_retain(sum->sum);
    } else {
        device->ops->mem_free(device, mem_for(MEM_PINNED, MEM_FOR_COMMUNICATION), sum->bucket,
                              (size_t)options->comm->ranks * slice_bytes(options));
        device->ops->mem_free(device, mem_for(MEM_PINNED, MEM_FOR_COMMUNICATION), sum->sum,
                              slice_bytes(options));
    }
    comm_close(sum->comm);
    *sum = (struct rank_sum){0};
}

static int wait_for_copy(struct rank_sum *sum, struct err *err)
{
    struct ops *ops = sum->options.ops;
    int status = ops->device->ops->event_record(ops->device, sum->copied, ops->stream, err);
    return status ? status : ops->device->ops->event_wait(ops->device, sum->copied, err);
}

static void divide(void *values, uint64_t count, enum dtype dtype, int divisor)
{
    for (uint64_t i = 0; i < count && dtype == DTYPE_F32; i++)
        ((float *)values)[i] /= (float)divisor;
    for (uint64_t i = 0; i < count && dtype == DTYPE_F64; i++)
        ((double *)values)[i] /= divisor;
}

/* Replaces the bucket with the sum over ranks divided by divisor. slice: elements per rank. */
static int sum_bucket(struct rank_sum *sum, uint64_t slice, int divisor, struct err *err)
{
    struct comm *comm = sum->comm;
    const struct ops *ops = sum->options.ops;
    uint64_t timeout_ns = sum->options.timeout_ns;
    const struct comm_options options = {.deadline_ns =
                                             timeout_ns ? clock_now_ns() + timeout_ns : 0,
                                         .purpose = sum->options.purpose,
                                         .trace_name = sum->options.trace_name};
    struct comm_work work;
    int status = comm->ops->reduce_scatter(comm, sum->bucket, sum->sum, slice, ops->master,
                                           COMM_FAST, &options, &work, err);
    if (!status)
        status = comm_wait(comm, &work, err);
    if (!status && divisor != 1 && !ops->table->is_simulated)
        divide(sum->sum, slice, ops->master, divisor);
    if (!status)
        status = comm->ops->all_gather(comm, sum->sum, sum->bucket, slice * ops_master_bytes(ops),
                                       &options, &work, err);
    if (!status)
        status = comm_wait(comm, &work, err);
    sum->has_failed = sum->has_failed || status;
    return status;
}

static int sum_array(struct rank_sum *sum, void *memory, uint64_t elements, int divisor,
                     struct err *err)
{
    struct ops *ops = sum->options.ops;
    struct device *device = ops->device;
    uint64_t ranks = (uint64_t)sum->comm->ranks, max = ranks * sum->slice;
    size_t element_bytes = ops_master_bytes(ops);
    int status = 0;
    for (uint64_t at = 0; at < elements && !status; at += max) {
        uint64_t count = elements - at < max ? elements - at : max;
        char *place = (char *)memory + at * element_bytes;
        status =
            device->ops->copy(device, ops->stream, sum->bucket, place, count * element_bytes, err);
        if (!status)
            status = wait_for_copy(sum, err);
        if (!status) /* sums of the padding after count are ignored */
            status = sum_bucket(sum, (count + ranks - 1) / ranks, divisor, err);
        if (!status)
            status = device->ops->copy(device, ops->stream, place, sum->bucket,
                                       count * element_bytes, err);
        if (!status) /* the next copy overwrites the bucket */
            status = wait_for_copy(sum, err);
    }
    return status;
}

int rank_sum_add(struct rank_sum *sum, void *memory, uint64_t elements, struct err *err)
{
    return sum_array(sum, memory, elements, 1, err);
}

int rank_sum_mean(struct rank_sum *sum, void *memory, uint64_t elements, struct err *err)
{
    return sum_array(sum, memory, elements, sum->comm->ranks, err);
}
