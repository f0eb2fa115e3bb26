/*
 * tokenizer — the tokenizer of the options, for sources that are streams of tokens.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TOKENIZER_H
#define MILLRACE_CONVERT_SOURCE_TOKENIZER_H

#include "convert/source/token_stream.h"
#include "tokenizer/bpe.h"

/* Opens options->tokenizer. *ret_bpe: unchanged for "bytes". -EINVAL: it is unknown, or needs other
 * options; errors of bpe_open_folder and bpe_open_json. */
int tokenizer_open(struct io *io, const struct convert_options *options, struct bpe **ret_bpe,
                   struct err *err);
/* Sets the stream's tokenizer, vocabulary, document end and token size. bpe: NULL for "bytes". */
void tokenizer_describe(const struct bpe *bpe, struct token_stream *stream);

#endif
