/*
 * bucket — see bucket.h.
 */
#include "trainer/parallel/reduction/bucket.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static uint32_t ranks_of(const struct bucket_exchange *exchange)
{
    return (uint32_t)exchange->options.comm->ranks;
}

static uint32_t rank_of(const struct bucket_exchange *exchange)
{
    return (uint32_t)exchange->options.comm->rank;
}

bool bucket_is_narrowed(const struct bucket_exchange_options *options)
{
    return options->wire.type == DTYPE_BF16 || options->wire.type == DTYPE_F16;
}

/* The communication library cannot sum 16-bit types. */
static bool uses_library_sum(const struct bucket_exchange_options *options)
{
    return options->sums && !bucket_is_narrowed(options);
}

/* With device memory, data is neither narrowed nor summed. */
static bool uses_device_memory(const struct bucket_exchange_options *options)
{
    return options->comm->takes_device_memory;
}

static unsigned receive_mem_kind(const struct bucket_exchange_options *options)
{
    return mem_for(uses_device_memory(options) ? MEM_DEVICE : MEM_PINNED, MEM_FOR_COMMUNICATION);
}

bool bucket_needs_packing(const struct bucket_exchange_options *options)
{
    assert(!uses_device_memory(options) || !(options->sums || bucket_is_narrowed(options)));
    return options->sums || bucket_is_narrowed(options) ||
           (!options->ops->device->ops->is_host && !uses_device_memory(options));
}

size_t bucket_wire_bytes(const struct bucket_exchange_options *options)
{
    return bucket_is_narrowed(options) ? dtype_bytes(options->wire.type)
                                       : ops_master_bytes(options->ops);
}

static uint64_t received_elements(const struct bucket_exchange_options *options)
{
    return (uses_library_sum(options) ? 1 : options->pieces_total_max) * options->chunk_elements;
}

static size_t receive_bytes(const struct bucket_exchange_options *options)
{
    return received_elements(options) * bucket_wire_bytes(options);
}

static size_t send_bytes(const struct bucket_exchange_options *options)
{
    return bucket_needs_packing(options)
               ? (size_t)options->pieces_max * (size_t)options->comm->ranks *
                     options->chunk_elements * bucket_wire_bytes(options)
               : 0;
}

uint64_t bucket_widened_bytes(const struct bucket_exchange_options *options)
{
    return bucket_is_narrowed(options) ? received_elements(options) * ops_master_bytes(options->ops)
                                       : 0;
}

int bucket_open(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err)
{
    const struct bucket_exchange_options *options = &exchange->options;
    struct device *device = options->ops->device;
    bucket->works = calloc(options->pieces_max, sizeof *bucket->works);
    if (!bucket->works)
        return err_set(err, -ENOMEM, "out of memory for the exchange of gradients");
    int status = device->ops->mem_alloc(device, receive_mem_kind(options), receive_bytes(options),
                                        &bucket->receive, err);
    if (!status && bucket_needs_packing(options))
        status = device->ops->mem_alloc(device, mem_for(MEM_PINNED, MEM_FOR_COMMUNICATION),
                                        send_bytes(options), &bucket->send, err);
    if (!status)
        status = device->ops->event_open(device, &bucket->copied, err);
    return status;
}

void bucket_close(struct bucket_exchange *exchange, struct bucket *bucket)
{
    const struct bucket_exchange_options *options = &exchange->options;
    struct device *device = options->ops->device;
    if (bucket->copied)
        device->ops->event_close(device, bucket->copied);
    /* operations in progress may access the memory until the process exits */
    bool is_idle = bucket->state != BUCKET_SENDING;
    if (is_idle && bucket->send)
        device->ops->mem_free(device, mem_for(MEM_PINNED, MEM_FOR_COMMUNICATION), bucket->send,
                              send_bytes(options));
    if (is_idle && bucket->receive)
        device->ops->mem_free(device, receive_mem_kind(options), bucket->receive,
                              receive_bytes(options));
    if (is_idle) {
        free(bucket->works);
        return;
    }
    comm_retain(bucket->send);
    comm_retain(bucket->receive);
    comm_retain(bucket->works);
}

static uint64_t elements_of_chunk(const struct bucket_exchange *exchange, uint64_t part_elements,
                                  uint64_t first)
{
    uint64_t chunk = exchange->options.chunk_elements;
    if (first >= part_elements)
        return 0;
    return part_elements - first < chunk ? part_elements - first : chunk;
}

struct span bucket_part(const struct bucket_exchange *exchange, uint64_t group, uint32_t rank)
{
    return partition_trained_part(exchange->options.partition, group, rank);
}

/* Number of elements of the chunk in the rank's part. */
static uint64_t slice_elements(const struct bucket_exchange *exchange, const struct bucket *bucket,
                               uint32_t rank)
{
    return elements_of_chunk(exchange, bucket_part(exchange, bucket->group, rank).elements,
                             bucket->first);
}

/* Offset of the rank's slice in the group. */
static uint64_t group_offset(const struct bucket_exchange *exchange, const struct bucket *bucket,
                             uint32_t rank)
{
    return bucket_part(exchange, bucket->group, rank).offset -
           partition_trained_group(exchange->options.partition, bucket->group).offset +
           bucket->first;
}

/* Distance between slices, in elements. Reduce-scatter requires contiguous slices of equal size. */
static uint64_t stride_of(const struct bucket_exchange *exchange, const struct bucket *bucket)
{
    uint64_t max = 0;
    if (!uses_library_sum(&exchange->options))
        return exchange->options.chunk_elements;
    for (uint32_t rank = 0; rank < ranks_of(exchange); rank++)
        if (slice_elements(exchange, bucket, rank) > max)
            max = slice_elements(exchange, bucket, rank);
    return max;
}

static int pack_slice(struct bucket_exchange *exchange, void *target, const void *source,
                      uint64_t elements, struct err *err)
{
    struct ops *ops = exchange->options.ops;
    const struct bucket_exchange_wire *wire = &exchange->options.wire;
    if (!bucket_is_narrowed(&exchange->options))
        return ops->device->ops->copy(ops->device, ops->stream, target, source,
                                      elements * exchange->element_bytes, err);
    ops->table->narrow(ops, wire->type, target, source, wire->scale, elements);
    return 0;
}

int bucket_pack(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err)
{
    struct ops *ops = exchange->options.ops;
    uint64_t stride = stride_of(exchange, bucket);
    int status = 0;
    for (uint32_t piece = 0; piece < bucket->pieces.counts[rank_of(exchange)]; piece++)
        for (uint32_t rank = 0; rank < ranks_of(exchange) && !status; rank++) {
            uint64_t elements = slice_elements(exchange, bucket, rank);
            uint64_t to = ((uint64_t)piece * ranks_of(exchange) + rank) * stride;
            const char *source = bucket->pieces.sources[piece];
            if (elements > 0)
                status = pack_slice(exchange, (char *)bucket->send + to * exchange->wire_bytes,
                                    source + group_offset(exchange, bucket, rank) *
                                                 exchange->element_bytes,
                                    elements, err);
        }
    bucket->records_reads = false;
    return status ? status
                  : ops->device->ops->event_record(ops->device, bucket->copied, ops->stream, err);
}

static void plan_sends(struct bucket_exchange *exchange, const struct bucket *bucket,
                       uint32_t piece)
{
    bool has = piece < bucket->pieces.counts[rank_of(exchange)];
    for (uint32_t rank = 0; rank < ranks_of(exchange); rank++) {
        uint64_t elements = slice_elements(exchange, bucket, rank);
        bool sends = has && elements > 0;
        uint64_t chunk = (uint64_t)piece * ranks_of(exchange) + rank;
        uint64_t at = bucket->send ? chunk * stride_of(exchange, bucket)
                                   : group_offset(exchange, bucket, rank);
        exchange->bytes[0][rank] = sends ? elements * exchange->wire_bytes : 0;
        exchange->offsets[0][rank] = sends ? at * exchange->wire_bytes : 0;
    }
}

static void plan_receives(struct bucket_exchange *exchange, const struct bucket *bucket,
                          uint32_t piece)
{
    uint64_t chunk = exchange->options.chunk_elements;
    uint64_t elements = slice_elements(exchange, bucket, rank_of(exchange));
    uint64_t before = 0;
    for (uint32_t rank = 0; rank < ranks_of(exchange); rank++) {
        bool has = piece < bucket->pieces.counts[rank];
        exchange->bytes[1][rank] = has ? elements * exchange->wire_bytes : 0;
        exchange->offsets[1][rank] = (before + piece) * chunk * exchange->wire_bytes * has;
        before += bucket->pieces.counts[rank];
    }
}

static uint32_t max_pieces(const struct bucket_exchange *exchange, const struct bucket *bucket)
{
    uint32_t max = 0;
    for (uint32_t rank = 0; rank < ranks_of(exchange); rank++)
        if (bucket->pieces.counts[rank] > max)
            max = bucket->pieces.counts[rank];
    return max;
}

static int send_pieces(struct bucket_exchange *exchange, struct bucket *bucket,
                       const struct comm_options *options, struct err *err)
{
    struct comm *comm = exchange->options.comm;
    uint32_t own = bucket->pieces.counts[rank_of(exchange)], max = max_pieces(exchange, bucket);
    int status = 0;
    for (uint32_t piece = 0; piece < max && !status; piece++) {
        const void *source = bucket->send  ? bucket->send
                             : piece < own ? bucket->pieces.sources[piece]
                                           : bucket->receive;
        plan_sends(exchange, bucket, piece);
        plan_receives(exchange, bucket, piece);
        status = comm->ops->all_to_all(comm, source, exchange->offsets[0], exchange->bytes[0],
                                       bucket->receive, exchange->offsets[1], exchange->bytes[1],
                                       options, &bucket->works[piece], err);
        bucket->works_count += !status;
    }
    return status;
}

int bucket_send(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err)
{
    struct comm *comm = exchange->options.comm;
    uint64_t timeout_ns = exchange->options.timeout_ns;
    const struct comm_options options = {
        .deadline_ns = timeout_ns ? clock_now_ns() + timeout_ns : 0,
        .purpose = exchange->labels[bucket->group],
        .trace_name = "sum gradients",
        .stream = uses_device_memory(&exchange->options) ? exchange->options.ops->stream : NULL};
    bucket->state = BUCKET_SENDING;
    bucket->works_count = 0;
    if (!uses_library_sum(&exchange->options))
        return send_pieces(exchange, bucket, &options, err);
    int status = comm->ops->reduce_scatter(
        comm, bucket->send, bucket->receive, stride_of(exchange, bucket),
        exchange->options.ops->master, COMM_FAST, &options, bucket->works, err);
    bucket->works_count += !status;
    return status;
}

int bucket_poll(struct bucket_exchange *exchange, struct bucket *bucket, bool may_block,
                bool *ret_done, struct err *err)
{
    struct comm *comm = exchange->options.comm;
    *ret_done = true;
    for (uint32_t i = 0; i < bucket->works_count; i++) {
        struct comm_work *work = &bucket->works[i];
        bool done = may_block || work->done;
        int status = done ? comm_wait(comm, work, err) : comm->ops->test(work, &done, err);
        if (status)
            return status;
        if (!done) {
            *ret_done = false;
            return 0;
        }
    }
    return 0;
}

static const void *unpack_slice(struct bucket_exchange *exchange, const struct bucket *bucket,
                                uint64_t at, uint64_t elements)
{
    struct ops *ops = exchange->options.ops;
    const struct bucket_exchange_wire *wire = &exchange->options.wire;
    const char *received = (const char *)bucket->receive + at * exchange->wire_bytes;
    if (!bucket_is_narrowed(&exchange->options))
        return received;
    char *widened = (char *)exchange->widened + at * exchange->element_bytes;
    if (elements > 0)
        ops->table->widen(ops, wire->type, widened, received, 1 / wire->scale, elements);
    return widened;
}

int bucket_deliver(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err)
{
    uint64_t elements = slice_elements(exchange, bucket, rank_of(exchange));
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < ranks_of(exchange); rank++)
        count += bucket->pieces.counts[rank];
    if (uses_library_sum(&exchange->options))
        count = 1;
    for (uint32_t i = 0; i < count; i++)
        exchange->sources[i] =
            unpack_slice(exchange, bucket, i * exchange->options.chunk_elements, elements);
    const struct bucket_exchange_chunk chunk = {bucket->group,   bucket->first,     elements,
                                                bucket->is_last, exchange->sources, count};
    return exchange->options.on_received(exchange->options.context, &chunk, err);
}
