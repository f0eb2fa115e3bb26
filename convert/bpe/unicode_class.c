/*
 * unicode_class — see unicode_class.h.
 */
#include "convert/bpe/unicode_class.h"

struct range {
    uint32_t first, last;
    enum unicode_class kind;
};

/* Ascending and disjoint. */
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

enum unicode_class unicode_class_of(uint32_t code)
{
    /* The first range that ends at or after code is in [low, high]. */
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

/* The length of the sequence that lead starts, and the range of its second byte; 0 if it starts
 * none. */
static size_t sequence_bytes(uint8_t lead, uint8_t *ret_least, uint8_t *ret_most)
{
    *ret_least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    *ret_most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

size_t unicode_next(const uint8_t *text, size_t bytes, enum unicode_class *ret_class)
{
    uint8_t lead = text[0], least, most;
    if (lead < 0x80) {
        *ret_class = ascii_class(lead);
        return 1;
    }
    size_t count = sequence_bytes(lead, &least, &most);
    *ret_class = UNICODE_OTHER;
    if (count == 0 || count > bytes || text[1] < least || text[1] > most)
        return 1;
    uint32_t code = lead & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 1;
        code = code << 6 | (text[i] & 0x3fu);
    }
    *ret_class = unicode_class_of(code);
    return count;
}
