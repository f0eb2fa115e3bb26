/*
 * unicode_nfc — Normalization Form C of Unicode 9.0 (Unicode Standard Annex #15), as in the library
 * tokenizers. A character that is new in a later version is one that does not combine.
 *
 *     stable = unicode_nfc_stable_bytes(text, bytes);
 *     if (stable < bytes)
 *         status = unicode_nfc_normalize(&nfc, text, bytes, &out);
 *
 * A byte that is not part of well-formed UTF-8 does not combine and is copied.
 */
#ifndef MILLRACE_TOKENIZER_UNICODE_NFC_H
#define MILLRACE_TOKENIZER_UNICODE_NFC_H

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

/* Returns how many bytes at the start need no closer look: all of them if the text is certainly in
 * NFC. */
size_t unicode_nfc_stable_bytes(const uint8_t *text, size_t bytes);

/* Memory for characters, reused between calls. All zeros at first. Owner thread. */
struct unicode_nfc {
    struct str decomposed, sorted; /* uint32_t: canonical combining class << 24 | code */
};
void unicode_nfc_deinit(struct unicode_nfc *nfc);

/* Appends the text in NFC. -ENOMEM. */
int unicode_nfc_normalize(struct unicode_nfc *nfc, const uint8_t *text, size_t bytes,
                          struct str *out);

#endif
