/*
 * bpe_split — splits text into words using GPT-2's pattern (see bpe.h).
 */
#ifndef MILLRACE_CONVERT_BPE_BPE_SPLIT_H
#define MILLRACE_CONVERT_BPE_BPE_SPLIT_H

#include <stddef.h>
#include <stdint.h>

/* Returns the end of the word at `at` < bytes. */
size_t bpe_word_end(const uint8_t *text, size_t bytes, size_t at);

#endif
