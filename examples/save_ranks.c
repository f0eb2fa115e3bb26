/*
 * save_ranks — ranks under mpirun save an array collectively. Each rank holds some of its rows. A
 * later run continues with any number of ranks.
 *
 *     cc save_ranks.c $(pkg-config --cflags --libs millrace_mpi) -o save_ranks
 *     mpirun -n 4 ./save_ranks FOLDER
 *
 * A ring of rows rotates: each step moves every row to the position of the next one. Each rank
 * holds a band of rows and sends its last row to the next rank. Every fifth step is saved to
 * FOLDER. When run again, with at most one rank per row, it continues where the last run stopped.
 */
#include <millrace/ckpt.h>
#include <millrace/comm_mpi.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 120,
    COLUMNS = 32,
    STEPS = 10,
    SAVE_EVERY = 5,
    ROW_BYTES = COLUMNS * (int)sizeof(float)
};

/* This rank's part of the ring: rows first..first + count - 1. */
struct band {
    uint64_t first, count;
    float rows[ROWS][COLUMNS];
    /* Message buffers; in the struct because they may be accessed even after a failure. */
    float leaving[COLUMNS], coming[COLUMNS];
};

static struct ckpt_tensor make_tensor(struct band *band)
{
    return (struct ckpt_tensor){.name = "ring",
                                .dtype = DTYPE_F32,
                                .rank = 2,
                                .shape = {ROWS, COLUMNS},
                                .start = {band->first, 0},
                                .extent = {band->count, COLUMNS},
                                .data = band->rows};
}

/* Sends the last row to the next rank, and inserts the row from the previous rank in front. */
static int rotate(struct comm *comm, struct band *band, struct err *err)
{
    int next = (comm->rank + 1) % comm->ranks,
        previous = (comm->rank + comm->ranks - 1) % comm->ranks;
    struct comm_work sent, received;
    struct comm_options options = {.purpose = "a row of the ring"};
    memcpy(band->leaving, band->rows[band->count - 1], ROW_BYTES);
    int status = comm->ops->send(comm, band->leaving, ROW_BYTES, next, 0, &options, &sent, err);
    if (status)
        return status;
    status =
        comm->ops->receive(comm, band->coming, ROW_BYTES, previous, 0, &options, &received, err);
    if (!status)
        status = comm_wait(comm, &received, err);
    /* `sent` is in use until this returns */
    int sent_status = comm_wait(comm, &sent, status ? NULL : err);
    if (status || sent_status)
        return status ? status : sent_status;
    memmove(band->rows[1], band->rows[0], (size_t)(band->count - 1) * ROW_BYTES);
    memcpy(band->rows[0], band->coming, ROW_BYTES);
    return 0;
}

/* Loads the newest checkpoint, or creates the initial ring. Each rank reads only its rows. */
static int load_or_create(struct io *io, const char *folder, struct band *band, uint64_t *ret_step,
                          struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct ckpt_reader *reader;
    struct ckpt_tensor tensor = make_tensor(band);
    *ret_step = 0;
    int status = ckpt_find(io, folder, path, ret_step, NULL, err);
    if (status == -ENOENT) {
        for (uint64_t i = 0; i < band->count; i++)
            for (int j = 0; j < COLUMNS; j++)
                band->rows[i][j] = (float)(band->first + i);
        return 0;
    }
    if (!status)
        status = ckpt_reader_open(io, path, &reader, err);
    if (!status) {
        status = ckpt_reader_load(reader, &tensor, 1, NULL, err);
        ckpt_reader_close(reader);
    }
    return status;
}

static int compute(struct comm *comm, struct io *io, const char *folder, struct band *band,
                   uint64_t step, struct err *err)
{
    struct ckpt_tensor tensor = make_tensor(band);
    struct ckpt_saver *saver;
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = io,
                                         .comm = comm,
                                         .groups_count = 1,
                                         .run_id = "ring",
                                         .numerics_id = "ring-1"};
    int status = ckpt_saver_open(&options, &tensor, 1, &saver, err);
    if (status)
        return status;
    for (uint64_t end = step + STEPS; !status && step < end;) {
        ckpt_saver_before_update(saver, 0);
        status = rotate(comm, band, err);
        if (!status && ++step % SAVE_EVERY == 0)
            status = ckpt_saver_save(saver, step, "{\"loader\":{}}", err);
    }
    if (!status)
        status = ckpt_saver_wait(saver, err);
    ckpt_saver_close(saver);
    return status;
}

/* After `step` steps, row i has the initial content of row i - step (modulo ROWS). */
static int check(const struct band *band, uint64_t step, struct err *err)
{
    for (uint64_t i = 0; i < band->count; i++)
        if (band->rows[i][0] != (float)((band->first + i + ROWS - step % ROWS) % ROWS))
            return err_set(err, -EIO, "row %" PRIu64 " has the wrong content", band->first + i);
    return 0;
}

static int run(struct comm *comm, const char *folder, struct err *err)
{
    static struct band band;
    struct io *io = NULL;
    uint64_t step = 0, rank = (uint64_t)comm->rank, ranks = (uint64_t)comm->ranks;
    struct comm_options options = {.purpose = "beginning"};
    if (ranks > ROWS)
        return err_set(err, -EINVAL, "%" PRIu64 " ranks are more than the %d rows of the ring",
                       ranks, ROWS);
    band.first = rank * ROWS / ranks;
    band.count = (rank + 1) * ROWS / ranks - band.first;
    int status = io_open(folder, NULL, &io, err);
    if (!status)
        status = load_or_create(io, folder, &band, &step, err);
    status = comm_agree(comm, status, &options, err);
    if (!status && rank == 0)
        printf("%" PRIu64 " ranks continue from step %" PRIu64 "\n", ranks, step);
    if (!status)
        status = compute(comm, io, folder, &band, step, err);
    if (!status)
        status = comm_agree(comm, check(&band, step + STEPS, err), &options, err);
    if (!status && rank == 0)
        printf("step %" PRIu64 " is saved\n", step + STEPS);
    io_close(io);
    return status;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct comm *comm = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: mpirun -n RANKS save_ranks FOLDER\n");
        return 2;
    }
    int status = comm_mpi_open(NULL, &comm, &err);
    if (!status)
        status = run(comm, argv[1], &err);
    if (status) {
        char line[ERR_LINE_BYTES_MAX];
        fprintf(stderr, "save_ranks: %s\n", err_format(&err, line, sizeof line));
    }
    comm_close(comm);
    return status ? 1 : 0;
}
