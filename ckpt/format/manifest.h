/*
 * manifest — `manifest.json`, the commit record of a checkpoint. docs/reference/checkpoints.md
 * lists every key.
 *
 * It begins `{"crc32c":"xxxxxxxx",`: the CRC32C of the whole file, computed with its own digits
 * replaced by zeros. It lists each file with its size, one CRC32C per 1 MiB block and a hash of
 * those; each tensor with its dtype, global shape, and chunks as n-d boxes {file, offset, start[],
 * extent[]}; and the run's state.
 */
#ifndef MILLRACE_CKPT_FORMAT_MANIFEST_H
#define MILLRACE_CKPT_FORMAT_MANIFEST_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/json/jsonx.h"
#include "base/str.h"
#include "io/io.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    MANIFEST_VERSION = 1,
    MANIFEST_BYTES_MAX = 1 << 30,
    CKPT_BLOCK_BYTES = 1 << 20, /* each has a CRC32C */
    MANIFEST_HEAD_BYTES = sizeof "{\"crc32c\":\"xxxxxxxx\"" - 1,
    CKPT_RANKS_MAX = 1 << 20,
    MANIFEST_STATE_DEPTH_MAX = JSON_DEPTH_MAX - 1, /* the manifest adds one level */
};

#define MANIFEST_NAME "manifest.json"

struct manifest_file {
    const char *name; /* "rank-00000.safetensors" */
    uint64_t size_bytes;
    uint64_t blocks_count;
    uint32_t *block_crc32c; /* [blocks_count]; NULL: none */
    /* Identity when the header was read; only for a file without checksums. */
    struct io_identity identity;
    bool is_elsewhere; /* in another node's folder; may be absent here */
};

/* Whether comparisons of saves ignore this key of the state. */
static inline bool manifest_is_annotation(const char *key)
{
    return strcmp(key, "metrics") == 0 || strcmp(key, "config") == 0;
}

/* The box start..start+extent of a tensor, stored row-major. */
struct manifest_chunk {
    uint32_t file;
    uint64_t offset_bytes;
    uint64_t start[DTYPE_RANK_MAX], extent[DTYPE_RANK_MAX];
};

struct manifest_tensor {
    const char *name;
    enum dtype dtype;
    uint32_t rank;
    uint64_t shape[DTYPE_RANK_MAX];
    uint64_t chunks_count;
    struct manifest_chunk *chunks;
};

/* Owns all memory once parsed. Immutable. Tensors are sorted by name; chunks tile the shape. */
struct manifest {
    uint32_t crc32c; /* as parsed; differs between saves of the same step */
    uint64_t step;
    uint32_t ranks;
    uint64_t wall_ns;
    const char *numerics_id;
    struct manifest_file *files;
    uint64_t files_count;
    struct manifest_tensor *tensors;
    uint64_t tensors_count;
    struct json_t *state; /* an object: loader, optimizer, schedule, config, metrics, ... */
    struct json_t *root;
    struct manifest_chunk *chunks;
    uint32_t *block_crc32c;
    char *names; /* tensor names; NULL: root holds them */
};

/* Appends the file's text with its CRC. state_json: an object. tensors_text: from
 * manifest_encode_tensors, shared by all saves of a layout; NULL: encoded here. */
int manifest_encode(const struct manifest *manifest, const char *state_json,
                    const struct str *tensors_text, struct str *out, struct err *err);
void manifest_encode_tensors(const struct manifest *manifest, struct str *out);
/* Checks that tensors are sorted by name and lie within their files, and that chunks tile the
 * shape. Sorts chunks by start. -EBADMSG names the tensor. */
int manifest_check_tensors(struct manifest *manifest, const char *path, struct err *err);
/* For qsort and bsearch of tensors. */
int manifest_compare_names(const void *a, const void *b);
/* The tensor must have passed manifest_check_tensors. */
uint64_t manifest_tensor_elements(const struct manifest_tensor *tensor);
/* xxh3-128 over the blocks' CRCs, each u32 little-endian. */
struct hash128 manifest_file_hash(const struct manifest_file *file);
uint64_t manifest_blocks_count(uint64_t size_bytes);
uint64_t manifest_block_bytes(uint64_t size_bytes, uint64_t block);
/* -EBADMSG with the offset: a wrong CRC, invalid JSON, sizes that overflow, chunks outside their
 * file or shape, gaps or overlaps. */
int manifest_parse(const char *text, size_t bytes, const char *path, struct manifest *ret_manifest,
                   struct err *err);
/* Reads the stated checksum from the first MANIFEST_HEAD_BYTES, without verifying it. False: not
 * the head of a manifest. */
bool manifest_peek_crc32c(const char *head, size_t bytes, uint32_t *ret_crc32c);
void manifest_deinit(struct manifest *manifest);
const struct manifest_tensor *manifest_find_tensor(const struct manifest *manifest,
                                                   const char *name);

#endif
