/*
 * decompressor — see decompressor.h.
 */
#include "convert/archive/decompressor.h"

#include "convert/archive/gunzip.h"
#include "convert/archive/unarchive.h"
#include "convert/archive/zip_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct decompressor {
    /* One of these; none: the file is empty. */
    struct gunzip *gunzip;
    struct zip_store *zip;
    struct unarchive *unarchive;
};

enum compression compression_of(const char *head, size_t bytes)
{
    static const struct {
        enum compression compression;
        uint8_t bytes;
        const char *magic;
    } magics[] = {{COMPRESSION_GZIP, 3, "\x1f\x8b\x08"},
                  {COMPRESSION_OTHER, 3, "BZh"},
                  {COMPRESSION_OTHER, 6, "\xfd\x37zXZ\0"},
                  {COMPRESSION_OTHER, 4, "\x28\xb5\x2f\xfd"},
                  {COMPRESSION_OTHER, 4, "\x04\x22\x4d\x18"}};
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if (bytes >= magics[i].bytes && memcmp(head, magics[i].magic, magics[i].bytes) == 0)
            return magics[i].compression;
    return COMPRESSION_NONE;
}

static int open_unarchive(struct decompressor *decompressor, struct file_blocks *blocks,
                          struct err *err)
{
    struct unarchive_member whole;
    int status = unarchive_open(blocks, UNARCHIVE_COMPRESSED, &decompressor->unarchive, err);
    int result = status ? status : unarchive_next(decompressor->unarchive, &whole, err);
    if (result == 0) {
        unarchive_close(decompressor->unarchive);
        decompressor->unarchive = NULL;
    }
    return result < 0 ? result : 0;
}

int decompressor_open(struct file_blocks *blocks, enum compression compression,
                      struct decompressor **ret_decompressor, struct err *err)
{
    struct decompressor *decompressor = calloc(1, sizeof *decompressor);
    if (!decompressor)
        return err_set(err, -ENOMEM, "out of memory for decompressing a file");
    int status =
        compression == COMPRESSION_OTHER ? open_unarchive(decompressor, blocks, err)
        : compression == COMPRESSION_ZIP
            ? zip_store_open(blocks, &decompressor->zip, err)
            : gunzip_open(blocks, compression == COMPRESSION_ZLIB ? GUNZIP_ZLIB : GUNZIP_GZIP,
                          &decompressor->gunzip, err);
    if (status)
        decompressor_close(decompressor);
    else
        *ret_decompressor = decompressor;
    return status;
}

void decompressor_close(struct decompressor *decompressor)
{
    if (!decompressor)
        return;
    gunzip_close(decompressor->gunzip);
    zip_store_close(decompressor->zip);
    unarchive_close(decompressor->unarchive);
    free(decompressor);
}

int decompressor_read(struct decompressor *decompressor, void *data, size_t bytes,
                      size_t *ret_bytes, struct err *err)
{
    *ret_bytes = 0;
    return decompressor->gunzip ? gunzip_read(decompressor->gunzip, data, bytes, ret_bytes, err)
           : decompressor->zip  ? zip_store_read(decompressor->zip, data, bytes, ret_bytes, err)
           : decompressor->unarchive
               ? unarchive_read(decompressor->unarchive, data, bytes, ret_bytes, err)
               : 0;
}
