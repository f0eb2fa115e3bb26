/*
 * unicode_nfc — fuzz target: normalization (tokenizer/unicode_nfc.h). Normalized text does not
 * change when normalized again, and text is normalized by itself before and after a space.
 */
#include "tokenizer/unicode_nfc.h"
#include "tests/fuzz/fuzz.h"

static struct str normalize(const uint8_t *text, size_t bytes)
{
    struct unicode_nfc nfc = {0};
    struct str out = {0};
    if (unicode_nfc_normalize(&nfc, text, bytes, &out))
        abort();
    unicode_nfc_deinit(&nfc);
    return out;
}

static void expect_equal(const struct str *a, const struct str *b)
{
    if (a->bytes != b->bytes || (a->bytes > 0 && memcmp(a->data, b->data, a->bytes) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct str once = normalize(data, bytes);
    struct str again = normalize((const uint8_t *)once.data, once.bytes);
    expect_equal(&once, &again);
    if (unicode_nfc_stable_bytes(data, bytes) == bytes &&
        (once.bytes != bytes || (bytes > 0 && memcmp(once.data, data, bytes) != 0)))
        abort();
    const uint8_t *space = bytes > 0 ? memchr(data, ' ', bytes) : NULL;
    if (space) {
        size_t cut = (size_t)(space - data);
        struct str parts = normalize(data, cut), rest = normalize(space, bytes - cut);
        str_add(&parts, rest.data, rest.bytes);
        expect_equal(&once, &parts);
        str_deinit(&parts);
        str_deinit(&rest);
    }
    str_deinit(&once);
    str_deinit(&again);
    return 0;
}
