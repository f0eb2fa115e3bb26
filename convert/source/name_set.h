/*
 * name_set — a set of names, numbered in the order of their addition.
 *
 * Zero-initialize. Owner thread. Memory: the names, and 16 to 32 bytes each.
 */
#ifndef MILLRACE_CONVERT_SOURCE_NAME_SET_H
#define MILLRACE_CONVERT_SOURCE_NAME_SET_H

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
/* Adds a name, or finds the equal one. *ret_number: its number; *ret_is_new: it was added. -ENOMEM.
 */
int name_set_add(struct name_set *set, const char *name, uint32_t *ret_number, bool *ret_is_new,
                 struct err *err);

static inline uint64_t name_set_count(const struct name_set *set)
{
    return set->offsets.bytes / sizeof(uint64_t);
}

static inline const char *name_set_at(const struct name_set *set, uint64_t number)
{
    return set->text.data + ((const uint64_t *)(const void *)set->offsets.data)[number];
}

#endif
