#include "cli/bench/bench_ckpt.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc.h"
#include "ckpt/format/folder.h"
#include "ckpt/format/manifest.h"
#include "ckpt/load/reader.h"
#include "io/file_util.h"
#include "io/local/page_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t state_bytes(const struct bench_ckpt_state *state)
{
    return state->options.arrays_count * state->options.array_bytes;
}

static void fill_pseudorandom(void *memory, uint64_t bytes)
{
    uint64_t value = 1;
    for (uint64_t i = 0; i + sizeof value <= bytes; i += sizeof value) {
        value ^= value << 13, value ^= value >> 7, value ^= value << 17;
        memcpy((char *)memory + i, &value, sizeof value);
    }
}

int bench_ckpt_open(const struct bench_ckpt_options *options, struct bench_ckpt_state *ret_state,
                    struct err *err)
{
    uint64_t count = options->arrays_count, bytes = options->array_bytes;
    struct bench_ckpt_state state = {.options = *options};
    state.tensors = calloc(count + 1, sizeof *state.tensors);
    state.names = calloc(count + 1, sizeof *state.names);
    int status = state.tensors && state.names
                     ? device_open("cpu", &state.device, err)
                     : err_set(err, -ENOMEM, "out of memory for %" PRIu64 " arrays", count);
    if (!status)
        status =
            state.device->ops->mem_alloc(state.device, MEM_HUGE, count * bytes, &state.memory, err);
    if (status) {
        bench_ckpt_close(&state);
        return status;
    }
    fill_pseudorandom(state.memory, count * bytes);
    for (uint64_t i = 0; i < count; i++) {
        snprintf(state.names[i], sizeof state.names[i], "array.%06u", (unsigned)(i % 1000000));
        uint64_t elements = bytes / dtype_bytes(DTYPE_F32);
        state.tensors[i] = (struct ckpt_tensor){.name = state.names[i],
                                                .dtype = DTYPE_F32,
                                                .rank = 1,
                                                .shape = {elements},
                                                .extent = {elements},
                                                .group = (uint32_t)i,
                                                .data = (char *)state.memory + i * bytes};
    }
    *ret_state = state;
    return 0;
}

void bench_ckpt_close(struct bench_ckpt_state *state)
{
    free(state->tensors);
    free(state->names);
    if (state->memory)
        state->device->ops->mem_free(state->device, MEM_HUGE, state->memory, state_bytes(state));
    device_close(state->device);
    *state = (struct bench_ckpt_state){0};
}

static int open_saver(const struct bench_ckpt_state *state, struct ckpt_saver **ret_saver,
                      struct err *err)
{
    struct ckpt_saver_options options = {.folder = state->options.folder,
                                         .io = state->options.io,
                                         .groups_count = (uint32_t)state->options.arrays_count,
                                         .staging_bytes = state->options.staging_bytes,
                                         .numerics_id = "bench"};
    return ckpt_saver_open(&options, state->tensors, state->options.arrays_count, ret_saver, err);
}

int bench_ckpt_save(const struct bench_ckpt_state *state, uint64_t step,
                    struct io_benchmark *totals, struct err *err)
{
    struct ckpt_saver *saver = NULL;
    int status = open_saver(state, &saver, err);
    if (status)
        return status;
    io_benchmark_begin(totals);
    status = ckpt_saver_save(saver, step, "{}", err);
    if (!status)
        status = ckpt_saver_wait(saver, err);
    io_benchmark_end(totals);
    totals->bytes += state_bytes(state);
    totals->operations_count += state->options.arrays_count;
    ckpt_saver_close(saver);
    return status;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec left = clock_timespec(ns);
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

static int save_and_update(const struct bench_ckpt_state *state, struct ckpt_saver *saver,
                           uint64_t step, uint64_t update_delay_ns,
                           struct bench_ckpt_async_cost *ret_cost, struct err *err)
{
    struct bench_ckpt_async_cost cost = {0};
    uint64_t copied_before = ckpt_saver_stats(saver).copied_bytes;
    sleep_ns(update_delay_ns); /* simulates the previous training step */
    uint64_t begun_ns = clock_now_ns();
    int status = ckpt_saver_save(saver, step, "{}", err);
    cost.call_ns = clock_now_ns() - begun_ns;
    sleep_ns(update_delay_ns);
    begun_ns = clock_now_ns();
    for (uint64_t i = 0; i < state->options.arrays_count && !status; i++)
        ckpt_saver_before_update(saver, (uint32_t)i);
    cost.updates_ns = clock_now_ns() - begun_ns;
    if (!status)
        status = ckpt_saver_wait(saver, err);
    struct ckpt_saver_stats stats = ckpt_saver_stats(saver);
    cost.copied_bytes = stats.copied_bytes - copied_before;
    cost.save_ns = stats.last_save_ns;
    if (!status)
        *ret_cost = cost;
    return status;
}

int bench_ckpt_save_async(const struct bench_ckpt_state *state, uint64_t step,
                          uint64_t update_delay_ns,
                          struct bench_ckpt_async_cost ret_costs[BENCH_CKPT_SAVES_COUNT],
                          struct err *err)
{
    struct ckpt_saver *saver = NULL;
    int status = open_saver(state, &saver, err);
    for (unsigned i = 0; i < BENCH_CKPT_SAVES_COUNT && !status; i++)
        status = save_and_update(state, saver, step + i, update_delay_ns, &ret_costs[i], err);
    ckpt_saver_close(saver);
    return status;
}

int bench_ckpt_drop_cache(struct io *io, const char *path, struct err *err)
{
    struct ckpt_reader *reader;
    char file[IO_PATH_BYTES_MAX];
    int status = ckpt_reader_open(io, path, &reader, err);
    if (status)
        return status;
    const struct manifest *manifest = ckpt_reader_manifest(reader);
    for (uint64_t i = 0; i < manifest->files_count && !status; i++) {
        status = io_join_path(path, manifest->files[i].name, file, err);
        if (!status)
            status = page_cache_drop(file, err);
    }
    ckpt_reader_close(reader);
    if (!status)
        status = io_join_path(path, MANIFEST_NAME, file, err);
    return status ? status : page_cache_drop(file, err);
}

int bench_ckpt_load(const struct bench_ckpt_state *state, uint64_t step,
                    struct io_benchmark *totals, struct err *err)
{
    struct io *io = state->options.io;
    struct ckpt_reader *reader = NULL;
    char path[IO_PATH_BYTES_MAX];
    int status = folder_step_path(state->options.folder, step, path, err);
    if (!status)
        status = bench_ckpt_drop_cache(io, path, err);
    if (status)
        return status;
    io_benchmark_begin(totals);
    status = ckpt_reader_open(io, path, &reader, err);
    if (!status)
        status = ckpt_reader_load(reader, state->tensors, state->options.arrays_count, NULL, err);
    ckpt_reader_close(reader);
    io_benchmark_end(totals);
    totals->bytes += state_bytes(state);
    totals->operations_count += state->options.arrays_count;
    return status;
}

uint32_t bench_ckpt_checksum(const struct bench_ckpt_state *state, struct io_benchmark *totals)
{
    uint64_t bytes = state_bytes(state);
    uint32_t combined = 0;
    io_benchmark_begin(totals);
    for (uint64_t at = 0; at < bytes; at += CKPT_BLOCK_BYTES)
        combined ^=
            crc32c(0, (const char *)state->memory + at, bytes_min(CKPT_BLOCK_BYTES, bytes - at));
    io_benchmark_end(totals);
    totals->bytes += bytes;
    totals->operations_count++;
    return combined;
}
