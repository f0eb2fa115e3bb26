/*
 * bpe_split — fuzz target: splitting text into words, and the places where text may be cut
 * (tokenizer/bpe_split.h). Words equal those of a slow reference, which tries the alternatives of
 * the regular expressions one by one. Cutting does not change the words.
 */
#include "tokenizer/bpe_split.h"
#include "tests/fuzz/fuzz.h"
#include "tokenizer/unicode_class.h"

#include <stdbool.h>

enum { CUT_BYTES_MIN = 3, REFERENCE_BYTES_MAX = 2048 };

struct reference {
    const uint8_t *text;
    size_t bytes;
    enum bpe_pattern pattern;
};

typedef bool is_member(enum unicode_class kind, uint8_t byte);

static bool is_letter(enum unicode_class kind, uint8_t byte)
{
    (void)byte;
    return kind == UNICODE_LETTER;
}

static bool is_number(enum unicode_class kind, uint8_t byte)
{
    (void)byte;
    return kind == UNICODE_NUMBER;
}

static bool is_other(enum unicode_class kind, uint8_t byte)
{
    (void)byte;
    return kind == UNICODE_OTHER;
}

static bool is_space(enum unicode_class kind, uint8_t byte)
{
    (void)byte;
    return kind == UNICODE_SPACE;
}

static bool is_line_end(enum unicode_class kind, uint8_t byte)
{
    (void)kind;
    return byte == '\r' || byte == '\n';
}

static bool is_prefix(enum unicode_class kind, uint8_t byte)
{
    return !is_line_end(kind, byte) && kind != UNICODE_LETTER && kind != UNICODE_NUMBER;
}

/* Greedy member{0,max}. Returns the end. */
static size_t take(const struct reference *r, size_t at, size_t max, is_member *member)
{
    for (enum unicode_class kind; max > 0 && at < r->bytes; max--) {
        size_t length = unicode_next(r->text + at, r->bytes - at, &kind);
        if (!member(kind, r->text[at]))
            break;
        at += length;
    }
    return at;
}

/* prefix? member{1,max}, with backtracking over the prefix. Returns `at` if it does not match. */
static size_t take_prefixed(const struct reference *r, size_t at, bool has_prefix, size_t max,
                            is_member *member)
{
    size_t first = has_prefix ? take(r, at, 1, is_prefix) : at;
    size_t end = take(r, first, max, member);
    if (end > first)
        return end;
    return take(r, at, max, member);
}

static size_t take_contraction(const struct reference *r, size_t at)
{
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    bool any_case = r->pattern != BPE_PATTERN_GPT2;
    size_t left = r->bytes - at;
    if (r->text[at] != '\'')
        return at;
    if (any_case && left >= 3 && memcmp(r->text + at + 1, "\xc5\xbf", 2) == 0)
        return at + 3;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t count = strlen(ends[i]), same = 0;
        for (; same < count && same + 1 < left; same++) {
            uint8_t byte = r->text[at + 1 + same];
            if (any_case && byte >= 'A' && byte <= 'Z')
                byte = (uint8_t)(byte - 'A' + 'a');
            if (byte != (uint8_t)ends[i][same])
                break;
        }
        if (same == count)
            return at + 1 + count;
    }
    return at;
}

/* \s+(?!\S)|\s+ */
static size_t take_spaces(const struct reference *r, size_t at)
{
    size_t end = take(r, at, SIZE_MAX, is_space), last = at;
    if (end == r->bytes)
        return end;
    for (size_t next = at; next < end; next = take(r, next, 1, is_space))
        last = next;
    return last > at ? last : end;
}

/* \s*[\r\n]+: the longest \s* after which a line end follows. */
static size_t take_lines(const struct reference *r, size_t at)
{
    size_t lines = at;
    for (size_t next = at; next < r->bytes;) {
        size_t end = take(r, next, SIZE_MAX, is_line_end);
        lines = end > next ? end : lines;
        end = end > next ? end : take(r, next, 1, is_space);
        if (end == next)
            break;
        next = end;
    }
    return lines;
}

static size_t reference_word_end(const struct reference *r, size_t at)
{
    bool is_gpt2 = r->pattern == BPE_PATTERN_GPT2, has_space = r->text[at] == ' ';
    size_t end = take_contraction(r, at);
    if (end == at)
        end = take_prefixed(r, at, is_gpt2 ? has_space : true, SIZE_MAX, is_letter);
    if (end == at && is_gpt2)
        end = take_prefixed(r, at, has_space, SIZE_MAX, is_number);
    if (end == at && !is_gpt2)
        end = take(r, at, r->pattern == BPE_PATTERN_LLAMA3 ? 3 : 1, is_number);
    if (end == at) {
        size_t first = has_space ? at + 1 : at;
        end = take(r, first, SIZE_MAX, is_other);
        end = end == first ? at : is_gpt2 ? end : take(r, end, SIZE_MAX, is_line_end);
    }
    if (end == at && !is_gpt2)
        end = take_lines(r, at);
    return end == at ? take_spaces(r, at) : end;
}

/* Aborts unless a word ends at `place`, counted from the start. */
static void expect_end(const struct reference *r, size_t place)
{
    size_t at = 0;
    while (at < place)
        at = bpe_word_end(r->pattern, r->text, r->bytes, at);
    if (at != place)
        abort();
}

static void check_pattern(const struct reference *r)
{
    for (size_t at = 0; at < r->bytes;) {
        size_t end = bpe_word_end(r->pattern, r->text, r->bytes, at);
        if (end <= at || end > r->bytes)
            abort();
        if (r->bytes <= REFERENCE_BYTES_MAX && end != reference_word_end(r, at))
            abort();
        at = end;
    }
    if (r->bytes <= CUT_BYTES_MIN)
        return;
    size_t cut = bpe_split_find_cut(r->pattern, r->text, r->bytes, CUT_BYTES_MIN);
    if (cut == r->bytes)
        return;
    expect_end(r, cut);
    /* the part before the cut has the same words by itself */
    for (size_t at = 0; at < cut;) {
        size_t end = bpe_word_end(r->pattern, r->text, cut, at);
        if (end != bpe_word_end(r->pattern, r->text, r->bytes, at))
            abort();
        at = end;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    for (enum bpe_pattern pattern = BPE_PATTERN_GPT2; pattern <= BPE_PATTERN_QWEN2; pattern++)
        check_pattern(&(struct reference){data, bytes, pattern});
    return 0;
}
