/*
 * loader — fuzz target: a loader of a fuzzed dataset.json and one valid shard (loader/loader.h).
 * Opening fails, or the loader delivers batches up to the end or an error.
 *
 * The samples of the shard have a picture, a label and tokens; its own dataset.json is the first
 * input. The target corrects the sample count and fingerprint to match the shard list.
 */
#include "loader/loader.h"
#include "shards/dataset/dataset.h"
#include "shards/format/npy.h"
#include "tests/fuzz/fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { SAMPLES = 4, TOKENS = 33, BATCHES_MAX = 8 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t bytes_max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t bytes_max, unsigned seed);
int LLVMFuzzerInitialize(int *argument_count, char ***arguments);

static char folder[] = "/tmp/millrace-fuzz-loader-XXXXXX", json_path[64], shard_path[64];
static struct io *io;
static struct str first_text;

static void assert_success(int status)
{
    if (status)
        abort();
}

static void write_shard(struct dataset_shard *shard)
{
    static const char pixels[] = "P6 2 2 255\n............";
    uint8_t tokens[NPY_HEADER_BYTES + 2 * TOKENS] = {0};
    struct shard_writer *writer;
    struct shard_summary summary;
    assert_success(shard_writer_open(io, shard_path, true, &writer, NULL));
    npy_encode_header(DTYPE_U16, TOKENS, tokens);
    for (int i = 0; i < SAMPLES; i++) {
        char key[] = {'k', (char)('0' + i), '\0'};
        assert_success(shard_writer_begin_sample(writer, key, NULL));
        assert_success(shard_writer_add_field(writer, "cls", "1", 1, NULL));
        assert_success(shard_writer_add_field(writer, "npy", tokens, sizeof tokens, NULL));
        assert_success(shard_writer_add_field(writer, "ppm", pixels, sizeof pixels - 1, NULL));
    }
    assert_success(shard_writer_commit(writer, &summary, NULL));
    *shard = (struct dataset_shard){.samples = SAMPLES,
                                    .file_bytes = summary.file_bytes,
                                    .xxh3 = summary.xxh3,
                                    .index_crc32c = summary.index_crc32c,
                                    .index_offset = summary.index_offset,
                                    .last_tokens = TOKENS};
}

static void clean_up(void)
{
    unlink(json_path);
    unlink(shard_path);
    rmdir(folder);
    io_close(io);
    str_deinit(&first_text);
}

int LLVMFuzzerInitialize(int *argument_count, char ***arguments)
{
    (void)argument_count;
    (void)arguments;
    struct dataset_shard shard;
    char url[] = "a.tar";
    if (!mkdtemp(folder))
        abort();
    atexit(clean_up);
    snprintf(json_path, sizeof json_path, "%s/dataset.json", folder);
    snprintf(shard_path, sizeof shard_path, "%s/a.tar", folder);
    assert_success(io_open(folder, &(struct io_options){.engine = IO_ENGINE_THREADS, .threads = 1},
                           &io, NULL));
    write_shard(&shard);
    shard.url = url;
    struct dataset dataset = {
        .shards = &shard,
        .shards_count = 1,
        .samples = SAMPLES,
        .mean_sample_bytes = 220,
        .fields = {"cls", "npy", "ppm"},
        .fields_count = 3,
        .text = {.element = "uint16",
                 .tokenizer = "bytes",
                 .vocabulary = 257,
                 .document_end = 256,
                 .tokens = SAMPLES * (TOKENS - 1) + 1,
                 .member_tokens = TOKENS,
                 .header_bytes = NPY_HEADER_BYTES},
    };
    assert_success(dataset_encode(&dataset, &first_text, NULL));
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t bytes_max, unsigned seed)
{
    (void)seed;
    if (bytes < 2 && first_text.bytes <= bytes_max) {
        memcpy(data, first_text.data, first_text.bytes);
        bytes = first_text.bytes;
    }
    return LLVMFuzzerMutate(data, bytes, bytes_max);
}

static void write_json(const char *text, size_t bytes)
{
    FILE *file = fopen(json_path, "wb");
    if (!file || fwrite(text, 1, bytes, file) != bytes || fclose(file))
        abort();
}

/* Replaces the text after the key, up to a comma, with the value. */
static void replace(struct str *text, const char *key, const char *value)
{
    const char *begin = text->bytes ? strstr(text->data, key) : NULL;
    if (!begin)
        return;
    begin += strlen(key);
    struct str changed = {0};
    str_add(&changed, text->data, (size_t)(begin - text->data));
    str_add_text(&changed, value);
    str_add_text(&changed, begin + strcspn(begin, ","));
    str_deinit(text);
    *text = changed;
}

static void correct_counts(struct str *text)
{
    struct dataset *dataset;
    struct err err = {0};
    uint64_t samples, fingerprint;
    char number[32];
    write_json(text->data, text->bytes);
    if (dataset_open(io, folder, &dataset, &err) == 0) {
        dataset_close(dataset);
        return;
    }
    if (sscanf(err.found, "%" SCNu64 ", %" SCNx64, &samples, &fingerprint) != 2)
        return;
    snprintf(number, sizeof number, "%" PRIu64, samples);
    replace(text, "\"samples\":", number);
    snprintf(number, sizeof number, "\"%016" PRIx64 "\"", fingerprint);
    replace(text, "\"fingerprint\":", number);
    write_json(text->data, text->bytes);
}

static void load(enum loader_decode decode, bool memory_only)
{
    struct loader_options options = loader_options_default();
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    options.dataset = folder;
    options.io = io;
    options.decode = decode;
    options.image.width = options.image.height = 8;
    options.text.block = 8;
    options.batching = (struct batching){.global = 2, .micro = 2, .ranks = 1};
    options.epochs_max = 1;
    options.bad_fraction_max = 1;
    options.workers = 1;
    options.memory_bytes = 8 << 20;
    options.memory_only = memory_only;
    if (loader_open(&options, &loader, &err)) {
        if (err.code == 0 || !err.what[0])
            abort();
        return;
    }
    if (loader_shape(loader).memory_bytes > options.memory_bytes)
        abort();
    for (int i = 0; i < BATCHES_MAX && loader_next(loader, &batch, &err) == LOADER_BATCH; i++)
        loader_release(loader, batch);
    loader_close(loader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct str text = {0};
    if (bytes < 2)
        str_add(&text, first_text.data, first_text.bytes);
    else
        str_add(&text, data, bytes);
    if (str_status(&text))
        return 0;
    correct_counts(&text);
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_TOKENS; decode++)
        for (int memory_only = 1; memory_only >= 0; memory_only--)
            load(decode, memory_only);
    str_deinit(&text);
    return 0;
}
