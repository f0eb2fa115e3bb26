/*
 * source — what is to be converted, as a list of items in a fixed order.
 *
 * An item becomes one sample. In a folder it is all files of one key; in text it is one member of tokens. The list is the
 * only memory that grows with the input: a path and 32 bytes a file, and 32 bytes a piece of text.
 *
 *     source_open(io, options, &source, err);
 *     for (position = 0; position < source->items; position++)
 *         source_describe(source, position, &item);          // key, split, bytes; no I/O
 */
#ifndef MILLRACE_CONVERT_SOURCE_H
#define MILLRACE_CONVERT_SOURCE_H

#include "convert/bpe.h"
#include "convert/dataset.h"
#include "shards/index.h"

enum {
    SOURCE_DEPTH_MAX = 32, /* folders in folders; stops loops of symbolic links */
    SOURCE_CLASSES_MAX = 1 << 20,
    SOURCE_ITEM_BYTES_MAX = 1 << 30, /* of all files of one item: it is held in memory */
    SOURCE_MEMBER_TOKENS = 1 << 16,  /* of text, the overlap not counted */
    SOURCE_TOKEN_BYTES = 2,
    SOURCE_BYTE_DOCUMENT_END = 256, /* the token behind each document, for the tokenizer "bytes" */
    SOURCE_BYTE_VOCABULARY = 257,
    /* Of text that byte-pair encoding reads at once. A piece ends at the first place behind it where a cut changes no token; where a MiB
     * has none, it ends there all the same. */
    SOURCE_PIECE_BYTES = 1 << 16,
    SOURCE_PIECE_BYTES_MAX = 1 << 20,
};

enum source_kind { SOURCE_CLASSES, SOURCE_FILES, SOURCE_TEXT };

struct source_file {
    uint64_t name_at;        /* in names */
    uint64_t bytes, version; /* as they were when listed */
    uint32_t class_number;
    uint16_t base_at, dot_at; /* in the name: of the base name, of its last dot */
};

/* A part of a document that becomes tokens on its own. "bytes": a document is one piece. */
struct source_piece {
    uint64_t file, offset, bytes;
    uint64_t tokens_end; /* in the stream of all, the document end included where it is the document's last */
};

/* Where a split's tokens lie in the stream of all. */
struct source_tokens {
    uint64_t first, count;
    uint64_t first_item, items;
};

/* Immutable once open; any thread. */
struct source {
    enum source_kind kind;
    const struct convert_options *options; /* borrowed */
    char root[IO_PATH_BYTES_MAX];          /* the folder that names are relative to */
    struct str names;                      /* NUL-terminated, one after the other */
    struct source_file *files;             /* in byte order of (key, extension); text: of names */
    uint64_t files_count;
    uint64_t *first_files; /* of each item, and files_count at the end; not for text */
    uint64_t items;
    uint64_t bytes; /* of all files */
    char **classes;
    uint64_t classes_count;
    struct bpe *bpe;             /* text: NULL for "bytes" */
    struct source_piece *pieces; /* text: in the order of the stream */
    uint64_t pieces_count;
    struct source_tokens tokens[CONVERT_SPLITS_MAX]; /* text: of each split, or of all as the first */
};

struct source_item {
    char key[SHARD_KEY_BYTES_MAX];
    uint32_t split;
    uint64_t number; /* in the sorted list */
    uint64_t bytes;  /* of its files, or of the tokens' */
};

/* Lists what is at options->source, which must live as long as the source. Logs what it leaves out. -EEXIST names two files of
 * one key; -ENOTSUP tells what is accepted; -ENODATA: nothing to convert. */
int source_open(struct io *io, const struct convert_options *options, struct source **ret_source,
                struct err *err);
void source_close(struct source *source); /* NULL is fine */

/* The item at a position of the output order: shuffled, keyed by the seed, unless options or text keep the order. */
void source_describe(const struct source *source, uint64_t position, struct source_item *ret_item);
/* A hash of names and sizes of all files; no times, so that a copy of them has the same. -ENOMEM. */
int source_identity(const struct source *source, uint64_t *ret_identity, struct err *err);

/* Appends count bytes at offset of a file, whose path the caller has, to out. -ESTALE where it is not as it was when listed. Blocks. */
int source_read_file(const struct source *source, struct io *io, struct io_queue *queue, uint64_t file,
                     const char *path, uint64_t offset, uint64_t count, struct str *out, struct err *err);

/* The file's path, and the extension under which it is stored. */
int source_file_path(const struct source *source, uint64_t file, char *path, struct err *err);
void source_file_extension(const struct source *source, uint64_t file,
                           char extension[SHARD_EXTENSION_BYTES_MAX]);

/* -ENOTSUP with what is accepted instead. */
int source_refuse_kind(const char *path, const char *found, struct err *err);
bool source_is_container(const char *name); /* by its ending: shards, archives, other tools' datasets */
bool source_ends_with(const char *name, const char *end); /* ASCII letters alike, small or capital */

/* The kinds' own parts. Folder: lists and groups. Text: lists and lays the tokens out. */
int source_list_files(struct io *io, struct source *source,
                      struct err *err); /* below root, names in byte order */
int source_group_files(struct source *source, struct err *err);
int source_cut_pieces(struct io *io, struct source *source, struct err *err); /* and counts their tokens */
void source_lay_out_tokens(struct source *source);
/* Text: the stream's tokens that the item holds, overlap included. */
void source_item_tokens(const struct source *source, uint64_t item, uint64_t *ret_first, uint64_t *ret_count);
void source_describe_tokens(const struct source *source, uint64_t item, struct source_item *ret_item);

static inline uint32_t source_vocabulary(const struct source *source)
{
    return source->bpe ? bpe_vocabulary(source->bpe) : SOURCE_BYTE_VOCABULARY;
}

static inline uint32_t source_document_end(const struct source *source)
{
    return source->bpe ? bpe_document_end(source->bpe) : SOURCE_BYTE_DOCUMENT_END;
}

static inline const char *source_tokenizer(const struct source *source)
{
    return source->bpe ? "gpt2" : "bytes";
}

static inline bool source_piece_ends_document(const struct source *source, const struct source_piece *piece)
{
    return piece->offset + piece->bytes == source->files[piece->file].bytes;
}

static inline const char *source_file_name(const struct source *source, uint64_t file)
{
    return source->names.data + source->files[file].name_at;
}

#endif
