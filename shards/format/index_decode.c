/*
 * index_decode — see index.h.
 *
 * Decoding checks everything, so lookups check nothing. To find a field's block CRCs, a lookup
 * starts at the count stored for every 64th sample and adds the blocks of the samples since.
 */
#include "shards/format/index.h"

#include "base/crc.h"
#include "shards/format/index_layout.h"
#include "shards/format/index_numbers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char trailer_magic[8] = {'M', 'I', 'L', 'L', 'R', 'A', 'C', 'E'};

enum {
    TRAILER_CRC_AT = 508,
    PREFIX_STRIDE = 64,
    FLAGS_KNOWN = SHARD_FLAG_RAW_IMAGES | SHARD_FLAG_NUMBERS,
};

struct column {
    const char *extension;
    uint32_t size_width;
    bool has_pictures;
    const uint8_t *data_block, *size, *crc, *picture_width, *pixels_offset;
    /* number of block CRCs before every PREFIX_STRIDE-th sample's field */
    uint32_t *blocks_before;
};

struct shard_index {
    uint8_t *bytes;
    uint64_t samples, archive_end, block_crcs_count;
    uint32_t fields;
    bool has_crcs;
    const uint8_t *key_ends, *keys, *block_crcs;
    uint32_t *prefixes; /* blocks_before of all columns */
    struct column columns[SHARD_FIELDS_MAX];
    struct index_numbers numbers;
};

void shard_trailer_encode(const struct shard_trailer *trailer, uint8_t bytes[SHARD_TRAILER_BYTES])
{
    memset(bytes, 0, SHARD_TRAILER_BYTES);
    memcpy(bytes, trailer_magic, sizeof trailer_magic);
    bytes_put_u32(bytes + 8, trailer->version);
    bytes_put_u32(bytes + 12, trailer->flags);
    bytes_put_u64(bytes + 16, trailer->index_offset);
    bytes_put_u64(bytes + 24, trailer->index_bytes);
    bytes_put_u64(bytes + 32, trailer->file_bytes);
    bytes_put_u64(bytes + 40, trailer->archive_end);
    bytes_put_u64(bytes + 48, trailer->samples);
    bytes_put_u32(bytes + 56, trailer->index_crc32c);
    bytes_put_u32(bytes + 60, trailer->fields);
    bytes_put_u32(bytes + TRAILER_CRC_AT, crc32c(0, bytes, TRAILER_CRC_AT));
}

static int bad_trailer(struct err *err, const char *path, uint64_t offset, const char *what)
{
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, path, (int64_t)offset);
    err_advise(err, "rebuild the index with `millrace index %s`, or copy the file again", path);
    return -EBADMSG;
}

static bool trailer_is_plausible(const struct shard_trailer *trailer)
{
    uint64_t end = trailer->file_bytes;
    return trailer->archive_end % INDEX_UNIT_BYTES == 0 && trailer->archive_end <= end &&
           trailer->index_offset == trailer->archive_end + 2 * INDEX_UNIT_BYTES &&
           trailer->index_offset < end && trailer->index_bytes <= SHARD_INDEX_BYTES_MAX &&
           trailer->index_bytes < end && trailer->fields <= SHARD_FIELDS_MAX &&
           trailer->samples <= UINT32_MAX &&
           trailer->index_offset + bytes_round_up(trailer->index_bytes, INDEX_UNIT_BYTES) +
                   SHARD_TRAILER_BYTES ==
               end;
}

static_assert(SHARD_INDEX_BYTES_MAX % INDEX_UNIT_BYTES == 0, "the longest index has no padding");

bool shard_index_offset_is_plausible(uint64_t index_offset, uint64_t file_bytes)
{
    if (index_offset % INDEX_UNIT_BYTES != 0 || index_offset < 2 * INDEX_UNIT_BYTES ||
        file_bytes < SHARD_TRAILER_BYTES || index_offset >= file_bytes - SHARD_TRAILER_BYTES)
        return false;
    return file_bytes - index_offset <= SHARD_INDEX_BYTES_MAX + SHARD_TRAILER_BYTES;
}

bool shard_trailer_has_magic(const uint8_t bytes[SHARD_TRAILER_BYTES])
{
    return memcmp(bytes, trailer_magic, sizeof trailer_magic) == 0;
}

int shard_trailer_decode(const uint8_t bytes[SHARD_TRAILER_BYTES], uint64_t file_bytes,
                         const char *path, struct shard_trailer *ret_trailer, struct err *err)
{
    uint64_t at = file_bytes - SHARD_TRAILER_BYTES;
    if (!shard_trailer_has_magic(bytes)) {
        bad_trailer(err, path, at, "no shard trailer at the end of the file");
        err_expected(err, "\"MILLRACE\"");
        return -EBADMSG;
    }
    uint32_t crc = bytes_get_u32(bytes + TRAILER_CRC_AT),
             crc_found = crc32c(0, bytes, TRAILER_CRC_AT);
    if (crc != crc_found) {
        bad_trailer(err, path, at + TRAILER_CRC_AT, "CRC of the shard's trailer does not match");
        err_expected(err, "%08" PRIx32, crc);
        err_found(err, "%08" PRIx32, crc_found);
        return -EBADMSG;
    }
    struct shard_trailer trailer = {
        .version = bytes_get_u32(bytes + 8),
        .flags = bytes_get_u32(bytes + 12),
        .index_offset = bytes_get_u64(bytes + 16),
        .index_bytes = bytes_get_u64(bytes + 24),
        .file_bytes = bytes_get_u64(bytes + 32),
        .archive_end = bytes_get_u64(bytes + 40),
        .samples = bytes_get_u64(bytes + 48),
        .index_crc32c = bytes_get_u32(bytes + 56),
        .fields = bytes_get_u32(bytes + 60),
    };
    if (trailer.version != SHARD_VERSION || (trailer.flags & ~(uint32_t)FLAGS_KNOWN) != 0) {
        err_set(err, -EBADMSG, "the version of the shard is not supported");
        err_at(err, path, (int64_t)at + 8);
        err_expected(err, "version %d, flags 0, 2, 4 or 6", SHARD_VERSION);
        err_found(err, "version %" PRIu32 ", flags %" PRIu32, trailer.version, trailer.flags);
        err_advise(err, "use a newer millrace");
        return -EBADMSG;
    }
    if (trailer.file_bytes != file_bytes) {
        bad_trailer(err, path, at + 32, "the size of the shard differs from its trailer");
        err_expected(err, "%" PRIu64 " bytes", trailer.file_bytes);
        err_found(err, "%" PRIu64, file_bytes);
        return -EBADMSG;
    }
    if (!trailer_is_plausible(&trailer))
        return bad_trailer(err, path, at + 16, "offsets in the shard's trailer are inconsistent");
    *ret_trailer = trailer;
    return 0;
}

struct decode_context {
    const struct shard_trailer *trailer;
    const char *path;
    struct err *err;
};

static int bad_index(const struct decode_context *context, uint64_t offset, const char *what)
{
    err_set(context->err, -EBADMSG, "%s", what);
    err_at(context->err, context->path, (int64_t)(context->trailer->index_offset + offset));
    err_advise(context->err, "rebuild the index with `millrace index %s`", context->path);
    return -EBADMSG;
}

static bool extension_is_valid(const uint8_t *entry, const char *previous)
{
    const uint8_t *end = memchr(entry, 0, SHARD_EXTENSION_BYTES_MAX);
    if (!end || end == entry || memchr(entry, '/', (size_t)(end - entry)))
        return false;
    for (const uint8_t *at = end; at < entry + SHARD_EXTENSION_BYTES_MAX; at++)
        if (*at)
            return false;
    return !previous || strcmp(previous, (const char *)entry) < 0;
}

/* Sets the columns' addresses. Header, field table and columns must fill index_bytes exactly. */
static int locate_columns(struct shard_index *index, uint64_t count_bytes,
                          const struct decode_context *context)
{
    const uint8_t *bytes = index->bytes;
    const struct shard_trailer *trailer = context->trailer;
    if (count_bytes < INDEX_HEADER_BYTES || bytes_get_u32(bytes) != SHARD_VERSION ||
        bytes_get_u32(bytes + 4) != trailer->fields || bytes_get_u64(bytes + 8) != trailer->samples)
        return bad_index(context, 0, "shard index does not match its trailer");
    uint64_t samples = trailer->samples, key_bytes = bytes_get_u64(bytes + 16);
    index->fields = trailer->fields;
    index->samples = samples;
    index->block_crcs_count = bytes_get_u64(bytes + 24);
    uint64_t at = INDEX_HEADER_BYTES + (uint64_t)index->fields * INDEX_FIELD_BYTES;
    if (at > count_bytes || key_bytes > count_bytes || index->block_crcs_count > count_bytes / 4)
        return bad_index(context, 16, "counts in the shard index are too large");
    for (uint32_t f = 0; f < index->fields; f++) {
        const uint8_t *entry = bytes + INDEX_HEADER_BYTES + (size_t)f * INDEX_FIELD_BYTES;
        uint32_t width = bytes_get_u32(entry + SHARD_EXTENSION_BYTES_MAX);
        uint32_t flags = bytes_get_u32(entry + SHARD_EXTENSION_BYTES_MAX + 4);
        if (!extension_is_valid(entry, f ? index->columns[f - 1].extension : NULL) ||
            (width != 4 && width != 8) ||
            (flags &
             ~(uint32_t)(trailer->flags & SHARD_FLAG_RAW_IMAGES ? INDEX_FIELD_RAW_IMAGES : 0)) != 0)
            return bad_index(context, (uint64_t)(entry - bytes), "bad field in the shard index");
        index->columns[f].extension = (const char *)entry;
        index->columns[f].size_width = width;
        index->columns[f].has_pictures = flags & INDEX_FIELD_RAW_IMAGES;
    }
    uint64_t key_ends_at = at, keys_at = at + bytes_round_up(4 * samples, INDEX_ALIGN_BYTES);
    at = keys_at + bytes_round_up(key_bytes, INDEX_ALIGN_BYTES);
    uint64_t columns_at = at;
    uint64_t u32_column_bytes = bytes_round_up(4 * samples, INDEX_ALIGN_BYTES);
    for (uint32_t f = 0; f < index->fields; f++)
        at += (index->columns[f].has_pictures ? 4 : 2) * u32_column_bytes +
              bytes_round_up(index->columns[f].size_width * samples, INDEX_ALIGN_BYTES);
    uint64_t numbers_bytes = 0, bad_offset;
    if (trailer->flags & SHARD_FLAG_NUMBERS && at <= count_bytes &&
        index_numbers_decode(bytes + at, count_bytes - at, samples, &index->numbers, &numbers_bytes,
                             &bad_offset))
        return bad_index(context, at + bad_offset, "bad number columns in the shard index");
    if (at + numbers_bytes + 4 * index->block_crcs_count != count_bytes)
        return bad_index(context, 0, "the size of the shard index differs from its counts");
    index->key_ends = bytes + key_ends_at;
    index->keys = bytes + keys_at;
    for (uint32_t f = 0; f < index->fields; f++) {
        struct column *column = &index->columns[f];
        column->data_block = bytes + columns_at;
        column->size = column->data_block + u32_column_bytes;
        column->crc =
            column->size + bytes_round_up(column->size_width * samples, INDEX_ALIGN_BYTES);
        column->picture_width = column->crc + u32_column_bytes;
        column->pixels_offset = column->picture_width + u32_column_bytes;
        columns_at =
            (uint64_t)(column->crc - bytes) + (column->has_pictures ? 3 : 1) * u32_column_bytes;
    }
    index->block_crcs = bytes + columns_at + numbers_bytes;
    return 0;
}

static int check_keys(const struct shard_index *index, const struct decode_context *context)
{
    uint64_t key_bytes = bytes_get_u64(index->bytes + 16), start = 0;
    for (uint64_t s = 0; s < index->samples; s++) {
        uint64_t end = bytes_get_u32(index->key_ends + 4 * s);
        if (end <= start || end > key_bytes || end - start >= SHARD_KEY_BYTES_MAX ||
            memchr(index->keys + start, 0, end - start))
            return bad_index(context, (uint64_t)(index->key_ends - index->bytes) + 4 * s,
                             "bad key in the shard index");
        start = end;
    }
    return start == key_bytes
               ? 0
               : bad_index(context, 16, "keys of the shard index do not fill their section");
}

static uint64_t column_size(const struct column *column, uint64_t sample)
{
    return column->size_width == 4 ? bytes_get_u32(column->size + 4 * sample)
                                   : bytes_get_u64(column->size + 8 * sample);
}

static struct shard_raw_image column_picture(const struct column *column, uint64_t sample)
{
    if (!column->has_pictures)
        return (struct shard_raw_image){0};
    return (struct shard_raw_image){.width = bytes_get_u32(column->picture_width + 4 * sample),
                                    .pixels_offset =
                                        bytes_get_u32(column->pixels_offset + 4 * sample)};
}

/* Checks that every field lies within the archive and that the number of block CRCs matches the
 * sizes. */
static int check_columns(struct shard_index *index, const struct decode_context *context)
{
    uint64_t blocks = 0, strides = (index->samples + PREFIX_STRIDE - 1) / PREFIX_STRIDE;
    for (uint32_t f = 0; f < index->fields; f++) {
        struct column *column = &index->columns[f];
        column->blocks_before = index->prefixes + f * strides;
        uint64_t present = 0;
        for (uint64_t s = 0; s < index->samples; s++) {
            if (s % PREFIX_STRIDE == 0)
                column->blocks_before[s / PREFIX_STRIDE] = (uint32_t)blocks;
            uint64_t offset =
                (uint64_t)bytes_get_u32(column->data_block + 4 * s) * INDEX_UNIT_BYTES;
            uint64_t size = column_size(column, s);
            present += offset != 0;
            bool fits = offset ? offset <= index->archive_end && size <= index->archive_end - offset
                               : size == 0 && bytes_get_u32(column->crc + 4 * s) == 0;
            if (!fits)
                return bad_index(context, (uint64_t)(column->data_block - index->bytes) + 4 * s,
                                 "field in the shard index lies outside the archive");
            if (!index_raw_image_fits(column_picture(column, s), size))
                return bad_index(context, (uint64_t)(column->picture_width - index->bytes) + 4 * s,
                                 "rows of an image in the shard index do not fill its field");
            blocks += index->has_crcs ? index_block_crcs(size) : 0;
            if (blocks > index->block_crcs_count)
                return bad_index(context, 24, "shard index has too few block CRCs");
        }
        if (present !=
            bytes_get_u64((const uint8_t *)column->extension + SHARD_EXTENSION_BYTES_MAX + 8))
            return bad_index(context, (uint64_t)((const uint8_t *)column->extension - index->bytes),
                             "count of a field in the shard index is wrong");
    }
    return blocks == index->block_crcs_count
               ? 0
               : bad_index(context, 24, "shard index has too many block CRCs");
}

int shard_index_decode(const uint8_t *bytes, uint64_t count_bytes,
                       const struct shard_trailer *trailer, const char *path,
                       struct shard_index **ret_index, struct err *err)
{
    struct decode_context context = {trailer, path, err};
    uint32_t crc = crc32c(0, bytes, count_bytes);
    if (count_bytes != trailer->index_bytes || crc != trailer->index_crc32c) {
        bad_index(&context, 0, "CRC of the shard's index does not match");
        err_expected(err, "%08" PRIx32, trailer->index_crc32c);
        err_found(err, "%08" PRIx32, crc);
        return -EBADMSG;
    }
    struct shard_index *index = calloc(1, sizeof *index);
    if (!index)
        return err_set(err, -ENOMEM, "out of memory for a shard index");
    int status = 0;
    index->archive_end = trailer->archive_end;
    index->has_crcs = !(trailer->flags & SHARD_FLAG_NO_CRCS);
    index->bytes = malloc(count_bytes ? count_bytes : 1);
    if (index->bytes) {
        memcpy(index->bytes, bytes, count_bytes);
        status = locate_columns(index, count_bytes, &context);
        if (status)
            goto out;
        uint64_t strides = (index->samples + PREFIX_STRIDE - 1) / PREFIX_STRIDE;
        index->prefixes = calloc(strides * index->fields + 1, sizeof *index->prefixes);
    }
    if (!index->bytes || !index->prefixes) {
        status = err_set(err, -ENOMEM, "out of memory for a shard index of %" PRIu64 " bytes",
                         count_bytes);
        goto out;
    }
    status = check_keys(index, &context);
    if (!status)
        status = check_columns(index, &context);
out:
    if (status)
        shard_index_close(index);
    else
        *ret_index = index;
    return status;
}

void shard_index_close(struct shard_index *index)
{
    if (!index)
        return;
    free(index->bytes);
    free(index->prefixes);
    free(index);
}

uint64_t shard_index_samples(const struct shard_index *index)
{
    return index->samples;
}

uint32_t shard_index_fields(const struct shard_index *index)
{
    return index->fields;
}

const char *shard_index_extension(const struct shard_index *index, uint32_t field)
{
    assert(field < index->fields);
    return index->columns[field].extension;
}

int shard_index_find(const struct shard_index *index, const char *extension)
{
    for (uint32_t f = 0; f < index->fields; f++)
        if (strcmp(index->columns[f].extension, extension) == 0)
            return (int)f;
    return -1;
}

const char *shard_index_key(const struct shard_index *index, uint64_t sample, uint32_t *ret_bytes)
{
    assert(sample < index->samples);
    uint32_t start = sample ? bytes_get_u32(index->key_ends + 4 * (sample - 1)) : 0;
    *ret_bytes = bytes_get_u32(index->key_ends + 4 * sample) - start;
    return (const char *)index->keys + start;
}

static const uint8_t *find_block_crcs(const struct shard_index *index, const struct column *column,
                                      uint64_t sample)
{
    uint64_t blocks = column->blocks_before[sample / PREFIX_STRIDE];
    for (uint64_t s = sample - sample % PREFIX_STRIDE; s < sample; s++)
        blocks += index_block_crcs(column_size(column, s));
    return index->block_crcs + 4 * blocks;
}

void shard_index_field(const struct shard_index *index, uint64_t sample, uint32_t field,
                       struct shard_field *ret_field)
{
    assert(sample < index->samples && field < index->fields);
    const struct column *column = &index->columns[field];
    uint64_t offset = (uint64_t)bytes_get_u32(column->data_block + 4 * sample) * INDEX_UNIT_BYTES;
    *ret_field = (struct shard_field){
        .data_offset = offset,
        .size_bytes = column_size(column, sample),
        .crc32c = bytes_get_u32(column->crc + 4 * sample),
        .present = offset != 0,
        .has_crc = index->has_crcs,
        .picture = column_picture(column, sample),
    };
    if (index->has_crcs && ret_field->size_bytes > SHARD_BLOCK_BYTES)
        ret_field->block_crc32c = find_block_crcs(index, column, sample);
}

uint32_t shard_index_numbers(const struct shard_index *index)
{
    return index->numbers.count;
}

const char *shard_index_number_name(const struct shard_index *index, uint32_t number)
{
    assert(number < index->numbers.count);
    return (const char *)index->numbers.names + (size_t)number * SHARD_NUMBER_NAME_BYTES_MAX;
}

int shard_index_find_number(const struct shard_index *index, const char *name)
{
    for (uint32_t i = 0; i < index->numbers.count; i++)
        if (strcmp(shard_index_number_name(index, i), name) == 0)
            return (int)i;
    return -1;
}

double shard_index_number(const struct shard_index *index, uint64_t sample, uint32_t number)
{
    double value;
    assert(sample < index->samples && number < index->numbers.count);
    memcpy(&value, index->numbers.values + 8 * (number * index->samples + sample), sizeof value);
    return value;
}
