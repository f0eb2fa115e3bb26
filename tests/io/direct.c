/*
 * direct — tests which requests bypass the page cache, and that such reads and writes transfer the
 * same bytes for any alignment.
 */
#include "cli/doctor/io_probe.h"
#include "io/file_util.h"
#include "tests/support/engines.h"
#include "tests/support/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILE_BYTES = (1 << 20) + 12345, MEMORY_BYTES = 256 << 10, CANARY = 0xC5 };

static unsigned char *content, *memory;
static bool rejects_direct; /* simulates a file system without O_DIRECT */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (rejects_direct && flags & O_DIRECT) {
        errno = EINVAL;
        return -1;
    }
    return __real_open64(path, flags, mode);
}

static int set_up(void **state)
{
    scratch_set_up(state);
    content = malloc(FILE_BYTES);
    memory = aligned_alloc(IO_ALIGN_BYTES, MEMORY_BYTES);
    assert_true(content && memory);
    for (size_t i = 0; i < FILE_BYTES; i++)
        content[i] = (unsigned char)(i * 2654435761u >> 11);
    test_write_file(in_folder("data"), content, FILE_BYTES);
    return 0;
}

static int tear_down(void **state)
{
    rejects_direct = false;
    free(content);
    free(memory);
    return scratch_tear_down(state);
}

static void skip_without_direct(void)
{
    struct io_probe probe;
    struct err err = {0};
    assert_ok(io_probe_folder(folder, false, &probe, &err), &err);
    if (probe.direct_status || probe.direct_offset_align_bytes > IO_ALIGN_BYTES)
        test_skip("this file system does not support O_DIRECT in 4 KiB blocks");
}

/* The number of cached pages of the file; skips if the kernel cannot report it. */
static uint64_t count_cached_pages(const char *path)
{
    uint64_t whole[2] = {0}, pages[5] = {0};
    int fd = open(path, O_RDONLY);
    long status = syscall(451 /* cachestat */, fd, whole, pages, 0);
    close(fd);
    if (status)
        test_skip("cachestat needs Linux 6.5");
    return pages[0];
}

static void drop_page_cache(const char *path)
{
    int fd = open(path, O_RDONLY);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
}

/* The number of this process's descriptors opened with O_DIRECT. */
static unsigned count_direct_descriptors(void)
{
    unsigned count = 0;
    DIR *listing = opendir("/proc/self/fdinfo");
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        char path[300];
        unsigned flags = 0;
        snprintf(path, sizeof path, "/proc/self/fdinfo/%s", entry->d_name);
        FILE *info = fopen(path, "r");
        if (!info)
            continue;
        if (fscanf(info, "pos: %*d flags: %o", &flags) == 1)
            count += (flags & O_DIRECT) != 0;
        fclose(info);
    }
    closedir(listing);
    return count;
}

struct reader {
    struct io *io;
    struct io_queue *queue;
    struct io_file *file;
};

static struct reader open_reader(enum io_cache cache)
{
    struct reader reader;
    struct err err = {0};
    struct io_options options = engines_options();
    options.cache = cache;
    assert_ok(io_open(folder, &options, &reader.io, &err), &err);
    assert_ok(reader.io->ops->file_open(reader.io, in_folder("data"), &reader.file, &err), &err);
    assert_ok(reader.io->ops->queue_open(reader.io, 8, &reader.queue, &err), &err);
    return reader;
}

static void close_reader(struct reader *reader)
{
    reader->io->ops->queue_close(reader->queue);
    reader->io->ops->file_close(reader->file);
    io_close(reader->io);
}

/* Reads into memory + place and checks the result. Nothing else may be written, except the
 * surrounding blocks if the flags permit it. */
static void expect_read(struct reader *reader, uint64_t offset, size_t bytes, size_t place,
                        unsigned flags)
{
    struct io_request request = {.kind = IO_READ,
                                 .file = reader->file,
                                 .offset = offset,
                                 .data = memory + place,
                                 .bytes = bytes,
                                 .flags = flags};
    struct io_request *done;
    size_t left = offset < FILE_BYTES ? FILE_BYTES - (size_t)offset : 0,
           expected = bytes < left ? bytes : left;
    size_t begin = place, end = place + bytes;
    if (flags & IO_PADDED) {
        begin = begin / IO_ALIGN_BYTES * IO_ALIGN_BYTES;
        end = (end + IO_ALIGN_BYTES - 1) / IO_ALIGN_BYTES * IO_ALIGN_BYTES;
    }
    memset(memory, CANARY, MEMORY_BYTES);
    assert_int_equal(reader->io->ops->submit(reader->queue, (struct io_request *[]){&request}, 1),
                     1);
    assert_int_equal(reader->io->ops->reap(reader->queue, &done, 1, 1, IO_FOREVER), 1);
    if (request.result != (ssize_t)expected)
        fail_msg("%zu bytes at %llu: %zd instead of %zu", bytes, (unsigned long long)offset,
                 request.result, expected);
    if (expected)
        assert_memory_equal(memory + place, content + offset, expected);
    for (size_t i = 0; i < MEMORY_BYTES; i++)
        if ((i < begin || i >= end) && memory[i] != CANARY)
            fail_msg("%zu bytes at %llu: byte %zu of memory was overwritten", bytes,
                     (unsigned long long)offset, i);
}

static void expect_reads(struct reader *reader, unsigned flags, bool same_place_in_block)
{
    unsigned seed = 7;
    print_message("seed %u\n", seed);
    for (int i = 0; i < 120; i++) {
        seed = seed * 1664525 + 1013904223;
        uint64_t offset = (seed >> 3) % (FILE_BYTES + 5000);
        size_t bytes = 1 + (seed >> 5) % (i % 2 ? 600 : 90000);
        size_t place = IO_ALIGN_BYTES + (same_place_in_block ? offset % IO_ALIGN_BYTES
                                                             : (seed >> 9) % IO_ALIGN_BYTES);
        expect_read(reader, offset, bytes, place, flags);
    }
    /* at the end of the file, and around block boundaries */
    for (size_t edge = 0; edge < 3; edge++) {
        uint64_t offset = FILE_BYTES - 4097 + edge;
        size_t place = IO_ALIGN_BYTES + (same_place_in_block ? offset % IO_ALIGN_BYTES : 1);
        expect_read(reader, offset, 4096, place, flags);
        expect_read(reader, edge * IO_ALIGN_BYTES, 2 * IO_ALIGN_BYTES, IO_ALIGN_BYTES, flags);
    }
}

static void unaligned_direct_reads_are_complete(void **state)
{
    (void)state;
    skip_without_direct();
    drop_page_cache(in_folder("data"));
    struct reader reader = open_reader(IO_CACHE_NONE);
    expect_reads(&reader, IO_PADDED, true);
    assert_int_equal(count_direct_descriptors(), 1);
    /* all reads except the one at the file's end bypassed the cache */
    assert_in_range(count_cached_pages(in_folder("data")), 0, 64);
    close_reader(&reader);
    assert_int_equal(count_direct_descriptors(), 0);
}

static void unpadded_requests_are_read_too(void **state)
{
    (void)state;
    struct reader reader = open_reader(IO_CACHE_NONE);
    expect_reads(&reader, IO_NOREUSE, false);
    close_reader(&reader);
}

static void noreuse_reads_bypass_the_page_cache(void **state)
{
    (void)state;
    skip_without_direct();
    drop_page_cache(in_folder("data"));
    struct reader reader = open_reader(IO_CACHE_AUTO);
    expect_read(&reader, 100, 50000, IO_ALIGN_BYTES + 100, IO_PADDED | IO_NOREUSE);
    assert_int_equal(count_direct_descriptors(), 1);
    assert_int_equal(count_cached_pages(in_folder("data")), 0);
    expect_read(&reader, 100, 50000, IO_ALIGN_BYTES + 100, IO_PADDED);
    assert_true(count_cached_pages(in_folder("data")) > 0);
    close_reader(&reader);
}

static void without_o_direct_read_pages_are_dropped(void **state)
{
    (void)state;
    drop_page_cache(in_folder("data"));
    if (count_cached_pages(in_folder("data")) > 0)
        test_skip("files exist only in the page cache here");
    rejects_direct = true;
    struct reader reader = open_reader(IO_CACHE_AUTO);
    expect_reads(&reader, IO_PADDED | IO_NOREUSE, true);
    assert_int_equal(count_direct_descriptors(), 0);
    assert_in_range(count_cached_pages(in_folder("data")), 0, 8);
    expect_read(&reader, 100, 50000, IO_ALIGN_BYTES + 100, IO_PADDED);
    assert_in_range(count_cached_pages(in_folder("data")), 50000 / sysconf(_SC_PAGESIZE),
                    FILE_BYTES);
    close_reader(&reader);
}

static void cached_data_is_read_from_the_page_cache(void **state)
{
    (void)state;
    count_cached_pages(in_folder("data"));
    free(test_read_file(in_folder("data"), &(size_t){0}));
    uint64_t pages = count_cached_pages(in_folder("data"));
    for (int i = 0; i < 2; i++) {
        rejects_direct = i > 0;
        struct reader reader = open_reader(IO_CACHE_AUTO);
        expect_reads(&reader, IO_PADDED | IO_NOREUSE, true);
        assert_int_equal(count_direct_descriptors(), 0);
        assert_int_equal(count_cached_pages(in_folder("data")), pages);
        close_reader(&reader);
    }
}

static void with_page_cache_enabled_no_read_bypasses_it(void **state)
{
    (void)state;
    drop_page_cache(in_folder("data"));
    struct reader reader = open_reader(IO_CACHE_ALL);
    expect_reads(&reader, IO_PADDED | IO_NOREUSE, true);
    assert_int_equal(count_direct_descriptors(), 0);
    close_reader(&reader);
}

static void noreuse_writes_are_complete(void **state)
{
    (void)state;
    skip_without_direct();
    struct err err = {0};
    struct io_transaction *transaction;
    struct io_file *file;
    struct io_queue *queue;
    struct io_transaction_options options = {.path = in_folder("out"), .single_file = true};
    const size_t first = 128 << 10, second = 100000;
    assert_ok(io->ops->queue_open(io, 2, &queue, &err), &err);
    assert_ok(io->transactions->begin(io, &options, &transaction, &err), &err);
    assert_ok(io->transactions->create(transaction, "", first + second, &file, &err), &err);
    memcpy(memory, content, first);
    struct io_request requests[2] = {
        {.kind = IO_WRITE, .file = file, .data = memory, .bytes = first, .flags = IO_NOREUSE},
        {.kind = IO_WRITE,
         .file = file,
         .offset = first,
         .data = content + first,
         .bytes = second,
         .flags = IO_NOREUSE},
    };
    struct io_request *done[2];
    assert_int_equal(io->ops->submit(queue, (struct io_request *[]){&requests[0], &requests[1]}, 2),
                     2);
    assert_int_equal(io->ops->reap(queue, done, 2, 2, IO_FOREVER), 2);
    assert_int_equal(requests[0].result, first);
    assert_int_equal(requests[1].result, second);
    assert_int_equal(count_direct_descriptors(), 1);
    io->ops->queue_close(queue);
    assert_ok(io->transactions->finalize(transaction, file, first + second, &err), &err);
    assert_int_equal(count_direct_descriptors(), 0);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    size_t bytes;
    unsigned char *written = test_read_file(in_folder("out"), &bytes);
    assert_int_equal(bytes, first + second);
    assert_memory_equal(written, content, bytes);
    free(written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unaligned_direct_reads_are_complete, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unpadded_requests_are_read_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(noreuse_reads_bypass_the_page_cache, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_o_direct_read_pages_are_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cached_data_is_read_from_the_page_cache, set_up, tear_down),
        cmocka_unit_test_setup_teardown(with_page_cache_enabled_no_read_bypasses_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(noreuse_writes_are_complete, set_up, tear_down),
    };
    return engines_run(tests);
}
