#include "ckpt/format/manifest_scan.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct tensor_scan {
    const char *at, *end;
    struct manifest_tensor *tensors;
    uint64_t tensors_count, tensors_capacity;
    struct manifest_chunk *chunks;
    uint64_t chunks_count, chunks_capacity;
    char *names; /* as large as the text, so names fit */
    size_t names_bytes;
    bool out_of_memory;
};

static bool skip_literal(struct tensor_scan *scan, const char *literal, size_t bytes)
{
    if ((size_t)(scan->end - scan->at) < bytes || memcmp(scan->at, literal, bytes) != 0)
        return false;
    scan->at += bytes;
    return true;
}

#define SKIP(scan, literal) skip_literal((scan), (literal), sizeof(literal) - 1)

/* JSON syntax without sign or leading zero. */
static bool scan_number(struct tensor_scan *scan, uint64_t *ret_value)
{
    const char *begin = scan->at;
    uint64_t value = 0;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') {
        uint64_t digit = (uint64_t)(*scan->at - '0');
        if (value > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
        scan->at++;
    }
    if (scan->at == begin || (*begin == '0' && scan->at - begin > 1))
        return false;
    *ret_value = value;
    return true;
}

static bool scan_sizes(struct tensor_scan *scan, uint64_t *sizes, uint32_t *ret_count)
{
    uint32_t count = 0;
    if (!SKIP(scan, "["))
        return false;
    if (!SKIP(scan, "]")) {
        do {
            if (count == DTYPE_RANK_MAX || !scan_number(scan, &sizes[count++]))
                return false;
        } while (SKIP(scan, ","));
        if (!SKIP(scan, "]"))
            return false;
    }
    *ret_count = count;
    return true;
}

static bool is_utf8(const unsigned char *text, size_t bytes)
{
    for (size_t at = 0, length; at < bytes; at += length) {
        length = utf8_sequence_bytes(text + at, bytes - at);
        if (length == 0)
            return false;
    }
    return true;
}

/* Scans up to the next quote; rejects escapes. */
static bool scan_text(struct tensor_scan *scan, const char **ret_text, size_t *ret_bytes)
{
    const char *begin = scan->at, *quote = memchr(begin, '"', (size_t)(scan->end - begin));
    if (!quote)
        return false;
    for (const char *c = begin; c < quote; c++)
        if ((unsigned char)*c < ' ' || *c == '\\')
            return false;
    *ret_text = begin;
    *ret_bytes = (size_t)(quote - begin);
    scan->at = quote + 1;
    return is_utf8((const unsigned char *)begin, *ret_bytes);
}

static bool grow(struct tensor_scan *scan, void **array, uint64_t *capacity, size_t element_bytes)
{
    uint64_t grown = *capacity ? *capacity * 2 : 64;
    void *larger = realloc(*array, (size_t)grown * element_bytes);
    scan->out_of_memory |= !larger;
    if (!larger)
        return false;
    *array = larger;
    *capacity = grown;
    return true;
}

static bool scan_chunk(struct tensor_scan *scan, uint32_t rank)
{
    struct manifest_chunk chunk = {0};
    uint64_t file;
    uint32_t starts, extents;
    if (!SKIP(scan, "{\"file\":") || !scan_number(scan, &file) || file >= CKPT_RANKS_MAX ||
        !SKIP(scan, ",\"offset_bytes\":") || !scan_number(scan, &chunk.offset_bytes) ||
        !SKIP(scan, ",\"start\":") || !scan_sizes(scan, chunk.start, &starts) || starts != rank ||
        !SKIP(scan, ",\"extent\":") || !scan_sizes(scan, chunk.extent, &extents) ||
        extents != rank || !SKIP(scan, "}"))
        return false;
    chunk.file = (uint32_t)file;
    if (scan->chunks_count == scan->chunks_capacity &&
        !grow(scan, (void **)&scan->chunks, &scan->chunks_capacity, sizeof *scan->chunks))
        return false;
    scan->chunks[scan->chunks_count++] = chunk;
    return true;
}

static bool scan_tensor(struct tensor_scan *scan)
{
    struct manifest_tensor tensor = {0};
    const char *name, *dtype;
    size_t name_bytes, dtype_bytes;
    char dtype_text[16];
    if (!SKIP(scan, "{\"name\":\"") || !scan_text(scan, &name, &name_bytes) ||
        !SKIP(scan, ",\"dtype\":\"") || !scan_text(scan, &dtype, &dtype_bytes) ||
        dtype_bytes >= sizeof dtype_text || !SKIP(scan, ",\"shape\":") ||
        !scan_sizes(scan, tensor.shape, &tensor.rank) || !SKIP(scan, ",\"chunks\":["))
        return false;
    memcpy(dtype_text, dtype, dtype_bytes);
    dtype_text[dtype_bytes] = '\0';
    if (!dtype_from_name(dtype_text, &tensor.dtype))
        return false;
    uint64_t first_chunk = scan->chunks_count;
    if (!SKIP(scan, "]")) {
        do {
            if (!scan_chunk(scan, tensor.rank))
                return false;
        } while (SKIP(scan, ","));
        if (!SKIP(scan, "]"))
            return false;
    }
    if (!SKIP(scan, "}"))
        return false;
    tensor.chunks_count = scan->chunks_count - first_chunk;
    tensor.name = memcpy(scan->names + scan->names_bytes, name, name_bytes);
    scan->names[scan->names_bytes + name_bytes] = '\0';
    scan->names_bytes += name_bytes + 1;
    if (scan->tensors_count == scan->tensors_capacity &&
        !grow(scan, (void **)&scan->tensors, &scan->tensors_capacity, sizeof *scan->tensors))
        return false;
    scan->tensors[scan->tensors_count++] = tensor;
    return true;
}

static bool scan_array(struct tensor_scan *scan)
{
    if (!SKIP(scan, "["))
        return false;
    if (SKIP(scan, "]"))
        return scan->at == scan->end;
    do {
        if (!scan_tensor(scan))
            return false;
    } while (SKIP(scan, ","));
    return SKIP(scan, "]") && scan->at == scan->end;
}

int manifest_scan_tensors(const char *text, size_t bytes, struct manifest *manifest,
                          struct jsonx_span *ret_array)
{
    struct jsonx_span array;
    if (!jsonx_scan_member(text, bytes, "tensors", &array))
        return -EAGAIN;
    struct tensor_scan scan = {.at = text + array.begin, .end = text + array.end};
    scan.names = malloc(array.end - array.begin);
    scan.out_of_memory = !scan.names;
    if (scan.out_of_memory ||
        !grow(&scan, (void **)&scan.tensors, &scan.tensors_capacity, sizeof *scan.tensors) ||
        !grow(&scan, (void **)&scan.chunks, &scan.chunks_capacity, sizeof *scan.chunks) ||
        !scan_array(&scan)) {
        free(scan.names);
        free(scan.tensors);
        free(scan.chunks);
        return scan.out_of_memory ? -ENOMEM : -EAGAIN;
    }
    uint64_t first = 0;
    for (uint64_t i = 0; i < scan.tensors_count; i++) {
        scan.tensors[i].chunks = scan.chunks + first;
        first += scan.tensors[i].chunks_count;
    }
    manifest->tensors = scan.tensors;
    manifest->tensors_count = scan.tensors_count;
    manifest->chunks = scan.chunks;
    manifest->names = scan.names;
    *ret_array = array;
    return 0;
}
