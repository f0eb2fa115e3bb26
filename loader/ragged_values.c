/*
 * ragged_values — stores the values of ragged fields and lays them out (ragged.h).
 */
#include "loader/state.h"

#include "base/bytes.h"

#include <string.h>

static int64_t *offsets_of(const struct batch_memory *memory)
{
    return (int64_t *)(void *)memory->data;
}

static int64_t *shapes_of(const struct batch_memory *memory, uint32_t items)
{
    return offsets_of(memory) + items + 1;
}

static void free_own(struct loader *loader, struct ragged_place *place)
{
    if (place->own)
        substitute_free(&loader->memory, place->own, place->bytes);
    place->own = NULL;
    place->bytes = 0;
}

int ragged_store(struct loader *loader, struct load_slot *slot, uint32_t item, uint32_t field,
                 const void *values, uint64_t bytes, const uint64_t *shape, struct err *err)
{
    const struct loader_field *type = &loader->options.fields[field];
    const struct batch_memory *memory = slot->ragged[field];
    struct ragged_place *place = ragged_place(loader, slot, item, field);
    uint32_t items = slot->batch.items_count, rank = ragged_item_rank(type);
    uint8_t *to = memory->data + ragged_values_offset(type, items) + place->at;
    free_own(loader, place);
    if (bytes > place->capacity_bytes) {
        int status = substitute_alloc(&loader->memory, bytes, loader->sources[0].dataset->path,
                                      &place->own, err);
        if (status)
            return status;
        to = place->own;
    }
    memcpy(to, values, bytes);
    place->bytes = bytes;
    for (uint32_t d = 0; d < rank; d++)
        shapes_of(memory, items)[(uint64_t)item * rank + d] = (int64_t)shape[d];
    return 0;
}

void ragged_clear(struct loader *loader, struct load_slot *slot, uint32_t item)
{
    for (uint32_t f = 0; f < loader->options.fields_count; f++)
        free_own(loader, ragged_place(loader, slot, item, f));
}

/* Moves the values of all items together, fills in offsets and shapes, and returns the bytes of all
 * values. to: slot->ragged[field], or larger memory. */
static uint64_t gather(const struct loader *loader, struct load_slot *slot, uint32_t field,
                       struct batch_memory *to)
{
    const struct loader_field *type = &loader->options.fields[field];
    const struct batch_memory *from = slot->ragged[field];
    uint32_t items = slot->batch.items_count, rank = ragged_item_rank(type);
    uint64_t values_at = ragged_values_offset(type, items), at = 0,
             element_bytes = dtype_bytes(field_dtype(type));
    for (uint32_t i = 0; i < items; i++) {
        const struct ragged_place *place = ragged_place(loader, slot, i, field);
        int64_t *shape = shapes_of(to, items) + (uint64_t)i * rank;
        offsets_of(to)[i] = (int64_t)(at / element_bytes);
        if (slot->items[i].skipped) {
            memset(shape, 0, rank * sizeof *shape);
            continue;
        }
        memmove(shape, shapes_of(from, items) + (uint64_t)i * rank, rank * sizeof *shape);
        memmove(to->data + values_at + at,
                place->own ? place->own : from->data + values_at + place->at, place->bytes);
        at += place->bytes;
    }
    offsets_of(to)[items] = (int64_t)(at / element_bytes);
    return at;
}

/* Sets *ret_bytes to that of all values. True if some are outside the field's memory. */
static bool has_own(const struct loader *loader, const struct load_slot *slot, uint32_t field,
                    uint64_t *ret_bytes)
{
    bool found = false;
    *ret_bytes = 0;
    for (uint32_t i = 0; i < slot->batch.items_count; i++) {
        const struct ragged_place *place = ragged_place(loader, slot, i, field);
        found = found || place->own;
        *ret_bytes += place->bytes;
    }
    return found;
}

static int finish_field(struct loader *loader, struct load_slot *slot, uint32_t field,
                        struct err *err)
{
    const struct loader_field *type = &loader->options.fields[field];
    struct batch_memory *from = slot->ragged[field], *to = from;
    uint32_t items = slot->batch.items_count;
    uint64_t bytes, values_at = ragged_values_offset(type, items);
    int status = 0;
    if (has_own(loader, slot, field, &bytes))
        status = ragged_alloc_for_substitutes(loader, values_at + bytes, &to, err);
    if (status)
        return status;
    bytes = gather(loader, slot, field, to);
    if (to != from) {
        pthread_mutex_lock(&loader->mutex);
        batch_memory_unref(from);
        slot->ragged[field] = to;
        pthread_mutex_unlock(&loader->mutex);
    }
    int64_t element_bytes = (int64_t)dtype_bytes(field_dtype(type));
    slot->batch.fields[slot->batch.fields_count++] =
        (struct batch_field){.name = type->name,
                             .dtype = field_dtype(type),
                             .rank = 1,
                             .shape = {bytes / (uint64_t)element_bytes},
                             .stride_bytes = {element_bytes},
                             .data = to->data + values_at,
                             .offsets = offsets_of(to),
                             .shapes = shapes_of(to, items),
                             .item_rank = ragged_item_rank(type),
                             .memory = to};
    return 0;
}

int ragged_finish(struct loader *loader, struct load_slot *slot, struct err *err)
{
    int status = 0;
    for (uint32_t f = 0; !status && f < loader->options.fields_count; f++)
        if (field_is_ragged(&loader->options.fields[f]))
            status = finish_field(loader, slot, f, err);
    for (uint32_t i = 0; i < slot->batch.items_count; i++)
        ragged_clear(loader, slot, i);
    return status;
}
