/*
 * source — lists the items to convert in a fixed order.
 *
 * An item becomes one sample. In a folder it is all files with the same key; in text it is one
 * member of tokens. Only the list grows with the input: a path and 32 bytes per file, and 32 bytes
 * per piece of text.
 *
 *     source_probe(io, &options, &kind, err);                // also detects split folders
 *     source_open(io, &options, kind, &source, err);
 *     for (position = 0; position < source->items; position++)
 *         source_describe(source, position, &item);          // key, split, bytes; no I/O
 */
#ifndef MILLRACE_CONVERT_SOURCE_SOURCE_H
#define MILLRACE_CONVERT_SOURCE_SOURCE_H

#include "convert/bpe/bpe.h"
#include "convert/options.h"
#include "shards/format/index.h"

enum {
    SOURCE_DEPTH_MAX = 32, /* nesting of folders; stops loops of symbolic links */
    SOURCE_CLASSES_MAX = 1 << 20,
    SOURCE_UNMATCHED_MAX = 64,       /* types of files listed as belonging to no sample */
    SOURCE_ITEM_BYTES_MAX = 1 << 30, /* of all files of one item, which is held in memory */
    SOURCE_MEMBER_TOKENS = 1 << 16,  /* of text, without the overlap */
    SOURCE_TOKEN_BYTES = 2,
    SOURCE_BYTE_DOCUMENT_END = 256, /* the token after each document, for the tokenizer "bytes" */
    SOURCE_BYTE_VOCABULARY = 257,
    /* Bytes of text passed to the byte-pair encoder at a time. A piece ends at the first safe
     * cut after it, where no token changes; if a MiB has none, it ends there anyway. */
    TEXT_CHUNK_BYTES = 1 << 16,
    TEXT_CHUNK_BYTES_MAX = 1 << 20,
};

enum source_kind { SOURCE_CLASSES, SOURCE_FILES, SOURCE_TEXT };

struct source_file {
    uint64_t name_at; /* offset in names */
    uint64_t bytes;   /* when listed */
    uint32_t class_number;
    uint16_t base_at, dot_at; /* offsets in the name: of the base name, of its last dot */
};

/* A part of a document that is tokenized independently. "bytes": a document is one piece. */
struct text_chunk {
    uint64_t file, offset, bytes;
    /* In the whole stream; includes the document end if the piece is the document's last. */
    uint64_t tokens_end;
};

/* Position of a split's tokens in the whole stream. */
struct source_tokens {
    uint64_t first, count;
    uint64_t first_item, items;
};

/* Files of one type that belong to no sample. */
struct source_unmatched {
    char type[SHARD_EXTENSION_BYTES_MAX + 16]; /* ".tif", or why the extension does not matter */
    uint64_t count;
    char example[IO_PATH_BYTES_MAX];
};

/* Immutable once open; any thread. */
struct source {
    enum source_kind kind;
    const struct convert_options *options; /* borrowed */
    char root[IO_PATH_BYTES_MAX];          /* the folder that names are relative to */
    struct str names;                      /* NUL-terminated, consecutive */
    struct source_file *files;             /* in byte order of (key, extension); text: of names */
    uint64_t files_count;
    uint64_t *first_files; /* of each item, with files_count at the end; not for text */
    uint64_t items;
    uint64_t bytes; /* of all files */
    char **classes;
    uint64_t classes_count;
    uint64_t hidden_count, ignored_count; /* files and folders that were skipped */
    struct source_unmatched *unmatched;
    uint32_t unmatched_count;
    uint64_t unmatched_files_count; /* of all types, including those that do not fit in odd */
    struct bpe *bpe;                /* text: NULL for "bytes" */
    struct text_chunk *pieces;      /* text: in the order of the stream */
    uint64_t pieces_count;
    /* Text: of each split; without splits, tokens[0] is everything. */
    struct source_tokens tokens[CONVERT_SPLITS_MAX];
};

struct source_item {
    char key[SHARD_KEY_BYTES_MAX];
    uint32_t split;
    uint64_t number; /* index in the sorted list */
    uint64_t bytes;  /* of its files, or of its tokens */
};

/* Chooses the kind from the first two levels of options->source. If its folders are splits, adds
 * them to the splits of options, each with the fraction 0. -ENOTSUP names an unsupported format;
 * -EINVAL: the folders are ambiguous, or they are splits and options has others. */
int source_probe(struct io *io, struct convert_options *options, enum source_kind *ret_kind,
                 struct err *err);

/* Lists options->source; options must outlive the source. Logs what it leaves out. -EEXIST names
 * two files with the same key; -ENOTSUP: files that belong to no sample, each type of which is
 * logged; -ENODATA: nothing to convert. */
int source_open(struct io *io, const struct convert_options *options, enum source_kind kind,
                struct source **ret_source, struct err *err);
void source_close(struct source *source); /* NULL is fine */

/* The item at a position of the output order: shuffled, keyed by the seed, unless the source is
 * text or options keep the order. */
void source_describe(const struct source *source, uint64_t position, struct source_item *ret_item);
/* A hash of the names and sizes of all files. It excludes times, so that a copy of the files has
 * the same. -ENOMEM. */
int source_identity(const struct source *source, uint64_t *ret_identity, struct err *err);

/* Appends count bytes at offset of a file to out; path is its path. -ESTALE if the file has changed
 * since it was listed. Blocks. */
int source_read_file(const struct source *source, struct io *io, struct io_queue *queue,
                     uint64_t file, const char *path, uint64_t offset, uint64_t count,
                     struct str *out, struct err *err);

/* The file's path, and the extension that it is stored under. */
int source_file_path(const struct source *source, uint64_t file, char *path, struct err *err);
void source_file_extension(const struct source *source, uint64_t file,
                           char extension[SHARD_EXTENSION_BYTES_MAX]);

/* Properties of names (source_names.c). */
/* Ignores the case of ASCII letters. */
bool source_ends_with(const char *name, const char *end);
/* Dotfiles, and what operating systems and tools leave in folders: .git, Thumbs.db, __MACOSX. */
bool source_is_hidden(const char *name);
/* A file that describes the data and belongs to no sample: README, LICENSE and the like. */
bool source_is_readme(const char *name, enum source_kind kind);
/* Whether --ignore matches it. relative: its path below the source. */
bool source_is_ignored(const struct convert_options *options, const char *relative);
/* The extension that a file of this name is stored under: lowercase, "jpeg" as "jpg", truncated if
 * too long. */
void source_write_extension(const char *name, char extension[SHARD_EXTENSION_BYTES_MAX]);
/* Whether files with this extension are fields of samples. */
bool source_is_field(const struct convert_options *options, const char *extension);
/* The unsupported format that a file's name indicates, such as "Parquet"; NULL: none. Extensions of
 * options->fields are supported. */
const char *source_format_of(const struct convert_options *options, const char *name);

/* -ENOTSUP with the supported alternatives. format: from source_format_of; NULL: unknown. */
int source_refuse_kind(const char *path, const char *format, struct err *err);
/* Counts a file that belongs to no sample. -ENOMEM. */
int source_add_unmatched(struct source *source, const char *type, const char *relative,
                         struct err *err);
/* -ENOTSUP if there are any, with advice. */
int source_reject_unmatched(const struct source *source, struct err *err);

/* Steps by kind. Folder: list and group. Text: list and lay out the tokens. */
/* Lists files below root, names in byte order. */
int source_list_files(struct io *io, struct source *source, struct err *err);
int source_group_files(struct source *source, struct err *err);
/* Also counts their tokens. */
int source_split_text(struct io *io, struct source *source, struct err *err);
void source_lay_out_tokens(struct source *source);
/* Text: the item's tokens in the stream, overlap included. */
void source_item_tokens(const struct source *source, uint64_t item, uint64_t *ret_first,
                        uint64_t *ret_count);
void source_describe_tokens(const struct source *source, uint64_t item,
                            struct source_item *ret_item);

/* Whether the folders in the root are splits. Splits of --split have fractions. */
static inline bool source_has_split_folders(const struct convert_options *options)
{
    return options->splits_count > 0 && options->splits[0].fraction == 0;
}

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

static inline bool text_chunk_ends_document(const struct source *source,
                                            const struct text_chunk *piece)
{
    return piece->offset + piece->bytes == source->files[piece->file].bytes;
}

static inline const char *source_file_name(const struct source *source, uint64_t file)
{
    return source->names.data + source->files[file].name_at;
}

#endif
