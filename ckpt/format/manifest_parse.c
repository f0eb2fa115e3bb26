#include "ckpt/format/manifest.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/json/jsonx.h"
#include "ckpt/format/manifest_scan.h"
#include "io/io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "{\"crc32c\":\""

enum { CRC_AT = sizeof HEAD - 1, CRC_DIGITS = 8 };

/* The CRC covers the whole text, with its own digits replaced by zeros. */
static int check_crc(const char *text, size_t bytes, const char *path, uint32_t *ret_crc,
                     struct err *err)
{
    if (bytes < CRC_AT + CRC_DIGITS + 1 || memcmp(text, HEAD, CRC_AT) != 0) {
        err_set(err, -EBADMSG, "the file is not a checkpoint manifest");
        err_at(err, path, 0);
        err_expected(err, "%sxxxxxxxx\",...", HEAD);
        err_found(err, "%.*s", (int)bytes_min(bytes, CRC_AT + CRC_DIGITS), text);
        return -EBADMSG;
    }
    uint32_t crc = crc32c(0, text, CRC_AT);
    crc = crc32c(crc, "00000000", CRC_DIGITS);
    crc = crc32c(crc, text + CRC_AT + CRC_DIGITS, bytes - CRC_AT - CRC_DIGITS);
    *ret_crc = crc;
    char digits[CRC_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08x", (unsigned)crc);
    if (memcmp(digits, text + CRC_AT, CRC_DIGITS) == 0)
        return 0;
    err_set(err, -EBADMSG, "the manifest does not match its checksum");
    err_at(err, path, CRC_AT);
    err_expected(err, "%s", digits);
    err_found(err, "%.8s", text + CRC_AT);
    err_advise(err, "the checkpoint is damaged: use another one");
    return -EBADMSG;
}

static int entry_error(const char *path, struct err *err, const char *kind, const char *name,
                       const char *problem)
{
    err_set(err, -EBADMSG, "manifest: %s \"%.100s\": %s", kind, name, problem);
    err_at(err, path, ERR_NO_OFFSET);
    return -EBADMSG;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_hex32(const char *text, uint32_t *ret_value)
{
    uint32_t value = 0;
    for (int i = 0; i < CRC_DIGITS; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0)
            return false;
        value = value << 4 | (uint32_t)digit;
    }
    *ret_value = value;
    return true;
}

bool manifest_peek_crc32c(const char *head, size_t bytes, uint32_t *ret_crc32c)
{
    static_assert(MANIFEST_HEAD_BYTES >= CRC_AT + CRC_DIGITS, "the head has the checksum");
    return bytes >= MANIFEST_HEAD_BYTES && memcmp(head, HEAD, CRC_AT) == 0 &&
           parse_hex32(head + CRC_AT, ret_crc32c);
}

/* Call once with crcs NULL to count block checksums, then again to store them. */
static int parse_file(struct json_t *node, const char *path, uint32_t *crcs,
                      struct manifest_file *ret_file, struct err *err)
{
    struct manifest_file file = {0};
    const char *hex, *hash;
    int status = jsonx_get_string(node, "name", &file.name, path, err);
    if (!status)
        status = jsonx_get_u64(node, "size_bytes", &file.size_bytes, path, err);
    if (!status)
        status = jsonx_get_string(node, "hash", &hash, path, err);
    if (!status)
        status = jsonx_get_string(node, "block_crc32c", &hex, path, err);
    if (status)
        return status;
    if (!*file.name || file.name[0] == '.' || strchr(file.name, '/') ||
        strlen(file.name) >= IO_NAME_BYTES_MAX)
        return entry_error(path, err, "file", file.name, "not a plain name");
    const struct json_t *elsewhere = jsonx_get(node, "elsewhere");
    if (elsewhere && jsonx_bool(elsewhere, &file.is_elsewhere))
        return entry_error(path, err, "file", file.name, "elsewhere is not true or false");
    file.blocks_count = manifest_blocks_count(file.size_bytes);
    if (strlen(hex) / CRC_DIGITS != file.blocks_count || strlen(hex) % CRC_DIGITS != 0)
        return entry_error(path, err, "file", file.name,
                           "the number of block checksums does not match its size");
    if (crcs) {
        char computed[HASH128_HEX_BYTES];
        file.block_crc32c = crcs;
        for (uint64_t i = 0; i < file.blocks_count; i++)
            if (!parse_hex32(hex + i * CRC_DIGITS, &crcs[i]))
                return entry_error(path, err, "file", file.name,
                                   "a block checksum is not a lowercase hexadecimal number");
        if (strcmp(hash128_format(manifest_file_hash(&file), computed), hash) != 0)
            return entry_error(path, err, "file", file.name,
                               "the block checksums do not match their hash");
    }
    *ret_file = file;
    return 0;
}

static int parse_files(struct manifest *manifest, const char *path, struct err *err)
{
    struct json_t *files = jsonx_get(manifest->root, "files");
    size_t count = jsonx_count(files);
    if (!files || jsonx_kind(files) != JSON_KIND_ARRAY || count > CKPT_RANKS_MAX)
        return entry_error(path, err, "key", "files", "not an array of at most 2^20 files");
    manifest->files = calloc(count + 1, sizeof *manifest->files);
    if (!manifest->files)
        return err_set(err, -ENOMEM, "out of memory for %zu files", count);
    uint64_t blocks = 0;
    int status = 0;
    for (size_t i = 0; i < count && !status; i++) {
        status = parse_file(jsonx_at(files, i), path, NULL, &manifest->files[i], err);
        blocks += manifest->files[i].blocks_count;
    }
    if (status)
        return status;
    manifest->block_crc32c = calloc((size_t)blocks + 1, sizeof *manifest->block_crc32c);
    if (!manifest->block_crc32c)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu64 " block checksums", blocks);
    uint32_t *crcs = manifest->block_crc32c;
    for (size_t i = 0; i < count && !status; i++) {
        status = parse_file(jsonx_at(files, i), path, crcs, &manifest->files[i], err);
        crcs += manifest->files[i].blocks_count;
    }
    manifest->files_count = count;
    return status;
}

static bool parse_sizes(const struct json_t *array, uint64_t *sizes, uint32_t count)
{
    if (!array || jsonx_kind(array) != JSON_KIND_ARRAY || jsonx_count(array) != count)
        return false;
    for (uint32_t d = 0; d < count; d++)
        if (jsonx_u64(jsonx_at(array, d), &sizes[d]))
            return false;
    return true;
}

static int parse_tensor(struct json_t *node, const char *path, struct manifest_chunk *chunks,
                        struct manifest_tensor *ret_tensor, struct err *err)
{
    struct manifest_tensor tensor = {0};
    const char *dtype;
    int status = jsonx_get_string(node, "name", &tensor.name, path, err);
    if (!status)
        status = jsonx_get_string(node, "dtype", &dtype, path, err);
    if (status)
        return status;
    if (!dtype_from_name(dtype, &tensor.dtype))
        return entry_error(path, err, "tensor", tensor.name, "unknown dtype");
    struct json_t *shape = jsonx_get(node, "shape"), *list = jsonx_get(node, "chunks");
    if (!shape || jsonx_count(shape) > DTYPE_RANK_MAX)
        return entry_error(path, err, "tensor", tensor.name,
                           "it has no shape of at most 8 dimensions");
    tensor.rank = (uint32_t)jsonx_count(shape);
    if (!parse_sizes(shape, tensor.shape, tensor.rank))
        return entry_error(path, err, "tensor", tensor.name, "a dimension is not a size");
    tensor.chunks = chunks;
    tensor.chunks_count = jsonx_count(list);
    for (uint64_t i = 0; i < tensor.chunks_count; i++) {
        struct json_t *chunk = jsonx_at(list, i);
        uint64_t file;
        if (jsonx_u64(jsonx_get(chunk, "file"), &file) || file >= CKPT_RANKS_MAX ||
            jsonx_u64(jsonx_get(chunk, "offset_bytes"), &chunks[i].offset_bytes) ||
            !parse_sizes(jsonx_get(chunk, "start"), chunks[i].start, tensor.rank) ||
            !parse_sizes(jsonx_get(chunk, "extent"), chunks[i].extent, tensor.rank))
            return entry_error(path, err, "tensor", tensor.name,
                               "a chunk is not {file, offset_bytes, start, extent}");
        chunks[i].file = (uint32_t)file;
    }
    *ret_tensor = tensor;
    return 0;
}

static int parse_tensors(struct manifest *manifest, const char *path, struct err *err)
{
    struct json_t *tensors = jsonx_get(manifest->root, "tensors");
    if (!tensors || jsonx_kind(tensors) != JSON_KIND_ARRAY)
        return entry_error(path, err, "key", "tensors", "not an array");
    size_t count = jsonx_count(tensors), chunks_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct json_t *list = jsonx_get(jsonx_at(tensors, i), "chunks");
        if (!list || jsonx_kind(list) != JSON_KIND_ARRAY)
            return entry_error(path, err, "key", "tensors", "an entry has no array of chunks");
        chunks_count += jsonx_count(list);
    }
    manifest->tensors = calloc(count + 1, sizeof *manifest->tensors);
    manifest->chunks = calloc(chunks_count + 1, sizeof *manifest->chunks);
    if (!manifest->tensors || !manifest->chunks)
        return err_set(err, -ENOMEM, "out of memory for %zu tensors", count);
    struct manifest_chunk *chunks = manifest->chunks;
    int status = 0;
    for (size_t i = 0; i < count && !status; i++) {
        status = parse_tensor(jsonx_at(tensors, i), path, chunks, &manifest->tensors[i], err);
        chunks += manifest->tensors[i].chunks_count;
    }
    manifest->tensors_count = count;
    return status;
}

static int check_format(const struct manifest *manifest, const char *path, struct err *err)
{
    const char *format;
    uint64_t version, block_bytes;
    int status = jsonx_get_string(manifest->root, "format", &format, path, err);
    if (!status)
        status = jsonx_get_u64(manifest->root, "version", &version, path, err);
    if (!status)
        status = jsonx_get_u64(manifest->root, "block_bytes", &block_bytes, path, err);
    if (status)
        return status;
    if (strcmp(format, "millrace-checkpoint") == 0 && version == MANIFEST_VERSION &&
        block_bytes == CKPT_BLOCK_BYTES)
        return 0;
    err_set(err, -EBADMSG, "the format of the manifest is not supported");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "millrace-checkpoint version %d, blocks of %d bytes", MANIFEST_VERSION,
                 CKPT_BLOCK_BYTES);
    err_found(err, "%.40s version %" PRIu64 ", blocks of %" PRIu64, format, version, block_bytes);
    err_advise(err, "read it with the version of millrace that wrote it");
    return -EBADMSG;
}

static int parse_head(struct manifest *manifest, const char *path, struct err *err)
{
    uint64_t ranks;
    int status = check_format(manifest, path, err);
    if (!status)
        status = jsonx_get_u64(manifest->root, "step", &manifest->step, path, err);
    if (!status)
        status = jsonx_get_u64(manifest->root, "ranks", &ranks, path, err);
    if (!status)
        status = jsonx_get_u64(manifest->root, "created_ns", &manifest->wall_ns, path, err);
    if (!status)
        status = jsonx_get_string(manifest->root, "numerics_id", &manifest->numerics_id, path, err);
    if (status)
        return status;
    manifest->state = jsonx_get(manifest->root, "state");
    if (!manifest->state || jsonx_kind(manifest->state) != JSON_KIND_OBJECT)
        return entry_error(path, err, "key", "state", "not an object");
    if (ranks == 0 || ranks > CKPT_RANKS_MAX)
        return entry_error(path, err, "key", "ranks", "not between 1 and 2^20");
    manifest->ranks = (uint32_t)ranks;
    return 0;
}

/* Builds the JSON tree, without tensors that the scanner accepts. */
static int parse_document(struct manifest *manifest, const char *text, size_t bytes,
                          const char *path, struct err *err)
{
    struct jsonx_span tensors;
    struct str without_tensors = {0};
    int status = manifest_scan_tensors(text, bytes, manifest, &tensors);
    if (status == -EAGAIN)
        return jsonx_parse(text, bytes, path, 0, &manifest->root, err);
    if (!status) {
        str_add(&without_tensors, text, tensors.begin);
        str_add_text(&without_tensors, "[]");
        str_add(&without_tensors, text + tensors.end, bytes - tensors.end);
        status = str_status(&without_tensors);
    }
    if (status)
        err_set(err, status, "out of memory for a manifest of %zu bytes", bytes);
    else
        status = jsonx_parse(str_text(&without_tensors), without_tensors.bytes, path, 0,
                             &manifest->root, err);
    str_deinit(&without_tensors);
    return status;
}

int manifest_parse(const char *text, size_t bytes, const char *path, struct manifest *ret_manifest,
                   struct err *err)
{
    struct manifest manifest = {0};
    int status = check_crc(text, bytes, path, &manifest.crc32c, err);
    if (!status)
        status = parse_document(&manifest, text, bytes, path, err);
    if (!status)
        status = parse_head(&manifest, path, err);
    if (!status)
        status = parse_files(&manifest, path, err);
    if (!status && !manifest.tensors)
        status = parse_tensors(&manifest, path, err);
    if (!status)
        status = manifest_check_tensors(&manifest, path, err);
    if (status)
        manifest_deinit(&manifest);
    else
        *ret_manifest = manifest;
    return status;
}

void manifest_deinit(struct manifest *manifest)
{
    free(manifest->files);
    free(manifest->block_crc32c);
    free(manifest->tensors);
    free(manifest->chunks);
    free(manifest->names);
    jsonx_free(manifest->root);
    *manifest = (struct manifest){0};
}

const struct manifest_tensor *manifest_find_tensor(const struct manifest *manifest,
                                                   const char *name)
{
    struct manifest_tensor key = {.name = name};
    if (manifest->tensors_count == 0)
        return NULL;
    return bsearch(&key, manifest->tensors, manifest->tensors_count, sizeof key,
                   manifest_compare_names);
}
