/*
 * bpe_split — see bpe_split.h.
 *
 * Why a cut changes no words: of all alternatives, only those for white space look beyond their
 * match, and a word that has a character other than white space ends before the next ASCII space.
 * Matching then continues regardless of the preceding text. With the newer patterns, a line end may
 * end such a word, but no word continues beyond a run of line ends.
 */
#include "tokenizer/bpe_split.h"

#include "tokenizer/unicode_class.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#define O UNICODE_OTHER
#define L UNICODE_LETTER
#define N UNICODE_NUMBER
#define S UNICODE_SPACE
static const uint8_t ASCII_CLASSES[128] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O};
#undef O
#undef L
#undef N
#undef S

/* unicode_next, faster for ASCII. */
static inline size_t next_character(const uint8_t *text, size_t bytes,
                                    enum unicode_class *ret_class)
{
    if (text[0] >= 0x80)
        return unicode_next(text, bytes, ret_class);
    *ret_class = (enum unicode_class)ASCII_CLASSES[text[0]];
    return 1;
}

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

/* The same, ignoring case. */
static size_t contraction_bytes_nocase(const uint8_t *text, size_t bytes)
{
    if (bytes < 2 || text[0] != '\'')
        return 0;
    const uint8_t lower[3] = {'\'', text[1] | 0x20, bytes > 2 ? text[2] | 0x20 : 0};
    if (text[1] == 0xc5)
        return bytes > 2 && text[2] == 0xbf ? 3 : 0; /* U+017F */
    return contraction_bytes(lower, bytes < 3 ? bytes : 3);
}

/* Returns how many of the 8 bytes at text come before the first that is not an ASCII letter. The
 * high bit of each byte of a word holds the result of a comparison; 7-bit sums do not carry. */
static inline size_t count_ascii_letters(const uint8_t *text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    uint64_t word;
    memcpy(&word, text, sizeof word);
    uint64_t lower = (word | ones << 5) & ~highs;
    uint64_t from_a = lower + ones * (0x80 - 'a'), after_z = lower + ones * (0x80 - 'z' - 1);
    uint64_t others = ~(from_a & ~after_z & ~word) & highs;
    return others ? (size_t)__builtin_ctzll(others) / 8 : 8;
}

/* Returns the end of the run of characters of class `kind` at `at`. */
static inline size_t find_run_end(const uint8_t *text, size_t bytes, size_t at,
                                  enum unicode_class kind)
{
    for (size_t count = 8; kind == UNICODE_LETTER && count == 8 && bytes - at >= 8; at += count)
        count = count_ascii_letters(text + at);
    while (at < bytes) {
        enum unicode_class next;
        size_t length = next_character(text + at, bytes - at, &next);
        if (next != kind)
            break;
        at += length;
    }
    return at;
}

static bool is_line_end(uint8_t byte)
{
    return byte == '\r' || byte == '\n';
}

static size_t find_line_ends_end(const uint8_t *text, size_t bytes, size_t at)
{
    while (at < bytes && is_line_end(text[at]))
        at++;
    return at;
}

/* The last white-space character before a word belongs to the word. With uses_lines, white space
 * ends after its last line end, if it has any. */
static size_t find_space_end(const uint8_t *text, size_t bytes, size_t at, bool uses_lines)
{
    size_t last = at, end = at, lines_end = at;
    while (end < bytes) {
        enum unicode_class kind;
        size_t length = next_character(text + end, bytes - end, &kind);
        if (kind != UNICODE_SPACE)
            break;
        last = end;
        end += length;
        if (is_line_end(text[last]))
            lines_end = end;
    }
    if (uses_lines && lines_end > at)
        return lines_end;
    return end < bytes && last > at ? last : end;
}

static size_t gpt2_word_end(const uint8_t *text, size_t bytes, size_t at)
{
    size_t contraction = contraction_bytes(text + at, bytes - at);
    if (contraction > 0)
        return at + contraction;
    size_t first = text[at] == ' ' && at + 1 < bytes ? at + 1 : at;
    enum unicode_class kind;
    size_t length = next_character(text + first, bytes - first, &kind);
    return kind == UNICODE_SPACE ? find_space_end(text, bytes, at, false)
                                 : find_run_end(text, bytes, first + length, kind);
}

/* at: after the first digit. */
static size_t find_digits_end(const uint8_t *text, size_t bytes, size_t at, unsigned digits_max)
{
    for (unsigned digits = 1; digits < digits_max && at < bytes; digits++) {
        enum unicode_class kind;
        size_t length = next_character(text + at, bytes - at, &kind);
        if (kind != UNICODE_NUMBER)
            break;
        at += length;
    }
    return at;
}

static size_t llama3_word_end(const uint8_t *text, size_t bytes, size_t at, unsigned digits_max)
{
    size_t contraction = contraction_bytes_nocase(text + at, bytes - at);
    if (contraction > 0)
        return at + contraction;
    enum unicode_class kind, next;
    size_t end = at + next_character(text + at, bytes - at, &kind);
    if (kind == UNICODE_LETTER)
        return find_run_end(text, bytes, end, UNICODE_LETTER);
    if (kind == UNICODE_NUMBER)
        return find_digits_end(text, bytes, end, digits_max);
    if (end < bytes && !is_line_end(text[at])) {
        size_t next_end = end + next_character(text + end, bytes - end, &next);
        if (next == UNICODE_LETTER)
            return find_run_end(text, bytes, next_end, UNICODE_LETTER);
        if (text[at] == ' ' && next == UNICODE_OTHER)
            kind = UNICODE_OTHER;
    }
    if (kind == UNICODE_SPACE)
        return find_space_end(text, bytes, at, true);
    return find_line_ends_end(text, bytes, find_run_end(text, bytes, end, UNICODE_OTHER));
}

size_t bpe_word_end(enum bpe_pattern pattern, const uint8_t *text, size_t bytes, size_t at)
{
    return pattern == BPE_PATTERN_GPT2
               ? gpt2_word_end(text, bytes, at)
               : llama3_word_end(text, bytes, at, pattern == BPE_PATTERN_LLAMA3 ? 3 : 1);
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

/* Whether the text at `at` begins with a character other than white space; false if unknown because
 * the text ends. */
static bool begins_word(const uint8_t *text, size_t bytes, size_t at)
{
    enum unicode_class kind;
    if (text[at] >= 0x80 && bytes - at < 3)
        return false;
    unicode_next(text + at, bytes - at, &kind);
    return kind != UNICODE_SPACE;
}

size_t bpe_split_find_cut(enum bpe_pattern pattern, const uint8_t *text, size_t bytes,
                          size_t min_offset)
{
    bool uses_lines = pattern != BPE_PATTERN_GPT2;
    assert(min_offset >= 3);
    for (size_t cut = min_offset; cut < bytes; cut++) {
        bool is_space = is_ascii_space(text[cut]) && !(uses_lines && is_line_end(text[cut]));
        if (is_space && !ends_in_space(text, cut))
            return cut;
        if (uses_lines && is_line_end(text[cut - 1]) && begins_word(text, bytes, cut))
            return cut;
    }
    return bytes;
}
