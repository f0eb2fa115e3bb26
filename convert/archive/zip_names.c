/*
 * zip_names — see zip_names.h.
 */
#include "convert/archive/zip_names.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "convert/archive/zip_directory.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Info-ZIP's Unicode path: a version, the CRC of the other name, and a name in UTF-8, which
     * replaces it (APPNOTE.TXT 4.6.9). */
    EXTRA_UNICODE_PATH = 0x7075,
    UNICODE_PATH_HEAD_BYTES = 5,
};

struct zip_name {
    uint64_t hash;
    bool is_taken;
};

static int read_range(void *context, uint64_t offset, uint64_t bytes, struct str *out,
                      struct err *err)
{
    const struct file_blocks *blocks = context;
    if (bytes == 0)
        return 0;
    if (str_reserve(out, bytes))
        return err_set(err, -ENOMEM, "out of memory for the directory of a zip file");
    int status = io_read_exact(blocks->queue, blocks->io, blocks->file, blocks->path, offset,
                               out->data + out->bytes, bytes, err);
    if (!status)
        out->bytes += bytes;
    return status;
}

static uint64_t hash_name(const struct zip_entry *entry)
{
    const char *at = entry->extra, *end = entry->extra + entry->extra_bytes;
    for (; end - at >= 4; at += 4 + bytes_get_u16(at + 2)) {
        size_t bytes = bytes_get_u16(at + 2);
        if (bytes > (size_t)(end - at - 4))
            break;
        if (bytes_get_u16(at) == EXTRA_UNICODE_PATH && bytes > UNICODE_PATH_HEAD_BYTES)
            return hash_64(at + 4 + UNICODE_PATH_HEAD_BYTES, bytes - UNICODE_PATH_HEAD_BYTES);
    }
    return hash_64(entry->name, entry->name_bytes);
}

static int compare_names(const void *a, const void *b)
{
    const struct zip_name *left = a, *right = b;
    return (left->hash > right->hash) - (left->hash < right->hash);
}

int zip_names_read(struct zip_names *names, struct file_blocks *blocks, struct err *err)
{
    const struct zip_file file = {
        .read = read_range, .context = blocks, .path = blocks->path, .bytes = blocks->bytes};
    struct zip_directory directory = {0};
    struct zip_entry entry;
    int status = zip_directory_read(&directory, &file, err), result = 0;
    while (!status && (result = zip_directory_next(&directory, &file, &entry, err)) > 0) {
        struct zip_name name = {.hash = hash_name(&entry)};
        str_add(&names->list, &name, sizeof name);
    }
    zip_directory_deinit(&directory);
    status = status ? status : result;
    if (!status && str_status(&names->list))
        status = err_set(err, -ENOMEM, "out of memory for the directory of a zip file");
    if (!status && names->list.bytes > 0)
        qsort(names->list.data, names->list.bytes / sizeof(struct zip_name),
              sizeof(struct zip_name), compare_names);
    return status;
}

void zip_names_deinit(struct zip_names *names)
{
    str_deinit(&names->list);
}

bool zip_names_take(struct zip_names *names, const char *name)
{
    const uint64_t hash = hash_64(name, strlen(name));
    struct zip_name *list = (struct zip_name *)(void *)names->list.data;
    size_t low = 0, count = names->list.bytes / sizeof *list, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < count && list[low].hash == hash && list[low].is_taken)
        low++;
    if (low == count || list[low].hash != hash)
        return false;
    list[low].is_taken = true;
    return true;
}
