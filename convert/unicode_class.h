/*
 * unicode_class — letters, numbers and white space of Unicode 16.0: as much of it as GPT-2's
 * splitting of text needs.
 *
 * The classes are those of \p{L}, \p{N} and \s in the pattern; marks, signs and what is not
 * assigned are neither.
 */
#ifndef MILLRACE_CONVERT_UNICODE_CLASS_H
#define MILLRACE_CONVERT_UNICODE_CLASS_H

#include <stddef.h>
#include <stdint.h>

enum unicode_class { UNICODE_OTHER, UNICODE_LETTER, UNICODE_NUMBER, UNICODE_SPACE };

#define UNICODE_CLASS_VERSION "16.0.0"

enum unicode_class unicode_class_of(uint32_t code);

/* The bytes of the character at text, of which there are at least one, and its class. A byte that
 * begins no well-formed UTF-8 (RFC 3629: overlong forms, surrogates and what is cut off are not) is
 * a character of its own, UNICODE_OTHER. */
size_t unicode_next(const uint8_t *text, size_t bytes, enum unicode_class *ret_class);

#endif
