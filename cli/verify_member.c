/*
 * verify_member — see verify_member.h.
 */
#include "cli/verify_member.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "io/whole.h"
#include "shards/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20, CLASS_DIGITS_MAX = 10 };
#define JPEG_MEMBER_BYTES_MAX (UINT64_C(1) << 30)
static_assert(CHUNK_BYTES % SHARD_BLOCK_BYTES == 0, "a chunk holds whole blocks");

int member_checker_open(struct io *io, struct member_checker *checker, struct err *err)
{
    *checker = (struct member_checker){.io = io, .buffer_bytes = CHUNK_BYTES, .buffer = malloc(CHUNK_BYTES)};
    int status = checker->buffer ? 0 : err_set(err, -ENOMEM, "out of memory for verifying");
    if (!status)
        status = io->ops->queue_open(io, 1, &checker->queue, err);
    if (!status)
        status = jpeg_decoder_open(&checker->decoder, err);
    if (status)
        member_checker_close(checker);
    return status;
}

void member_checker_close(struct member_checker *checker)
{
    jpeg_decoder_close(checker->decoder);
    if (checker->queue)
        checker->io->ops->queue_close(checker->queue);
    free(checker->buffer);
    *checker = (struct member_checker){0};
}

const char *member_name(const struct shard_index *index, uint64_t sample, uint32_t field, char *name,
                        size_t bytes)
{
    uint32_t key_bytes;
    const char *key = shard_index_key(index, sample, &key_bytes);
    snprintf(name, bytes, "%.*s.%s", (int)key_bytes, key, shard_index_extension(index, field));
    return name;
}

static bool is_jpeg(const char *extension)
{
    const char *dot = strrchr(extension, '.');
    const char *last = dot ? dot + 1 : extension;
    return strcmp(last, "jpg") == 0 || strcmp(last, "jpeg") == 0;
}

static int bad(const struct shard *shard, uint64_t sample, uint32_t field, uint64_t offset, const char *what,
               struct err *err)
{
    char name[ERR_TEXT_BYTES_MAX / 2];
    err_set(err, -EBADMSG, "%s of %s", what, member_name(shard->index, sample, field, name, sizeof name));
    err_at(err, shard->path, (int64_t)offset);
    return -EBADMSG;
}

static int reserve(struct member_checker *checker, uint64_t bytes, struct err *err)
{
    if (bytes <= checker->buffer_bytes)
        return 0;
    uint8_t *grown = realloc(checker->buffer, bytes);
    if (!grown)
        return err_set(err, -ENOMEM, "out of memory for a member of %" PRIu64 " bytes", bytes);
    checker->buffer = grown;
    checker->buffer_bytes = bytes;
    return 0;
}

/* The checksums; afterwards the buffer holds the member, or its last chunk where it was read in pieces. */
static int check_sums(struct member_checker *checker, const struct shard *shard, uint64_t sample,
                      uint32_t number, const struct shard_field *field, uint64_t chunk_bytes, struct err *err)
{
    uint32_t whole = 0;
    for (uint64_t done = 0; done < field->size_bytes;) {
        size_t bytes = bytes_min(chunk_bytes, field->size_bytes - done);
        int status = io_read_exact(checker->queue, checker->io, shard->file, shard->path,
                                   field->data_offset + done, checker->buffer, bytes, err);
        if (status)
            return status;
        for (size_t at = 0; at < bytes && field->block_crc32c; at += SHARD_BLOCK_BYTES) {
            uint64_t block = (done + at) / SHARD_BLOCK_BYTES;
            uint32_t crc = crc32c(0, checker->buffer + at, bytes_min(SHARD_BLOCK_BYTES, bytes - at));
            uint32_t expected = bytes_get_u32(field->block_crc32c + block * 4);
            if (crc != expected) {
                bad(shard, sample, number, field->data_offset + done + at, "wrong checksum in a block", err);
                err_expected(err, "CRC32C %08" PRIx32, expected);
                err_found(err, "%08" PRIx32, crc);
                return -EBADMSG;
            }
        }
        whole = crc32c(whole, checker->buffer, bytes);
        done += bytes;
    }
    if (whole == field->crc32c)
        return 0;
    bad(shard, sample, number, field->data_offset, "wrong checksum", err);
    err_expected(err, "CRC32C %08" PRIx32, field->crc32c);
    err_found(err, "%08" PRIx32, whole);
    return -EBADMSG;
}

/* The decoder names the member and an offset within it: kept as what was found, at the member's place in the shard. */
static int check_jpeg(struct member_checker *checker, const struct shard *shard, uint64_t sample,
                      uint32_t number, const struct shard_field *field, struct err *err)
{
    struct jpeg_planes planes;
    struct err inner = {0};
    int status = jpeg_decode(checker->decoder, checker->buffer, field->size_bytes, NULL, 0, &planes, &inner);
    if (!status)
        return 0;
    uint64_t within = inner.offset > 0 ? (uint64_t)inner.offset : 0;
    bad(shard, sample, number, field->data_offset + within, "undecodable JPEG", err);
    err_found(err, "%.120s %.120s", inner.what, inner.found);
    return -EBADMSG;
}

static int check_class(struct member_checker *checker, const struct shard *shard,
                       const struct dataset *dataset, uint64_t sample, uint32_t number,
                       const struct shard_field *field, struct err *err)
{
    char text[CLASS_DIGITS_MAX + 1] = "";
    char *end = text;
    if (field->size_bytes <= CLASS_DIGITS_MAX)
        memcpy(text, checker->buffer, field->size_bytes);
    unsigned long long value = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (end != text && *end == '\0' && value < dataset->classes_count)
        return 0;
    bad(shard, sample, number, field->data_offset, "no class", err);
    err_expected(err, "a decimal number below %" PRIu64, dataset->classes_count);
    err_found(err, "\"%s\"", text);
    return -EBADMSG;
}

static int check_tokens(struct member_checker *checker, const struct shard *shard,
                        const struct dataset *dataset, uint64_t sample, uint32_t number,
                        const struct shard_field *field, struct err *err)
{
    struct npy npy;
    enum dtype wanted = strcmp(dataset->text.element, "uint32") == 0 ? DTYPE_U32 : DTYPE_U16;
    int status =
        npy_decode_header(checker->buffer, field->size_bytes, field->size_bytes, shard->path, &npy, NULL);
    if (!status && npy.dtype == wanted && npy.header_bytes == dataset->text.header_bytes)
        return 0;
    bad(shard, sample, number, field->data_offset, "no token member", err);
    err_expected(err, "a .npy of %s after a header of %" PRIu32 " bytes", dataset->text.element,
                 dataset->text.header_bytes);
    return -EBADMSG;
}

int member_check(struct member_checker *checker, const struct shard *shard, const struct dataset *dataset,
                 uint64_t sample, uint32_t field, struct err *err)
{
    struct shard_field found;
    shard_index_field(shard->index, sample, field, &found);
    if (!found.present)
        return 0;
    const char *extension = shard_index_extension(shard->index, field);
    bool tokens = dataset && dataset->text.element[0] && strcmp(extension, "npy") == 0;
    bool whole = tokens || (is_jpeg(extension) && found.size_bytes <= JPEG_MEMBER_BYTES_MAX);
    uint64_t chunk_bytes = whole && found.size_bytes > CHUNK_BYTES ? found.size_bytes : CHUNK_BYTES;
    int status = reserve(checker, chunk_bytes, err);
    if (!status)
        status = check_sums(checker, shard, sample, field, &found, chunk_bytes, err);
    if (status)
        return status;
    if (is_jpeg(extension))
        return whole ? check_jpeg(checker, shard, sample, field, &found, err)
                     : bad(shard, sample, field, found.data_offset, "impossible size of the JPEG", err);
    if (tokens)
        return check_tokens(checker, shard, dataset, sample, field, &found, err);
    if (dataset && dataset->classes_count > 0 && strcmp(extension, "cls") == 0)
        return check_class(checker, shard, dataset, sample, field, &found, err);
    return 0;
}
