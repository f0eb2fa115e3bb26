/*
 * text_chunks — cuts documents into chunks that are tokenized independently, and counts their
 * tokens.
 *
 * With byte-pair encoding a text's token count is only known after encoding. All of it is therefore
 * encoded twice: here to count, and again when members are written. Only 32 bytes per 64 KiB are
 * kept in between.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TEXT_CHUNKS_H
#define MILLRACE_CONVERT_SOURCE_TEXT_CHUNKS_H

#include "convert/bpe/bpe.h"
#include "convert/source/file_list.h"

enum {
    /* Bytes of text passed to the byte-pair encoder at a time. A chunk ends at the first safe cut
     * after it, where no token changes; if a MiB has none, it ends there anyway. */
    TEXT_CHUNK_BYTES = 1 << 16,
    TEXT_CHUNK_BYTES_MAX = 1 << 20,
};

/* A part of a document that is tokenized independently. Without bpe a document is one chunk. */
struct text_chunk {
    uint64_t file, offset, bytes;
    /* In the whole stream; includes the document end if the chunk is the document's last. */
    uint64_t tokens_end;
};

struct text_chunks {
    struct text_chunk *chunks; /* in the order of the stream; freed by the caller */
    uint64_t count;
};

/* bpe: NULL: one token per byte. options: workers and stop. */
int text_chunks_cut(struct io *io, const struct convert_options *options,
                    const struct file_list *files, const struct bpe *bpe,
                    struct text_chunks *ret_chunks, struct err *err);

static inline bool text_chunk_ends_document(const struct file_list *files,
                                            const struct text_chunk *chunk)
{
    return chunk->offset + chunk->bytes == files->files[chunk->file].bytes;
}

#endif
