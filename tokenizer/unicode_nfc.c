/*
 * unicode_nfc — see unicode_nfc.h.
 *
 * Each character has a kind, in two tables like those of unicode_class.c:
 *
 *     0        does not change, and no character before it combines with it or with later ones
 *     1..254   its canonical combining class
 *     255      class 0, but it changes or combines with the character before
 *
 * Text is cut before characters of kind 0. A part of one character is copied. Others are
 * decomposed, sorted by class between characters of class 0, and composed.
 */
#include "tokenizer/unicode_nfc.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct decomposition {
    uint32_t code, first, second; /* second: 0 if none */
};
struct composition {
    uint32_t first, second, code;
};

#include "tokenizer/unicode_nfc_table.inc"

enum {
    PAGE_CODES = 128,
    KIND_UNSTABLE = 255,
    FIRST_UNSTABLE_BYTE = 0xcc, /* begins U+0300, the first character of another kind than 0 */
    CODE_BITS = 24,
    CODE_MASK = (1 << CODE_BITS) - 1,
    /* Hangul syllables: Unicode 9.0, section 3.12 */
    HANGUL_S = 0xac00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11a7,
    HANGUL_L_COUNT = 19,
    HANGUL_V_COUNT = 21,
    HANGUL_T_COUNT = 28,
    HANGUL_S_COUNT = HANGUL_L_COUNT * HANGUL_V_COUNT * HANGUL_T_COUNT,
    DECOMPOSITIONS_COUNT = sizeof DECOMPOSITIONS / sizeof DECOMPOSITIONS[0],
    COMPOSITIONS_COUNT = sizeof COMPOSITIONS / sizeof COMPOSITIONS[0],
};

static unsigned find_kind(uint32_t code)
{
    uint32_t page = code / PAGE_CODES;
    return page < sizeof PAGE_INDEX ? PAGES[PAGE_INDEX[page] * PAGE_CODES + code % PAGE_CODES] : 0;
}

static unsigned find_combining_class(uint32_t code)
{
    unsigned kind = find_kind(code);
    return kind == KIND_UNSTABLE ? 0 : kind;
}

/* Returns the length of the character at text and its kind. */
static size_t next_kind(const uint8_t *text, size_t bytes, unsigned *ret_kind)
{
    uint32_t code;
    size_t length = text[0] < FIRST_UNSTABLE_BYTE ? 0 : utf8_decode(text, bytes, &code);
    *ret_kind = length > 0 ? find_kind(code) : 0;
    return length > 0 ? length : 1; /* also within a character below U+0300 */
}

size_t unicode_nfc_stable_bytes(const uint8_t *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        unsigned kind;
        size_t length = next_kind(text + at, bytes - at, &kind);
        if (kind != 0)
            return at;
        at += length;
    }
    return bytes;
}

void unicode_nfc_deinit(struct unicode_nfc *nfc)
{
    str_deinit(&nfc->decomposed);
    str_deinit(&nfc->sorted);
}

static void add_code(struct str *out, uint32_t code)
{
    uint32_t entry = (uint32_t)find_combining_class(code) << CODE_BITS | code;
    str_add(out, &entry, sizeof entry);
}

static const struct decomposition *find_decomposition(uint32_t code)
{
    size_t low = 0, high = DECOMPOSITIONS_COUNT;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (DECOMPOSITIONS[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < DECOMPOSITIONS_COUNT && DECOMPOSITIONS[low].code == code ? &DECOMPOSITIONS[low]
                                                                          : NULL;
}

/* Only first parts decompose further. */
static void add_decomposed(struct str *out, uint32_t code)
{
    uint32_t seconds[4];
    size_t count = 0;
    const struct decomposition *found;
    if (code - HANGUL_S < HANGUL_S_COUNT) {
        uint32_t syllable = code - HANGUL_S, last = syllable % HANGUL_T_COUNT;
        add_code(out, HANGUL_L + syllable / (HANGUL_V_COUNT * HANGUL_T_COUNT));
        add_code(out, HANGUL_V + syllable / HANGUL_T_COUNT % HANGUL_V_COUNT);
        if (last > 0)
            add_code(out, HANGUL_T + last);
        return;
    }
    while ((found = find_decomposition(code)) && count < sizeof seconds / sizeof seconds[0]) {
        if (found->second)
            seconds[count++] = found->second;
        code = found->first;
    }
    add_code(out, code);
    while (count > 0)
        add_code(out, seconds[--count]);
}

static uint32_t *codes_of(const struct str *codes)
{
    return (uint32_t *)(void *)codes->data;
}

/* Sorts a run of combining characters by class, stably, by counting: a hostile run may be long. */
static void sort_run(uint32_t *codes, uint32_t *scratch, size_t count)
{
    size_t ends[257] = {0};
    for (size_t i = 0; i < count; i++)
        ends[(codes[i] >> CODE_BITS) + 1]++;
    for (size_t i = 1; i < 257; i++)
        ends[i] += ends[i - 1];
    for (size_t i = 0; i < count; i++)
        scratch[ends[codes[i] >> CODE_BITS]++] = codes[i];
    memcpy(codes, scratch, count * sizeof *codes);
}

static void sort_by_class(uint32_t *codes, uint32_t *scratch, size_t count)
{
    for (size_t at = 0; at < count;) {
        size_t end = at;
        bool is_sorted = true;
        for (; end < count && codes[end] >> CODE_BITS; end++)
            is_sorted =
                is_sorted && (end == at || codes[end - 1] >> CODE_BITS <= codes[end] >> CODE_BITS);
        if (!is_sorted)
            sort_run(codes + at, scratch, end - at);
        at = end + 1;
    }
}

/* Returns 0 if the two do not compose. */
static uint32_t compose(uint32_t first, uint32_t second)
{
    if (first - HANGUL_L < HANGUL_L_COUNT && second - HANGUL_V < HANGUL_V_COUNT)
        return HANGUL_S +
               ((first - HANGUL_L) * HANGUL_V_COUNT + (second - HANGUL_V)) * HANGUL_T_COUNT;
    if (first - HANGUL_S < HANGUL_S_COUNT && (first - HANGUL_S) % HANGUL_T_COUNT == 0 &&
        second - HANGUL_T - 1 < HANGUL_T_COUNT - 1)
        return first + (second - HANGUL_T);
    uint64_t key = (uint64_t)first << 32 | second;
    size_t low = 0, high = COMPOSITIONS_COUNT;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct composition *at = &COMPOSITIONS[middle];
        if (((uint64_t)at->first << 32 | at->second) < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COMPOSITIONS_COUNT && COMPOSITIONS[low].first == first &&
                   COMPOSITIONS[low].second == second
               ? COMPOSITIONS[low].code
               : 0;
}

/* Composes in place and returns the number of characters left. */
static size_t compose_all(uint32_t *codes, size_t count)
{
    size_t starter = SIZE_MAX, kept = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned class = codes[i] >> CODE_BITS;
        /* Blocked by an equal or higher class between it and the starter, or by a starter. */
        bool is_blocked =
            starter == SIZE_MAX || (kept > starter + 1 && codes[kept - 1] >> CODE_BITS >= class);
        uint32_t composed = is_blocked ? 0 : compose(codes[starter], codes[i] & CODE_MASK);
        if (composed) {
            codes[starter] = composed;
            continue;
        }
        if (class == 0)
            starter = kept;
        codes[kept++] = codes[i];
    }
    return kept;
}

static void add_utf8(struct str *out, uint32_t code)
{
    char text[UTF8_BYTES_MAX];
    str_add(out, text, utf8_encode(code, text));
}

/* A part is well-formed UTF-8. */
static int normalize_part(struct unicode_nfc *nfc, const uint8_t *text, size_t bytes,
                          struct str *out)
{
    str_clear(&nfc->decomposed);
    str_clear(&nfc->sorted);
    for (size_t at = 0; at < bytes;) {
        uint32_t code = 0;
        at += utf8_decode(text + at, bytes - at, &code);
        add_decomposed(&nfc->decomposed, code);
    }
    if (str_status(&nfc->decomposed) || str_reserve(&nfc->sorted, nfc->decomposed.bytes))
        return -ENOMEM;
    uint32_t *codes = codes_of(&nfc->decomposed);
    size_t count = nfc->decomposed.bytes / sizeof *codes;
    sort_by_class(codes, codes_of(&nfc->sorted), count);
    count = compose_all(codes, count);
    for (size_t i = 0; i < count; i++)
        add_utf8(out, codes[i] & CODE_MASK);
    return str_status(out);
}

/* Returns the start of the last character of text[0, bytes), all of kind 0: a malformed byte is a
 * character. */
static size_t find_last_character(const uint8_t *text, size_t bytes)
{
    for (size_t length = 4; length > 1; length--)
        if (length <= bytes && utf8_sequence_bytes(text + bytes - length, length) == length)
            return bytes - length;
    return bytes - 1;
}

int unicode_nfc_normalize(struct unicode_nfc *nfc, const uint8_t *text, size_t bytes,
                          struct str *out)
{
    for (size_t at = 0; at < bytes;) {
        size_t stable = at + unicode_nfc_stable_bytes(text + at, bytes - at), begin = stable;
        if (stable < bytes && stable > at) {
            /* The part begins with the preceding character, unless that is malformed. */
            begin = find_last_character(text + at, stable - at) + at;
            if (utf8_sequence_bytes(text + begin, stable - begin) == 0)
                begin = stable;
        }
        str_add(out, text + at, begin - at);
        size_t end = stable;
        while (end < bytes) {
            unsigned kind;
            size_t length = next_kind(text + end, bytes - end, &kind);
            if (kind == 0)
                break;
            end += length;
        }
        int status = normalize_part(nfc, text + begin, end - begin, out);
        if (status)
            return status;
        at = end;
    }
    return str_status(out);
}
