/*
 * ragged_memory — allocates the memory of ragged fields (ragged.h).
 */
#include "loader/state.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_ALIGN_BYTES = 8 }; /* of the largest dtype */

uint32_t ragged_item_rank(const struct loader_field *field)
{
    switch (field->decode) {
    case LOADER_FIELD_ARRAY:
        return field->rank;
    case LOADER_FIELD_BOXES:
    case LOADER_FIELD_KEYPOINTS:
        return 2;
    default:
        return 1;
    }
}

uint64_t ragged_bytes_max(const struct loader_field *field, uint64_t stored_bytes)
{
    enum {
        JSON_NUMBER_BYTES_MIN = 2, /* with a comma or bracket */
        JSON_GROWTH_MAX = 3,       /* `\n` becomes `\u000a`, `1e8` becomes `100000000` */
    };
    /* Normalization may make a text longer, which ragged_store allows. */
    if (field->decode == LOADER_FIELD_TOKENS)
        return (bytes_min(stored_bytes, UINT64_MAX / 64) + 2) * sizeof(int32_t);
    if (!field->path || field->decode == LOADER_FIELD_STR)
        return stored_bytes;
    if (field->decode == LOADER_FIELD_JSON)
        return bytes_min(stored_bytes, UINT64_MAX / 64) * JSON_GROWTH_MAX;
    uint64_t numbers = bytes_min(stored_bytes, UINT64_MAX / 64) / JSON_NUMBER_BYTES_MIN;
    return numbers * dtype_bytes(field_dtype(field));
}

uint64_t ragged_values_offset(const struct loader_field *field, uint64_t items)
{
    uint64_t bytes = (items + 1 + items * ragged_item_rank(field)) * sizeof(int64_t);
    return bytes_round_up(bytes, RAGGED_ALIGN_BYTES);
}

uint64_t ragged_mean_bytes(const struct loader *loader, uint64_t items)
{
    const struct loader_options *options = &loader->options;
    uint64_t sum = 0;
    for (uint32_t f = 0; f < options->fields_count; f++) {
        uint64_t mean_bytes = 0;
        if (!field_is_ragged(&options->fields[f]))
            continue;
        for (uint32_t i = 0; i < loader->sources_count; i++) {
            uint64_t bytes =
                ragged_bytes_max(&options->fields[f], view_field_bytes(loader->sources[i].view, f));
            mean_bytes = bytes > mean_bytes ? bytes : mean_bytes;
        }
        /* micro-batches differ in size, and begin on a page */
        uint64_t values;
        if (__builtin_mul_overflow(items, mean_bytes + mean_bytes / 4 + PLACE_ALIGN_BYTES,
                                   &values) ||
            values > UINT64_MAX / 2 / LOADER_FIELDS_MAX)
            return UINT64_MAX;
        sum += bytes_round_up(ragged_values_offset(&options->fields[f], items) + values,
                              READ_ARENA_PAGE_BYTES);
    }
    return sum;
}

int ragged_open(struct loader *loader, uint64_t arena_bytes, struct err *err)
{
    struct ragged_pool *pool = &loader->ragged;
    struct device *device = loader->device;
    for (uint32_t f = 0; f < loader->options.fields_count; f++)
        pool->fields_count += field_is_ragged(&loader->options.fields[f]);
    pool->arena.capacity_bytes = arena_bytes; /* for ragged_free_unused */
    if (arena_bytes == 0)
        return 0;
    int status = device->ops->mem_alloc(device, mem_for(MEM_PINNED, MEM_FOR_LOADER), arena_bytes,
                                        &pool->arena_memory, err);
    if (status)
        return status;
    return read_arena_init(&pool->arena, pool->arena_memory, arena_bytes)
               ? err_set(err, -ENOMEM, "out of memory for the fields of batches")
               : 0;
}

static void free_memory(struct batch_memory *memory)
{
    struct device *device = memory->loader->device;
    if (memory->last_use)
        device->ops->event_close(device, memory->last_use);
    free(memory);
}

/* Returns the data. The memory keeps its event, to be used again. Substitutes allocate theirs each
 * time, so it is not kept. */
static void return_data(struct batch_memory *memory)
{
    struct loader *loader = memory->loader;
    batch_memory_wait(memory, NULL);
    if (memory->origin == BATCH_MEMORY_IN_ARENA)
        read_arena_free(&loader->ragged.arena, memory->data, memory->bytes);
    else
        batch_data_free(loader, memory->data, memory->bytes);
    if (memory->origin == BATCH_MEMORY_IN_SPARE)
        memory_return_spare(&loader->memory, memory->bytes);
    if (memory->origin == BATCH_MEMORY_OF_SUBSTITUTES) {
        substitute_free(&loader->memory, NULL, memory->bytes);
        free_memory(memory);
        return;
    }
    memory->next = loader->ragged.idle;
    loader->ragged.idle = memory;
}

static void return_list(struct batch_memory *list)
{
    while (list) {
        struct batch_memory *memory = list;
        list = memory->next;
        return_data(memory);
    }
}

/* Sets *ret_is_unused if no memory has references. */
static void reclaim(struct loader *loader, bool *ret_is_unused)
{
    struct ragged_pool *pool = &loader->ragged;
    pthread_mutex_lock(&loader->mutex);
    struct batch_memory *list = pool->freed;
    pool->freed = NULL;
    *ret_is_unused = pool->used_count == 0;
    pthread_mutex_unlock(&loader->mutex);
    return_list(list);
}

void ragged_reclaim(struct loader *loader)
{
    bool is_unused;
    reclaim(loader, &is_unused);
}

void ragged_free_unused(struct loader *loader)
{
    struct ragged_pool *pool = &loader->ragged;
    struct device *device = loader->device;
    return_list(pool->freed);
    pool->freed = NULL;
    if (pool->used_count > 0)
        return;
    while (pool->idle) {
        struct batch_memory *memory = pool->idle;
        pool->idle = memory->next;
        free_memory(memory);
    }
    if (pool->arena_memory)
        device->ops->mem_free(device, mem_for(MEM_PINNED, MEM_FOR_LOADER), pool->arena_memory,
                              pool->arena.capacity_bytes);
    pool->arena_memory = NULL;
    read_arena_deinit(&pool->arena);
}

void ragged_free(struct batch_memory *memory)
{
    struct ragged_pool *pool = &memory->loader->ragged;
    pool->used_count--;
    if (memory->origin == BATCH_MEMORY_IN_SPARE)
        pool->spare_bytes -= memory->bytes;
    if (memory->origin == BATCH_MEMORY_BEYOND_BUDGET)
        pool->beyond_bytes -= memory->bytes;
    memory->next = pool->freed;
    pool->freed = memory;
}

uint64_t ragged_spare_bytes(const struct loader *loader, const struct load_slot *slot)
{
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < loader->options.fields_count; f++)
        if (slot->ragged[f] && slot->ragged[f]->origin == BATCH_MEMORY_IN_SPARE)
            bytes += slot->ragged[f]->bytes;
    return bytes;
}

static struct batch_memory *take_idle(struct loader *loader)
{
    struct ragged_pool *pool = &loader->ragged;
    struct batch_memory *memory = pool->idle;
    if (!memory)
        return calloc(1, sizeof *memory);
    pool->idle = memory->next;
    return memory;
}

/* Requires memory with data. */
static void begin_use(struct loader *loader, struct batch_memory *memory)
{
    struct ragged_pool *pool = &loader->ragged;
    pthread_mutex_lock(&loader->mutex);
    memory->references = 1;
    pool->used_count++;
    if (memory->origin == BATCH_MEMORY_IN_SPARE)
        pool->spare_bytes += memory->bytes;
    if (memory->origin == BATCH_MEMORY_BEYOND_BUDGET)
        pool->beyond_bytes += memory->bytes;
    pthread_mutex_unlock(&loader->mutex);
}

/* Finds out where the data can come from and takes it from there. -EAGAIN: nowhere. */
static int find_data(struct loader *loader, struct batch_memory *memory, bool is_starved,
                     bool may_grow, struct err *err)
{
    struct ragged_pool *pool = &loader->ragged;
    uint64_t spare_bytes;
    memory->origin = BATCH_MEMORY_IN_ARENA;
    memory->data = pool->arena_memory ? read_arena_alloc(&pool->arena, memory->bytes, 0) : NULL;
    if (memory->data)
        return 0;
    if (is_starved && memory_reserve_spare(&loader->memory, memory->bytes, &spare_bytes))
        memory->origin = BATCH_MEMORY_IN_SPARE;
    else if (may_grow)
        memory->origin = BATCH_MEMORY_BEYOND_BUDGET;
    else
        return -EAGAIN;
    int status = batch_data_alloc(loader, memory->bytes, &memory->data, err);
    if (status && memory->origin == BATCH_MEMORY_IN_SPARE)
        memory_return_spare(&loader->memory, memory->bytes);
    return status;
}

static int alloc_field(struct loader *loader, uint64_t bytes, bool is_starved, bool may_grow,
                       struct batch_memory **ret_memory, struct err *err)
{
    struct ragged_pool *pool = &loader->ragged;
    struct batch_memory *memory = take_idle(loader);
    if (!memory)
        return err_set(err, -ENOMEM, "out of memory for a field of a batch");
    memory->loader = loader;
    memory->kind = BATCH_MEMORY_RAGGED;
    memory->bytes = bytes;
    int status = find_data(loader, memory, is_starved, may_grow, err);
    if (status) {
        memory->next = pool->idle;
        pool->idle = memory;
        return status;
    }
    begin_use(loader, memory);
    *ret_memory = memory;
    return 0;
}

/* Gives each item a place for the values of the field. Returns the bytes of all places. */
static uint64_t plan_places(const struct loader *loader, struct load_slot *slot, uint32_t field)
{
    const struct loader_field *type = &loader->options.fields[field];
    const char *default_value = type->default_value;
    uint64_t at = 0, default_bytes = default_value ? strlen(default_value) : 0;
    for (uint32_t i = 0; i < slot->batch.items_count; i++) {
        uint32_t pieces = slot->load_items[i].pieces_count;
        uint64_t bytes = 0;
        if (pieces > 0)
            bytes = loader_pieces(loader, slot, i)[pieces - loader->options.fields_count + field]
                        .view.want_bytes;
        if (pieces > 0 && bytes < default_bytes)
            bytes = default_bytes;
        bytes = ragged_bytes_max(type, bytes);
        struct ragged_place *place = ragged_place(loader, slot, i, field);
        *place = (struct ragged_place){.at = at, .capacity_bytes = bytes};
        at += bytes_round_up(bytes, PLACE_ALIGN_BYTES);
    }
    return at;
}

/* Sets the detail of -EAGAIN and -ENOBUFS. */
static int no_memory_error(struct loader *loader, int status, uint64_t bytes, struct err *err)
{
    err_set(err, -ENOBUFS,
            status == -EAGAIN ? "the fields kept by the caller fill the loader's memory"
                              : "the fields of a micro-batch do not fit the loader's memory");
    err_at(err, loader->sources[0].dataset->path, ERR_NO_OFFSET);
    err_expected(err, "space for %" PRIu64 " bytes", bytes);
    err_found(err, "%" PRIu64 " bytes for the fields of all batches, and %" PRIu64 " besides",
              loader->ragged.arena.capacity_bytes, memory_spare_bytes(&loader->memory));
    err_advise(err, status == -EAGAIN
                        ? "release fields before requesting the next batch, give the loader more "
                          "memory, or let it grow (options.keep)"
                        : "give the loader more memory or use a smaller micro-batch");
    return status;
}

int ragged_alloc(struct loader *loader, struct load_slot *slot, bool is_starved, bool may_grow,
                 struct err *err)
{
    const struct loader_options *options = &loader->options;
    uint64_t all_bytes = 0;
    bool is_unused = false;
    int status = 0;
    if (options->fields_count > 0)
        reclaim(loader, &is_unused);
    bool grows_unused = is_unused && options->keep == LOADER_KEEP_GROW;
    for (uint32_t f = 0; !status && f < options->fields_count; f++) {
        if (!field_is_ragged(&options->fields[f]))
            continue;
        uint64_t bytes = ragged_values_offset(&options->fields[f], slot->batch.items_count) +
                         plan_places(loader, slot, f);
        all_bytes += bytes;
        status = alloc_field(loader, bytes, is_starved || is_unused, may_grow || grows_unused,
                             &slot->ragged[f], err);
    }
    if (!status)
        return 0;
    pthread_mutex_lock(&loader->mutex);
    slot_release_memory(slot);
    pthread_mutex_unlock(&loader->mutex);
    return status == -EAGAIN
               ? no_memory_error(loader, is_unused ? -ENOBUFS : -EAGAIN, all_bytes, err)
               : status;
}

/* ---- A micro-batch with substitutes, which were not planned. ---- */

int ragged_alloc_for_substitutes(struct loader *loader, uint64_t bytes,
                                 struct batch_memory **ret_memory, struct err *err)
{
    struct batch_memory *memory = calloc(1, sizeof *memory);
    uint8_t *data = NULL;
    if (!memory)
        return err_set(err, -ENOMEM, "out of memory for a field of a batch");
    int status = substitute_reserve(&loader->memory, bytes, loader->sources[0].dataset->path, err);
    if (!status) {
        status = batch_data_alloc(loader, bytes, &data, err);
        if (status)
            substitute_free(&loader->memory, NULL, bytes);
    }
    if (status) {
        free(memory);
        return status;
    }
    *memory = (struct batch_memory){.loader = loader,
                                    .kind = BATCH_MEMORY_RAGGED,
                                    .origin = BATCH_MEMORY_OF_SUBSTITUTES,
                                    .bytes = bytes,
                                    .data = data};
    begin_use(loader, memory);
    *ret_memory = memory;
    return 0;
}
