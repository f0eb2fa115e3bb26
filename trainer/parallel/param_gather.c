/*
 * param_gather — see param_gather.h.
 */
#include "trainer/parallel/param_gather.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>

struct gather_slot {
    uint64_t group;
    enum param_gather_level level;
    char *buffer;
    size_t element_bytes;
    char *staging; /* one group; NULL if the communicator accesses device memory */
    /* Recorded after the copies to staging, and again after the copies from staging. */
    struct device_event *copied;
    bool is_started; /* false while this rank's piece is being copied */
    struct comm_work work;
};

/* Owner thread. */
struct param_gather {
    struct param_gather_options options;
    struct gather_slot slots[PARAM_GATHER_SLOTS];
    uint64_t begun_count, ended_count;       /* gather n uses slot n % PARAM_GATHER_SLOTS */
    size_t *receive_offsets, *receive_bytes; /* [ranks] */
    size_t *send_offsets, *send_bytes;       /* [ranks] */
    char (*labels)[PARTITION_LABEL_BYTES];   /* [groups_count] */
    uint64_t waited_ns;
};

static bool is_staged(const struct param_gather_options *options)
{
    return !options->ops->device->ops->is_host && !options->comm->takes_device_memory;
}

static size_t staging_bytes(const struct param_gather_options *options)
{
    return is_staged(options)
               ? options->partition->group_elements_max * ops_master_bytes(options->ops)
               : 0;
}

static int allocate(struct param_gather *gather, struct err *err)
{
    const struct param_gather_options *options = &gather->options;
    struct device *device = options->ops->device;
    size_t **arrays[] = {&gather->receive_offsets, &gather->receive_bytes, &gather->send_offsets,
                         &gather->send_bytes};
    int status = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0] && !status; i++) {
        *arrays[i] = calloc((size_t)options->comm->ranks, sizeof(size_t));
        if (!*arrays[i])
            status = err_set(err, -ENOMEM, "out of memory for gathering weights");
    }
    gather->labels = partition_labels(options->partition, options->purpose);
    if (!status && !gather->labels)
        status = err_set(err, -ENOMEM, "out of memory for gathering weights");
    for (int i = 0; i < PARAM_GATHER_SLOTS && !status; i++) {
        status = device->ops->event_open(device, &gather->slots[i].copied, err);
        if (!status && is_staged(options))
            status = device->ops->mem_alloc(device, mem_for(MEM_PINNED, MEM_FOR_COMMUNICATION),
                                            staging_bytes(options),
                                            (void **)&gather->slots[i].staging, err);
    }
    return status;
}

int param_gather_open(const struct param_gather_options *options, struct param_gather **ret_gather,
                      struct err *err)
{
    struct param_gather *gather = calloc(1, sizeof *gather);
    if (!gather)
        return err_set(err, -ENOMEM, "out of memory for gathering weights");
    gather->options = *options;
    int status = allocate(gather, err);
    if (status) {
        param_gather_close(gather);
        return status;
    }
    *ret_gather = gather;
    return 0;
}

static struct gather_slot *slot_of(struct param_gather *gather, uint64_t number)
{
    return &gather->slots[number % PARAM_GATHER_SLOTS];
}

bool param_gather_is_idle(const struct param_gather *gather)
{
    return !gather || gather->begun_count == gather->ended_count;
}

uint64_t param_gather_waited_ns(const struct param_gather *gather)
{
    return gather ? gather->waited_ns : 0;
}

void param_gather_close(struct param_gather *gather)
{
    if (!gather)
        return;
    struct device *device = gather->options.ops->device;
    /* Operations in progress may write to staging until the process exits. */
    bool is_idle = gather->begun_count == gather->ended_count;
    for (int i = 0; i < PARAM_GATHER_SLOTS; i++) {
        if (gather->slots[i].copied)
            device->ops->event_close(device, gather->slots[i].copied);
        if (gather->slots[i].staging && is_idle)
            device->ops->mem_free(device, mem_for(MEM_PINNED, MEM_FOR_COMMUNICATION),
                                  gather->slots[i].staging, staging_bytes(&gather->options));
    }
    free(gather->receive_offsets);
    free(gather->receive_bytes);
    free(gather->send_offsets);
    free(gather->send_bytes);
    if (is_idle) {
        free(gather->labels);
        free(gather);
    } else { /* operations in progress use both */
        comm_retain(gather->labels);
        comm_retain(gather);
    }
}

static uint32_t rank_of(const struct param_gather *gather)
{
    return (uint32_t)gather->options.comm->rank;
}

static bool is_member(const struct param_gather *gather, const struct gather_slot *slot,
                      uint32_t rank)
{
    const struct partition *partition = gather->options.partition;
    return slot->level == PARAM_GATHER_PARTS
               ? partition_is_same_shard(partition, slot->group, rank, rank_of(gather))
               : partition_is_same_shard_group(partition, slot->group, rank, rank_of(gather));
}

static struct span piece_of(const struct param_gather *gather, const struct gather_slot *slot,
                            uint32_t rank)
{
    const struct partition *partition = gather->options.partition;
    uint64_t group = slot->group;
    bool is_part = slot->level == PARAM_GATHER_PARTS;
    struct span piece = is_part ? partition_trained_part(partition, group, rank)
                                : partition_shard(partition, group, rank);
    piece.offset -= is_part ? partition_trained_shard(partition, group, rank_of(gather)).offset
                            : partition_group(partition, group).offset;
    return piece;
}

static int copy_piece(struct param_gather *gather, const struct gather_slot *slot, uint32_t rank,
                      bool to_staging, struct err *err)
{
    struct ops *ops = gather->options.ops;
    struct span piece = piece_of(gather, slot, rank);
    size_t offset = piece.offset * slot->element_bytes;
    char *target = to_staging ? slot->staging : slot->buffer,
         *source = to_staging ? slot->buffer : slot->staging;
    if (piece.elements == 0)
        return 0;
    return ops->device->ops->copy(ops->device, gather->options.stream, target + offset,
                                  source + offset, piece.elements * slot->element_bytes, err);
}

static int start_transfer(struct param_gather *gather, struct gather_slot *slot, struct err *err)
{
    struct comm *comm = gather->options.comm;
    struct span own = piece_of(gather, slot, rank_of(gather));
    char *memory = slot->staging ? slot->staging : slot->buffer;
    uint64_t timeout_ns = gather->options.timeout_ns;
    const struct comm_options options = {
        .deadline_ns = timeout_ns ? clock_now_ns() + timeout_ns : 0,
        .purpose = gather->labels[slot->group],
        .trace_name = gather->options.trace_name,
        .stream = comm->takes_device_memory ? gather->options.stream : NULL};
    for (uint32_t rank = 0; rank < (uint32_t)comm->ranks; rank++) {
        bool is_other = rank != rank_of(gather) && is_member(gather, slot, rank);
        struct span piece = is_other ? piece_of(gather, slot, rank) : (struct span){0};
        gather->receive_offsets[rank] = piece.offset * slot->element_bytes;
        gather->receive_bytes[rank] = piece.elements * slot->element_bytes;
        gather->send_offsets[rank] = own.offset * slot->element_bytes;
        gather->send_bytes[rank] = is_other ? own.elements * slot->element_bytes : 0;
    }
    int status = comm->ops->all_to_all(comm, memory, gather->send_offsets, gather->send_bytes,
                                       memory, gather->receive_offsets, gather->receive_bytes,
                                       &options, &slot->work, err);
    slot->is_started = status == 0;
    return status;
}

/* Waits for the oldest gather and copies the received pieces from staging. */
static int end_oldest_gather(struct param_gather *gather, struct err *err)
{
    struct ops *ops = gather->options.ops;
    struct gather_slot *slot = slot_of(gather, gather->ended_count);
    int status = 0;
    if (!slot->is_started) {
        status = ops->device->ops->event_wait(ops->device, slot->copied, err);
        if (!status)
            status = start_transfer(gather, slot, err);
    }
    uint64_t began_ns = clock_now_ns();
    if (!status)
        status = comm_wait(gather->options.comm, &slot->work, err);
    gather->waited_ns += clock_now_ns() - began_ns;
    if (status)
        return status;
    gather->ended_count++;
    for (uint32_t rank = 0;
         slot->staging && rank < (uint32_t)gather->options.comm->ranks && !status; rank++)
        if (rank != rank_of(gather) && is_member(gather, slot, rank))
            status = copy_piece(gather, slot, rank, false, err);
    if (slot->staging && !status)
        status =
            ops->device->ops->event_record(ops->device, slot->copied, gather->options.stream, err);
    return status;
}

/* Starts, in order, the gathers whose copies are done; never blocks. */
static int start_copied_gathers(struct param_gather *gather, struct err *err)
{
    struct device *device = gather->options.ops->device;
    int status = 0;
    for (uint64_t n = gather->ended_count; n < gather->begun_count && !status; n++) {
        struct gather_slot *slot = slot_of(gather, n);
        bool is_copied = true;
        if (slot->is_started)
            continue;
        status = device->ops->event_done(device, slot->copied, &is_copied, err);
        if (!status && !is_copied)
            return 0;
        if (!status)
            status = start_transfer(gather, slot, err);
    }
    return status;
}

static int poll_oldest_gather(struct param_gather *gather, bool *ret_done, struct err *err)
{
    struct gather_slot *slot = slot_of(gather, gather->ended_count);
    *ret_done = false;
    if (gather->ended_count == gather->begun_count || !slot->is_started)
        return 0;
    *ret_done = slot->work.done;
    return *ret_done ? 0 : gather->options.comm->ops->test(&slot->work, ret_done, err);
}

int param_gather_pump(struct param_gather *gather, bool *ret_has_free_slot, struct err *err)
{
    struct device *device = gather->options.ops->device;
    const struct gather_slot *next = slot_of(gather, gather->begun_count);
    bool is_done = true, is_copied = true;
    int status = start_copied_gathers(gather, err);
    while (is_done && !status) {
        status = poll_oldest_gather(gather, &is_done, err);
        if (is_done && !status)
            status = end_oldest_gather(gather, err);
    }
    bool is_free = gather->begun_count - gather->ended_count < PARAM_GATHER_SLOTS;
    if (!status && is_free && next->staging && gather->begun_count >= PARAM_GATHER_SLOTS)
        status = device->ops->event_done(device, next->copied, &is_copied, err);
    *ret_has_free_slot = is_free && is_copied;
    return status;
}

int param_gather_begin(struct param_gather *gather, uint64_t group, enum param_gather_level level,
                       void *buffer, size_t element_bytes, struct err *err)
{
    struct ops *ops = gather->options.ops;
    int status = gather->begun_count - gather->ended_count == PARAM_GATHER_SLOTS
                     ? end_oldest_gather(gather, err)
                     : 0;
    if (status)
        return status;
    struct gather_slot *slot = slot_of(gather, gather->begun_count);
    if (slot->staging && gather->begun_count >= PARAM_GATHER_SLOTS) /* wait for earlier copies */
        status = ops->device->ops->event_wait(ops->device, slot->copied, err);
    if (status)
        return status;
    slot->group = group;
    slot->level = level;
    slot->buffer = buffer;
    slot->element_bytes = element_bytes;
    slot->is_started = false;
    gather->begun_count++;
    if (slot->staging) {
        status = copy_piece(gather, slot, rank_of(gather), true, err);
        if (!status)
            status = ops->device->ops->event_record(ops->device, slot->copied,
                                                    gather->options.stream, err);
    } else {
        status = start_transfer(gather, slot, err);
    }
    if (status)
        return status;
    return gather->options.serialized && *gather->options.serialized
               ? param_gather_wait_all(gather, err)
               : start_copied_gathers(gather, err);
}

int param_gather_wait(struct param_gather *gather, uint64_t group, struct err *err)
{
    uint64_t until = gather->ended_count;
    for (uint64_t n = gather->ended_count; n < gather->begun_count; n++)
        if (slot_of(gather, n)->group == group)
            until = n + 1;
    int status = start_copied_gathers(gather, err);
    while (gather->ended_count < until && !status)
        status = end_oldest_gather(gather, err);
    return status;
}

int param_gather_wait_all(struct param_gather *gather, struct err *err)
{
    int status = 0;
    while (gather->ended_count < gather->begun_count && !status)
        status = end_oldest_gather(gather, err);
    return status;
}
