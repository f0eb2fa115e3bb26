/*
 * safetensors — reads the header of a safetensors file strictly and writes it canonically. See
 * docs/reference/checkpoints.md.
 *
 * Layout (https://huggingface.co/docs/safetensors): u64 little-endian N, N bytes of JSON, then the
 * data. Rejected: a file under 8 bytes; N above 100,000,000 or more than the rest of the file; a
 * first byte other than `{`; invalid UTF-8 or JSON; metadata values that are not strings; unknown
 * dtypes; numbers that are not non-negative integers; products that overflow; inconsistent sizes;
 * tensors that overlap or leave holes; data after the last tensor; duplicate names.
 */
#ifndef MILLRACE_CKPT_FORMAT_SAFETENSORS_H
#define MILLRACE_CKPT_FORMAT_SAFETENSORS_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/str.h"
#include "io/io.h"

#include <stdint.h>

enum { SAFETENSORS_HEADER_BYTES_MAX = 100000000, SAFETENSORS_ALIGN_BYTES = 4096 };

/* offset_bytes counts from the file's start. */
struct safetensors_entry {
    const char *name;
    enum dtype dtype;
    uint32_t rank;
    uint64_t shape[DTYPE_RANK_MAX];
    uint64_t offset_bytes, size_bytes;
};

/* A parsed header; owns its names. Immutable. Entries are sorted by offset. */
struct safetensors {
    uint64_t data_offset; /* 8 + N */
    uint64_t file_bytes;
    struct io_identity identity;
    uint64_t count;
    struct safetensors_entry *entries;
    struct json_t *root; /* holds the names and `__metadata__` */
};

/* header: the N bytes after the length. -EBADMSG with the offset. */
int safetensors_parse(const char *header, uint64_t header_bytes, uint64_t file_bytes,
                      const char *path, struct safetensors *ret_file, struct err *err);
int safetensors_read(struct io *io, const char *path, struct safetensors *ret_file,
                     struct err *err);
void safetensors_deinit(struct safetensors *file);

/* Appends length and header, padded so that the data starts at a multiple of align_bytes, and sets
 * the entries' offset_bytes. entries must be in canonical order (dtype, widest first, then name).
 * metadata: pairs of key and value. *ret_file_bytes: the end of the last tensor. */
int safetensors_encode(struct safetensors_entry *entries, uint64_t count,
                       const char *const (*metadata)[2], uint64_t metadata_count,
                       uint64_t align_bytes, struct str *out, uint64_t *ret_file_bytes,
                       struct err *err);
/* The canonical order of entries, for qsort. */
int safetensors_compare(const void *a, const void *b);

#endif
