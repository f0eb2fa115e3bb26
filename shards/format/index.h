/*
 * index — a shard's index and trailer, in memory and on disk. docs/reference/shards.md defines the
 * byte layout.
 *
 * The columns of a loaded index stay in the binary form in which they were read.
 */
#ifndef MILLRACE_SHARDS_FORMAT_INDEX_H
#define MILLRACE_SHARDS_FORMAT_INDEX_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SHARD_TRAILER_BYTES = 512,
    SHARD_TAIL_BYTES = 1 << 20, /* a tail of this size contains most indexes */
    /* Larger fields have a CRC32C per block, so that a part can be verified. */
    SHARD_BLOCK_BYTES = 1 << 16,
    SHARD_FIELDS_MAX = 64,
    SHARD_EXTENSION_BYTES_MAX = 48,  /* including the NUL */
    SHARD_KEY_BYTES_MAX = 1024,      /* including the NUL, which is not stored */
    SHARD_INDEX_BYTES_MAX = 1 << 30, /* about 15 million samples */
    SHARD_VERSION = 1,
    /* Only in the index of a plain tar: its checksum columns are zeros. */
    SHARD_FLAG_NO_CRCS = 1,
    SHARD_FLAG_RAW_IMAGES = 2, /* some fields have columns for struct shard_raw_image */
    SHARD_FLAG_NUMBERS = 4,    /* the index has number columns */
    SHARD_NUMBERS_MAX = 16,
    SHARD_NUMBER_NAME_BYTES_MAX = 64, /* including the NUL */
};

/* The last 512 bytes of a shard. */
struct shard_trailer {
    uint32_t version, flags;
    uint64_t index_offset, index_bytes, file_bytes, archive_end, samples;
    uint32_t index_crc32c, fields;
};

void shard_trailer_encode(const struct shard_trailer *trailer, uint8_t bytes[SHARD_TRAILER_BYTES]);
/* Checks only the magic; the trailer may be damaged. */
bool shard_trailer_has_magic(const uint8_t bytes[SHARD_TRAILER_BYTES]);
/* -EBADMSG: not a trailer, its CRC is wrong, or the file's size differs because it was truncated
 * or extended. */
int shard_trailer_decode(const uint8_t bytes[SHARD_TRAILER_BYTES], uint64_t file_bytes,
                         const char *path, struct shard_trailer *ret_trailer, struct err *err);
/* Whether an index of valid size can begin at index_offset in a file of this size. */
bool shard_index_offset_is_plausible(uint64_t index_offset, uint64_t file_bytes);

/* Locates the rows of an uncompressed image, so that some rows can be read without the others. Each
 * row has 3 * width bytes; the rows fill the field from pixels_offset on. Zeros: unknown, or a
 * different format. */
struct shard_raw_image {
    uint32_t width, pixels_offset;
};

/* size_bytes and data_offset are 0 if the sample lacks the field. */
struct shard_field {
    uint64_t data_offset;
    uint64_t size_bytes;
    uint32_t crc32c;
    bool present;
    /* for the field and its blocks; false for a plain tar indexed without checksums */
    bool has_crc;
    /* One little-endian u32 per SHARD_BLOCK_BYTES of the field; NULL for smaller fields. */
    const uint8_t *block_crc32c;
    struct shard_raw_image picture;
};

struct shard_index; /* immutable; usable from any thread */

/* Copies bytes and checks that every offset and size lies within the archive. -EBADMSG with the
 * offset. */
int shard_index_decode(const uint8_t *bytes, uint64_t count_bytes,
                       const struct shard_trailer *trailer, const char *path,
                       struct shard_index **ret_index, struct err *err);
void shard_index_close(struct shard_index *index); /* NULL is fine */
uint64_t shard_index_samples(const struct shard_index *index);
uint32_t shard_index_fields(const struct shard_index *index);
const char *shard_index_extension(const struct shard_index *index, uint32_t field);
/* Returns the number of the field, or -1 if no sample has the field. */
int shard_index_find(const struct shard_index *index, const char *extension);
/* The key is not NUL-terminated. */
const char *shard_index_key(const struct shard_index *index, uint64_t sample, uint32_t *ret_bytes);
void shard_index_field(const struct shard_index *index, uint64_t sample, uint32_t field,
                       struct shard_field *ret_field);

/* Number columns ("index fields"): a named number per sample, stored in the index. */
bool shard_number_name_is_valid(const char *name);
uint32_t shard_index_numbers(const struct shard_index *index);
const char *shard_index_number_name(const struct shard_index *index, uint32_t number);
/* Returns the number of the column, or -1. */
int shard_index_find_number(const struct shard_index *index, const char *name);
/* NaN: the sample lacks the number. Never infinite. */
double shard_index_number(const struct shard_index *index, uint64_t sample, uint32_t number);

struct member_name;

/* Add samples in file order, each followed by its fields. */
struct shard_index_builder;
int shard_index_builder_open(struct shard_index_builder **ret_builder, struct err *err);
void shard_index_builder_close(struct shard_index_builder *builder);
int shard_index_builder_begin_sample(struct shard_index_builder *builder, const char *key,
                                     struct err *err);
/* data: the member's bytes, for its CRCs. picture may be NULL. -EEXIST: the sample already has
 * this extension. -E2BIG: too many extensions. */
int shard_index_builder_add_field(struct shard_index_builder *builder, const char *extension,
                                  uint64_t data_offset, const void *data, uint64_t size_bytes,
                                  const struct shard_raw_image *picture, struct err *err);
/* Like shard_index_builder_add_field, but takes offset, size and, if has_crc, the checksums from
 * `field`, not from the data. block_crc32c must have an entry for each block of the field. */
int shard_index_builder_add_location(struct shard_index_builder *builder, const char *extension,
                                     const struct shard_field *field, struct err *err);
/* Adds a member of an archive at this location: to the last sample if the keys are equal, else to
 * a new one. Returns the errors of both. */
int shard_index_builder_add_member(struct shard_index_builder *builder,
                                   const struct member_name *name, const struct shard_field *field,
                                   struct err *err);
/* Adds a number to the last sample, at most once for each name. Other samples lack it. value: NaN
 * (missing) or finite. -EINVAL: the name is invalid; -E2BIG: too many names. */
int shard_index_builder_add_number(struct shard_index_builder *builder, const char *name,
                                   double value, struct err *err);
/* Drops the last sample with its fields; at most once per sample. */
void shard_index_builder_drop_sample(struct shard_index_builder *builder);
/* "" if there is none. Valid until the next sample. */
const char *shard_index_builder_last_key(const struct shard_index_builder *builder);
uint64_t shard_index_builder_samples(const struct shard_index_builder *builder);
uint32_t shard_index_builder_flags(const struct shard_index_builder *builder);
/* Appends the unpadded index to out; *ret_fields is for the trailer. Fields are sorted in byte
 * order of their extensions. with_crcs: false for a trailer with SHARD_FLAG_NO_CRCS. */
int shard_index_builder_encode(const struct shard_index_builder *builder, bool with_crcs,
                               struct str *out, uint32_t *ret_fields, struct err *err);

#endif
