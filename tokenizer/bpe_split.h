/*
 * bpe_split — splits text into words as the regular expressions of published tokenizers do, and
 * finds where text can be cut.
 *
 *     BPE_PATTERN_GPT2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+
 *                         |\s+(?!\S)|\s+
 *     BPE_PATTERN_LLAMA3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
 *                         | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *     BPE_PATTERN_QWEN2   the same with \p{N} in place of \p{N}{1,3}
 *
 * Ignoring case, U+017F (long s) matches s. OpenAI's cl100k_base has Llama 3's pattern. Any bytes
 * are valid text; a byte that is not part of well-formed UTF-8 is neither letter, number nor white
 * space.
 */
#ifndef MILLRACE_TOKENIZER_BPE_SPLIT_H
#define MILLRACE_TOKENIZER_BPE_SPLIT_H

#include <stddef.h>
#include <stdint.h>

enum bpe_pattern { BPE_PATTERN_GPT2, BPE_PATTERN_LLAMA3, BPE_PATTERN_QWEN2 };

/* Returns the end of the word at `at` < bytes. */
size_t bpe_word_end(enum bpe_pattern pattern, const uint8_t *text, size_t bytes, size_t at);

/* Returns the first offset in [min_offset, bytes) where cutting the text changes no words; `bytes`
 * if it finds none. The cut is before an ASCII space (GPT-2: also a line end) that follows a
 * character other than white space; except for GPT-2's pattern, also after a line end that precedes
 * a character other than white space. min_offset is at least 3, so that the text includes the
 * preceding character. */
size_t bpe_split_find_cut(enum bpe_pattern pattern, const uint8_t *text, size_t bytes,
                          size_t min_offset);

#endif
