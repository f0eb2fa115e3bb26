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

static void write_shard(const uint8_t *data, size_t bytes)
{
    struct shard_writer *writer;
    struct shard_summary summary;
    if (shard_writer_open(io, shard_path, true, &writer, NULL) ||
        shard_writer_begin_sample(writer, "key", NULL) ||
        shard_writer_add_field(writer, "bin", data, bytes, NULL) ||
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

static void load(const struct loader_field *field)
{
    struct loader_options options = loader_options_default();
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    options.dataset = shard_path;
    options.io = io;
    options.decode = LOADER_RECORD;
    options.fields = field;
    options.fields_count = 1;
    options.batching = (struct batching){.global = 1, .micro = 1, .ranks = 1};
    options.epochs_max = 1;
    options.bad_policy = LOADER_BAD_SKIP;
    options.bad_fraction_max = 1;
    options.workers = 1;
    options.memory_bytes = 4 << 20;
    if (loader_open(&options, &loader, &err) || loader_next(loader, &batch, &err) != LOADER_BATCH ||
        batch->items_count != 1)
        abort();
    const struct batch_field *value = batch_field_named(batch, field->name);
    if (!batch->items[0].skipped && value->offsets)
        check_ragged(value);
    loader_release(loader, batch);
    loader_close(loader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct loader_field fields[] = {
        {"a", "bin", LOADER_FIELD_BYTES, 0, 0, NULL, NULL},
        {"a", "bin", LOADER_FIELD_STR, 0, 0, NULL, NULL},
        {"a", "bin", LOADER_FIELD_STR, 0, 0, "$.a", "none"},
        {"a", "bin", LOADER_FIELD_ARRAY, DTYPE_F32, 2, NULL, NULL},
        {"a", "bin", LOADER_FIELD_ARRAY, DTYPE_U16, 1, NULL, NULL},
        {"a", "bin", LOADER_FIELD_ARRAY, DTYPE_BOOL, 0, NULL, NULL},
        {"a", "bin", LOADER_FIELD_INT, 0, 0, "$.a[0]", "1"},
        {"a", "bin", LOADER_FIELD_F32, 0, 0, NULL, NULL},
        {"a", "bin", LOADER_FIELD_F64, 0, 0, "$['a']", NULL},
        {"a", "bin", LOADER_FIELD_BOOL, 0, 0, NULL, "true"}};
    write_shard(data, bytes);
    /* the first byte selects one, because each opens a loader */
    load(&fields[bytes ? (data[0] + bytes) % (sizeof fields / sizeof fields[0]) : 0]);
    return 0;
}
