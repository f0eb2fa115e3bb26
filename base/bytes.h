/*
 * bytes — little-endian integers in byte arrays, and size rounding. Header only.
 */
#ifndef MILLRACE_BASE_BYTES_H
#define MILLRACE_BASE_BYTES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "file formats and supported machines are little-endian");

static inline uint16_t bytes_get_u16(const void *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint32_t bytes_get_u32(const void *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t bytes_get_u64(const void *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline void bytes_put_u16(void *at, uint16_t value)
{
    memcpy(at, &value, sizeof value);
}

static inline void bytes_put_u32(void *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}

static inline void bytes_put_u64(void *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}

/* multiple > 0; the result must fit. */
static inline uint64_t bytes_round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* by > 0 */
static inline uint64_t bytes_divide_up(uint64_t value, uint64_t by)
{
    return value / by + (value % by != 0);
}

static inline uint64_t bytes_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t bytes_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
