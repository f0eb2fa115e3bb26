/*
 * unicode_class — see unicode_class.h.
 */
#include "convert/bpe/unicode_class.h"

#include "base/utf8.h"

struct range {
    uint32_t first, last;
    enum unicode_class kind;
};

/* Ascending and disjoint. */
#define L(first, last) {0x##first, 0x##last, UNICODE_LETTER},
#define N(first, last) {0x##first, 0x##last, UNICODE_NUMBER},
#define S(first, last) {0x##first, 0x##last, UNICODE_SPACE},
static const struct range RANGES[] = {
#include "convert/bpe/unicode_class_table.inc"
};

enum { RANGES_COUNT = sizeof RANGES / sizeof RANGES[0] };

static enum unicode_class ascii_class(uint8_t byte)
{
    uint8_t letter = byte | 0x20;
    if (letter >= 'a' && letter <= 'z')
        return UNICODE_LETTER;
    if (byte >= '0' && byte <= '9')
        return UNICODE_NUMBER;
    return byte == ' ' || (byte >= '\t' && byte <= '\r') ? UNICODE_SPACE : UNICODE_OTHER;
}

enum unicode_class unicode_find_class(uint32_t code)
{
    /* [low, high] contains the first range that ends at or after code. */
    size_t low = 0, high = RANGES_COUNT;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (RANGES[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < RANGES_COUNT && RANGES[low].first <= code ? RANGES[low].kind : UNICODE_OTHER;
}

size_t unicode_next(const uint8_t *text, size_t bytes, enum unicode_class *ret_class)
{
    uint32_t code;
    if (text[0] < 0x80) {
        *ret_class = ascii_class(text[0]);
        return 1;
    }
    size_t count = utf8_decode(text, bytes, &code);
    *ret_class = count > 0 ? unicode_find_class(code) : UNICODE_OTHER;
    return count > 0 ? count : 1;
}
