/*
 * budget — sets the number of slots and the size of the read-ahead, within memory_bytes.
 *
 *     budget = fixed (workers' scratch, lists) + slots * (batch buffer + its lists) + arena
 *
 * The loader gets at least two slots, and as many as the budget allows with read-ahead for each.
 * The arena is no larger than the slots and the lanes' long reads can use. Long reads are as long
 * as leaves memory for LONG_READS_SLOTS slots. Estimates assume samples of mean size; the rest
 * of the budget serves larger ones (memory_budget.c).
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum {
    WORKER_IMAGE_BYTES = 2 << 20, /* a decoder's planes and scratch for a typical photo */
    WORKER_OTHER_BYTES = 256 << 10,
    WORKER_TOKENIZER_BYTES = 2 << 20, /* a cache of words */
    ARENA_MIN_BYTES = 1 << 20,
    ARRAY_ALIGN_BYTES = 64,
    /* initial read-ahead; more micro-batches if their reads are smaller than AHEAD_BYTES */
    AHEAD_MIN = 4,
    AHEAD_BYTES = 8 << 20,
    AHEAD_INLINE_BYTES = 4 << 20, /* fits in the last-level cache */
    LONG_READS_SLOTS = 8,
};

struct costs {
    uint64_t fixed_bytes, slot_memory_bytes, slot_lists_bytes, slot_reads_bytes, arena_min_bytes;
    uint64_t slot_ragged_bytes; /* of slot_memory_bytes: ragged fields of mean size */
};

/* The long reads that the budget allows. */
struct long_reads_costs {
    uint32_t quarters;
    uint64_t arena_bytes, lists_bytes;
    uint64_t all_bytes_max; /* the rest of the arena is for single reads */
};

/* Saturating arithmetic: UINT64_MAX exceeds every budget. */
static uint64_t sat_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t sat_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t sat_round_up(uint64_t bytes, uint64_t unit)
{
    return bytes > UINT64_MAX - unit ? UINT64_MAX : bytes_round_up(bytes, unit);
}

/* The memories of a micro-batch; with LOADER_BYTES, batches point into the arena. */
static void batch_bytes(const struct loader *loader, uint64_t ret_bytes[BATCH_MEMORY_KINDS])
{
    const struct loader_options *options = &loader->options;
    uint64_t items = options->batching.micro, large = 0, small = 0;
    switch (options->decode) {
    case LOADER_IMAGE:
    case LOADER_RECORD:
        large = fields_large_offset(loader, options->fields_count);
        break;
    case LOADER_TOKENS:
        large = sat_mul(items, ((uint64_t)options->text.block + 1) * 4);
        break;
    case LOADER_BYTES:
        break;
    }
    if (options->decode != LOADER_BYTES)
        small = fields_offset(loader, options->fields_count) + items * loader_valid_bytes(loader);
    ret_bytes[BATCH_MEMORY_LARGE] = large;
    ret_bytes[BATCH_MEMORY_SMALL] = small;
}

static uint64_t worker_memory(const struct loader *loader)
{
    const uint64_t tokens_bytes = (uint64_t)field_tokenizers_count(loader) * WORKER_TOKENIZER_BYTES;
    const uint64_t images_bytes = (uint64_t)loader_geometries(loader) * WORKER_IMAGE_BYTES;
    return sat_add((images_bytes ? images_bytes : WORKER_OTHER_BYTES) + tokens_bytes,
                   loader_picture_bytes_max(loader));
}

/* Cannot overflow with LOADER_MICRO_MAX items or fewer. */
static uint64_t list_memory(const struct loader *loader)
{
    bool is_bytes = loader->options.decode == LOADER_BYTES;
    uint64_t items = loader->options.batching.micro, pieces = items * loader->pieces_max;
    return sizeof(struct load_slot) +
           items *
               (sizeof(struct batch_item) + sizeof(struct load_item) + sizeof(struct load_work) +
                loader->options.fields_count * sizeof(struct ragged_place)) +
           pieces * (sizeof(struct load_piece) + sizeof(struct load_chunk) +
                     (is_bytes ? sizeof(struct batch_bytes) : 0));
}

static struct costs estimate_costs(const struct loader *loader)
{
    bool is_bytes = loader->options.decode == LOADER_BYTES;
    uint64_t read_bytes = 0; /* maximum over all datasets */
    for (uint32_t i = 0; i < loader->sources_count; i++) {
        const struct view *view = loader->sources[i].view;
        uint64_t bytes =
            sat_add(view_read_bytes(view), view_block_bytes(view) + 2 * READ_ARENA_PAGE_BYTES);
        read_bytes = bytes > read_bytes ? bytes : read_bytes;
    }
    uint64_t batch[BATCH_MEMORY_KINDS],
        ragged_bytes = ragged_mean_bytes(loader, loader->options.batching.micro);
    batch_bytes(loader, batch);
    struct costs costs = {
        .fixed_bytes = sat_add(
            sat_mul(loader->pool.workers_count, worker_memory(loader)),
            loader->options.batching.micro * loader->pieces_max * sizeof(struct extent) +
                LOADER_QUARANTINE_MAX * (sizeof(struct loader_bad_sample) + LOADER_REASON_BYTES) +
                sizeof *loader),
        .slot_memory_bytes = sat_add(
            ragged_bytes, sat_add(sat_round_up(batch[BATCH_MEMORY_LARGE], ARRAY_ALIGN_BYTES),
                                  sat_round_up(batch[BATCH_MEMORY_SMALL], ARRAY_ALIGN_BYTES))),
        .slot_ragged_bytes = ragged_bytes,
        .slot_lists_bytes = list_memory(loader),
        .slot_reads_bytes = sat_mul(loader->options.batching.micro, read_bytes),
    };
    /* with LOADER_BYTES, whole batches stay in the arena */
    uint64_t min_bytes = is_bytes ? sat_mul(2, costs.slot_reads_bytes) : sat_mul(4, read_bytes);
    costs.arena_min_bytes = sat_round_up(min_bytes > ARENA_MIN_BYTES ? min_bytes : ARENA_MIN_BYTES,
                                         READ_ARENA_PAGE_BYTES);
    return costs;
}

/* Returns quarters 0 if not even quarters of runs fit. budget: what the fixed costs leave. */
static struct long_reads_costs fit_long_reads(const struct loader *loader,
                                              const struct costs *costs, uint64_t budget)
{
    uint64_t slot_bytes = sat_add(sat_add(costs->slot_memory_bytes, costs->slot_lists_bytes),
                                  sat_mul(2, costs->slot_reads_bytes));
    uint64_t slots = loader->options.batches_ahead
                         ? bytes_min(loader->options.batches_ahead, LONG_READS_SLOTS)
                         : LONG_READS_SLOTS;
    uint64_t slots_bytes = sat_add(sat_mul(slots, slot_bytes), costs->arena_min_bytes);
    uint64_t parts = long_reads_parts(loader);
    uint64_t lists_bytes = sat_add(
        sat_mul(parts, sizeof(struct kept_part) + LONG_READ_CHUNKS_MAX * sizeof(struct load_chunk)),
        LONG_READ_EXTENTS_MAX * sizeof(struct extent));
    for (uint32_t quarters = ORDER_QUARTERS; parts > 0 && quarters > 0; quarters /= 2) {
        /* sizes differ, so some of the arena is lost between them */
        uint64_t kept_bytes = long_reads_bytes(loader, quarters);
        uint64_t arena_bytes = sat_add(kept_bytes, kept_bytes / 4);
        if (sat_add(sat_add(arena_bytes, lists_bytes), slots_bytes) <= budget)
            return (struct long_reads_costs){
                .quarters = quarters, .arena_bytes = arena_bytes, .lists_bytes = lists_bytes};
    }
    return (struct long_reads_costs){0};
}

static struct long_reads_costs choose_long_reads(struct loader *loader, const struct costs *costs,
                                                 uint64_t budget)
{
    long_reads_choose_resident(loader, loader->options.memory_bytes / 2);
    struct long_reads_costs chosen = fit_long_reads(loader, costs, budget);
    if (chosen.quarters > 0)
        return chosen;
    long_reads_choose_resident(loader, 0);
    return fit_long_reads(loader, costs, budget);
}

static int budget_too_small(const struct loader *loader, uint64_t min_bytes, struct err *err)
{
    char wanted[STR_SIZE_BYTES], given[STR_SIZE_BYTES];
    err_set(err, -EINVAL, "the loader's memory budget is too small");
    err_at(err, loader->sources[0].dataset->path, ERR_NO_OFFSET);
    err_expected(err, "at least %s (%" PRIu64 " bytes) for two micro-batches of %" PRIu64,
                 str_format_size(min_bytes, wanted), min_bytes, loader->options.batching.micro);
    err_found(err, "%s", str_format_size(loader->options.memory_bytes, given));
    err_advise(err, "use more memory, fewer workers or a smaller micro-batch");
    return -EINVAL;
}

static void *allocate(uint64_t count, uint64_t bytes)
{
    return calloc(count ? count : 1, bytes ? bytes : 1);
}

static int allocate_reader_lists(struct loader *loader, const struct long_reads_costs *costs)
{
    struct reader *reader = &loader->reader;
    uint64_t pieces = loader->options.batching.micro * loader->pieces_max;
    uint64_t extents =
        costs->quarters && pieces < LONG_READ_EXTENTS_MAX ? LONG_READ_EXTENTS_MAX : pieces;
    uint64_t bytes_max = bytes_min(LONG_READ_BYTES_MAX, loader->memory.arena.capacity_bytes / 4);
    int status = long_reads_init(loader, costs->quarters, bytes_max, costs->all_bytes_max);
    if (status)
        return status;
    reader->completed_requests = allocate(LOADER_QUEUE_DEPTH, sizeof *reader->completed_requests);
    reader->extents = allocate(extents, sizeof *reader->extents);
    uint64_t kept = reader->long_reads.first_parts[loader->sources_count] * LONG_READ_CHUNKS_MAX;
    return reader->completed_requests && reader->extents
               ? chunk_pool_init(&reader->chunks, loader->slots_count * pieces + kept + 1)
               : -ENOMEM;
}

static int allocate_all(struct loader *loader, uint64_t arena_bytes, uint64_t ragged_bytes,
                        const struct long_reads_costs *long_reads, struct err *err)
{
    struct memory_budget *memory = &loader->memory;
    uint32_t slots = loader->slots_count;
    uint64_t items = loader->options.batching.micro;
    memory->arena.capacity_bytes = arena_bytes; /* for loader_budget_deinit */
    int status = memory->device->ops->mem_alloc(memory->device, mem_for(MEM_HUGE, MEM_FOR_LOADER),
                                                arena_bytes, &memory->arena_memory, err);
    if (status)
        return status;
    loader->slots = allocate(slots, sizeof *loader->slots);
    loader->pool.work_capacity = (uint32_t)(slots * items);
    loader->pool.work = allocate(loader->pool.work_capacity, sizeof *loader->pool.work);
    loader->consumer.quarantine =
        allocate(LOADER_QUARANTINE_MAX, sizeof *loader->consumer.quarantine);
    loader->consumer.reasons = allocate(LOADER_QUARANTINE_MAX, sizeof *loader->consumer.reasons);
    if (!loader->slots || !loader->pool.work || !loader->consumer.quarantine ||
        !loader->consumer.reasons || allocate_reader_lists(loader, long_reads) ||
        read_arena_init(&memory->arena, memory->arena_memory, arena_bytes))
        return err_set(err, -ENOMEM, "out of memory for the loader's lists");
    uint64_t batch[BATCH_MEMORY_KINDS];
    batch_bytes(loader, batch);
    status = batch_memories_open(loader, batch, slots, err);
    if (!status)
        status = ragged_open(loader, ragged_bytes, err);
    for (uint32_t i = 0; !status && i < slots; i++)
        status = slot_open(loader, &loader->slots[i], err);
    return status;
}

/* Enough to keep the disk busy while the first micro-batches are decoded. */
static uint32_t initial_ahead_max(uint64_t slots, const struct costs *costs)
{
    uint64_t reads = costs->slot_reads_bytes ? sat_add(AHEAD_BYTES, costs->slot_reads_bytes - 1) /
                                                   costs->slot_reads_bytes
                                             : 0;
    return (uint32_t)bytes_min(slots, reads > AHEAD_MIN ? reads : AHEAD_MIN);
}

static uint32_t inline_ahead_max(uint32_t ahead_max, const struct costs *costs)
{
    uint64_t slots =
        costs->slot_reads_bytes ? AHEAD_INLINE_BYTES / costs->slot_reads_bytes : ahead_max;
    return (uint32_t)bytes_min(slots > 0 ? slots : 1, ahead_max);
}

/* Limits merged reads so that the arena always has room for the next one. It must hold two reads at
 * arbitrary addresses, because a sample may be split between them. With LOADER_BYTES, where batches
 * keep the memory of their reads, it must hold two micro-batches with their gaps. Otherwise, gaps
 * of IO_GAP_BYTES_DEFAULT are always read, and larger ones only if two such micro-batches fit, so
 * that a slow medium gets many reads at a time. */
static void limit_chunks(struct loader *loader, const struct costs *costs, uint64_t arena_bytes)
{
    struct reader *reader = &loader->reader;
    reader->chunk_bytes_max = bytes_min(LOADER_CHUNK_BYTES_MAX, arena_bytes / 4);
    uint64_t gaps = arena_bytes / 2 - bytes_min(arena_bytes / 2, costs->slot_reads_bytes);
    uint64_t gap_bytes_max = gaps / loader->options.batching.micro;
    if (loader->options.decode != LOADER_BYTES && gap_bytes_max < IO_GAP_BYTES_DEFAULT)
        gap_bytes_max = IO_GAP_BYTES_DEFAULT;
    for (uint32_t i = 0; i < loader->sources_count; i++)
        loader->sources[i].gap_bytes_max =
            bytes_min(loader->sources[i].gap_bytes_max, gap_bytes_max);
}

int loader_budget_init(struct loader *loader, struct err *err)
{
    struct memory_budget *memory = &loader->memory;
    struct reader *reader = &loader->reader;
    const struct loader_options *options = &loader->options;
    uint64_t budget = options->memory_bytes;
    struct costs costs = estimate_costs(loader);
    uint64_t slot_bytes = sat_add(costs.slot_memory_bytes, costs.slot_lists_bytes);
    uint64_t min_bytes = sat_add(sat_add(costs.fixed_bytes, sat_mul(LOADER_SLOTS_MIN, slot_bytes)),
                                 costs.arena_min_bytes);
    /* after this check, only the reads of more than two slots can overflow */
    if (budget < min_bytes || min_bytes == UINT64_MAX)
        return budget_too_small(loader, min_bytes, err);
    uint64_t slots_max = options->batches_ahead
                             ? bytes_min(options->batches_ahead, LOADER_SLOTS_MAX)
                             : LOADER_SLOTS_MAX;
    uint64_t rest_bytes = budget - costs.fixed_bytes;
    struct long_reads_costs long_reads = choose_long_reads(loader, &costs, rest_bytes);
    rest_bytes -= long_reads.arena_bytes + long_reads.lists_bytes;
    uint64_t slots = bytes_min(rest_bytes / sat_add(slot_bytes, costs.slot_reads_bytes), slots_max);
    if (slots > LOADER_SLOTS_MIN && rest_bytes - slots * slot_bytes < costs.arena_min_bytes)
        slots = (rest_bytes - costs.arena_min_bytes) / slot_bytes;
    slots = slots < LOADER_SLOTS_MIN ? LOADER_SLOTS_MIN : slots;
    uint64_t useful_bytes = sat_mul(2 * slots, costs.slot_reads_bytes);
    uint64_t arena_bytes =
        bytes_min(rest_bytes - slots * slot_bytes,
                  useful_bytes > costs.arena_min_bytes ? useful_bytes : costs.arena_min_bytes);
    arena_bytes =
        (arena_bytes + long_reads.arena_bytes) / READ_ARENA_PAGE_BYTES * READ_ARENA_PAGE_BYTES;
    long_reads.all_bytes_max = arena_bytes - bytes_min(arena_bytes, costs.arena_min_bytes);
    loader->slots_count = (uint32_t)slots;
    reader->ahead_max = options->batches_ahead ? (uint32_t)slots : initial_ahead_max(slots, &costs);
    reader->inline_ahead_max =
        options->batches_ahead ? (uint32_t)slots : inline_ahead_max(reader->ahead_max, &costs);
    memory->device = loader->device;
    memory->limit_bytes = budget;
    memory->allocated_bytes =
        costs.fixed_bytes + long_reads.lists_bytes + slots * slot_bytes + arena_bytes;
    memory->spare_bytes = budget - memory->allocated_bytes;
    limit_chunks(loader, &costs, arena_bytes);
    return allocate_all(loader, arena_bytes, slots * costs.slot_ragged_bytes, &long_reads, err);
}

int loader_budget_init_for_samples(struct loader *loader, struct err *err)
{
    uint64_t batch[BATCH_MEMORY_KINDS];
    batch_bytes(loader, batch);
    loader->memory.device = loader->device;
    loader->memory.limit_bytes = loader->options.memory_bytes;
    int status = batch_memories_open(loader, batch, 0, err);
    return status ? status : ragged_open(loader, 0, err);
}

void loader_budget_free_reads(struct loader *loader)
{
    struct memory_budget *memory = &loader->memory;
    struct reader *reader = &loader->reader;
    for (uint64_t i = 0; i < reader->chunks.chunks_count; i++)
        if (reader->chunks.chunks[i].own_memory)
            chunk_free_memory(memory, &reader->chunks.chunks[i]);
    chunk_pool_deinit(&reader->chunks);
    if (memory->arena_memory)
        memory->device->ops->mem_free(memory->device, mem_for(MEM_HUGE, MEM_FOR_LOADER),
                                      memory->arena_memory, memory->arena.capacity_bytes);
    memory->arena_memory = NULL;
    read_arena_deinit(&memory->arena);
    long_reads_deinit(&reader->long_reads);
    free(reader->completed_requests);
    free(reader->extents);
    reader->completed_requests = NULL;
    reader->extents = NULL;
}

void loader_budget_deinit(struct loader *loader)
{
    loader_budget_free_reads(loader);
    for (uint32_t i = 0; loader->slots && i < loader->slots_count; i++)
        slot_close(&loader->slots[i]);
    free(loader->slots);
    free(loader->pool.work);
    free(loader->consumer.quarantine);
    free(loader->consumer.reasons);
}
