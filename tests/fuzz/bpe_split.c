/*
 * bpe_split — fuzz target: splitting text into words, and the places where text may be cut
 * (convert/bpe/bpe.h). Cutting does not change the words.
 */
#include "convert/bpe/bpe_split.h"
#include "convert/bpe/bpe.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

enum { CUT_BYTES_MIN = 3 };

/* Aborts unless a word ends at `place`, counted from the start. */
static void expect_end(const uint8_t *text, size_t bytes, size_t place)
{
    size_t at = 0;
    while (at < place)
        at = bpe_word_end(text, bytes, at);
    if (at != place)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t end = bpe_word_end(data, bytes, at);
        if (end <= at || end > bytes)
            abort();
        at = end;
    }
    if (bytes <= CUT_BYTES_MIN)
        return 0;
    size_t cut = bpe_find_cut(data, bytes, CUT_BYTES_MIN);
    if (cut == bytes)
        return 0;
    expect_end(data, bytes, cut);
    /* the part before the cut has the same words by itself */
    for (size_t at = 0; at < cut;) {
        size_t end = bpe_word_end(data, cut, at);
        if (end != bpe_word_end(data, bytes, at))
            abort();
        at = end;
    }
    return 0;
}
