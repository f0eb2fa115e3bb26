/*
 * bucket_exchange_pump — schedules chunks on buckets. See bucket_exchange.h.
 *
 * Chunks start and complete in the order in which their groups were begun, so every run queues
 * additions in the same order.
 */
#include "trainer/parallel/reduction/bucket_exchange.h"

#include "base/clock.h"
#include "trainer/parallel/reduction/bucket.h"
#include "trainer/parallel/reduction/gradient_leaves.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* With one exchange per step, all groups may be queued; with one per micro-batch, all gradient
 * leaves. */
static uint64_t queue_entries_max(uint64_t groups_count)
{
    return groups_count > GRADIENT_LEAVES_COUNT ? groups_count : GRADIENT_LEAVES_COUNT;
}

static int allocate(struct bucket_exchange *exchange, struct err *err)
{
    int ranks = exchange->options.comm->ranks;
    exchange->queue_max = queue_entries_max(exchange->options.partition->params->groups_count);
    exchange->queue = calloc(exchange->queue_max, sizeof *exchange->queue);
    exchange->sources = calloc(exchange->options.pieces_total_max, sizeof *exchange->sources);
    exchange->labels = partition_labels(exchange->options.partition, "gradients");
    bool has_all = exchange->queue && exchange->sources && exchange->labels;
    for (int i = 0; i < 2; i++) {
        exchange->offsets[i] = calloc((size_t)ranks, sizeof *exchange->offsets[i]);
        exchange->bytes[i] = calloc((size_t)ranks, sizeof *exchange->bytes[i]);
        has_all = has_all && exchange->offsets[i] && exchange->bytes[i];
    }
    return has_all ? 0 : err_set(err, -ENOMEM, "out of memory for the exchange of gradients");
}

int bucket_exchange_open(const struct bucket_exchange_options *options,
                         struct bucket_exchange **ret_exchange, struct err *err)
{
    assert(options->chunk_elements > 0 && options->pieces_max <= BUCKET_EXCHANGE_PIECES_MAX);
    struct bucket_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return err_set(err, -ENOMEM, "out of memory for the exchange of gradients");
    exchange->options = *options;
    exchange->element_bytes = ops_master_bytes(options->ops);
    exchange->wire_bytes = bucket_wire_bytes(options);
    int status = allocate(exchange, err);
    if (!status && bucket_widened_bytes(options) > 0)
        status = options->ops->device->ops->mem_alloc(
            options->ops->device, mem_for(MEM_DEVICE, MEM_FOR_COMMUNICATION),
            bucket_widened_bytes(options), &exchange->widened, err);
    for (int i = 0; i < BUCKET_EXCHANGE_BUCKETS && !status; i++)
        status = bucket_open(exchange, &exchange->buckets[i], err);
    if (status) {
        bucket_exchange_close(exchange);
        return status;
    }
    *ret_exchange = exchange;
    return 0;
}

void bucket_exchange_close(struct bucket_exchange *exchange)
{
    if (!exchange)
        return;
    for (int i = 0; i < BUCKET_EXCHANGE_BUCKETS; i++)
        bucket_close(exchange, &exchange->buckets[i]);
    for (int i = 0; i < 2; i++) {
        free(exchange->offsets[i]);
        free(exchange->bytes[i]);
    }
    exchange->options.ops->device->ops->mem_free(
        exchange->options.ops->device, mem_for(MEM_DEVICE, MEM_FOR_COMMUNICATION),
        exchange->widened, bucket_widened_bytes(&exchange->options));
    if (bucket_exchange_is_idle(exchange))
        free(exchange->labels);
    else
        comm_retain(exchange->labels);
    free(exchange->queue);
    free(exchange->sources);
    free(exchange);
}

static int poll_event(struct bucket_exchange *exchange, struct bucket *bucket, bool may_block,
                      bool *ret_done, struct err *err)
{
    struct device *device = exchange->options.ops->device;
    *ret_done = true;
    if (may_block)
        return device->ops->event_wait(device, bucket->copied, err);
    return device->ops->event_done(device, bucket->copied, ret_done, err);
}

static int start_chunk(struct bucket_exchange *exchange, bool may_block, bool *ret_started,
                       struct err *err)
{
    struct bucket *bucket = &exchange->buckets[exchange->started_count % BUCKET_EXCHANGE_BUCKETS];
    struct bucket_exchange_queued_group *queued =
        &exchange->queue[exchange->queue_first % exchange->queue_max];
    *ret_started = false;
    if (exchange->queue_count == 0 || bucket->state != BUCKET_FREE)
        return 0;
    bool is_done = true;
    int status = bucket->records_reads ? poll_event(exchange, bucket, may_block, &is_done, err) : 0;
    if (status || !is_done)
        return status;
    bucket->group = queued->group;
    bucket->first = queued->first;
    bucket->pieces = queued->pieces;
    queued->first += exchange->options.chunk_elements;
    bucket->is_last = queued->first >= queued->end;
    if (bucket->is_last) {
        exchange->queue_first++;
        exchange->queue_count--;
    }
    exchange->started_count++;
    *ret_started = true;
    if (!bucket->send)
        return bucket_send(exchange, bucket, err);
    bucket->state = BUCKET_COPYING;
    return bucket_pack(exchange, bucket, err);
}

static int send_copied_buckets(struct bucket_exchange *exchange, bool may_block, struct err *err)
{
    int status = 0;
    for (uint64_t n = exchange->ended_count; n < exchange->started_count && !status; n++) {
        struct bucket *bucket = &exchange->buckets[n % BUCKET_EXCHANGE_BUCKETS];
        bool is_done = true;
        if (bucket->state != BUCKET_COPYING)
            continue;
        status = poll_event(exchange, bucket, may_block, &is_done, err);
        if (!status && !is_done)
            return 0;
        if (!status)
            status = bucket_send(exchange, bucket, err);
    }
    return status;
}

static int end_chunk(struct bucket_exchange *exchange, bool may_block, bool *ret_ended,
                     struct err *err)
{
    struct ops *ops = exchange->options.ops;
    struct bucket *bucket = &exchange->buckets[exchange->ended_count % BUCKET_EXCHANGE_BUCKETS];
    *ret_ended = false;
    if (exchange->ended_count == exchange->started_count || bucket->state != BUCKET_SENDING)
        return 0;
    int status = bucket_poll(exchange, bucket, may_block, ret_ended, err);
    if (status || !*ret_ended)
        return status;
    bucket->state = BUCKET_FREE;
    exchange->ended_count++;
    status = bucket_deliver(exchange, bucket, err);
    /* With device memory, stream order protects the buffer. */
    bucket->records_reads = !exchange->options.comm->takes_device_memory;
    if (!status && bucket->records_reads)
        status = ops->device->ops->event_record(ops->device, bucket->copied, ops->stream, err);
    return status;
}

/* may_block: waits for the oldest chunk. */
static int try_progress(struct bucket_exchange *exchange, bool may_block, bool *ret_progressed,
                        struct err *err)
{
    bool ended = false, started = true;
    int status = send_copied_buckets(exchange, may_block, err);
    if (!status)
        status = end_chunk(exchange, may_block, &ended, err);
    *ret_progressed = ended;
    while (!status && started) {
        status = start_chunk(exchange, may_block, &started, err);
        *ret_progressed = *ret_progressed || started;
    }
    return status;
}

static int make_progress(struct bucket_exchange *exchange, bool may_block, bool *ret_progressed,
                         struct err *err)
{
    *ret_progressed = false;
    if (!exchange->status)
        exchange->status = try_progress(exchange, may_block, ret_progressed, &exchange->detail);
    if (exchange->status && err)
        *err = exchange->detail;
    return exchange->status;
}

int bucket_exchange_pump(struct bucket_exchange *exchange, struct err *err)
{
    bool progressed = true;
    int status = 0;
    while (progressed && !status)
        status = make_progress(exchange, false, &progressed, err);
    return status;
}

int bucket_exchange_begin(struct bucket_exchange *exchange, uint64_t group,
                          const struct bucket_exchange_pieces *pieces, struct err *err)
{
    uint64_t end = 1; /* an empty group has one chunk */
    for (uint32_t rank = 0; rank < (uint32_t)exchange->options.comm->ranks; rank++)
        if (bucket_part(exchange, group, rank).elements > end)
            end = bucket_part(exchange, group, rank).elements;
    assert(exchange->queue_count < exchange->queue_max);
    uint64_t at = exchange->queue_first + exchange->queue_count++;
    exchange->queue[at % exchange->queue_max] =
        (struct bucket_exchange_queued_group){.group = group, .end = end, .pieces = *pieces};
    return bucket_exchange_pump(exchange, err);
}

bool bucket_exchange_is_idle(const struct bucket_exchange *exchange)
{
    return !exchange ||
           (exchange->queue_count == 0 && exchange->ended_count == exchange->started_count);
}

/* True if an unfinished chunk reads from source. */
static bool is_reading(const struct bucket_exchange *exchange, const void *source)
{
    for (uint64_t i = 0; i < exchange->queue_count; i++)
        if (exchange->queue[(exchange->queue_first + i) % exchange->queue_max].pieces.sources[0] ==
            source)
            return true;
    for (uint64_t n = exchange->ended_count; n < exchange->started_count; n++)
        if (exchange->buckets[n % BUCKET_EXCHANGE_BUCKETS].pieces.sources[0] == source)
            return true;
    return false;
}

/* source NULL: waits until nothing is in progress. */
static int wait_for_source(struct bucket_exchange *exchange, const void *source, struct err *err)
{
    uint64_t began_ns = clock_now_ns();
    int status = 0;
    bool progressed;
    while (!status && (source ? is_reading(exchange, source) : !bucket_exchange_is_idle(exchange)))
        status = make_progress(exchange, true, &progressed, err);
    exchange->waited_ns += clock_now_ns() - began_ns;
    return status;
}

int bucket_exchange_wait(struct bucket_exchange *exchange, const void *source, struct err *err)
{
    assert(source);
    return wait_for_source(exchange, source, err);
}

int bucket_exchange_drain(struct bucket_exchange *exchange, struct err *err)
{
    return wait_for_source(exchange, NULL, err);
}

uint64_t bucket_exchange_waited_ns(const struct bucket_exchange *exchange)
{
    return exchange ? exchange->waited_ns : 0;
}
