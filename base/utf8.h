/*
 * utf8 — well-formed UTF-8 (RFC 3629). Header only.
 */
#ifndef MILLRACE_BASE_UTF8_H
#define MILLRACE_BASE_UTF8_H

#include <stddef.h>

/* The length of text's first sequence; 0 if malformed. text has bytes >= 1. */
static inline size_t utf8_sequence_bytes(const unsigned char *text, size_t bytes)
{
    unsigned char a = text[0];
    if (a < 0x80)
        return 1;
    size_t wanted = a >= 0xc2 && a < 0xe0   ? 2
                    : a >= 0xe0 && a < 0xf0 ? 3
                    : a >= 0xf0 && a < 0xf5 ? 4
                                            : 0;
    if (wanted > bytes)
        return 0;
    for (size_t i = 1; i < wanted; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((a == 0xe0 && text[1] < 0xa0) || (a == 0xed && text[1] > 0x9f) ||
        (a == 0xf0 && text[1] < 0x90) || (a == 0xf4 && text[1] > 0x8f))
        return 0;
    return wanted;
}

#endif
