#include "base/bytes.h"
#include "base/json/jsonx_writer.h"
#include "ckpt/format/box.h"
#include "ckpt/format/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

int safetensors_compare(const void *a, const void *b)
{
    const struct safetensors_entry *x = a, *y = b;
    if (dtype_bytes(x->dtype) != dtype_bytes(y->dtype))
        return dtype_bytes(x->dtype) > dtype_bytes(y->dtype) ? -1 : 1;
    /* The reference implementation sorts dtypes of equal width in the reverse of its declaration
     * order. */
    if (x->dtype != y->dtype)
        return x->dtype > y->dtype ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void write_entry(struct jsonx_writer *json, const struct safetensors_entry *entry)
{
    jsonx_begin_object(json, entry->name);
    jsonx_write_string(json, "dtype", dtype_name(entry->dtype));
    jsonx_write_u64_array(json, "shape", entry->shape, entry->rank);
    jsonx_begin_array(json, "data_offsets");
    jsonx_write_u64(json, NULL, entry->offset_bytes);
    jsonx_write_u64(json, NULL, entry->offset_bytes + entry->size_bytes);
    jsonx_end_array(json);
    jsonx_end_object(json);
}

/* Offsets count from the start of the data. */
static int assign_offsets(struct safetensors_entry *entries, uint64_t count,
                          uint64_t *ret_data_bytes, struct err *err)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct safetensors_entry *entry = &entries[i];
        assert(i == 0 || safetensors_compare(&entries[i - 1], entry) < 0);
        uint64_t end;
        if (box_shape_bytes(entry->shape, entry->rank, entry->dtype, &entry->size_bytes) ||
            __builtin_add_overflow(at, entry->size_bytes, &end) || end > INT64_MAX)
            return err_set(err, -EOVERFLOW,
                           "the data of a safetensors file overflows at tensor \"%.100s\"",
                           entry->name);
        entry->offset_bytes = at;
        at = end;
    }
    *ret_data_bytes = at;
    return 0;
}

int safetensors_encode(struct safetensors_entry *entries, uint64_t count,
                       const char *const (*metadata)[2], uint64_t metadata_count,
                       uint64_t align_bytes, struct str *out, uint64_t *ret_file_bytes,
                       struct err *err)
{
    assert(align_bytes > 0);
    uint64_t data_bytes = 0;
    int status = assign_offsets(entries, count, &data_bytes, err);
    if (status)
        return status;
    size_t start = out->bytes;
    struct jsonx_writer json = {.out = out};
    str_add_fill(out, '\0', LENGTH_BYTES);
    jsonx_begin_object(&json, NULL);
    if (metadata_count > 0) {
        jsonx_begin_object(&json, "__metadata__");
        for (uint64_t i = 0; i < metadata_count; i++)
            jsonx_write_string(&json, metadata[i][0], metadata[i][1]);
        jsonx_end_object(&json);
    }
    for (uint64_t i = 0; i < count; i++)
        write_entry(&json, &entries[i]);
    jsonx_end_object(&json);
    uint64_t used = out->bytes - start, data_offset = bytes_round_up(used, align_bytes);
    str_add_fill(out, ' ', (size_t)(data_offset - used));
    if (str_status(out))
        return err_set(err, -ENOMEM, "out of memory for a safetensors header");
    if (data_offset - LENGTH_BYTES > SAFETENSORS_HEADER_BYTES_MAX) {
        err_set(err, -EFBIG, "the safetensors header is too long");
        err_expected(err, "at most %d bytes", SAFETENSORS_HEADER_BYTES_MAX);
        err_found(err, "%llu", (unsigned long long)(data_offset - LENGTH_BYTES));
        return -EFBIG;
    }
    bytes_put_u64(out->data + start, data_offset - LENGTH_BYTES);
    for (uint64_t i = 0; i < count; i++)
        entries[i].offset_bytes += data_offset;
    *ret_file_bytes = data_offset + data_bytes;
    return 0;
}
