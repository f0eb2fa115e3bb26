/*
 * bpe_split — see bpe_split.h. Also finds where text can be cut (bpe.h): a word with a character
 * other than white space ends before the next space, and matching continues there regardless of
 * the preceding text.
 */
#include "convert/bpe/bpe_split.h"

#include "convert/bpe/bpe.h"
#include "convert/bpe/unicode_class.h"

#include <assert.h>
#include <stdbool.h>

/* Returns the length of 's, 't, 're, 've, 'm, 'll or 'd at text, or 0. */
static size_t contraction_bytes(const uint8_t *text, size_t bytes)
{
    if (bytes < 2 || text[0] != '\'')
        return 0;
    if (text[1] == 's' || text[1] == 't' || text[1] == 'm' || text[1] == 'd')
        return 2;
    if (bytes < 3)
        return 0;
    bool has_two_letters = (text[1] == 'l' && text[2] == 'l') ||
                           ((text[1] == 'r' || text[1] == 'v') && text[2] == 'e');
    return has_two_letters ? 3 : 0;
}

/* Returns the end of the run of characters of class `kind` at `at`. */
static size_t find_run_end(const uint8_t *text, size_t bytes, size_t at, enum unicode_class kind)
{
    while (at < bytes) {
        enum unicode_class next;
        size_t length = unicode_next(text + at, bytes - at, &next);
        if (next != kind)
            break;
        at += length;
    }
    return at;
}

/* The last white-space character before a word belongs to the word. */
static size_t find_space_end(const uint8_t *text, size_t bytes, size_t at)
{
    size_t last = at, end = at;
    while (end < bytes) {
        enum unicode_class kind;
        size_t length = unicode_next(text + end, bytes - end, &kind);
        if (kind != UNICODE_SPACE)
            break;
        last = end;
        end += length;
    }
    return end < bytes && last > at ? last : end;
}

size_t bpe_word_end(const uint8_t *text, size_t bytes, size_t at)
{
    size_t contraction = contraction_bytes(text + at, bytes - at);
    if (contraction > 0)
        return at + contraction;
    size_t first = text[at] == ' ' && at + 1 < bytes ? at + 1 : at;
    enum unicode_class kind;
    size_t length = unicode_next(text + first, bytes - first, &kind);
    return kind == UNICODE_SPACE ? find_space_end(text, bytes, at)
                                 : find_run_end(text, bytes, first + length, kind);
}

static bool is_ascii_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Whether the character that ends at `at` is white space: U+0085, U+00A0, U+1680, U+2000 to
 * U+200A, U+2028, U+2029, U+202F, U+205F, U+3000. Their lead bytes cannot be continuation bytes. */
static bool ends_in_space(const uint8_t *text, size_t at)
{
    const uint8_t *end = text + at;
    if (end[-1] < 0x80)
        return is_ascii_space(end[-1]);
    enum unicode_class kind;
    if (end[-2] == 0xc2)
        return unicode_next(end - 2, 2, &kind) == 2 && kind == UNICODE_SPACE;
    return unicode_next(end - 3, 3, &kind) == 3 && kind == UNICODE_SPACE;
}

size_t bpe_find_cut(const void *text, size_t bytes, size_t min_offset)
{
    const uint8_t *at = text;
    assert(min_offset >= 3);
    for (size_t cut = min_offset; cut < bytes; cut++)
        if (is_ascii_space(at[cut]) && !ends_in_space(at, cut))
            return cut;
    return bytes;
}
