/*
 * ours — runs millrace's loader for bench/loaders/run, with the protocol of peers.py.
 *
 *     bench-loader-turns DATASET WORKERS MEMORY_MIB
 *
 * The task is the same as for the peers: random resized crops to 224 pixels, flips, shuffled
 * batches of 256, one epoch after another. After the first batch it prints a JSON line with its
 * version and the seconds from opening the loader to that batch. Then, for each line `WARMING
 * MEASURED` on stdin, it takes WARMING uncounted batches, then MEASURED counted ones, and prints a
 * line with the samples, seconds and CPU seconds of the counted ones. Both clocks are read in this
 * process, so the result excludes its start and other processes. It stops itself (SIGSTOP) after
 * each line. It exits at the end of stdin.
 */
#include "base/clock.h"
#include "cli/bench/io_benchmark.h"
#include "loader/loader.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIDE = 224, BATCH = 256, MEMORY_MIB_MAX = 1 << 20, WORKERS_MAX = 256 };

/* Takes batches_count batches and adds their samples to *samples_count. */
static int take_batches(struct loader *loader, uint64_t batches_count, uint64_t *samples_count,
                        struct err *err)
{
    const struct batch *batch;
    for (uint64_t i = 0; i < batches_count; i++) {
        int status = loader_next(loader, &batch, err);
        if (status != LOADER_BATCH)
            return status < 0 ? status : err_set(err, -ENODATA, "the loader ended");
        *samples_count += batch->items_count;
        loader_release(loader, batch);
    }
    return 0;
}

/* Flushes the output and stops the process until the next turn. */
static void end_turn(void)
{
    fflush(stdout);
    kill(0, SIGSTOP);
}

static int serve(struct loader *loader, struct err *err)
{
    struct loader_shape shape = loader_shape(loader);
    uint64_t samples_count = 0, warming_count, measured_count;
    int status = take_batches(loader, 1, &samples_count, err);
    if (status)
        return status;
    printf("{\"version\": \"%s, %s\", \"first_batch_seconds\": %.9f, \"read_workers\": %" PRIu32
           "}\n",
           MILLRACE_VERSION, shape.engine, clock_seconds(loader_stats(loader).first_batch_ns),
           shape.workers);
    end_turn();
    while (!status && scanf("%" SCNu64 " %" SCNu64, &warming_count, &measured_count) == 2) {
        struct io_benchmark speed = {0};
        status = take_batches(loader, warming_count, &samples_count, err);
        samples_count = 0;
        io_benchmark_begin(&speed);
        if (!status)
            status = take_batches(loader, measured_count, &samples_count, err);
        io_benchmark_end(&speed);
        if (status)
            break;
        printf("{\"samples\": %" PRIu64
               ", \"seconds\": %.9f, \"cpu_seconds\": %.9f, \"read_workers\": %" PRIu32
               ", \"limited_by\": \"%s\"}\n",
               samples_count, clock_seconds(speed.elapsed_ns), clock_seconds(speed.cpu_ns),
               shape.workers, loader_stage_name(loader_stats(loader).limit));
        end_turn();
    }
    return status;
}

/* Returns an integer from 1 to max, or 0 if text is invalid. */
static uint64_t parse_number(const char *text, uint64_t max)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && value <= max ? value : 0;
}

int main(int count, char **arguments)
{
    uint64_t workers = count == 4 ? parse_number(arguments[2], WORKERS_MAX) : 0;
    uint64_t memory_mib = count == 4 ? parse_number(arguments[3], MEMORY_MIB_MAX) : 0;
    if (!workers || !memory_mib) {
        fprintf(stderr, "usage: bench-loader-turns DATASET WORKERS MEMORY_MIB\n");
        return 2;
    }
    struct loader_options options = loader_options_default();
    struct err err = {0};
    struct loader *loader = NULL;
    char line[ERR_LINE_BYTES_MAX];
    options.dataset = arguments[1];
    options.batching = (struct batching){.global = BATCH, .micro = BATCH, .ranks = 1};
    options.decode = LOADER_IMAGE;
    options.image.width = options.image.height = SIDE;
    options.image.crop = crop_options_default(CROP_RANDOM);
    options.image.crop.flip = true;
    options.drop_last = true;
    options.workers = (unsigned)workers;
    options.memory_bytes = memory_mib << 20;
    int status = loader_open(&options, &loader, &err);
    if (!status)
        status = serve(loader, &err);
    loader_close(loader);
    if (status)
        fprintf(stderr, "bench-loader-turns: %s\n", err_format(&err, line, sizeof line));
    return status ? 1 : 0;
}
