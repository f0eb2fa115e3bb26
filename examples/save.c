/*
 * save — saves the arrays of a program other than a trainer while it computes, and loads them in a
 * different layout.
 *
 *     cc save.c $(pkg-config --cflags --libs millrace) -o save
 *     ./save FOLDER [PARTS]
 *
 * It simulates heat flow in a plate, saves every tenth step to FOLDER, and then loads the newest
 * checkpoint as PARTS bands of rows, each separately, as that many ranks would. When run again, it
 * continues where the last run stopped.
 */
#include <millrace/ckpt.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 96, COLUMNS = 64, STEPS = 30, SAVE_EVERY = 10, PARTS_MAX = ROWS };
enum { GROUP_PLATE, GROUPS };

static void spread_heat(float plate[ROWS][COLUMNS])
{
    static float next[ROWS][COLUMNS];
    memcpy(next, plate, sizeof next);
    for (int i = 1; i < ROWS - 1; i++) {
        for (int j = 1; j < COLUMNS - 1; j++)
            next[i][j] =
                (plate[i - 1][j] + plate[i + 1][j] + plate[i][j - 1] + plate[i][j + 1]) / 4;
    }
    memcpy(plate, next, sizeof next);
}

/* Rows first..first+count-1 of the plate, whose full shape is ROWS x COLUMNS. */
static struct ckpt_tensor band(float *data, uint64_t first, uint64_t count)
{
    return (struct ckpt_tensor){.name = "plate",
                                .dtype = DTYPE_F32,
                                .rank = 2,
                                .shape = {ROWS, COLUMNS},
                                .start = {first, 0},
                                .extent = {count, COLUMNS},
                                .group = GROUP_PLATE,
                                .data = data};
}

/* Computes steps first+1..last, and saves after every tenth step. */
static int compute(struct io *io, const char *folder, float plate[ROWS][COLUMNS], uint64_t first,
                   uint64_t last, struct err *err)
{
    struct ckpt_tensor tensor = band(&plate[0][0], 0, ROWS);
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = io,
                                         .groups_count = GROUPS,
                                         .run_id = "heat",
                                         .numerics_id = "heat-1"};
    struct ckpt_saver *saver;
    int status = ckpt_saver_open(&options, &tensor, 1, &saver, err);
    if (status)
        return status;
    for (uint64_t step = first + 1; !status && step <= last; step++) {
        /* copies the data that is not yet written */
        ckpt_saver_before_update(saver, GROUP_PLATE);
        spread_heat(plate);
        if (step % SAVE_EVERY == 0)
            status = ckpt_saver_save(saver, step, "{\"loader\":{}}", err);
    }
    if (!status)
        status = ckpt_saver_wait(saver, err);
    ckpt_saver_close(saver);
    return status;
}

/* Loads the newest checkpoint into plate as `parts` bands, each separately. -ENOENT: there is no
 * checkpoint. */
static int load(struct io *io, const char *folder, uint64_t parts, float plate[ROWS][COLUMNS],
                uint64_t *ret_step, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct ckpt_reader *reader;
    int status = ckpt_find(io, folder, path, ret_step, NULL, err);
    for (uint64_t part = 0; !status && part < parts; part++) {
        uint64_t first = part * ROWS / parts, end = (part + 1) * ROWS / parts;
        struct ckpt_tensor wanted = band(plate[first], first, end - first);
        status = ckpt_reader_open(io, path, &reader, err);
        if (!status) {
            status = ckpt_reader_load(reader, &wanted, 1, NULL, err);
            ckpt_reader_close(reader);
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    static float plate[ROWS][COLUMNS], loaded[ROWS][COLUMNS];
    uint64_t parts = argc > 2 ? strtoul(argv[2], NULL, 10) : 3, step = 0;
    if (argc < 2 || argc > 3 || parts < 1 || parts > PARTS_MAX) {
        fprintf(stderr, "usage: save FOLDER [PARTS, 1 to %d]\n", PARTS_MAX);
        return 2;
    }
    const char *folder = argv[1];
    struct err err = {0};
    struct io *io = NULL;
    int status = io_open(folder, NULL, &io, &err);
    if (status)
        goto out;
    status = load(io, folder, 1, plate, &step, &err);
    if (!status) {
        printf("continuing from step %" PRIu64 "\n", step);
    } else if (status == -ENOENT) {
        for (int j = 0; j < COLUMNS; j++)
            plate[0][j] = 100;
    } else {
        goto out;
    }
    status = compute(io, folder, plate, step, step + STEPS, &err);
    if (!status)
        status = load(io, folder, parts, loaded, &step, &err);
    if (!status) {
        bool same = memcmp(plate, loaded, sizeof plate) == 0;
        printf("step %" PRIu64 " loaded in %" PRIu64 " parts: %s\n", step, parts,
               same ? "bit-identical" : "different");
        status = same ? 0 : -1;
    }
out:
    io_close(io);
    /* print the error in one line, as millrace does */
    if (status && err.code) {
        char line[ERR_LINE_BYTES_MAX];
        fprintf(stderr, "save: %s\n", err_format(&err, line, sizeof line));
    }
    return status ? 1 : 0;
}
