/*
 * tar_write — see tar.h. Field offsets: POSIX.1-1988, "ustar interchange format".
 */
#include "base/bytes.h"
#include "shards/format/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NAME_BYTES = 100,
    PREFIX_AT = 345,
    PREFIX_BYTES = 155,
    /* Room for a path and a size, each with its length and key. */
    PAX_RECORDS_BYTES_MAX = TAR_NAME_BYTES_MAX + 96,
};

#define USTAR_SIZE_MAX ((UINT64_C(1) << 33) - 1) /* 11 octal digits */

/* Returns the offset of the slash that splits name into ustar prefix and rest; 0 if it needs no
 * split, -1 if it cannot be split. */
static int ustar_split(const char *name, size_t bytes)
{
    if (bytes <= NAME_BYTES)
        return 0;
    if (bytes > PREFIX_BYTES + 1 + NAME_BYTES)
        return -1;
    for (size_t at = bytes - NAME_BYTES - 1; at <= PREFIX_BYTES && at + 1 < bytes; at++)
        if (at > 0 && name[at] == '/')
            return (int)at;
    return -1;
}

/* Returns the size of "LENGTH KEY=VALUE\n"; LENGTH counts its own digits. */
static size_t pax_record_bytes(const char *key, size_t value_bytes)
{
    size_t rest = strlen(key) + value_bytes + 3, total = rest + 1;
    for (size_t digits = 1;; digits++) {
        total = rest + digits;
        char text[24];
        if ((size_t)snprintf(text, sizeof text, "%zu", total) == digits)
            return total;
    }
}

static void add_pax_record(char *records, size_t *at, const char *key, const char *value)
{
    size_t bytes = pax_record_bytes(key, strlen(value));
    snprintf(records + *at, bytes + 1, "%zu %s=%s\n", bytes, key, value);
    *at += bytes;
}

/* Writes the pax records that the member needs. Returns 0 if ustar suffices. */
static size_t pax_records(const char *name, uint64_t size_bytes,
                          char records[PAX_RECORDS_BYTES_MAX])
{
    size_t at = 0;
    if (ustar_split(name, strlen(name)) < 0)
        add_pax_record(records, &at, "path", name);
    if (size_bytes > USTAR_SIZE_MAX) {
        char text[24];
        snprintf(text, sizeof text, "%" PRIu64, size_bytes);
        add_pax_record(records, &at, "size", text);
    }
    return at;
}

/* Returns the length of the longest prefix of name that fits without splitting a UTF-8 sequence. */
static size_t utf8_prefix_bytes(const char *name, size_t bytes_max)
{
    size_t bytes = strlen(name);
    if (bytes <= bytes_max)
        return bytes;
    bytes = bytes_max;
    while (bytes > 0 && ((unsigned char)name[bytes] & 0xc0) == 0x80)
        bytes--;
    return bytes;
}

/* Without a NUL. */
static void put_octal(char *field, unsigned digits, uint64_t value)
{
    for (unsigned i = digits; i-- > 0; value /= 8)
        field[i] = (char)('0' + value % 8);
}

static void add_block(struct str *out, const char *name, uint64_t size_bytes, char type)
{
    char block[TAR_BLOCK_BYTES] = {0};
    int cut = ustar_split(name, strlen(name));
    const char *rest = cut > 0 ? name + cut + 1 : name;
    memcpy(block, rest, utf8_prefix_bytes(rest, NAME_BYTES));
    if (cut > 0)
        memcpy(block + PREFIX_AT, name, (size_t)cut);
    memcpy(block + 100, "0000444", 8);
    memcpy(block + 108, "0000000", 8);
    memcpy(block + 116, "0000000", 8);
    put_octal(block + 124, 11, size_bytes > USTAR_SIZE_MAX ? 0 : size_bytes);
    memcpy(block + 136, "00000000000", 12);
    memset(block + 148, ' ', 8);
    block[156] = type;
    memcpy(block + 257,
           "ustar\0"
           "00",
           8);
    memcpy(block + 329, "0000000", 8);
    memcpy(block + 337, "0000000", 8);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof block; i++)
        sum += (unsigned char)block[i];
    put_octal(block + 148, 6, sum);
    block[154] = '\0';
    str_add(out, block, sizeof block);
}

int tar_add_header(struct str *out, const char *name, uint64_t size_bytes, struct err *err)
{
    size_t name_bytes = strlen(name);
    if (name_bytes > TAR_NAME_BYTES_MAX) {
        err_set(err, -ENAMETOOLONG, "name of a tar member is too long");
        err_at(err, name, ERR_NO_OFFSET);
        err_expected(err, "at most %d bytes", TAR_NAME_BYTES_MAX);
        err_found(err, "%zu", name_bytes);
        return -ENAMETOOLONG;
    }
    char records[PAX_RECORDS_BYTES_MAX];
    size_t records_bytes = pax_records(name, size_bytes, records);
    if (records_bytes > 0) {
        add_block(out, "PaxHeaders/member", records_bytes, 'x');
        str_add(out, records, records_bytes);
        str_add_fill(out, 0, bytes_round_up(records_bytes, TAR_BLOCK_BYTES) - records_bytes);
    }
    add_block(out, name, size_bytes, '0');
    return str_status(out) ? err_set(err, -ENOMEM, "out of memory for a tar header") : 0;
}
