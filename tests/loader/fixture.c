/*
 * fixture — see fixture.h.
 */
#include "tests/loader/fixture.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/philox.h"
#include "image/jpeg/jpeg.h"
#include "io/file_util.h"
#include "loader/state.h"
#include "shards/format/npy.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARDS_MAX = 256 };

struct fixture_options fixture_options_default(uint64_t samples)
{
    return (struct fixture_options){.samples = samples,
                                    .samples_per_shard = 37,
                                    .oversized_sample = -1,
                                    .without_jpg = -1,
                                    .without_cls = -1,
                                    .empty_jpg = -1,
                                    .cut_jpg = -1,
                                    .bad_label = -1,
                                    .without_label = -1,
                                    .without_txt = -1,
                                    .bad_txt = -1,
                                    .other_npy = -1};
}

/* A dataset being written. */
struct dataset_maker {
    struct fixture *fixture;
    struct dataset dataset;
    struct dataset_shard shards[SHARDS_MAX];
    struct shard_writer *writer;
    uint64_t field_bytes;
};

/* Tests expect the reads of a medium with the default gap, whichever has the build folder. */
static void use_default_gap(struct io *io)
{
    static struct io_name_ops names;
    names = *io->names;
    names.gap_bytes = NULL;
    io->names = &names;
}

static void maker_begin(struct dataset_maker *maker, struct fixture *fixture)
{
    struct err err;
    memset(maker, 0, sizeof *maker);
    memset(fixture, 0, sizeof *fixture);
    test_make_folder(fixture->folder);
    assert_ok(io_open(fixture->folder, NULL, &fixture->io, &err), &err);
    use_default_gap(fixture->io);
    maker->fixture = fixture;
    maker->dataset.shards = maker->shards;
}

static void end_shard(struct dataset_maker *maker)
{
    struct shard_summary summary;
    struct err err;
    if (!maker->writer)
        return;
    struct dataset_shard *shard = &maker->shards[maker->dataset.shards_count++];
    assert_ok(shard_writer_commit(maker->writer, &summary, &err), &err);
    maker->writer = NULL;
    shard->samples = summary.samples;
    shard->file_bytes = summary.file_bytes;
    shard->xxh3 = summary.xxh3;
    shard->index_crc32c = summary.index_crc32c;
    shard->index_offset = summary.index_offset;
    shard->first_sample = maker->dataset.samples;
    maker->dataset.samples += summary.samples;
    maker->field_bytes += summary.field_bytes;
}

static void begin_sample(struct dataset_maker *maker, const char *key, uint64_t samples_per_shard)
{
    struct err err;
    if (maker->writer && shard_writer_samples(maker->writer) == samples_per_shard)
        end_shard(maker);
    if (!maker->writer) {
        char name[64], path[TEST_PATH_BYTES_MAX + 64];
        assert_true(maker->dataset.shards_count < SHARDS_MAX);
        snprintf(name, sizeof name, "shard-%06d.tar", (int)maker->dataset.shards_count);
        snprintf(path, sizeof path, "%s/%s", maker->fixture->folder, name);
        maker->shards[maker->dataset.shards_count].url = strdup(name);
        assert_ok(shard_writer_open(maker->fixture->io, path, false, &maker->writer, &err), &err);
    }
    assert_ok(shard_writer_begin_sample(maker->writer, key, &err), &err);
}

static void add_field(struct dataset_maker *maker, const char *extension, const void *data,
                      size_t bytes)
{
    struct err err;
    assert_ok(shard_writer_add_field(maker->writer, extension, data, bytes, &err), &err);
}

static void maker_end(struct dataset_maker *maker)
{
    struct str text = {0};
    struct err err;
    char path[TEST_PATH_BYTES_MAX + 64];
    end_shard(maker);
    if (maker->dataset.text.element[0])
        dataset_set_last_tokens(&maker->dataset);
    maker->dataset.mean_sample_bytes = maker->field_bytes / maker->dataset.samples;
    maker->fixture->samples = maker->dataset.samples;
    assert_ok(dataset_encode(&maker->dataset, &text, &err), &err);
    snprintf(path, sizeof path, "%s/dataset.json", maker->fixture->folder);
    assert_ok(io_write_file(maker->fixture->io, path, text.data, text.bytes, false, &err), &err);
    str_deinit(&text);
    for (uint64_t i = 0; i < maker->dataset.shards_count; i++)
        free(maker->shards[i].url);
}

static void name_field(struct dataset_maker *maker, const char *name)
{
    snprintf(maker->dataset.fields[maker->dataset.fields_count++], SHARD_EXTENSION_BYTES_MAX, "%s",
             name);
}

/* Encodes squares of noise, so few that large pictures make small files. */
static void encode_noise(uint64_t sample, uint32_t width, uint32_t height, struct str *jpeg)
{
    uint32_t square = width > 64 ? 64 : 4;
    size_t stride = 3 * (size_t)width;
    uint8_t *pixels = malloc(stride * height);
    struct err err;
    assert_non_null(pixels);
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *row = pixels + y * stride;
        if (y % square) {
            memcpy(row, row - stride, stride);
            continue;
        }
        for (uint32_t x = 0; x < stride; x++)
            row[x] = (uint8_t)(philox(sample, y / square, x / (3 * square)).word[0] >> 24);
    }
    str_clear(jpeg);
    assert_ok(jpeg_encode(pixels, width, height, stride, 90, 0, jpeg, &err), &err);
    free(pixels);
}

/* Inserts comments of 65533 bytes each after the first marker until they add up to this size. */
static void add_comments(struct str *jpeg, uint64_t bytes)
{
    struct str with = {0};
    str_add(&with, jpeg->data, 2);
    for (uint64_t added = 0; added < bytes; added += 65533) {
        str_add(&with, "\xff\xfe\xff\xff", 4);
        str_add_fill(&with, 'c', 65533);
    }
    str_add(&with, jpeg->data + 2, jpeg->bytes - 2);
    str_deinit(jpeg);
    *jpeg = with;
}

size_t fixture_caption(uint64_t sample, char text[FIXTURE_CAPTION_BYTES_MAX])
{
    static const char words[] = "a caf\xc3\xa9 in \xe6\x9d\xb1\xe4\xba\xac "; /* 18 bytes */
    uint32_t random = philox(7, 0, sample).word[0];
    uint32_t count = sample % 11 == 0 ? 0 : random % (sample % 13 == 0 ? 320 : 16);
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += (size_t)snprintf(text + bytes, FIXTURE_CAPTION_BYTES_MAX - bytes, "%s", words);
    if (count > 0)
        text[0] = (char)('a' + sample % 26);
    return bytes;
}

uint32_t fixture_array(uint64_t sample,
                       float values[FIXTURE_ARRAY_ROWS_MAX * FIXTURE_ARRAY_COLUMNS])
{
    uint32_t rows = (uint32_t)(sample % (FIXTURE_ARRAY_ROWS_MAX + 1));
    for (uint32_t i = 0; i < rows * FIXTURE_ARRAY_COLUMNS; i++)
        values[i] = (float)sample + 0.25f * (float)i;
    return rows;
}

static void add_record(struct dataset_maker *maker, uint64_t sample,
                       const struct fixture_options *options)
{
    char caption[FIXTURE_CAPTION_BYTES_MAX], dict[80], header[NPY_HEADER_BYTES];
    float values[FIXTURE_ARRAY_ROWS_MAX * FIXTURE_ARRAY_COLUMNS];
    struct str array = {0};
    uint32_t rows = fixture_array(sample, values);
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }",
             (int64_t)sample == options->other_npy ? "<i4" : "<f4", (int)rows,
             FIXTURE_ARRAY_COLUMNS);
    snprintf(header, sizeof header, "%-117s\n", dict);
    str_add(&array, "\x93NUMPY\1\0v\0", 10);
    str_add(&array, header, 118);
    str_add(&array, values, rows * FIXTURE_ARRAY_COLUMNS * sizeof values[0]);
    add_field(maker, "npy", array.data, array.bytes);
    str_deinit(&array);
    if ((int64_t)sample == options->without_txt)
        return;
    size_t bytes = fixture_caption(sample, caption);
    if ((int64_t)sample == options->bad_txt)
        caption[bytes++] = (char)0xc3;
    add_field(maker, "txt", caption, bytes);
}

static void add_json(struct dataset_maker *maker, uint64_t sample)
{
    char text[256];
    int bytes = 0;
    if (sample % 10 == 9)
        return;
    bytes = snprintf(text, sizeof text,
                     "{\"class\":{\"id\":%" PRIu64
                     "},\"score\":%s,\"good\":%s,\"title\":\"n\\u00b0 %d\"}\n",
                     sample * 1000000007,
                     sample % 10 == 8 ? "null"
                     : sample % 2     ? "0.1"
                                      : "-3e2",
                     sample % 3 ? "false" : "true", (int)sample);
    add_field(maker, "json", text, (size_t)bytes);
}

/* jpeg: scratch. */
static void add_jpg(struct dataset_maker *maker, uint64_t s, const struct fixture_options *options,
                    struct str *jpeg)
{
    encode_noise(s, options->width ? options->width : 24 + (uint32_t)(s % 17),
                 options->height ? options->height : 20 + (uint32_t)(s % 29), jpeg);
    if ((int64_t)s == options->oversized_sample)
        add_comments(jpeg, options->oversized_bytes);
    bool is_broken = options->broken_jpg_stride && s % options->broken_jpg_stride == 0;
    if ((int64_t)s == options->empty_jpg)
        add_field(maker, "jpg", "", 0);
    else if (is_broken)
        add_field(maker, "jpg", "no picture", 10);
    else if ((int64_t)s == options->cut_jpg)
        add_field(maker, "jpg", jpeg->data, jpeg->bytes / 2);
    else
        add_field(maker, "jpg", jpeg->data, jpeg->bytes);
}

double fixture_score(uint64_t sample)
{
    return sample % 9 == 4 ? NAN : (double)(sample * 37 % 101) / 100 - 0.5;
}

static void add_numbers(struct dataset_maker *maker, uint64_t sample, bool has_label)
{
    double label = has_label ? (double)(sample % FIXTURE_CLASSES) : NAN;
    struct err err;
    assert_ok(shard_writer_add_number(maker->writer, "label", label, &err), &err);
    assert_ok(shard_writer_add_number(maker->writer, "score", fixture_score(sample), &err), &err);
}

void fixture_make_images(struct fixture *fixture, const struct fixture_options *options)
{
    static struct dataset_maker maker;
    static char class_names[FIXTURE_CLASSES][16];
    char *classes[FIXTURE_CLASSES];
    maker_begin(&maker, fixture);
    for (int i = 0; i < FIXTURE_CLASSES; i++) {
        snprintf(class_names[i], sizeof class_names[i], "c%d", i);
        classes[i] = class_names[i];
    }
    maker.dataset.classes = classes;
    maker.dataset.classes_count = FIXTURE_CLASSES;
    if (options->pad_bytes)
        name_field(&maker, "bin");
    name_field(&maker, "cls");
    name_field(&maker, "jpg");
    if (options->with_record) {
        name_field(&maker, "json");
        name_field(&maker, "npy");
        name_field(&maker, "txt");
    }
    struct str jpeg = {0};
    uint8_t *pad = malloc(options->pad_bytes + 1);
    assert_non_null(pad);
    for (uint64_t s = 0; s < options->samples; s++) {
        char key[32], label[16];
        snprintf(key, sizeof key, "k%06d", (int)s);
        snprintf(label, sizeof label, (int64_t)s == options->bad_label ? "%d?" : "%d",
                 (int)(s % FIXTURE_CLASSES));
        begin_sample(&maker, key, options->samples_per_shard);
        for (uint64_t i = 0; i < options->pad_bytes; i++)
            pad[i] = (uint8_t)(s * 31 + i);
        if (options->pad_bytes)
            add_field(&maker, "bin", pad, options->pad_bytes);
        if ((int64_t)s != options->without_cls)
            add_field(&maker, "cls", label, strlen(label));
        if ((int64_t)s != options->without_jpg)
            add_jpg(&maker, s, options, &jpeg);
        if (options->with_numbers)
            add_numbers(&maker, s, (int64_t)s != options->without_label);
        if (options->with_record)
            add_json(&maker, s);
        if (options->with_record)
            add_record(&maker, s, options);
    }
    str_deinit(&jpeg);
    free(pad);
    maker_end(&maker);
}

size_t fixture_raw_header(uint64_t sample, uint32_t *ret_width, uint32_t *ret_height, char *header)
{
    char own[64];
    bool is_small = sample % 7 == 6;
    *ret_width = is_small ? 41 : 131 + (uint32_t)(sample * 53 % 251);
    *ret_height = is_small ? 37 : 223 + (uint32_t)(sample * 71 % 257);
    return (size_t)snprintf(header ? header : own, sizeof own, "P6\n%s%u %u\n255\n",
                            sample % 5 == 0 ? "# noise\n" : "", *ret_width, *ret_height);
}

void fixture_make_raw_images(struct fixture *fixture, const struct fixture_raw_options *options)
{
    static struct dataset_maker maker;
    struct str file = {0};
    struct err err;
    maker_begin(&maker, fixture);
    if (options->with_class)
        name_field(&maker, "cls");
    name_field(&maker, "ppm");
    for (uint64_t s = 0; s < options->samples; s++) {
        char key[32], header[64];
        uint32_t width, height, random = (uint32_t)s + 1;
        struct shard_raw_image picture = {
            .pixels_offset = (uint32_t)fixture_raw_header(s, &width, &height, header)};
        picture.width = width;
        snprintf(key, sizeof key, "r%06d", (int)s);
        begin_sample(&maker, key, 13);
        if (options->with_class)
            add_field(&maker, "cls", "3", 1);
        str_clear(&file);
        str_add(&file, header, picture.pixels_offset);
        str_add_fill(&file, 0, 3 * (size_t)width * height);
        for (size_t i = picture.pixels_offset; i < file.bytes; i++) {
            random = random * 1664525u + 1013904223u;
            file.data[i] = (char)(random >> 24);
        }
        if (options->with_rows)
            assert_ok(shard_writer_add_raw_image(maker.writer, "ppm", file.data, file.bytes,
                                                 picture, &err),
                      &err);
        else
            add_field(&maker, "ppm", file.data, file.bytes);
    }
    str_deinit(&file);
    maker_end(&maker);
}

uint32_t fixture_token(uint64_t index)
{
    return philox(99, 0, index).word[0] % 5000;
}

void fixture_make_text(struct fixture *fixture, uint64_t tokens, uint64_t member_tokens,
                       uint64_t members_a_shard)
{
    static struct dataset_maker maker;
    maker_begin(&maker, fixture);
    fixture->tokens = tokens;
    fixture->member_tokens = member_tokens;
    maker.dataset.text = (struct dataset_text){.element = "uint16",
                                               .tokenizer = "bytes",
                                               .vocabulary = 5000,
                                               .document_end = 4999,
                                               .tokens = tokens,
                                               .member_tokens = member_tokens,
                                               .header_bytes = NPY_HEADER_BYTES};
    name_field(&maker, "npy");
    uint8_t *data = malloc(NPY_HEADER_BYTES + 2 * member_tokens);
    assert_non_null(data);
    int member = 0;
    for (uint64_t first = 0; first + 1 < tokens; first += member_tokens - 1, member++) {
        uint64_t count = bytes_min(member_tokens, tokens - first);
        char key[32];
        npy_encode_header(DTYPE_U16, count, data);
        for (uint64_t i = 0; i < count; i++)
            bytes_put_u16(data + NPY_HEADER_BYTES + 2 * i, (uint16_t)fixture_token(first + i));
        snprintf(key, sizeof key, "text-%06d", member);
        begin_sample(&maker, key, members_a_shard);
        add_field(&maker, "npy", data, NPY_HEADER_BYTES + 2 * count);
    }
    free(data);
    maker_end(&maker);
}

void fixture_set_listed_mean_bytes(const struct fixture *fixture, uint64_t bytes)
{
    assert_int_equal(test_run("chmod u+w '%s/dataset.json' && sed -i "
                              "'s/\"mean_sample_bytes\":[0-9]*/\"mean_sample_bytes\":%" PRIu64
                              "/' '%s/dataset.json'",
                              fixture->folder, bytes, fixture->folder),
                     0);
}

void fixture_remove(struct fixture *fixture)
{
    io_close(fixture->io);
    test_remove_folder(fixture->folder);
}

int fixture_set_up_with_options(void **state, const struct fixture_options *options)
{
    struct fixture *fixture = malloc(sizeof *fixture);
    assert_non_null(fixture);
    fixture_make_images(fixture, options);
    *state = fixture;
    return 0;
}

int fixture_set_up(void **state, uint64_t samples)
{
    struct fixture_options options = fixture_options_default(samples);
    return fixture_set_up_with_options(state, &options);
}

int fixture_tear_down(void **state)
{
    fixture_remove(*state);
    free(*state);
    return 0;
}

struct loader_options fixture_loader_options(const struct fixture *fixture,
                                             enum loader_decode decode)
{
    struct loader_options options = loader_options_default();
    options.dataset = fixture->folder;
    options.io = fixture->io;
    options.seed = 5;
    options.decode = decode;
    options.lanes = 4;
    options.window = 16;
    options.run = 3;
    options.batching = (struct batching){.global = 24, .micro = 4, .ranks = 1};
    options.image.width = 20;
    options.image.height = 16;
    options.image.crop = crop_options_default(CROP_RANDOM);
    options.image.crop.flip = true;
    options.text.block = 256;
    options.epochs_max = 1;
    options.workers = 2;
    options.memory_bytes = 32 << 20;
    return options;
}

uint64_t fixture_memory_for_long_reads(const struct loader_options *options, uint32_t quarters)
{
    struct loader_options tried = *options;
    uint64_t low = 0, high = 0; /* too little; enough, 0 until known */
    tried.memory_only = true;
    while (!high || high - low > 4096) {
        struct loader *loader;
        struct err err;
        tried.memory_bytes = high ? low + (high - low) / 2 : low ? 2 * low : 1 << 20;
        assert_true(tried.memory_bytes <= 128 << 20);
        bool is_enough = !loader_open(&tried, &loader, &err);
        if (is_enough) {
            is_enough = loader->reader.long_reads.quarters >= quarters;
            loader_close(loader);
        }
        *(is_enough ? &high : &low) = tried.memory_bytes;
    }
    return high;
}

void fixture_find_field(const struct fixture *fixture, uint64_t sample, const char *extension,
                        char *path, struct shard_field *ret_field)
{
    struct dataset *dataset;
    struct shard *shard;
    struct err err;
    uint64_t number_in_shard;
    assert_ok(dataset_open(fixture->io, fixture->folder, &dataset, &err), &err);
    uint64_t number = dataset_locate(dataset, sample, &number_in_shard);
    assert_ok(dataset_shard_path(dataset, number, path, &err), &err);
    assert_ok(shard_open(fixture->io, path, &shard, &err), &err);
    int field = shard_index_find(shard->index, extension);
    assert_true(field >= 0);
    shard_index_field(shard->index, number_in_shard, (uint32_t)field, ret_field);
    ret_field->block_crc32c = NULL; /* freed with the index */
    shard_close(shard);
    dataset_close(dataset);
}

void fixture_flip_bit(const char *path, uint64_t offset)
{
    assert_int_equal(test_run("chmod u+w '%s'", path), 0);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)offset, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_true(byte >= 0);
    assert_int_equal(fseek(file, (long)offset, SEEK_SET), 0);
    assert_true(fputc(byte ^ 16, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* ---- Delivered batches. ---- */

static void add_to_hash(struct delivery *delivered, const void *data, size_t bytes)
{
    uint64_t pair[2] = {delivered->hash, hash_64(data, bytes)};
    delivered->hash = hash_64(pair, sizeof pair);
}

void delivery_add(struct delivery *delivered, const struct batch *batch)
{
    for (uint32_t i = 0; i < batch->items_count; i++) {
        const struct batch_item *item = &batch->items[i];
        if (delivered->bytes + 4096 > delivered->capacity) {
            delivered->capacity = 2 * delivered->capacity + (1 << 16);
            delivered->text = realloc(delivered->text, delivered->capacity);
            assert_non_null(delivered->text);
        }
        delivered->bytes += (size_t)snprintf(
            delivered->text + delivered->bytes, 4096, "%u %d %d %d %d %.*s %d %d\n", batch->epoch,
            (int)batch->step, (int)batch->micro, (int)item->position, (int)item->ref.sample,
            (int)item->key_bytes, item->key, (int)item->window, item->substituted);
        for (uint32_t k = 0; k < item->fields_count; k++) {
            add_to_hash(delivered, item->fields[k].extension, strlen(item->fields[k].extension));
            add_to_hash(delivered, item->fields[k].data, item->fields[k].bytes);
        }
    }
    for (uint32_t k = 0; k < batch->fields_count; k++) {
        const struct batch_field *field = &batch->fields[k];
        add_to_hash(delivered, field->data, (size_t)field->stride_bytes[0] * field->shape[0]);
        if (!field->offsets) {
            assert_int_equal(field->shape[0], batch->items_count);
            continue;
        }
        add_to_hash(delivered, field->offsets, (batch->items_count + 1) * sizeof field->offsets[0]);
        add_to_hash(delivered, field->shapes,
                    batch->items_count * field->item_rank * sizeof field->shapes[0]);
    }
    delivered->items += batch->items_count;
    delivered->batches++;
}

void delivery_free(struct delivery *delivered)
{
    free(delivered->text);
    *delivered = (struct delivery){0};
}

void consume(struct loader *loader, struct delivery *delivered, uint64_t batches_max)
{
    const struct batch *batch;
    struct err err;
    while (batches_max-- > 0) {
        int status = loader_next(loader, &batch, &err);
        assert_ok(status, &err);
        if (status == LOADER_END)
            break;
        delivery_add(delivered, batch);
        loader_release(loader, batch);
    }
}

void consume_all(const struct loader_options *options, struct delivery *ret_delivered,
                 struct loader_stats *ret_stats, struct cursor *ret_cursor)
{
    struct loader *loader;
    struct err err;
    *ret_delivered = (struct delivery){0};
    assert_ok(loader_open(options, &loader, &err), &err);
    consume(loader, ret_delivered, UINT64_MAX);
    if (ret_stats)
        *ret_stats = loader_stats(loader);
    if (ret_cursor)
        *ret_cursor = loader_cursor(loader);
    loader_close(loader);
}

void fixture_make_default_images(struct fixture *fixture, uint64_t samples)
{
    struct fixture_options options = fixture_options_default(samples);
    fixture_make_images(fixture, &options);
}

struct shard_writer *fixture_begin_tar(struct fixture *fixture, uint64_t samples)
{
    struct shard_writer *writer;
    struct err err;
    char path[TEST_PATH_BYTES_MAX + 16];
    *fixture = (struct fixture){.samples = samples};
    test_make_folder(fixture->folder);
    assert_ok(io_open(fixture->folder, NULL, &fixture->io, &err), &err);
    snprintf(path, sizeof path, "%s/a.tar", fixture->folder);
    assert_ok(shard_writer_open(fixture->io, path, false, &writer, &err), &err);
    return writer;
}

void fixture_end_tar(struct shard_writer *writer)
{
    struct shard_summary summary;
    struct err err;
    assert_ok(shard_writer_commit(writer, &summary, &err), &err);
}

void fixture_flip_in_field(const struct fixture *fixture, uint64_t sample, const char *extension,
                           uint64_t offset)
{
    char path[TEST_PATH_BYTES_MAX];
    struct shard_field field;
    fixture_find_field(fixture, sample, extension, path, &field);
    fixture_flip_bit(path, field.data_offset + offset);
}

int consume_until_error(const struct loader_options *options, struct err *err)
{
    struct loader *loader;
    const struct batch *batch;
    struct err again;
    int status;
    assert_ok(loader_open(options, &loader, err), err);
    while ((status = loader_next(loader, &batch, err)) == LOADER_BATCH)
        loader_release(loader, batch);
    assert_true(status < 0);
    assert_int_equal(loader_next(loader, &batch, &again), status); /* the error is persistent */
    assert_string_equal(again.what, err->what);
    assert_true(loader_ready(loader));
    loader_close(loader);
    return status;
}
