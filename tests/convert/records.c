/*
 * records: TFRecord files that change after they were listed, and records that are too large.
 * tests/cli/records_tfrecord.sh tests the rest.
 */
#include "base/bytes.h"
#include "base/crc.h"
#include "convert/source/source.h"
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 21, RECORD_BYTES = 12 + MESSAGE_BYTES + 4 };

static char path[2 * TEST_PATH_BYTES_MAX];

static uint32_t masked_crc(const void *data, size_t bytes)
{
    uint32_t crc = crc32c(0, data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void put_length(unsigned char *record, uint64_t length)
{
    bytes_put_u64(record, length);
    bytes_put_u32(record + 8, masked_crc(record, 8));
}

/* Writes records that have text as their only feature, and makes the file the source. */
static void write_records(struct fixture *fixture, const char text[5], unsigned count)
{
    static const unsigned char head[] = {10,  19,  10, 17, 10, 4, 't', 'e',
                                         'x', 't', 18, 9,  10, 7, 10,  5};
    unsigned char file[4 * RECORD_BYTES];
    for (unsigned i = 0; i < count; i++) {
        unsigned char *record = file + (size_t)i * RECORD_BYTES, *message = record + 12;
        put_length(record, MESSAGE_BYTES);
        memcpy(message, head, sizeof head);
        memcpy(message + sizeof head, text, 5);
        bytes_put_u32(message + MESSAGE_BYTES, masked_crc(message, MESSAGE_BYTES));
    }
    write_source(fixture, "a.tfrecord", file, (size_t)count * RECORD_BYTES);
    snprintf(path, sizeof path, "%s/a.tfrecord", fixture->source);
    fixture->options.source = path;
}

static int read_item(struct fixture *fixture, const struct source *source, uint64_t position,
                     struct source_sample *sample)
{
    struct source_reader reader = {0};
    struct source_item item;
    assert_ok(source_reader_open(source, fixture->io, &reader, &fixture->err), &fixture->err);
    source_describe(source, position, &item);
    int status = source->ops->read(&reader, &item, sample, &fixture->err);
    source_reader_close(&reader);
    return status;
}

static struct source *open_records(struct fixture *fixture)
{
    const struct source_ops *ops;
    struct source *source;
    assert_ok(source_probe(fixture->io, &fixture->options, &ops, &fixture->err), &fixture->err);
    assert_ptr_equal(ops, &source_tfrecord_ops);
    assert_ok(source_open(fixture->io, &fixture->options, ops, &source, &fixture->err),
              &fixture->err);
    return source;
}

static void a_file_that_changed_after_it_was_listed_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    struct source_sample sample = {0};
    write_records(fixture, "first", 3);
    struct source *source = open_records(fixture);
    assert_int_equal(source->items_count, 3);
    assert_ok(read_item(fixture, source, 2, &sample), &fixture->err);
    assert_int_equal(sample.fields_count, 1);
    assert_string_equal(sample.fields[0].extension, "txt");
    assert_memory_equal(sample.data.data + sample.fields[0].at, "first", 5);
    assert_int_equal(unlink(path), 0);
    write_records(fixture, "other", 3);
    assert_int_equal(read_item(fixture, source, 2, &sample), -ESTALE);
    assert_string_equal(fixture->err.path, path);
    source_close(source);
    str_deinit(&sample.data);
}

static void a_record_that_is_too_large_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t large = (uint64_t)SOURCE_ITEM_BYTES_MAX + 1;
    unsigned char header[12];
    struct source_sample sample = {0};
    write_records(fixture, "first", 1);
    FILE *file = fopen(path, "ab"); /* sparse */
    assert_non_null(file);
    put_length(header, large);
    assert_int_equal(fwrite(header, sizeof header, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(path, (off_t)(RECORD_BYTES + 12 + large + 4)), 0);
    struct source *source = open_records(fixture);
    assert_int_equal(source->items_count, 2);
    assert_int_equal(read_item(fixture, source, 1, &sample), -EFBIG);
    assert_int_equal(fixture->err.offset, RECORD_BYTES);
    source_close(source);
    str_deinit(&sample.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_file_that_changed_after_it_was_listed_is_an_error),
        CASE(a_record_that_is_too_large_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
