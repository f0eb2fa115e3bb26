/*
 * index_numbers — see index_numbers.h.
 */
#include "shards/format/index_numbers.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    COUNT_BYTES = 8,
    NAME_BYTES = SHARD_NUMBER_NAME_BYTES_MAX,
    VALUE_BYTES = 8,
};

/* The only NaN that is stored. */
#define MISSING_BITS UINT64_C(0x7ff8000000000000)

bool shard_number_name_is_valid(const char *name)
{
    size_t bytes = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    bool has_digit_first = name[0] >= '0' && name[0] <= '9';
    return bytes > 0 && bytes < NAME_BYTES && !name[bytes] && !has_digit_first;
}

/* ---- Building. ---- */

void number_columns_deinit(struct number_columns *numbers)
{
    for (uint32_t i = 0; i < numbers->count; i++)
        str_deinit(&numbers->columns[i].values);
}

static int find_or_add_column(struct number_columns *numbers, const char *name,
                              struct number_column **ret_column, struct err *err)
{
    uint32_t at = 0;
    while (at < numbers->count && strcmp(numbers->columns[at].name, name) < 0)
        at++;
    *ret_column = &numbers->columns[at];
    if (at < numbers->count && strcmp(numbers->columns[at].name, name) == 0)
        return 0;
    if (!shard_number_name_is_valid(name)) {
        err_set(err, -EINVAL, "the name of an index field is invalid");
        err_expected(err, "a letter or _, then letters, digits or _; at most %d bytes",
                     NAME_BYTES - 1);
        err_found(err, "\"%.100s\"", name);
        return -EINVAL;
    }
    if (numbers->count == SHARD_NUMBERS_MAX)
        return err_set(err, -E2BIG, "too many index fields: \"%s\" would be number %d of the shard",
                       name, SHARD_NUMBERS_MAX + 1);
    memmove(*ret_column + 1, *ret_column, (numbers->count - at) * sizeof **ret_column);
    **ret_column = (struct number_column){0};
    strcpy((*ret_column)->name, name);
    numbers->count++;
    return 0;
}

static void add_missing(struct str *values, uint64_t samples)
{
    const uint64_t bits = MISSING_BITS;
    for (uint64_t i = values->bytes / VALUE_BYTES; i < samples && !str_status(values); i++)
        str_add(values, &bits, sizeof bits);
}

int number_columns_add(struct number_columns *numbers, const char *name, uint64_t sample,
                       double value, struct err *err)
{
    struct number_column *column;
    uint64_t bits = MISSING_BITS;
    assert(!isinf(value));
    int status = find_or_add_column(numbers, name, &column, err);
    if (status)
        return status;
    assert(column->values.bytes / VALUE_BYTES <= sample);
    add_missing(&column->values, sample);
    if (!isnan(value))
        memcpy(&bits, &value, sizeof bits);
    str_add(&column->values, &bits, sizeof bits);
    return str_status(&column->values) ? err_set(err, -ENOMEM, "out of memory for a shard index")
                                       : 0;
}

void number_columns_truncate(struct number_columns *numbers, uint64_t sample)
{
    for (uint32_t i = 0; i < numbers->count; i++) {
        struct str *values = &numbers->columns[i].values;
        values->bytes = (size_t)bytes_min(values->bytes, sample * VALUE_BYTES);
    }
}

void number_columns_encode(const struct number_columns *numbers, uint64_t samples, struct str *out)
{
    const uint64_t count = numbers->count;
    str_add(out, &count, COUNT_BYTES);
    for (uint32_t i = 0; i < numbers->count; i++)
        str_add(out, numbers->columns[i].name, NAME_BYTES); /* padded with zeros */
    for (uint32_t i = 0; i < numbers->count; i++) {
        const struct str *values = &numbers->columns[i].values;
        struct str missing = {0};
        add_missing(&missing, samples - values->bytes / VALUE_BYTES);
        str_add(out, str_text(values), values->bytes);
        str_add(out, str_text(&missing), missing.bytes);
        str_merge_status(out, &missing);
        str_deinit(&missing);
    }
}

/* ---- Decoding. ---- */

/* Checks that the names are valid, padded with zeros, and in byte order. */
static bool name_is_valid(const uint8_t *name, const uint8_t *previous)
{
    const uint8_t *end = memchr(name, 0, NAME_BYTES);
    if (!end || !shard_number_name_is_valid((const char *)name))
        return false;
    for (const uint8_t *at = end; at < name + NAME_BYTES; at++)
        if (*at)
            return false;
    return !previous || memcmp(previous, name, NAME_BYTES) < 0;
}

int index_numbers_decode(const uint8_t *bytes, uint64_t count_bytes, uint64_t samples,
                         struct index_numbers *ret_numbers, uint64_t *ret_bytes,
                         uint64_t *ret_bad_offset)
{
    uint64_t count = count_bytes < COUNT_BYTES ? 0 : bytes_get_u64(bytes);
    *ret_bad_offset = 0;
    if (count == 0 || count > SHARD_NUMBERS_MAX ||
        COUNT_BYTES + count * (NAME_BYTES + samples * VALUE_BYTES) > count_bytes)
        return -EBADMSG;
    const uint8_t *names = bytes + COUNT_BYTES, *values = names + count * NAME_BYTES;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *name = names + i * NAME_BYTES;
        *ret_bad_offset = (uint64_t)(name - bytes);
        if (!name_is_valid(name, i > 0 ? name - NAME_BYTES : NULL))
            return -EBADMSG;
    }
    for (uint64_t i = 0; i < count * samples; i++) {
        uint64_t bits = bytes_get_u64(values + i * VALUE_BYTES);
        double value;
        memcpy(&value, &bits, sizeof value);
        *ret_bad_offset = (uint64_t)(values - bytes) + i * VALUE_BYTES;
        if (!isfinite(value) && bits != MISSING_BITS)
            return -EBADMSG;
    }
    *ret_numbers =
        (struct index_numbers){.count = (uint32_t)count, .names = names, .values = values};
    *ret_bytes = COUNT_BYTES + count * (NAME_BYTES + samples * VALUE_BYTES);
    return 0;
}
