/*
 * dataset_case — see dataset_case.h.
 */
#include "tests/convert/dataset_case.h"

#include "image/jpeg/jpeg.h"
#include "shards/verify/verify.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void append_log_line(void *context, enum log_level level, const char *line)
{
    struct fixture *fixture = context;
    size_t used = strlen(fixture->log);
    (void)level;
    snprintf(fixture->log + used, sizeof fixture->log - used, "%s\n", line);
}

int setup(void **state)
{
    struct err err;
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_ok(io_open("file:", NULL, &fixture->io, &err), &err);
    test_make_folder(fixture->folder);
    snprintf(fixture->source, sizeof fixture->source, "%s/source", fixture->folder);
    snprintf(fixture->target, sizeof fixture->target, "%s/target", fixture->folder);
    assert_int_equal(mkdir(fixture->source, 0777), 0);
    fixture->sink = (struct log){append_log_line, fixture, LOG_DEBUG};
    fixture->options = (struct convert_options){.source = fixture->source,
                                                .target = fixture->target,
                                                .errors_max = -1,
                                                .workers = 2,
                                                .log = &fixture->sink};
    *state = fixture;
    return 0;
}

int teardown(void **state)
{
    struct fixture *fixture = *state;
    io_close(fixture->io);
    test_remove_folder(fixture->folder);
    free(fixture);
    return 0;
}

int convert(struct fixture *fixture)
{
    return convert_dataset(fixture->io, &fixture->options, &fixture->result, &fixture->err);
}

void write_source(struct fixture *fixture, const char *relative, const void *data, size_t bytes)
{
    char path[2 * TEST_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%s", fixture->source, relative);
    for (char *slash = strchr(path + strlen(fixture->source) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    test_write_file(path, data, bytes);
}

void write_jpeg(struct fixture *fixture, const char *relative, unsigned number)
{
    enum { SIDE = 24 };
    static uint8_t rgb[SIDE * SIDE * 3];
    struct str out = {0};
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(number * 37 + i * (number % 5));
    assert_ok(jpeg_encode(rgb, SIDE, SIDE, SIDE * 3, 80, 0, &out, &fixture->err), &fixture->err);
    write_source(fixture, relative, out.data, out.bytes);
    str_deinit(&out);
}

void write_classes(struct fixture *fixture, unsigned count)
{
    static const char *const names[] = {"b", "a", "c d"};
    for (unsigned i = 0; i < 3 * count; i++) {
        char relative[64];
        snprintf(relative, sizeof relative, "%s/%04u.jpg", names[i % 3], i);
        write_jpeg(fixture, relative, i);
    }
}

struct dataset *open_dataset(struct fixture *fixture, const char *subfolder)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    struct dataset *dataset;
    snprintf(path, sizeof path, "%s%s", fixture->target, subfolder);
    assert_ok(dataset_open(fixture->io, path, &dataset, &fixture->err), &fixture->err);
    struct verify_result result = {0};
    assert_ok(
        verify_dataset(fixture->io, dataset, &(struct verify_options){0}, &result, &fixture->err),
        &fixture->err);
    assert_int_equal(result.problems_count, 0);
    assert_int_equal(result.samples_count, dataset->samples);
    for (uint64_t i = 0; i < dataset->shards_count; i++) /* verified above, if listed */
        assert_true(dataset->shards[i].index_offset > 0);
    return dataset;
}

const char *list_members(struct fixture *fixture, const char *subfolder)
{
    static char text[LISTING_BYTES];
    assert_int_equal(
        test_run_output(text, sizeof text,
                        "cd '%s%s' && for s in shard-*.tar; do tar tf $s || exit 1; done 2>&1",
                        fixture->target, subfolder),
        0);
    return text;
}

bool has_line(const char *text, const char *line)
{
    size_t bytes = strlen(line);
    for (const char *at = text; *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, line, bytes) == 0 && at[bytes] == '\n')
            return true;
    return false;
}

void assert_no_target(struct fixture *fixture)
{
    assert_int_equal(test_run("test ! -e '%s'", fixture->target), 0);
}

void copy_clothing_photos(struct fixture *fixture, unsigned count_per_class)
{
    char photos[TEST_PATH_BYTES_MAX];
    test_need_data("clothing/train", photos);
    assert_int_equal(test_run("cd '%s' && for c in *; do mkdir -p '%s'/$c && ls $c | head -%u | "
                              "while read f; do cp $c/$f "
                              "'%s'/$c/; done; done",
                              photos, fixture->source, count_per_class, fixture->source),
                     0);
}

void assert_target_equals(const struct fixture *fixture, const char *copy)
{
    assert_int_equal(test_run("diff -r '%s' '%s/%s'", fixture->target, fixture->folder, copy), 0);
    assert_int_equal(test_run("test -z \"$(find '%s' -name '.tmp-*')\"", fixture->folder), 0);
}

void copy_target(const struct fixture *fixture, const char *copy)
{
    assert_int_equal(test_run("cp -r '%s' '%s/%s'", fixture->target, fixture->folder, copy), 0);
}

void set_train_val_splits(struct fixture *fixture)
{
    fixture->options.splits_count = 2;
    fixture->options.splits[0] = (struct convert_split){"train", 0.8};
    fixture->options.splits[1] = (struct convert_split){"val", 0.2};
}

int read_source_item(struct fixture *fixture, uint64_t position, struct err *err,
                     struct source *source)
{
    struct source_reader reader = {0};
    struct source_item item;
    struct source_sample *sample = calloc(1, sizeof *sample);
    assert_non_null(sample);
    source_describe(source, position, &item);
    assert_ok(source_reader_open(source, fixture->io, &reader, err), err);
    int status = source->ops->read(&reader, &item, sample, err);
    source_reader_close(&reader);
    str_deinit(&sample->data);
    free(sample);
    return status;
}
