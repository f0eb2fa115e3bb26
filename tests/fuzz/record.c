/*
 * record — fuzz target: the input as a stored field of a sample, decoded in every way that
 * options.fields offers (loader/loader.h). The sample is skipped, or its values are consistent.
 */
#include "base/json/jsonx.h"
#include "io/file_util.h"
#include "loader/loader.h"
#include "shards/format/shard.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/byte_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argument_count, char ***arguments);

static char folder[] = "/tmp/millrace-fuzz-record-XXXXXX", shard_path[64], names_path[64],
            tokenizer_path[64];
static const char names[] = "cat\nsmall dog\n12\n";
enum { NAMES_COUNT = 3 };
static struct io *io;

static void clean_up(void)
{
    unlink(shard_path);
    unlink(names_path);
    unlink(tokenizer_path);
    rmdir(folder);
    io_close(io);
}

int LLVMFuzzerInitialize(int *argument_count, char ***arguments)
{
    (void)argument_count;
    (void)arguments;
    if (!mkdtemp(folder) ||
        io_open(folder, &(struct io_options){.engine = IO_ENGINE_THREADS, .threads = 1}, &io, NULL))
        abort();
    atexit(clean_up);
    snprintf(shard_path, sizeof shard_path, "%s/a.tar", folder);
    snprintf(names_path, sizeof names_path, "%s/names.txt", folder);
    snprintf(tokenizer_path, sizeof tokenizer_path, "%s/tokenizer.json", folder);
    struct str tokenizer = {0};
    byte_tokenizer_add(&tokenizer);
    if (io_write_file(io, names_path, names, sizeof names - 1, false, NULL) ||
        io_write_file(io, tokenizer_path, tokenizer.data, tokenizer.bytes, false, NULL))
        abort();
    str_deinit(&tokenizer);
    return 0;
}

/* Of 4 x 2 pixels. */
static const char image[] = "P6 4 2 255\n123456789012345678901234";

static void write_shard(const uint8_t *data, size_t bytes)
{
    struct shard_writer *writer;
    struct shard_summary summary;
    if (shard_writer_open(io, shard_path, true, &writer, NULL) ||
        shard_writer_begin_sample(writer, "key", NULL) ||
        shard_writer_add_field(writer, "bin", data, bytes, NULL) ||
        shard_writer_add_field(writer, "ppm", image, sizeof image - 1, NULL) ||
        shard_writer_commit(writer, &summary, NULL))
        abort();
}

static void check_ragged(const struct batch_field *field)
{
    uint64_t count = 1;
    for (uint32_t d = 0; d < field->item_rank; d++)
        if (field->shapes[d] < 0 ||
            __builtin_mul_overflow(count, (uint64_t)field->shapes[d], &count))
            count = 0; /* another dimension is 0 */
    if (field->offsets[0] != 0 || (uint64_t)field->offsets[1] != field->shape[0] ||
        field->shape[0] != count)
        abort();
}

/* Numbers of names and of tokens are below their count, and JSON is valid. */
static void check_values(const struct loader_field *type, const struct batch *batch)
{
    const struct batch_field *field = batch_field_named(batch, "a");
    uint64_t count = field->shape[0] * (field->rank > 1 ? field->shape[1] : 1);
    uint64_t end = type->map ? NAMES_COUNT : BYTE_TOKENIZER_TOKENS;
    bool has_numbers = type->map || type->decode == LOADER_FIELD_TOKENS;
    struct json_t *node = NULL;
    if (type->decode == LOADER_FIELD_JSON &&
        jsonx_parse_value(field->data, count, "", 0, &node, NULL))
        abort();
    jsonx_free(node);
    for (uint64_t i = 0; has_numbers && i < count; i++) {
        uint64_t number = 0; /* little-endian */
        memcpy(&number, (const uint8_t *)field->data + i * dtype_bytes(field->dtype),
               dtype_bytes(field->dtype));
        if (number >= end)
            abort();
    }
    if (type->length > 0 &&
        ((const uint32_t *)batch_field_named(batch, "a_length")->data)[0] > type->length)
        abort();
}

/* A field that follows boxes comes after them. */
static void load(const struct loader_field *field, uint32_t count)
{
    struct loader_options options = loader_options_default();
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    options.dataset = shard_path;
    options.io = io;
    options.decode = field->follows ? LOADER_IMAGE : LOADER_RECORD;
    options.image.field = "ppm";
    options.image.width = 3;
    options.image.height = 2;
    options.image.requires_label = false;
    options.fields = field;
    options.fields_count = count;
    options.batching = (struct batching){.global = 1, .micro = 1, .ranks = 1};
    options.epochs_max = 1;
    options.bad_policy = LOADER_BAD_SKIP;
    options.bad_fraction_max = 1;
    options.workers = 1;
    options.memory_bytes = 4 << 20;
    if (loader_open(&options, &loader, &err) || loader_next(loader, &batch, &err) != LOADER_BATCH ||
        batch->items_count != 1)
        abort();
    for (uint32_t f = 0; f < batch->fields_count; f++)
        if (!batch->items[0].skipped && batch->fields[f].offsets)
            check_ragged(&batch->fields[f]);
    if (!batch->items[0].skipped)
        check_values(field, batch);
    loader_release(loader, batch);
    loader_close(loader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct loader_field fields[] = {
        {.decode = LOADER_FIELD_BYTES},
        {.decode = LOADER_FIELD_STR},
        {.decode = LOADER_FIELD_STR, .path = "$.a", .default_value = "none"},
        {.decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_F32, .rank = 2},
        {.decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_U16, .rank = 1},
        {.decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_BOOL, .rank = 0},
        {.decode = LOADER_FIELD_INT, .path = "$.a[0]", .default_value = "1"},
        {.decode = LOADER_FIELD_F32},
        {.decode = LOADER_FIELD_F64, .path = "$['a']"},
        {.decode = LOADER_FIELD_BOOL, .default_value = "true"},
        {.decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_I16, .rank = 1, .path = "$"},
        {.decode = LOADER_FIELD_ARRAY,
         .dtype = DTYPE_F64,
         .rank = 1,
         .path = "$.c",
         .default_value = "[]"},
        {.decode = LOADER_FIELD_LABELS, .dtype = DTYPE_U8, .follows = "image"},
        {.decode = LOADER_FIELD_LABELS, .dtype = DTYPE_I32, .follows = "image"},
        {.decode = LOADER_FIELD_BOXES, .follows = "image"},
        {.decode = LOADER_FIELD_BOXES,
         .path = "$.a",
         .follows = "image",
         .box_format = LOADER_BOX_CXCYWH,
         .is_normalized = true},
        {.decode = LOADER_FIELD_KEYPOINTS, .path = "$", .follows = "image"},
        {.decode = LOADER_FIELD_KEYPOINTS, .follows = "image"},
        {.decode = LOADER_FIELD_JSON},
        {.decode = LOADER_FIELD_JSON, .path = "$.a", .default_value = "[]"},
        {.decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_F32, .rank = 1, .path = "$[*]"},
        {.decode = LOADER_FIELD_BOXES, .path = "$.a[*].b", .follows = "image"},
        {.decode = LOADER_FIELD_KEYPOINTS, .path = "$.a[*]['b'][0]", .follows = "image"},
        {.decode = LOADER_FIELD_INT, .map = names_path},
        {.decode = LOADER_FIELD_INT, .path = "$.a", .map = names_path, .default_value = "12"},
        {.decode = LOADER_FIELD_ARRAY,
         .dtype = DTYPE_U8,
         .rank = 1,
         .path = "$.a",
         .map = names_path},
        {.decode = LOADER_FIELD_ARRAY,
         .dtype = DTYPE_I64,
         .rank = 1,
         .path = "$.a[*].n",
         .map = names_path,
         .default_value = "[]"},
        {.decode = LOADER_FIELD_TOKENS, .tokenizer = tokenizer_path},
        {.decode = LOADER_FIELD_TOKENS,
         .tokenizer = tokenizer_path,
         .path = "$.a",
         .begin_token = BYTE_TOKENIZER_END,
         .end_token = BYTE_TOKENIZER_END,
         .length = 9,
         .default_value = "the"},
        {.decode = LOADER_FIELD_IMAGE, .follows = "image"},
        {.decode = LOADER_FIELD_IMAGE, .image = {.width = 4, .height = 3, .crop.flip = true}}};
    write_shard(data, bytes);
    /* the first byte selects one, because each opens a loader */
    struct loader_field list[] = {
        fields[bytes ? (data[0] + bytes) % (sizeof fields / sizeof fields[0]) : 0],
        {.name = "c",
         .from = "bin",
         .path = "$.c",
         .decode = LOADER_FIELD_ARRAY,
         .dtype = DTYPE_I64,
         .rank = 1,
         .follows = "a",
         .default_value = "[]"}};
    list[0].name = "a";
    list[0].from = "bin";
    load(list, list[0].decode == LOADER_FIELD_BOXES ? 2 : 1);
    return 0;
}
