/*
 * bpe_json — fuzz target: tokenizer.json (tokenizer/bpe.h). A tokenizer that opens encodes any
 * text to tokens below its vocabulary size.
 */
#include "base/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tokenizer/bpe.h"

static const char TEXT[] = "It's 12345 <a>e\xcc\x81\n\n  \xff word <|endoftext|>";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct memory_io memory;
    struct bpe *bpe;
    struct bpe_encoder *encoder;
    struct str tokens = {0};
    memory_io_init(&memory, data, bytes);
    if (bpe_open_json(&memory.io, "tokenizer.json", NULL, &bpe, NULL))
        return 0;
    if (bpe_document_end_token(bpe) >= bpe_vocabulary_size(bpe))
        abort();
    if (bpe_encoder_open(bpe, &encoder, NULL) == 0) {
        if (bpe_encode(encoder, TEXT, sizeof TEXT - 1, &tokens, NULL))
            abort();
        size_t width = bpe_token_bytes(bpe);
        for (size_t at = 0; at < tokens.bytes; at += width)
            if ((width == 2 ? bytes_get_u16(tokens.data + at) : bytes_get_u32(tokens.data + at)) >=
                bpe_vocabulary_size(bpe))
                abort();
        bpe_encoder_close(encoder);
    }
    str_deinit(&tokens);
    bpe_close(bpe);
    return 0;
}
