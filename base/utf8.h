/*
 * utf8 — well-formed UTF-8 (RFC 3629). Header only.
 */
#ifndef MILLRACE_BASE_UTF8_H
#define MILLRACE_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Returns the byte length of text's first sequence and stores its code point; 0 if malformed. bytes
 * >= 1. */
static inline size_t utf8_decode(const unsigned char *text, size_t bytes, uint32_t *ret_code)
{
    static const uint32_t smallest_code[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code = text[0];
    if (code < 0x80) {
        *ret_code = code;
        return 1;
    }
    size_t length = code >= 0xf0 ? 4 : code >= 0xe0 ? 3 : 2;
    if (code < 0xc2 || code > 0xf4 || length > bytes)
        return 0;
    code &= 0x7fu >> length;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3fu);
    }
    if (code < smallest_code[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    *ret_code = code;
    return length;
}

static inline size_t utf8_sequence_bytes(const unsigned char *text, size_t bytes)
{
    uint32_t code;
    return utf8_decode(text, bytes, &code);
}

enum { UTF8_BYTES_MAX = 4 };

/* Encodes a code point up to 0x10ffff that is not a surrogate. Returns the number of bytes. */
static inline size_t utf8_encode(uint32_t code, char text[UTF8_BYTES_MAX])
{
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        text[i] = (char)(0x80 | (code & 0x3f));
    text[0] = (char)(length == 1 ? code : (0xf00u >> length & 0xf0) | code);
    return length;
}

/* Returns how many bytes at the start of text are well-formed: all, or up to the first malformed
 * sequence. */
static inline size_t utf8_valid_bytes(const void *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;
    while (at < end) {
        size_t length = *at < 0x80 ? 1 : utf8_sequence_bytes(at, (size_t)(end - at));
        if (length == 0)
            break;
        at += length;
    }
    return bytes - (size_t)(end - at);
}

#endif
