/*
 * index_lock — when several processes open a tar without an index at the same time, one walks it
 * and the others wait for the cache entry.
 *
 * The processes are real. Each runs on a backend that detects its walk (reads of the tar beyond its
 * tail and beyond single header blocks) and its lookups of the entry, and reports them to the test
 * through a pipe.
 */
#include "base/bytes.h"
#include "shards/format/index_cache.h"
#include "shards/format/shard.h"
#include "shards/format/tar.h"
#include "tests/shards/fixture.h"
#include "tests/support/child.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAMPLES = 64, FOLLOWERS = 3, WAITER_LOOKUPS = 3, WALKED = 1, BAD = 2 };

/* ---- The backend of a process. ---- */

static const struct io_ops *real_ops;
static struct io_ops recording_ops;
static const char *entry; /* path of the cache entry */
static int events_fd, hold_fd;
static unsigned lookups_count, reads_count;
static bool has_notified;

static void notify(char what)
{
    if (!has_notified && write(events_fd, &what, 1) != 1)
        _exit(BAD);
    has_notified = true;
}

/* A waiting process looks up the entry repeatedly; a walking process looks it up at most twice. */
static int recording_open(struct io *io, const char *path, struct io_file **ret_file,
                          struct err *err)
{
    if (strcmp(path, entry) == 0 && ++lookups_count == WAITER_LOOKUPS)
        notify('l');
    return real_ops->file_open(io, path, ret_file, err);
}

/* The first read gets the tail; reads of a walk are longer than a block. */
static int recording_submit(struct io_queue *queue, struct io_request *const *requests,
                            unsigned count)
{
    char byte;
    if (count > 0 && requests[0]->kind == IO_READ && requests[0]->bytes > 512 &&
        ++reads_count == 2) {
        notify('w');
        if (hold_fd >= 0 && read(hold_fd, &byte, 1) != 1)
            _exit(BAD);
    }
    return real_ops->submit(queue, requests, count);
}

static pid_t start_indexer(const struct fixture *fixture, int event_pipe, int hold_pipe)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    struct io *io;
    struct shard *shard;
    events_fd = event_pipe;
    hold_fd = hold_pipe;
    if (io_open(fixture->path, NULL, &io, NULL))
        _exit(BAD);
    real_ops = io->ops;
    recording_ops = *real_ops;
    recording_ops.file_open = recording_open;
    recording_ops.submit = recording_submit;
    io->ops = &recording_ops;
    if (shard_open(io, fixture->path, &shard, NULL) || shard->trailer.samples != SAMPLES)
        _exit(BAD);
    /* the second read may be that of the entry */
    _exit(reads_count > 2 ? WALKED : 0);
}

/* ---- Cases. ---- */

static void write_tar(const struct fixture *fixture)
{
    struct str text = {0};
    struct err err;
    for (int i = 0; i < SAMPLES; i++) {
        char name[16];
        snprintf(name, sizeof name, "%02d.x", i);
        assert_ok(tar_add_header(&text, name, 3, &err), &err);
        str_add_text(&text, "abc");
        str_add_fill(&text, 0, 509);
    }
    str_add_fill(&text, 0, 1024);
    test_write_file(fixture->path, text.data, text.bytes);
    str_deinit(&text);
}

static int set_up(void **state)
{
    struct err err;
    char cache[TEST_PATH_BYTES_MAX];
    static char path[IO_PATH_BYTES_MAX];
    fixture_set_up(state, "a.tar");
    const struct fixture *fixture = *state;
    snprintf(cache, sizeof cache, "%.900s/cache", fixture->folder);
    setenv("XDG_CACHE_HOME", cache, 1);
    write_tar(fixture);
    assert_ok(index_cache_path(fixture->io, fixture->path, path, &err), &err);
    entry = path;
    return 0;
}

/* Starts a process that is held in its walk, and then others that wait for it. */
static pid_t start_all(const struct fixture *fixture, int events[2], int held[2],
                       pid_t followers[FOLLOWERS])
{
    char byte;
    assert_int_equal(pipe(events), 0);
    assert_int_equal(pipe(held), 0);
    pid_t first = start_indexer(fixture, events[1], held[0]);
    assert_int_equal(read(events[0], &byte, 1), 1);
    assert_int_equal(byte, 'w');
    for (int i = 0; i < FOLLOWERS; i++)
        followers[i] = start_indexer(fixture, events[1], -1);
    for (int i = 0; i < FOLLOWERS; i++) {
        assert_int_equal(read(events[0], &byte, 1), 1);
        assert_int_equal(byte, 'l'); /* 'w' would be a concurrent walk */
    }
    return first;
}

static int count_walks(const pid_t followers[FOLLOWERS])
{
    int walks = 0;
    for (int i = 0; i < FOLLOWERS; i++) {
        int status = child_wait(followers[i]);
        assert_in_range(status, 0, WALKED);
        walks += status;
    }
    return walks;
}

static void close_all(int events[2], int held[2])
{
    for (int i = 0; i < 2; i++) {
        close(events[i]);
        close(held[i]);
    }
}

static void one_process_indexes_a_tar_while_others_wait(void **state)
{
    const struct fixture *fixture = *state;
    int events[2], held[2];
    pid_t followers[FOLLOWERS], first = start_all(fixture, events, held, followers);
    assert_int_equal(write(held[1], "g", 1), 1);
    assert_int_equal(child_wait(first), WALKED);
    assert_int_equal(count_walks(followers), 0);
    close_all(events, held);
}

static void another_process_takes_over_if_the_indexing_one_dies(void **state)
{
    const struct fixture *fixture = *state;
    int events[2], held[2];
    pid_t followers[FOLLOWERS], first = start_all(fixture, events, held, followers);
    child_kill(first);
    assert_int_equal(count_walks(followers), 1);
    close_all(events, held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_process_indexes_a_tar_while_others_wait, set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(another_process_takes_over_if_the_indexing_one_dies, set_up,
                                        fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
