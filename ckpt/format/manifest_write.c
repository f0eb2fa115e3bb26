#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/json/jsonx_writer.h"
#include "ckpt/format/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CRC_AT = sizeof "{\"crc32c\":\"" - 1, CRC_DIGITS = 8 };

uint64_t manifest_blocks_count(uint64_t size_bytes)
{
    return size_bytes / CKPT_BLOCK_BYTES + (size_bytes % CKPT_BLOCK_BYTES != 0);
}

uint64_t manifest_block_bytes(uint64_t size_bytes, uint64_t block)
{
    return bytes_min(CKPT_BLOCK_BYTES, size_bytes - block * CKPT_BLOCK_BYTES);
}

struct hash128 manifest_file_hash(const struct manifest_file *file)
{
    return hash_128(file->block_crc32c, (size_t)file->blocks_count * sizeof *file->block_crc32c);
}

static void add_hex32(struct str *out, uint32_t value)
{
    static const char digits[] = "0123456789abcdef";
    char text[CRC_DIGITS];
    for (int i = 0; i < CRC_DIGITS; i++)
        text[i] = digits[value >> (28 - 4 * i) & 15];
    str_add(out, text, sizeof text);
}

static void write_file(struct jsonx_writer *json, const struct manifest_file *file)
{
    char hash[HASH128_HEX_BYTES];
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "name", file->name);
    jsonx_write_u64(json, "size_bytes", file->size_bytes);
    jsonx_write_string(json, "hash", hash128_format(manifest_file_hash(file), hash));
    str_add_text(json->out, ",\"block_crc32c\":\"");
    for (uint64_t i = 0; i < file->blocks_count; i++)
        add_hex32(json->out, file->block_crc32c[i]);
    str_add_text(json->out, "\"");
    if (file->is_elsewhere)
        jsonx_write_bool(json, "elsewhere", true);
    jsonx_end_object(json);
}

static void write_tensor(struct jsonx_writer *json, const struct manifest_tensor *tensor)
{
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "name", tensor->name);
    jsonx_write_string(json, "dtype", dtype_name(tensor->dtype));
    jsonx_write_u64_array(json, "shape", tensor->shape, tensor->rank);
    jsonx_begin_array(json, "chunks");
    for (uint64_t i = 0; i < tensor->chunks_count; i++) {
        const struct manifest_chunk *chunk = &tensor->chunks[i];
        jsonx_begin_object(json, NULL);
        jsonx_write_u64(json, "file", chunk->file);
        jsonx_write_u64(json, "offset_bytes", chunk->offset_bytes);
        jsonx_write_u64_array(json, "start", chunk->start, tensor->rank);
        jsonx_write_u64_array(json, "extent", chunk->extent, tensor->rank);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
    jsonx_end_object(json);
}

void manifest_encode_tensors(const struct manifest *manifest, struct str *out)
{
    struct jsonx_writer json = {.out = out};
    jsonx_begin_array(&json, NULL);
    for (uint64_t i = 0; i < manifest->tensors_count; i++)
        write_tensor(&json, &manifest->tensors[i]);
    jsonx_end_array(&json);
}

int manifest_encode(const struct manifest *manifest, const char *state_json,
                    const struct str *tensors_text, struct str *out, struct err *err)
{
    struct jsonx_writer json = {.out = out};
    struct str own_text = {0};
    char created[CLOCK_ISO_BYTES], digits[CRC_DIGITS + 1];
    size_t start = out->bytes;
    if (!tensors_text) {
        manifest_encode_tensors(manifest, &own_text);
        tensors_text = &own_text;
    }
    jsonx_begin_object(&json, NULL);
    jsonx_write_string(&json, "crc32c", "00000000");
    jsonx_write_string(&json, "format", "millrace-checkpoint");
    jsonx_write_u64(&json, "version", MANIFEST_VERSION);
    jsonx_write_u64(&json, "step", manifest->step);
    jsonx_write_u64(&json, "ranks", manifest->ranks);
    jsonx_write_string(&json, "created", clock_format_iso(manifest->wall_ns, created));
    jsonx_write_u64(&json, "created_ns", manifest->wall_ns);
    jsonx_write_string(&json, "numerics_id", manifest->numerics_id);
    jsonx_write_raw(&json, "state", state_json, strlen(state_json));
    jsonx_write_u64(&json, "block_bytes", CKPT_BLOCK_BYTES);
    jsonx_begin_array(&json, "files");
    for (uint64_t i = 0; i < manifest->files_count; i++)
        write_file(&json, &manifest->files[i]);
    jsonx_end_array(&json);
    jsonx_write_raw(&json, "tensors", str_text(tensors_text), tensors_text->bytes);
    jsonx_end_object(&json);
    str_add_text(out, "\n");
    int status = str_status(tensors_text) ? str_status(tensors_text) : str_status(out);
    size_t tensors_text_bytes = tensors_text->bytes;
    str_deinit(&own_text);
    if (status)
        return err_set(err, status, "out of memory for a manifest");
    if (out->bytes - start > MANIFEST_BYTES_MAX ||
        out->bytes - start - tensors_text_bytes >
            JSON_BYTES_MAX) /* excludes tensors, which readers parse separately */
        return err_set(err, -EFBIG, "a manifest of %zu bytes is longer than readers accept",
                       out->bytes - start);
    snprintf(digits, sizeof digits, "%08x",
             (unsigned)crc32c(0, out->data + start, out->bytes - start));
    memcpy(out->data + start + CRC_AT, digits, CRC_DIGITS);
    return 0;
}
