/*
 * tokenizer — see tokenizer.h.
 */
#include "convert/source/tokenizer.h"

#include <errno.h>
#include <string.h>

enum { BYTE_TOKEN_BYTES = 2, BYTE_DOCUMENT_END = 256, BYTE_VOCABULARY = 257 };

int tokenizer_open(struct io *io, const struct convert_options *options, struct bpe **ret_bpe,
                   struct err *err)
{
    if (!options->tokenizer || strcmp(options->tokenizer, "bytes") == 0)
        return 0;
    if (options->document_end && !*options->document_end)
        return err_set(err, -EINVAL, "the token after each document has no name");
    if (str_ends_with_nocase(options->tokenizer, ".json"))
        return bpe_open_json(io, options->tokenizer, options->document_end, ret_bpe, err);
    if (strcmp(options->tokenizer, "gpt2") != 0) {
        err_set(err, -EINVAL, "the tokenizer is unknown");
        err_expected(err, "bytes, gpt2 or the path of a tokenizer.json");
        err_found(err, "%s", options->tokenizer);
        return -EINVAL;
    }
    if (options->vocabulary)
        return bpe_open_folder(io, options->vocabulary, ret_bpe, err);
    err_set(err, -EINVAL, "the tokenizer gpt2 needs a vocabulary");
    err_expected(err, "a folder with encoder.json and vocab.bpe");
    return -EINVAL;
}

void tokenizer_describe(const struct bpe *bpe, struct token_stream *stream)
{
    stream->tokenizer = bpe ? bpe_name(bpe) : "bytes";
    stream->token_bytes = bpe ? bpe_token_bytes(bpe) : BYTE_TOKEN_BYTES;
    stream->vocabulary = bpe ? bpe_vocabulary_size(bpe) : BYTE_VOCABULARY;
    stream->document_end = bpe ? bpe_document_end_token(bpe) : BYTE_DOCUMENT_END;
}
