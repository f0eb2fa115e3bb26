/*
 * text_chunks — cuts documents into chunks that can be tokenized independently, and counts their
 * tokens.
 *
 * Only encoding reveals a text's token count. All text is therefore encoded twice: here, and again
 * when members are written. In between, each 64 KiB of text needs only 32 bytes of memory.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TEXT_CHUNKS_H
#define MILLRACE_CONVERT_SOURCE_TEXT_CHUNKS_H

#include "convert/bpe/bpe.h"
#include "convert/source/file_list.h"

enum {
    /* After this size, a chunk ends at the next cut that changes no tokens, or at the maximum. */
    TEXT_CHUNK_BYTES = 1 << 16,
    TEXT_CHUNK_BYTES_MAX = 1 << 20,
};

/* Without bpe, a document is one chunk. */
struct text_chunk {
    uint64_t file, offset, bytes;
    /* Position in the stream; a document's last chunk includes the document end. */
    uint64_t tokens_end;
};

struct text_chunks {
    struct text_chunk *chunks; /* in stream order; freed by the caller */
    uint64_t count;
};

/* bpe: NULL counts one token per byte. Uses only workers and stop of options. */
int text_chunks_cut(struct io *io, const struct convert_options *options,
                    const struct file_list *files, const struct bpe *bpe,
                    struct text_chunks *ret_chunks, struct err *err);

static inline bool text_chunk_ends_document(const struct file_list *files,
                                            const struct text_chunk *chunk)
{
    return chunk->offset + chunk->bytes == files->files[chunk->file].bytes;
}

#endif
