/*
 * ranks — measures saving and loading a row-sharded state with any numbers of ranks, for
 * bench/ckpt/run.
 *
 *     mpirun -n 4 build/release/bench-ckpt-ranks save FOLDER MIB STEP
 *     mpirun -n 3 build/release/bench-ckpt-ranks load FOLDER MIB STEP      with a cold page cache
 *
 * 16 matrices of F32 with rows of 3 KiB, MIB in total. A rank's memory has the layout of its file,
 * so a load by the same number of ranks reads directly into the target. Rank 0 prints a line of
 * JSON: the time from the start of all ranks to the end of the last one.
 */
#include "base/clock.h"
#include "ckpt/format/folder.h"
#include "cli/bench/bench_ckpt.h"
#include "comm/comm_mpi.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 16, COLUMNS = 768 };

/* This rank's part: rows [first, first + count) of each matrix. */
struct shard {
    struct ckpt_tensor tensors[ARRAYS];
    char names[ARRAYS][16];
    uint64_t rows, first, count;
    struct device *device;
    uint32_t *memory;
};

static uint64_t count_elements(const struct shard *shard)
{
    return ARRAYS * shard->count * COLUMNS;
}

static int shard_init(struct shard *shard, const struct comm *comm, uint64_t mib, struct err *err)
{
    uint64_t rank = (uint64_t)comm->rank, ranks = (uint64_t)comm->ranks;
    shard->rows = (mib << 20) / ARRAYS / (COLUMNS * sizeof(float));
    shard->first = rank * shard->rows / ranks;
    shard->count = (rank + 1) * shard->rows / ranks - shard->first;
    int status = device_open("cpu", &shard->device, err);
    if (!status)
        status = shard->device->ops->mem_alloc(shard->device, MEM_HUGE,
                                               count_elements(shard) * sizeof(float),
                                               (void **)&shard->memory, err);
    for (uint32_t i = 0; i < ARRAYS && !status; i++) {
        snprintf(shard->names[i], sizeof shard->names[i], "matrix.%02u", i);
        shard->tensors[i] =
            (struct ckpt_tensor){.name = shard->names[i],
                                 .dtype = DTYPE_F32,
                                 .rank = 2,
                                 .shape = {shard->rows, COLUMNS},
                                 .start = {shard->first, 0},
                                 .extent = {shard->count, COLUMNS},
                                 .group = i,
                                 .data = shard->memory + i * shard->count * COLUMNS};
    }
    return status;
}

static void shard_deinit(struct shard *shard)
{
    if (shard->memory)
        shard->device->ops->mem_free(shard->device, MEM_HUGE, shard->memory,
                                     count_elements(shard) * sizeof(float));
    device_close(shard->device);
}

/* Returns the value of an element. It does not depend on the rank. */
static uint32_t expected_value(const struct shard *shard, uint64_t i)
{
    uint64_t matrix = i / (shard->count * COLUMNS), within = i % (shard->count * COLUMNS);
    return (uint32_t)(((matrix * shard->rows + shard->first) * COLUMNS + within) * 2654435761u);
}

static int save(struct shard *shard, struct comm *comm, struct io *io, const char *folder,
                uint64_t step, struct err *err)
{
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = io,
                                         .comm = comm,
                                         .groups_count = ARRAYS,
                                         .run_id = "bench",
                                         .numerics_id = "bench"};
    struct ckpt_saver *saver = NULL;
    for (uint64_t i = 0; i < count_elements(shard); i++)
        shard->memory[i] = expected_value(shard, i);
    int status = ckpt_saver_open(&options, shard->tensors, ARRAYS, &saver, err);
    if (!status)
        status = ckpt_saver_save(saver, step, "{}", err);
    if (!status)
        status = ckpt_saver_wait(saver, err);
    ckpt_saver_close(saver);
    return status;
}

static int load(struct shard *shard, struct comm *comm, struct io *io, const char *folder,
                uint64_t step, struct io_benchmark *speed, struct err *err)
{
    struct comm_options options = {.purpose = "the ranks of the benchmark"};
    struct ckpt_reader *reader = NULL;
    char path[IO_PATH_BYTES_MAX];
    /* faults the pages in before the measurement */
    memset(shard->memory, 0xFF, count_elements(shard) * sizeof(float));
    int status = folder_step_path(folder, step, path, err);
    if (!status && comm->rank == 0)
        status = bench_ckpt_drop_cache(io, path, err);
    status = comm_agree(comm, status, &options, err);
    if (status)
        return status;
    io_benchmark_begin(speed);
    status = ckpt_reader_open(io, path, &reader, err);
    if (!status)
        status = ckpt_reader_load(reader, shard->tensors, ARRAYS, NULL, err);
    ckpt_reader_close(reader);
    status = comm_agree(comm, status, &options, err);
    io_benchmark_end(speed);
    for (uint64_t i = 0; i < count_elements(shard) && !status; i++)
        if (shard->memory[i] != expected_value(shard, i))
            status = err_set(err, -EIO, "element %" PRIu64 " differs from the saved value", i);
    return comm_agree(comm, status, &options, err);
}

static int run(struct comm *comm, char **arguments, struct err *err)
{
    struct shard shard = {0};
    struct io *io = NULL;
    struct io_benchmark speed = {0};
    const char *folder = arguments[1];
    uint64_t step = strtoull(arguments[3], NULL, 10);
    int status = io_open(folder, NULL, &io, err);
    if (!status)
        status = shard_init(&shard, comm, strtoull(arguments[2], NULL, 10), err);
    if (!status && strcmp(arguments[0], "save") == 0)
        status = save(&shard, comm, io, folder, step, err);
    else if (!status)
        status = load(&shard, comm, io, folder, step, &speed, err);
    if (!status && comm->rank == 0)
        printf("{\"ranks\":%d,\"elapsed_seconds\":%.6f,\"cpu_seconds_of_first\":%.6f}\n",
               comm->ranks, clock_seconds(speed.elapsed_ns), clock_seconds(speed.cpu_ns));
    shard_deinit(&shard);
    io_close(io);
    return status;
}

int main(int count, char **arguments)
{
    struct comm *comm = NULL;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    if (count != 5) {
        fprintf(stderr, "usage: mpirun -n N bench-ckpt-ranks save|load FOLDER MIB STEP\n");
        return 2;
    }
    int status = comm_mpi_open(NULL, &comm, &err);
    if (!status)
        status = run(comm, arguments + 1, &err);
    if (status)
        fprintf(stderr, "bench-ckpt-ranks: %s\n", err_format(&err, line, sizeof line));
    comm_close(comm);
    return status != 0;
}
