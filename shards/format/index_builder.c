/*
 * index_builder — see index.h. Collects rows, and builds the columns at the end.
 */
#include "base/crc.h"
#include "shards/format/index.h"
#include "shards/format/index_layout.h"
#include "shards/format/index_numbers.h"
#include "shards/format/member_name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct field_row {
    uint64_t size_bytes;
    uint64_t blocks_at;                      /* index of its first CRC in blocks */
    uint32_t sample, data_block, crc, field; /* field: numbered by first appearance */
    struct shard_raw_image picture;
};

struct builder_sizes {
    size_t keys_bytes, key_ends_bytes, rows_bytes, blocks_bytes;
    uint32_t fields;
    bool has_pictures;
};

struct shard_index_builder {
    struct str keys, key_ends, rows, blocks; /* elements: bytes, u32, struct field_row, u32 */
    uint64_t samples;
    uint32_t fields;
    bool has_pictures;
    struct builder_sizes before_sample;
    struct number_columns numbers;
    char extensions[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX];
};

int shard_index_builder_open(struct shard_index_builder **ret_builder, struct err *err)
{
    *ret_builder = calloc(1, sizeof **ret_builder);
    return *ret_builder ? 0 : err_set(err, -ENOMEM, "out of memory for a shard index");
}

void shard_index_builder_close(struct shard_index_builder *builder)
{
    if (!builder)
        return;
    str_deinit(&builder->keys);
    str_deinit(&builder->key_ends);
    str_deinit(&builder->rows);
    str_deinit(&builder->blocks);
    number_columns_deinit(&builder->numbers);
    free(builder);
}

static int check_memory(const struct shard_index_builder *builder, struct err *err)
{
    if (str_status(&builder->keys) || str_status(&builder->key_ends) ||
        str_status(&builder->rows) || str_status(&builder->blocks))
        return err_set(err, -ENOMEM, "out of memory for a shard index of %" PRIu64 " samples",
                       builder->samples);
    return 0;
}

int shard_index_builder_begin_sample(struct shard_index_builder *builder, const char *key,
                                     struct err *err)
{
    size_t bytes = strlen(key);
    if (bytes == 0 || bytes >= SHARD_KEY_BYTES_MAX) {
        err_set(err, -ENAMETOOLONG, "key of a sample is empty or too long");
        err_at(err, key, ERR_NO_OFFSET);
        err_expected(err, "1 to %d bytes", SHARD_KEY_BYTES_MAX - 1);
        err_found(err, "%zu", bytes);
        return -ENAMETOOLONG;
    }
    if (builder->samples == UINT32_MAX || builder->keys.bytes + bytes > UINT32_MAX)
        return err_set(err, -E2BIG, "too many samples for one shard");
    builder->before_sample = (struct builder_sizes){.keys_bytes = builder->keys.bytes,
                                                    .key_ends_bytes = builder->key_ends.bytes,
                                                    .rows_bytes = builder->rows.bytes,
                                                    .blocks_bytes = builder->blocks.bytes,
                                                    .fields = builder->fields,
                                                    .has_pictures = builder->has_pictures};
    str_add(&builder->keys, key, bytes);
    uint32_t end = (uint32_t)builder->keys.bytes;
    str_add(&builder->key_ends, &end, sizeof end);
    builder->samples++;
    return check_memory(builder, err);
}

void shard_index_builder_drop_sample(struct shard_index_builder *builder)
{
    const struct builder_sizes *before_sample = &builder->before_sample;
    assert(builder->samples > 0 && builder->key_ends.bytes > before_sample->key_ends_bytes);
    builder->keys.bytes = before_sample->keys_bytes;
    builder->keys.data[builder->keys.bytes] = '\0';
    builder->key_ends.bytes = before_sample->key_ends_bytes;
    builder->rows.bytes = before_sample->rows_bytes;
    builder->blocks.bytes = before_sample->blocks_bytes;
    builder->fields = before_sample->fields;
    builder->has_pictures = before_sample->has_pictures;
    builder->samples--;
    number_columns_truncate(&builder->numbers, builder->samples);
}

static int find_or_add_extension(struct shard_index_builder *builder, const char *extension,
                                 uint32_t *ret_field, struct err *err)
{
    for (uint32_t f = 0; f < builder->fields; f++) {
        if (strcmp(builder->extensions[f], extension) == 0) {
            *ret_field = f;
            return 0;
        }
    }
    if (strlen(extension) >= SHARD_EXTENSION_BYTES_MAX || !extension[0])
        return err_set(err, -ENAMETOOLONG, "extension \"%s\" is empty or longer than %d bytes",
                       extension, SHARD_EXTENSION_BYTES_MAX - 1);
    if (builder->fields == SHARD_FIELDS_MAX)
        return err_set(err, -E2BIG, "too many extensions: \"%s\" would be number %d of the shard",
                       extension, SHARD_FIELDS_MAX + 1);
    strcpy(builder->extensions[builder->fields], extension);
    *ret_field = builder->fields++;
    return 0;
}

/* The rows of the current sample are the last ones. */
static bool has_field(const struct shard_index_builder *builder, uint32_t field)
{
    const struct field_row *rows = (const struct field_row *)(const void *)builder->rows.data;
    for (size_t i = builder->rows.bytes / sizeof *rows;
         i > 0 && rows[i - 1].sample == builder->samples - 1; i--)
        if (rows[i - 1].field == field)
            return true;
    return false;
}

int shard_index_builder_add_location(struct shard_index_builder *builder, const char *extension,
                                     const struct shard_field *field, struct err *err)
{
    assert(builder->samples > 0 && field->data_offset > 0 &&
           field->data_offset % INDEX_UNIT_BYTES == 0);
    assert(index_raw_image_fits(field->picture, field->size_bytes));
    struct field_row row = {
        .size_bytes = field->size_bytes, .crc = field->crc32c, .picture = field->picture};
    row.blocks_at = builder->blocks.bytes / 4;
    row.sample = (uint32_t)(builder->samples - 1);
    int status = find_or_add_extension(builder, extension, &row.field, err);
    if (status)
        return status;
    if (has_field(builder, row.field))
        return err_set(err, -EEXIST, "sample has two fields \"%s\"", extension);
    if (field->data_offset / INDEX_UNIT_BYTES > UINT32_MAX)
        return err_set(err, -EFBIG, "shard is larger than 2 TiB");
    row.data_block = (uint32_t)(field->data_offset / INDEX_UNIT_BYTES);
    if (field->has_crc && field->size_bytes > SHARD_BLOCK_BYTES)
        str_add(&builder->blocks, field->block_crc32c, 4 * index_block_crcs(field->size_bytes));
    str_add(&builder->rows, &row, sizeof row);
    builder->has_pictures |= row.picture.width > 0;
    return check_memory(builder, err);
}

int shard_index_builder_add_field(struct shard_index_builder *builder, const char *extension,
                                  uint64_t data_offset, const void *data, uint64_t size_bytes,
                                  const struct shard_raw_image *picture, struct err *err)
{
    struct str blocks = {0};
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < index_block_crcs(size_bytes); i++) {
        uint64_t at = i * SHARD_BLOCK_BYTES;
        uint32_t crc = crc32c(0, bytes + at, bytes_min(SHARD_BLOCK_BYTES, size_bytes - at));
        str_add(&blocks, &crc, sizeof crc);
    }
    struct shard_field field = {.data_offset = data_offset,
                                .size_bytes = size_bytes,
                                .crc32c = crc32c(0, data, size_bytes),
                                .has_crc = true,
                                .block_crc32c = (const uint8_t *)blocks.data};
    if (picture)
        field.picture = *picture;
    int status = str_status(&blocks)
                     ? err_set(err, -ENOMEM, "out of memory for a shard index")
                     : shard_index_builder_add_location(builder, extension, &field, err);
    str_deinit(&blocks);
    return status;
}

const char *shard_index_builder_last_key(const struct shard_index_builder *builder)
{
    return builder->samples > 0 ? builder->keys.data + builder->before_sample.keys_bytes : "";
}

int shard_index_builder_add_member(struct shard_index_builder *builder,
                                   const struct member_name *name, const struct shard_field *field,
                                   struct err *err)
{
    int status = strcmp(shard_index_builder_last_key(builder), name->key) == 0
                     ? 0
                     : shard_index_builder_begin_sample(builder, name->key, err);
    return status ? status : shard_index_builder_add_location(builder, name->extension, field, err);
}

int shard_index_builder_add_number(struct shard_index_builder *builder, const char *name,
                                   double value, struct err *err)
{
    assert(builder->samples > 0);
    return number_columns_add(&builder->numbers, name, builder->samples - 1, value, err);
}

uint64_t shard_index_builder_samples(const struct shard_index_builder *builder)
{
    return builder->samples;
}

uint32_t shard_index_builder_flags(const struct shard_index_builder *builder)
{
    return (builder->has_pictures ? SHARD_FLAG_RAW_IMAGES : 0) |
           (builder->numbers.count > 0 ? SHARD_FLAG_NUMBERS : 0);
}

static void pad_to_align(struct str *out, size_t start)
{
    size_t bytes = out->bytes - start;
    str_add_fill(out, 0, bytes_round_up(bytes, INDEX_ALIGN_BYTES) - bytes);
}

/* rank[i]: number of the i-th field in byte order of extensions. */
static void sort_extensions(const struct shard_index_builder *builder,
                            uint32_t rank[SHARD_FIELDS_MAX])
{
    for (uint32_t f = 0; f < builder->fields; f++) {
        uint32_t at = f;
        for (; at > 0 && strcmp(builder->extensions[rank[at - 1]], builder->extensions[f]) > 0;
             at--)
            rank[at] = rank[at - 1];
        rank[at] = f;
    }
}

/* Facts that determine the layout of a field's columns. */
struct column_facts {
    uint64_t present, size_max;
    bool has_pictures;
};

static uint32_t size_width(const struct column_facts *facts)
{
    return facts->size_max > UINT32_MAX ? 8 : 4;
}

static void collect_facts(const struct shard_index_builder *builder,
                          struct column_facts facts[SHARD_FIELDS_MAX])
{
    const struct field_row *rows = (const struct field_row *)(const void *)builder->rows.data;
    memset(facts, 0, SHARD_FIELDS_MAX * sizeof facts[0]);
    for (size_t i = 0; i < builder->rows.bytes / sizeof *rows; i++) {
        facts[rows[i].field].present++;
        facts[rows[i].field].has_pictures |= rows[i].picture.width > 0;
        if (rows[i].size_bytes > facts[rows[i].field].size_max)
            facts[rows[i].field].size_max = rows[i].size_bytes;
    }
}

/* Appends a field's columns to out and its block CRCs to blocks; NULL: no checksums. */
static void add_columns(const struct shard_index_builder *builder, uint32_t field,
                        const struct column_facts *facts, struct str *out, struct str *blocks)
{
    size_t u32_column_bytes = bytes_round_up(4 * builder->samples, INDEX_ALIGN_BYTES),
           width = size_width(facts);
    size_t size_column_bytes = bytes_round_up(width * builder->samples, INDEX_ALIGN_BYTES);
    size_t start = out->bytes;
    str_add_fill(out, 0, (facts->has_pictures ? 4 : 2) * u32_column_bytes + size_column_bytes);
    if (str_status(out))
        return;
    char *data_block = out->data + start, *size = data_block + u32_column_bytes,
         *crc = size + size_column_bytes;
    char *picture_width = crc + u32_column_bytes, *pixels_offset = picture_width + u32_column_bytes;
    const struct field_row *rows = (const struct field_row *)(const void *)builder->rows.data;
    for (size_t i = 0; i < builder->rows.bytes / sizeof *rows; i++) {
        const struct field_row *row = &rows[i];
        if (row->field != field)
            continue;
        bytes_put_u32(data_block + 4 * (size_t)row->sample, row->data_block);
        memcpy(size + width * (size_t)row->sample, &row->size_bytes, width); /* little-endian */
        if (facts->has_pictures) {
            bytes_put_u32(picture_width + 4 * (size_t)row->sample, row->picture.width);
            bytes_put_u32(pixels_offset + 4 * (size_t)row->sample, row->picture.pixels_offset);
        }
        if (!blocks)
            continue;
        bytes_put_u32(crc + 4 * (size_t)row->sample, row->crc);
        if (row->size_bytes > SHARD_BLOCK_BYTES)
            str_add(blocks, builder->blocks.data + 4 * row->blocks_at,
                    4 * index_block_crcs(row->size_bytes));
    }
}

int shard_index_builder_encode(const struct shard_index_builder *builder, bool with_crcs,
                               struct str *out, uint32_t *ret_fields, struct err *err)
{
    uint32_t rank[SHARD_FIELDS_MAX];
    struct column_facts facts[SHARD_FIELDS_MAX];
    struct str blocks = {0};
    sort_extensions(builder, rank);
    collect_facts(builder, facts);
    size_t start = out->bytes;
    uint8_t header[INDEX_HEADER_BYTES];
    bytes_put_u32(header, SHARD_VERSION);
    bytes_put_u32(header + 4, builder->fields);
    bytes_put_u64(header + 8, builder->samples);
    bytes_put_u64(header + 16, builder->keys.bytes);
    bytes_put_u64(header + 24, with_crcs ? builder->blocks.bytes / 4 : 0);
    str_add(out, header, sizeof header);
    for (uint32_t i = 0; i < builder->fields; i++) {
        uint8_t entry[INDEX_FIELD_BYTES] = {0};
        strcpy((char *)entry, builder->extensions[rank[i]]);
        bytes_put_u32(entry + SHARD_EXTENSION_BYTES_MAX, size_width(&facts[rank[i]]));
        bytes_put_u32(entry + SHARD_EXTENSION_BYTES_MAX + 4,
                      facts[rank[i]].has_pictures ? INDEX_FIELD_RAW_IMAGES : 0);
        bytes_put_u64(entry + SHARD_EXTENSION_BYTES_MAX + 8, facts[rank[i]].present);
        str_add(out, entry, sizeof entry);
    }
    str_add(out, str_text(&builder->key_ends), builder->key_ends.bytes);
    pad_to_align(out, start);
    str_add(out, str_text(&builder->keys), builder->keys.bytes);
    pad_to_align(out, start);
    for (uint32_t i = 0; i < builder->fields; i++)
        add_columns(builder, rank[i], &facts[rank[i]], out, with_crcs ? &blocks : NULL);
    if (builder->numbers.count > 0)
        number_columns_encode(&builder->numbers, builder->samples, out);
    str_add(out, str_text(&blocks), blocks.bytes);
    int status = str_status(out) || str_status(&blocks) ? -ENOMEM : 0;
    str_deinit(&blocks);
    if (status)
        return err_set(err, status, "out of memory for a shard index of %" PRIu64 " samples",
                       builder->samples);
    if (out->bytes - start > SHARD_INDEX_BYTES_MAX)
        return err_set(err, -E2BIG, "too many samples for one shard: %" PRIu64, builder->samples);
    *ret_fields = builder->fields;
    return 0;
}
