/*
 * limits — tests that the statistics name the stage that limits a loader.
 *
 * Each stage is slowed down until the machine's other delays no longer hide it.
 */
#include "io/faults/io_fault.h"
#include "tests/loader/fixture.h"

#include <string.h>
#include <time.h>

enum { SAMPLES = 96, DOUBLINGS = 10 };

struct read_holder {
    struct io *io;
    int lines_left;
};

/* Called for each line; a wait logs one line per millisecond. */
static void release_at_end(void *context, enum log_level level, const char *line)
{
    struct read_holder *holder = context;
    (void)level;
    (void)line;
    if (holder->lines_left-- == 0)
        io_fault_release(holder->io);
}

static struct loader_stats read_held(const struct fixture *fixture, int lines)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    struct read_holder holder = {.lines_left = lines};
    struct delivery delivered;
    struct loader_stats stats;
    struct err err;
    const char *rules = "read:hold@2+:shard-000000";
    assert_ok(io_fault_open(fixture->folder, NULL, rules, &holder.io, &err), &err);
    struct log log = {.write = release_at_end, .context = &holder};
    options.io = holder.io;
    options.log = &log;
    options.stall_report_ns = 1000000;
    consume_all(&options, &delivered, &stats, NULL);
    delivery_free(&delivered);
    io_close(holder.io);
    return stats;
}

static void slow_reads_are_reported_as_the_limit(void **state)
{
    (void)state;
    struct fixture fixture;
    struct loader_stats stats;
    fixture_make_default_images(&fixture, SAMPLES);
    for (int i = 0; i < DOUBLINGS; i++) {
        stats = read_held(&fixture, 16 << i);
        if (stats.limit == LOADER_STAGE_READ)
            break;
    }
    assert_int_equal(stats.limit, LOADER_STAGE_READ);
    assert_true(stats.stage_ns[LOADER_STAGE_READ] <= stats.wait_ns);
    fixture_remove(&fixture);
}

static void one_busy_worker_is_reported_as_the_limit(void **state)
{
    (void)state;
    struct fixture fixture;
    struct loader_stats stats;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    options.workers = 1;
    options.image.width = options.image.height = 448;
    options.memory_bytes = 256 << 20;
    for (uint32_t i = 0; i < DOUBLINGS; i++) {
        struct delivery delivered;
        options.epochs_max = (uint64_t)1 << i;
        consume_all(&options, &delivered, &stats, NULL);
        delivery_free(&delivered);
        if (stats.limit == LOADER_STAGE_DECODE)
            break;
    }
    assert_int_equal(stats.limit, LOADER_STAGE_DECODE);
    assert_true(stats.stage_ns[LOADER_STAGE_DECODE] <= stats.wait_ns);
    fixture_remove(&fixture);
}

static void a_slow_consumer_is_reported_as_the_limit(void **state)
{
    (void)state;
    struct fixture fixture;
    struct loader *loader;
    const struct batch *batch;
    struct loader_stats stats;
    struct err err;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    options.epochs_max = 0;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        stats = loader_stats(loader);
    } while (stats.stage_ns[LOADER_STAGE_CONSUMER] == 0 || stats.limit != LOADER_STAGE_CONSUMER);
    loader_release(loader, batch);
    loader_close(loader);
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_reads_are_reported_as_the_limit),
        cmocka_unit_test(one_busy_worker_is_reported_as_the_limit),
        cmocka_unit_test(a_slow_consumer_is_reported_as_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
