/*
 * byte_tokenizer — makes tokenizer.json files of byte-level BPE for tests. Header only.
 */
#ifndef MILLRACE_TESTS_SUPPORT_BYTE_TOKENIZER_H
#define MILLRACE_TESTS_SUPPORT_BYTE_TOKENIZER_H

#include "base/str.h"

/* Appends the vocabulary of a token for each byte, without braces. */
static inline void byte_tokenizer_add_vocabulary(struct str *out)
{
    unsigned others = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool printable =
            (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        str_add_format(out, "%s\"\\u%04x\":%u", byte ? "," : "",
                       printable ? byte : 0x100 + others++, byte);
    }
}

/* Token 256 is "th", and 257 BYTE_TOKENIZER_END. */
#define BYTE_TOKENIZER_END "<|endoftext|>"
enum { BYTE_TOKENIZER_TOKENS = 258 };

/* Appends a tokenizer.json that normalizes to NFC. */
static inline void byte_tokenizer_add(struct str *out)
{
    str_add_text(out,
                 "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                 "\"add_prefix_space\":false,\"use_regex\":true},\"added_tokens\":[{\"id\":257,"
                 "\"content\":\"" BYTE_TOKENIZER_END "\",\"special\":true}],"
                 "\"model\":{\"type\":\"BPE\",\"merges\":[\"t h\"],\"vocab\":{");
    byte_tokenizer_add_vocabulary(out);
    str_add_text(out, ",\"th\":256}}}");
}

#endif
