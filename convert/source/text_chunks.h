/*
 * text_chunks — cuts text into chunks that can be tokenized independently.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TEXT_CHUNKS_H
#define MILLRACE_CONVERT_SOURCE_TEXT_CHUNKS_H

#include "convert/source/token_stream.h"
#include "tokenizer/bpe.h"

enum {
    /* After this size, a chunk ends at the next cut that changes no tokens, or at the maximum. */
    TEXT_CHUNK_BYTES = TOKEN_CHUNK_BYTES,
    TEXT_CHUNK_BYTES_MAX = 1 << 20,
};

enum text_cut {
    TEXT_CUT_ANYWHERE,
    TEXT_CUT_WORDS, /* where it changes no tokens of bpe */
    TEXT_CUT_LINES, /* before the next line */
};

/* Sets all of ret_chunks except tokens_end; the caller frees the items. bpe: for TEXT_CUT_WORDS.
 * -EBADMSG: a line is longer than TEXT_LINE_BYTES_MAX. */
int text_chunks_cut(struct io *io, const struct file_list *files, enum text_cut cut,
                    const struct bpe *bpe, struct token_chunks *ret_chunks, struct err *err);

static inline bool text_chunk_ends_file(const struct file_list *files,
                                        const struct token_chunk *chunk)
{
    return chunk->offset + chunk->bytes == files->files[chunk->file].bytes;
}

#endif
