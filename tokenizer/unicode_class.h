/*
 * unicode_class — the classes \p{L}, \p{N} and \s of Unicode 16.0, for tokenizers' patterns. All
 * other characters are UNICODE_OTHER.
 */
#ifndef MILLRACE_TOKENIZER_UNICODE_CLASS_H
#define MILLRACE_TOKENIZER_UNICODE_CLASS_H

#include <stddef.h>
#include <stdint.h>

enum unicode_class { UNICODE_OTHER, UNICODE_LETTER, UNICODE_NUMBER, UNICODE_SPACE };

enum unicode_class unicode_find_class(uint32_t code);

/* Returns the length of the character at text, and its class. bytes must not be 0. A byte that
 * starts no well-formed UTF-8 (RFC 3629 excludes overlong, surrogate and truncated forms) is one
 * UNICODE_OTHER character. */
size_t unicode_next(const uint8_t *text, size_t bytes, enum unicode_class *ret_class);

#endif
