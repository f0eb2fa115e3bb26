/*
 * record — fuzz target: the input as a stored field of a sample, decoded in every way that
 * options.fields offers (loader/loader.h). The sample is skipped, or its values are consistent.
 */
#include "io/file_util.h"
#include "loader/loader.h"
#include "shards/format/shard.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argument_count, char ***arguments);

static char folder[] = "/tmp/millrace-fuzz-record-XXXXXX", shard_path[64];
static struct io *io;

static void clean_up(void)
{
    unlink(shard_path);
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
        {.decode = LOADER_FIELD_KEYPOINTS, .follows = "image"}};
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
