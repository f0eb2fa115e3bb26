/*
 * seekable — files in zstd's seekable format read as their content, and bad ones are refused.
 * tests/cli/zstd.sh reads them with other programs, and theirs.
 */
#include "base/bytes.h"
#include "base/str.h"
#include "io/file_util.h"
#include "io/zstd/frame_writer.h"
#include "io/zstd/seek_table.h"
#include "io/zstd/seekable_io.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

enum { RECORDS = 900, RECORD_BYTES_MAX = 6000, LARGE_BYTES = 3 << 20, TAIL_BYTES = 70000 };

static struct io *seekable;
static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return random_state >> 33;
}

static int set_up(void **state)
{
    struct err err;
    scratch_set_up(state);
    random_state = 7;
    return seekable_io_open(io, 3, &seekable, &err);
}

static int tear_down(void **state)
{
    io_close(seekable);
    return scratch_tear_down(state);
}

static int append(void *context, const void *data, size_t bytes, struct err *err)
{
    (void)err;
    str_add(context, data, bytes);
    return 0;
}

/* Words of few kinds, which compress. */
static void add_text(struct str *content, size_t bytes)
{
    for (size_t end = content->bytes + bytes; content->bytes < end;)
        str_add_format(content, "word%d ", (int)(next_random() % 50));
}

/* Writes records, of which one is larger than several frames, and a tail. */
static void write_frames(struct str *content, struct str *file, unsigned threads)
{
    struct frame_writer *writer;
    struct err err;
    const struct frame_writer_options options = {
        .level = 3, .threads = threads, .write = append, .context = file};
    assert_ok(frame_writer_open(&options, &writer, &err), &err);
    for (int i = 0; i < RECORDS; i++) {
        size_t at = content->bytes;
        add_text(content, i == RECORDS / 2 ? LARGE_BYTES : next_random() % RECORD_BYTES_MAX);
        assert_ok(frame_writer_add(writer, content->data + at, content->bytes - at, &err), &err);
        assert_ok(frame_writer_add(writer, NULL, 3, &err), &err);
        str_add_fill(content, 0, 3);
        assert_ok(frame_writer_end_record(writer, &err), &err);
    }
    size_t at = content->bytes;
    for (int i = 0; i < TAIL_BYTES; i++)
        str_add_fill(content, (char)next_random(), 1);
    assert_ok(frame_writer_finish(writer, content->data + at, TAIL_BYTES, &err), &err);
    frame_writer_close(writer);
}

static struct io_file *open_file(const char *path)
{
    struct io_file *file;
    struct err err;
    assert_ok(seekable->ops->file_open(seekable, path, &file, &err), &err);
    return file;
}

static void parts_read_like_the_content(void **state)
{
    (void)state;
    enum { READS = 400, DEPTH = 16, BYTES_MAX = 900000 };
    struct str content = {0}, stored = {0};
    struct err err;
    const char *path = in_folder("records.zst");
    write_frames(&content, &stored, 2);
    assert_true(stored.bytes < content.bytes / 3);
    test_write_file(path, stored.data, stored.bytes);
    struct io_file *file = open_file(path);
    assert_int_equal(seekable->ops->file_size(file), content.bytes);
    for (unsigned depth = 1; depth <= DEPTH; depth += DEPTH - 1) {
        struct io_queue *queue;
        struct io_request requests[DEPTH] = {0}, *free_requests[DEPTH];
        char *memory = malloc((size_t)DEPTH * BYTES_MAX);
        unsigned free_count = 0, in_flight = 0, submitted = 0;
        assert_ok(seekable->ops->queue_open(seekable, depth, &queue, &err), &err);
        for (unsigned i = 0; i < depth; i++)
            free_requests[free_count++] = &requests[i];
        while (submitted < READS || in_flight > 0) {
            while (submitted < READS && free_count > 0) {
                struct io_request *request = free_requests[--free_count];
                uint64_t offset = next_random() % (content.bytes + 1);
                size_t bytes = 1 + next_random() % (submitted % 3 ? 5000 : BYTES_MAX);
                *request = (struct io_request){.kind = IO_READ,
                                               .file = file,
                                               .offset = offset,
                                               .data = memory + (request - requests) * BYTES_MAX,
                                               .bytes = bytes};
                assert_int_equal(seekable->ops->submit(queue, &request, 1), 1);
                submitted++, in_flight++;
            }
            struct io_request *done[DEPTH];
            int count = seekable->ops->reap(queue, done, DEPTH, 1, IO_FOREVER);
            assert_true(count > 0);
            for (int i = 0; i < count; i++) {
                assert_int_equal(done[i]->result,
                                 bytes_min(done[i]->bytes, content.bytes - done[i]->offset));
                assert_memory_equal(done[i]->data, content.data + done[i]->offset,
                                    (size_t)done[i]->result);
                free_requests[free_count++] = done[i];
                in_flight--;
            }
        }
        seekable->ops->queue_close(queue);
        free(memory);
    }
    seekable->ops->file_close(file);
    str_deinit(&content);
    str_deinit(&stored);
}

static void the_bytes_do_not_depend_on_threads(void **state)
{
    (void)state;
    struct str files[3] = {{0}}, contents[3] = {{0}};
    for (unsigned i = 0; i < 3; i++) {
        random_state = 11;
        write_frames(&contents[i], &files[i], 1 + 3 * i);
        assert_int_equal(files[i].bytes, files[0].bytes);
        assert_memory_equal(files[i].data, files[0].data, files[0].bytes);
    }
    for (unsigned i = 0; i < 3; i++) {
        str_deinit(&files[i]);
        str_deinit(&contents[i]);
    }
}

/* The library decompresses all frames and skips the tail and the seek table. */
static void the_library_reads_the_frames(void **state)
{
    (void)state;
    struct str content = {0}, stored = {0};
    write_frames(&content, &stored, 2);
    char *text = malloc(content.bytes);
    assert_int_equal(ZSTD_decompress(text, content.bytes, stored.data, stored.bytes),
                     content.bytes - TAIL_BYTES);
    assert_memory_equal(text, content.data, content.bytes - TAIL_BYTES);
    free(text);
    str_deinit(&content);
    str_deinit(&stored);
}

static void other_files_read_as_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } files[] = {{"plain.tar", "not compressed"}, {"short.zst", "12345678"}, {"empty.zst", ""}};
    struct err err;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *text = NULL;
        size_t bytes;
        const char *path = in_folder(files[i].name);
        test_write_file(path, files[i].text, strlen(files[i].text));
        assert_ok(io_read_file(seekable, path, 100, &text, &bytes, &err), &err);
        assert_string_equal(text, files[i].text);
        free(text);
    }
}

/* Frames that another read of the same file does not need stay readable. */
static void damage_fails_only_what_needs_it(void **state)
{
    (void)state;
    struct str content = {0}, stored = {0};
    struct err err;
    struct io_queue *queue;
    const char *path = in_folder("damaged.zst");
    write_frames(&content, &stored, 2);
    stored.data[stored.bytes / 2 - TAIL_BYTES] ^= 1;
    test_write_file(path, stored.data, stored.bytes);
    struct io_file *file = open_file(path);
    assert_ok(seekable->ops->queue_open(seekable, 1, &queue, &err), &err);
    char *data = malloc(content.bytes);
    int status = io_read_exact(queue, seekable, file, path, 0, data, content.bytes, &err);
    assert_int_equal(status, -EBADMSG);
    assert_string_equal(err.what, "could not read: the data is damaged");
    unsigned bad = 0;
    enum { STEP = 10000 };
    for (uint64_t at = 0; at + STEP < content.bytes; at += STEP) {
        status = io_read_exact(queue, seekable, file, path, at, data, STEP, NULL);
        if (!status)
            assert_memory_equal(data, content.data + at, STEP);
        bad += status == -EBADMSG;
    }
    assert_true(bad > 0 && bad <= 2 + FRAME_WRITER_FRAME_BYTES_MAX / STEP);
    free(data);
    seekable->ops->queue_close(queue);
    seekable->ops->file_close(file);
    str_deinit(&content);
    str_deinit(&stored);
}

/* Other tools end a file whose size is a multiple of their frames' with a frame without content. */
static void an_empty_last_frame_is_not_content(void **state)
{
    (void)state;
    char frame[100];
    struct str entries = {0}, file = {0};
    struct err err;
    for (int i = 0; i < 2; i++) {
        size_t bytes = i == 0 ? 5 : 0;
        size_t stored = ZSTD_compress(frame, sizeof frame, "hello", bytes, 1);
        assert_true(stored > SEEK_TABLE_HEADER_BYTES);
        str_add(&file, frame, stored);
        seek_table_add_frame(&entries, (uint32_t)stored, (uint32_t)bytes);
    }
    seek_table_encode(&entries, &file);
    const char *path = in_folder("empty-frame.zst");
    test_write_file(path, file.data, file.bytes);
    char *text;
    size_t bytes;
    assert_ok(io_read_file(seekable, path, 100, &text, &bytes, &err), &err);
    assert_int_equal(bytes, 5);
    assert_string_equal(text, "hello");
    free(text);
    str_deinit(&entries);
    str_deinit(&file);
}

/* As io.h says of a file that is truncated after it was opened. */
static void a_file_that_shrinks_reads_short_or_is_damaged(void **state)
{
    (void)state;
    struct str content = {0}, stored = {0};
    struct err err;
    struct io_queue *queue;
    write_frames(&content, &stored, 1);
    const char *paths[] = {in_folder("plain"), in_folder("shrinks.zst")};
    assert_ok(seekable->ops->queue_open(seekable, 1, &queue, &err), &err);
    for (int i = 0; i < 2; i++) {
        char *data = malloc(stored.bytes);
        test_write_file(paths[i], stored.data, stored.bytes);
        struct io_file *file = open_file(paths[i]);
        assert_int_equal(truncate(paths[i], 1000), 0);
        struct io_request request = {
            .kind = IO_READ, .file = file, .offset = 0, .data = data, .bytes = stored.bytes};
        assert_int_equal(io_run_request(queue, seekable, &request), i == 0 ? 1000 : -EBADMSG);
        seekable->ops->file_close(file);
        free(data);
    }
    seekable->ops->queue_close(queue);
    str_deinit(&content);
    str_deinit(&stored);
}

static void refused(const struct str *file, const char *what)
{
    struct io_file *opened;
    struct err err;
    const char *path = in_folder("bad.zst");
    test_write_file(path, file->data, file->bytes);
    assert_int_equal(seekable->ops->file_open(seekable, path, &opened, &err), -EBADMSG);
    assert_string_equal(err.what, what);
    assert_string_equal(err.path, path);
}

static void a_bad_seek_table_is_refused(void **state)
{
    (void)state;
    struct str content = {0}, good = {0}, bad = {0};
    write_frames(&content, &good, 1);
    size_t table = seek_table_bytes((uint8_t *)good.data + good.bytes - SEEK_TABLE_FOOTER_BYTES);
    assert_true(table > 0);
    str_add(&bad, good.data, good.bytes);
    bad.data[bad.bytes - table] ^= 1;
    refused(&bad, "the seek table does not begin where it should");
    str_clear(&bad);
    str_add(&bad, good.data + 1, good.bytes - 1); /* the file lost its first byte */
    refused(&bad, "the seek table does not match the file's size");
    str_clear(&bad);
    str_add(&bad, good.data, good.bytes);
    bytes_put_u32(bad.data + bad.bytes - table + SEEK_TABLE_HEADER_BYTES + 4, UINT32_MAX);
    refused(&bad, "a frame is too large to read parts of the file");
    str_deinit(&content);
    str_deinit(&good);
    str_deinit(&bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_read_like_the_content, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_bytes_do_not_depend_on_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_library_reads_the_frames, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_files_read_as_they_are, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_fails_only_what_needs_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_empty_last_frame_is_not_content, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_shrinks_reads_short_or_is_damaged, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_bad_seek_table_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("seekable", tests, NULL, NULL);
}
