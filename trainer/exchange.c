/*
 * exchange — see exchange.h.
 *
 * A chunk goes through a slot: its sends are copied to pinned memory (where they must), an all-to-all a piece is started, and what comes is
 * handed over; then the slot is free. Chunks start in the order in which their groups were begun, and end in that order too, so that
 * additions are queued in the same order on every rank and in every run.
 */
#include "trainer/exchange.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum slot_state { SLOT_FREE, SLOT_COPYING, SLOT_SENDING };

struct slot {
    enum slot_state state;
    uint64_t group, first; /* elements of the part */
    bool is_last;          /* chunk of the group */
    struct exchange_pieces pieces;
    void *send;              /* where device memory is not the host's: [pieces_max][ranks][chunk_elements] */
    void *receive;           /* [pieces_total_max][chunk_elements] */
    struct comm_work *works; /* [pieces_max] */
    uint32_t works_count;
    struct device_event *copied; /* to send; or what was received is used */
    bool is_used;                /* the event stands for the latter */
};

/* A group that was begun and of which not all chunks have started. */
struct waiting {
    uint64_t group, first, end; /* the next chunk; elements of the largest part */
    struct exchange_pieces pieces;
};

/* Owner thread. */
struct exchange {
    struct exchange_options options;
    size_t element_bytes;
    struct slot slots[EXCHANGE_SLOTS];
    uint64_t started, ended; /* chunks; chunk n uses slot n % EXCHANGE_SLOTS */
    struct waiting *waiting; /* a ring of waiting_max: all groups that there are */
    uint64_t waiting_max, waiting_first, waiting_count;
    size_t *offsets[2], *bytes[2];       /* [ranks]: of sends, of receives */
    const void **sources;                /* [pieces_total_max] */
    char (*whats)[PARTITION_WHAT_BYTES]; /* [groups_count] */
    uint64_t waited_ns;
};

static bool is_host(const struct exchange *exchange)
{
    return exchange->options.ops->device->ops->is_host;
}

static uint32_t ranks_of(const struct exchange *exchange)
{
    return (uint32_t)exchange->options.comm->ranks;
}

static uint32_t rank_of(const struct exchange *exchange)
{
    return (uint32_t)exchange->options.comm->rank;
}

static size_t receive_bytes(const struct exchange_options *options)
{
    return options->pieces_total_max * options->chunk_elements * ops_master_bytes(options->ops);
}

static size_t send_bytes(const struct exchange_options *options)
{
    return options->ops->device->ops->is_host ? 0
                                              : (size_t)options->pieces_max * (size_t)options->comm->ranks *
                                                    options->chunk_elements * ops_master_bytes(options->ops);
}

uint64_t exchange_bytes(const struct exchange_options *options)
{
    return EXCHANGE_SLOTS * (receive_bytes(options) + send_bytes(options));
}

static int open_slot(struct exchange *exchange, struct slot *slot, struct err *err)
{
    const struct exchange_options *options = &exchange->options;
    struct device *device = options->ops->device;
    slot->works = calloc(options->pieces_max, sizeof *slot->works);
    if (!slot->works)
        return err_set(err, -ENOMEM, "out of memory for the exchange of gradients");
    int status = device->ops->mem_alloc(device, MEM_PINNED, receive_bytes(options), &slot->receive, err);
    if (!status && !is_host(exchange))
        status = device->ops->mem_alloc(device, MEM_PINNED, send_bytes(options), &slot->send, err);
    if (!status)
        status = device->ops->event_open(device, &slot->copied, err);
    return status;
}

static int allocate(struct exchange *exchange, struct err *err)
{
    uint32_t ranks = ranks_of(exchange);
    exchange->waiting_max = exchange->options.partition->params->groups_count;
    exchange->waiting = calloc(exchange->waiting_max, sizeof *exchange->waiting);
    exchange->sources = calloc(exchange->options.pieces_total_max, sizeof *exchange->sources);
    exchange->whats = partition_whats(exchange->options.partition, "gradients");
    bool has_all = exchange->waiting && exchange->sources && exchange->whats;
    for (int i = 0; i < 2; i++) {
        exchange->offsets[i] = calloc(ranks, sizeof *exchange->offsets[i]);
        exchange->bytes[i] = calloc(ranks, sizeof *exchange->bytes[i]);
        has_all = has_all && exchange->offsets[i] && exchange->bytes[i];
    }
    return has_all ? 0 : err_set(err, -ENOMEM, "out of memory for the exchange of gradients");
}

int exchange_open(const struct exchange_options *options, struct exchange **ret_exchange, struct err *err)
{
    assert(options->chunk_elements > 0 && options->pieces_max <= EXCHANGE_PIECES_MAX);
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return err_set(err, -ENOMEM, "out of memory for the exchange of gradients");
    exchange->options = *options;
    exchange->element_bytes = ops_master_bytes(options->ops);
    int status = allocate(exchange, err);
    for (int i = 0; i < EXCHANGE_SLOTS && !status; i++)
        status = open_slot(exchange, &exchange->slots[i], err);
    if (status) {
        exchange_close(exchange);
        return status;
    }
    *ret_exchange = exchange;
    return 0;
}

void exchange_close(struct exchange *exchange)
{
    if (!exchange)
        return;
    const struct exchange_options *options = &exchange->options;
    struct device *device = options->ops->device;
    for (int i = 0; i < EXCHANGE_SLOTS; i++) {
        struct slot *slot = &exchange->slots[i];
        if (slot->copied)
            device->ops->event_close(device, slot->copied);
        /* what is still under way may be written to until the process exits */
        bool is_idle = slot->state != SLOT_SENDING;
        if (is_idle && slot->send)
            device->ops->mem_free(device, MEM_PINNED, slot->send, send_bytes(options));
        if (is_idle && slot->receive)
            device->ops->mem_free(device, MEM_PINNED, slot->receive, receive_bytes(options));
        if (is_idle)
            free(slot->works);
        else
            comm_retain(slot->works);
    }
    for (int i = 0; i < 2; i++) {
        free(exchange->offsets[i]);
        free(exchange->bytes[i]);
    }
    if (exchange_is_idle(exchange))
        free(exchange->whats);
    else
        comm_retain(exchange->whats);
    free(exchange->waiting);
    free(exchange->sources);
    free(exchange);
}

/* Of elements first.. of a part, in chunk elements. */
static uint64_t elements_of_chunk(const struct exchange *exchange, uint64_t part_elements, uint64_t first)
{
    uint64_t chunk = exchange->options.chunk_elements;
    if (first >= part_elements)
        return 0;
    return part_elements - first < chunk ? part_elements - first : chunk;
}

static struct span part_of(const struct exchange *exchange, uint64_t group, uint32_t rank)
{
    return partition_trained_part(exchange->options.partition, group, rank);
}

/* Where, of the group, the chunk of that rank's part begins: elements. */
static uint64_t place_of(const struct exchange *exchange, const struct slot *slot, uint32_t rank)
{
    return part_of(exchange, slot->group, rank).offset -
           partition_trained_group(exchange->options.partition, slot->group).offset + slot->first;
}

static void *send_place(const struct exchange *exchange, const struct slot *slot, uint32_t piece,
                        uint32_t rank)
{
    uint64_t chunk = (uint64_t)piece * ranks_of(exchange) + rank;
    return (char *)slot->send + chunk * exchange->options.chunk_elements * exchange->element_bytes;
}

/* Queues what must be copied before it can be sent. */
static int copy_sends(struct exchange *exchange, struct slot *slot, struct err *err)
{
    struct ops *ops = exchange->options.ops;
    int status = 0;
    for (uint32_t piece = 0; piece < slot->pieces.counts[rank_of(exchange)]; piece++)
        for (uint32_t rank = 0; rank < ranks_of(exchange) && !status; rank++) {
            uint64_t elements =
                elements_of_chunk(exchange, part_of(exchange, slot->group, rank).elements, slot->first);
            const char *source = slot->pieces.sources[piece];
            if (elements > 0)
                status =
                    ops->device->ops->copy(ops->device, ops->stream, send_place(exchange, slot, piece, rank),
                                           source + place_of(exchange, slot, rank) * exchange->element_bytes,
                                           elements * exchange->element_bytes, err);
        }
    slot->is_used = false;
    return status ? status : ops->device->ops->event_record(ops->device, slot->copied, ops->stream, err);
}

static void plan_sends(struct exchange *exchange, const struct slot *slot, uint32_t piece)
{
    bool has = piece < slot->pieces.counts[rank_of(exchange)];
    for (uint32_t rank = 0; rank < ranks_of(exchange); rank++) {
        uint64_t elements =
            elements_of_chunk(exchange, part_of(exchange, slot->group, rank).elements, slot->first);
        bool sends = has && elements > 0;
        uint64_t chunk = (uint64_t)piece * ranks_of(exchange) + rank;
        uint64_t at = slot->send ? chunk * exchange->options.chunk_elements : place_of(exchange, slot, rank);
        exchange->bytes[0][rank] = sends ? elements * exchange->element_bytes : 0;
        exchange->offsets[0][rank] = sends ? at * exchange->element_bytes : 0;
    }
}

static void plan_receives(struct exchange *exchange, const struct slot *slot, uint32_t piece)
{
    uint64_t chunk = exchange->options.chunk_elements;
    uint64_t elements =
        elements_of_chunk(exchange, part_of(exchange, slot->group, rank_of(exchange)).elements, slot->first);
    uint64_t before = 0;
    for (uint32_t rank = 0; rank < ranks_of(exchange); rank++) {
        bool has = piece < slot->pieces.counts[rank];
        exchange->bytes[1][rank] = has ? elements * exchange->element_bytes : 0;
        exchange->offsets[1][rank] = (before + piece) * chunk * exchange->element_bytes * has;
        before += slot->pieces.counts[rank];
    }
}

static uint32_t most_pieces(const struct exchange *exchange, const struct slot *slot)
{
    uint32_t most = 0;
    for (uint32_t rank = 0; rank < ranks_of(exchange); rank++)
        if (slot->pieces.counts[rank] > most)
            most = slot->pieces.counts[rank];
    return most;
}

static int send(struct exchange *exchange, struct slot *slot, struct err *err)
{
    struct comm *comm = exchange->options.comm;
    uint32_t own = slot->pieces.counts[rank_of(exchange)], most = most_pieces(exchange, slot);
    uint64_t timeout_ns = exchange->options.timeout_ns;
    const struct comm_options options = {.deadline_ns = timeout_ns ? clock_now_ns() + timeout_ns : 0,
                                         .what = exchange->whats[slot->group]};
    int status = 0;
    slot->state = SLOT_SENDING;
    slot->works_count = 0;
    for (uint32_t piece = 0; piece < most && !status; piece++) {
        const void *source = slot->send    ? slot->send
                             : piece < own ? slot->pieces.sources[piece]
                                           : slot->receive;
        plan_sends(exchange, slot, piece);
        plan_receives(exchange, slot, piece);
        status = comm->ops->all_to_all(comm, source, exchange->offsets[0], exchange->bytes[0], slot->receive,
                                       exchange->offsets[1], exchange->bytes[1], &options,
                                       &slot->works[piece], err);
        slot->works_count += !status;
    }
    return status;
}

/* Is the event of the slot past? Blocks for it where told to. */
static int event_is_past(struct exchange *exchange, struct slot *slot, bool blocks, bool *ret_past,
                         struct err *err)
{
    struct device *device = exchange->options.ops->device;
    *ret_past = true;
    if (blocks)
        return device->ops->event_wait(device, slot->copied, err);
    return device->ops->event_done(device, slot->copied, ret_past, err);
}

/* Starts the next chunk of the group that waits longest, where its slot is free. */
static int start_chunk(struct exchange *exchange, bool blocks, bool *ret_started, struct err *err)
{
    struct slot *slot = &exchange->slots[exchange->started % EXCHANGE_SLOTS];
    struct waiting *waiting = &exchange->waiting[exchange->waiting_first % exchange->waiting_max];
    *ret_started = false;
    if (exchange->waiting_count == 0 || slot->state != SLOT_FREE)
        return 0;
    bool is_past = true;
    int status = slot->is_used ? event_is_past(exchange, slot, blocks, &is_past, err) : 0;
    if (status || !is_past)
        return status;
    slot->group = waiting->group;
    slot->first = waiting->first;
    slot->pieces = waiting->pieces;
    waiting->first += exchange->options.chunk_elements;
    slot->is_last = waiting->first >= waiting->end;
    if (slot->is_last) {
        exchange->waiting_first++;
        exchange->waiting_count--;
    }
    exchange->started++;
    *ret_started = true;
    if (is_host(exchange))
        return send(exchange, slot, err);
    slot->state = SLOT_COPYING;
    return copy_sends(exchange, slot, err);
}

/* Sends what has been copied, in order. */
static int send_copied(struct exchange *exchange, bool blocks, struct err *err)
{
    int status = 0;
    for (uint64_t n = exchange->ended; n < exchange->started && !status; n++) {
        struct slot *slot = &exchange->slots[n % EXCHANGE_SLOTS];
        bool is_past = true;
        if (slot->state != SLOT_COPYING)
            continue;
        status = event_is_past(exchange, slot, blocks, &is_past, err);
        if (!status && !is_past)
            return 0;
        if (!status)
            status = send(exchange, slot, err);
    }
    return status;
}

static int works_are_done(struct exchange *exchange, struct slot *slot, bool blocks, bool *ret_done,
                          struct err *err)
{
    struct comm *comm = exchange->options.comm;
    *ret_done = true;
    for (uint32_t i = 0; i < slot->works_count; i++) {
        struct comm_work *work = &slot->works[i];
        bool done = work->done;
        int status = blocks ? comm_wait(comm, work, err)
                     : done ? work->status
                            : comm->ops->test(work, &done, err);
        done = done || blocks;
        if (status)
            return status;
        if (!done) {
            *ret_done = false;
            return 0;
        }
    }
    return 0;
}

static int hand_over(struct exchange *exchange, struct slot *slot, struct err *err)
{
    uint64_t elements =
        elements_of_chunk(exchange, part_of(exchange, slot->group, rank_of(exchange)).elements, slot->first);
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < ranks_of(exchange); rank++)
        count += slot->pieces.counts[rank];
    for (uint32_t i = 0; i < count; i++)
        exchange->sources[i] =
            (char *)slot->receive + i * exchange->options.chunk_elements * exchange->element_bytes;
    const struct exchange_chunk chunk = {slot->group,   slot->first,       elements,
                                         slot->is_last, exchange->sources, count};
    return exchange->options.received(exchange->options.context, &chunk, err);
}

/* Ends the oldest chunk where it has come. */
static int end_chunk(struct exchange *exchange, bool blocks, bool *ret_ended, struct err *err)
{
    struct ops *ops = exchange->options.ops;
    struct slot *slot = &exchange->slots[exchange->ended % EXCHANGE_SLOTS];
    *ret_ended = false;
    if (exchange->ended == exchange->started || slot->state != SLOT_SENDING)
        return 0;
    int status = works_are_done(exchange, slot, blocks, ret_ended, err);
    if (status || !*ret_ended)
        return status;
    slot->state = SLOT_FREE;
    exchange->ended++;
    status = hand_over(exchange, slot, err);
    slot->is_used = true;
    return status ? status : ops->device->ops->event_record(ops->device, slot->copied, ops->stream, err);
}

/* One round of what can be done; blocks for the oldest chunk where told to. */
static int move_on(struct exchange *exchange, bool blocks, bool *ret_moved, struct err *err)
{
    bool ended = false, started = true;
    int status = send_copied(exchange, blocks, err);
    if (!status)
        status = end_chunk(exchange, blocks, &ended, err);
    *ret_moved = ended;
    while (!status && started) {
        status = start_chunk(exchange, blocks, &started, err);
        *ret_moved = *ret_moved || started;
    }
    return status;
}

int exchange_pump(struct exchange *exchange, struct err *err)
{
    bool moved = true;
    int status = 0;
    while (moved && !status)
        status = move_on(exchange, false, &moved, err);
    return status;
}

/* With fewer groups than leaves of gradients, a group of the next micro-batch may be ready while all groups of this one wait. */
static int wait_for_room(struct exchange *exchange, struct err *err)
{
    uint64_t began_ns = clock_now_ns();
    int status = 0;
    bool moved;
    while (exchange->waiting_count == exchange->waiting_max && !status)
        status = move_on(exchange, true, &moved, err);
    exchange->waited_ns += clock_now_ns() - began_ns;
    return status;
}

int exchange_begin(struct exchange *exchange, uint64_t group, const struct exchange_pieces *pieces,
                   struct err *err)
{
    uint64_t end = 1; /* a group without elements has a chunk, too */
    for (uint32_t rank = 0; rank < ranks_of(exchange); rank++)
        if (part_of(exchange, group, rank).elements > end)
            end = part_of(exchange, group, rank).elements;
    int status = wait_for_room(exchange, err);
    if (status)
        return status;
    uint64_t at = exchange->waiting_first + exchange->waiting_count++;
    exchange->waiting[at % exchange->waiting_max] =
        (struct waiting){.group = group, .end = end, .pieces = *pieces};
    return exchange_pump(exchange, err);
}

bool exchange_is_idle(const struct exchange *exchange)
{
    return !exchange || (exchange->waiting_count == 0 && exchange->ended == exchange->started);
}

int exchange_drain(struct exchange *exchange, struct err *err)
{
    uint64_t began_ns = clock_now_ns();
    int status = 0;
    bool moved;
    while (!exchange_is_idle(exchange) && !status)
        status = move_on(exchange, true, &moved, err);
    exchange->waited_ns += clock_now_ns() - began_ns;
    return status;
}

/* Does a chunk of the group still read its pieces? */
static bool reads_group(const struct exchange *exchange, uint64_t group)
{
    for (uint64_t i = 0; i < exchange->waiting_count; i++)
        if (exchange->waiting[(exchange->waiting_first + i) % exchange->waiting_max].group == group)
            return true;
    for (uint64_t n = exchange->ended; n < exchange->started; n++)
        if (exchange->slots[n % EXCHANGE_SLOTS].group == group)
            return true;
    return false;
}

int exchange_wait_group(struct exchange *exchange, uint64_t group, struct err *err)
{
    uint64_t began_ns = clock_now_ns();
    int status = 0;
    bool moved;
    while (reads_group(exchange, group) && !status)
        status = move_on(exchange, true, &moved, err);
    exchange->waited_ns += clock_now_ns() - began_ns;
    return status;
}

uint64_t exchange_waited_ns(const struct exchange *exchange)
{
    return exchange ? exchange->waited_ns : 0;
}
