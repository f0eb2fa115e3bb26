/*
 * name_set — a set of names, numbered in the order of their addition.
 *
 * Names are compared as bytes. Zero-initialize. One thread adds names; once it is done, any thread
 * may look them up. Memory: the names, and 24 to 40 bytes each.
 */
#ifndef MILLRACE_BASE_NAME_SET_H
#define MILLRACE_BASE_NAME_SET_H

#include "base/err.h"
#include "base/str.h"

struct name_slot; /* see name_set.c */

struct name_set {
    struct str text;    /* consecutive, each with its NUL */
    struct str offsets; /* uint64_t */
    struct name_slot *slots;
    uint64_t slots_count; /* 0 or a power of two */
};

void name_set_deinit(struct name_set *set);
/* Adds a name of so many bytes, or finds the equal one. *ret_number: its number; *ret_is_new: it
 * was added. At most 2^32 - 1 names. -ENOMEM. */
int name_set_add(struct name_set *set, const char *name, size_t bytes, uint32_t *ret_number,
                 bool *ret_is_new, struct err *err);
/* Whether the set has the name; then sets *ret_number. */
bool name_set_find(const struct name_set *set, const char *name, size_t bytes,
                   uint32_t *ret_number);

static inline uint64_t name_set_count(const struct name_set *set)
{
    return set->offsets.bytes / sizeof(uint64_t);
}

/* NUL-terminated; valid until the next addition. */
static inline const char *name_set_at(const struct name_set *set, uint64_t number)
{
    return set->text.data + ((const uint64_t *)(const void *)set->offsets.data)[number];
}

static inline size_t name_set_bytes_at(const struct name_set *set, uint64_t number)
{
    const uint64_t *offsets = (const uint64_t *)(const void *)set->offsets.data;
    uint64_t end = number + 1 < name_set_count(set) ? offsets[number + 1] : set->text.bytes;
    return end - offsets[number] - 1;
}

#endif
