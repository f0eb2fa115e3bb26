/*
 * name_set — see name_set.h. A hash table with open addressing, at most half full.
 */
#include "base/name_set.h"

#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 1024 };

struct name_slot {
    uint32_t hash;            /* upper half */
    uint32_t number_plus_one; /* 0: empty */
};

void name_set_deinit(struct name_set *set)
{
    str_deinit(&set->text);
    str_deinit(&set->offsets);
    free(set->slots);
}

/* Returns the slot with the name, or the empty slot for it. */
static struct name_slot *find_slot(const struct name_set *set, const char *name, size_t bytes,
                                   uint64_t hash)
{
    uint64_t mask = set->slots_count - 1;
    for (uint64_t at = hash & mask;; at = (at + 1) & mask) {
        struct name_slot *slot = &set->slots[at];
        uint32_t number = slot->number_plus_one - 1;
        if (slot->number_plus_one == 0 ||
            (slot->hash == (uint32_t)(hash >> 32) && name_set_bytes_at(set, number) == bytes &&
             memcmp(name_set_at(set, number), name, bytes) == 0))
            return slot;
    }
}

static int grow(struct name_set *set, struct err *err)
{
    uint64_t count = set->slots_count ? 2 * set->slots_count : SLOTS_MIN;
    struct name_slot *slots = calloc(count, sizeof *slots);
    if (!slots)
        return err_set(err, -ENOMEM, "out of memory for a set of names");
    free(set->slots);
    set->slots = slots;
    set->slots_count = count;
    for (uint64_t number = 0; number < name_set_count(set); number++) {
        const char *name = name_set_at(set, number);
        size_t bytes = name_set_bytes_at(set, number);
        uint64_t hash = hash_64(name, bytes);
        *find_slot(set, name, bytes, hash) =
            (struct name_slot){(uint32_t)(hash >> 32), (uint32_t)number + 1};
    }
    return 0;
}

int name_set_add(struct name_set *set, const char *name, size_t bytes, uint32_t *ret_number,
                 bool *ret_is_new, struct err *err)
{
    uint64_t count = name_set_count(set), offset = set->text.bytes, hash = hash_64(name, bytes);
    assert(count < UINT32_MAX);
    int status = 2 * (count + 1) > set->slots_count ? grow(set, err) : 0;
    if (status)
        return status;
    struct name_slot *slot = find_slot(set, name, bytes, hash);
    *ret_is_new = slot->number_plus_one == 0;
    if (*ret_is_new) {
        str_add(&set->text, name, bytes);
        str_add(&set->text, "", 1);
        str_add(&set->offsets, &offset, sizeof offset);
        if (str_status(&set->text) || str_status(&set->offsets))
            return err_set(err, -ENOMEM, "out of memory for a set of names");
        *slot = (struct name_slot){(uint32_t)(hash >> 32), (uint32_t)count + 1};
    }
    *ret_number = slot->number_plus_one - 1;
    return 0;
}

bool name_set_find(const struct name_set *set, const char *name, size_t bytes, uint32_t *ret_number)
{
    if (name_set_count(set) == 0)
        return false;
    const struct name_slot *slot = find_slot(set, name, bytes, hash_64(name, bytes));
    *ret_number = slot->number_plus_one - 1;
    return slot->number_plus_one > 0;
}
