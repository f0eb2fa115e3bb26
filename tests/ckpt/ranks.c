/*
 * One rank of a program that holds parts of arrays; ranks.sh runs it under mpirun.
 *
 *     ckpt_ranks save FOLDER STEP [RANK RULES]
 *         RULES: faults of RANK's disk during and after the save
 *     ckpt_ranks load STEP_FOLDER
 *         compares the arrays, and checks the number of bytes read
 *     ckpt_ranks save-nodes FOLDER STEP [RANK RULES]
 *         like save, on two nodes: each half of the ranks has FOLDER-0 or FOLDER-1
 *     ckpt_ranks load-nodes FOLDER
 *         loads the newest common step; the first rank prints its number
 */
#include "base/bytes.h"
#include "ckpt/format/manifest.h"
#include "comm/comm_mpi.h"
#include "io/faults/io_fault.h"
#include "tests/ckpt/layouts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct array_spec specs[] = {
    {"rows", DTYPE_F32, "4096x512", 0},         {"columns", DTYPE_F32, "1021x2048", 0},
    {"blocks", DTYPE_U16, "64x70x66", 1},       {"few", DTYPE_F64, "3x7", 1},
    {"shared.large", DTYPE_F32, "3001x512", 0}, {"shared.small", DTYPE_U8, "100", 0},
    {"optimizer.step", DTYPE_I64, "-", 0},
};

enum { SPECS = sizeof specs / sizeof specs[0] };

struct node {
    char name[16], folder[IO_PATH_BYTES_MAX];
};

static struct node node_of(const struct comm *world, const char *folder)
{
    struct node node;
    int number = world->rank * 2 >= world->ranks;
    snprintf(node.name, sizeof node.name, "node-%d", number);
    snprintf(node.folder, sizeof node.folder, "%s-%d", folder, number);
    return node;
}

static int save(struct comm *world, char **words, int count, bool per_node, struct err *err)
{
    struct node node = node_of(world, words[0]);
    struct arrays global = arrays_make(specs, SPECS);
    struct ckpt_tensor tensors[SPECS];
    struct ckpt_saver *saver = NULL;
    struct io *io = NULL;
    arrays_fill(&global, 5);
    layouts_take(tensors, &global, world->rank, world->ranks);
    int status = io_fault_open(words[0], NULL, "seed=0", &io, err);
    if (status)
        return status;
    struct ckpt_saver_options options = {.folder = per_node ? node.folder : words[0],
                                         .per_node = per_node,
                                         .node = node.name,
                                         .io = io,
                                         .comm = world,
                                         .groups_count = global.groups_count,
                                         .run_id = "ranks",
                                         .numerics_id = "any"};
    status = ckpt_saver_open(&options, tensors, SPECS, &saver, err);
    if (!status && count == 4 && atoi(words[2]) == world->rank)
        status = io_fault_set(io, words[3], err);
    if (!status)
        status = ckpt_saver_save(saver, strtoull(words[1], NULL, 10), FIXTURE_STATE, err);
    if (!status)
        status = ckpt_saver_wait(saver, err);
    ckpt_saver_close(saver);
    io_close(io);
    layouts_free(tensors, SPECS);
    arrays_free(&global);
    return status;
}

/* Limit on bytes read for whole rows: the rows' bytes, plus two shared blocks for each chunk that
 * they overlap. */
static uint64_t read_bytes_max(const struct ckpt_reader *reader, const struct ckpt_tensor *tensor)
{
    const struct manifest_tensor *saved =
        manifest_find_tensor(ckpt_reader_manifest(reader), tensor->name);
    return array_bytes(tensor) + saved->chunks_count * 2 * CKPT_BLOCK_BYTES;
}

static int load(struct comm *world, const char *path, struct err *err)
{
    struct arrays global = arrays_make(specs, SPECS);
    struct ckpt_tensor expected[SPECS], loaded[SPECS];
    struct ckpt_reader *reader = NULL;
    struct io *io = NULL;
    arrays_fill(&global, 5);
    layouts_take(expected, &global, world->rank, world->ranks);
    memcpy(loaded, expected, sizeof loaded);
    int status = io_fault_open(path, NULL, "seed=0", &io, err);
    if (!status)
        status = ckpt_reader_open(io, path, &reader, err);
    if (status)
        return status;
    uint64_t before = io_fault_counts(io).read_bytes;
    for (int i = 0; i < SPECS && !status; i++) {
        loaded[i].data = calloc(1, array_bytes(&loaded[i]) + 1);
        status = ckpt_reader_load(reader, &loaded[i], 1, NULL, err);
        uint64_t read_bytes = io_fault_counts(io).read_bytes - before;
        if (!status && memcmp(loaded[i].data, expected[i].data, array_bytes(&loaded[i])) != 0)
            status = err_set(err, -1, "rank %d of %d: %s differs", world->rank, world->ranks,
                             specs[i].name);
        if (!status && i == 0 && read_bytes > read_bytes_max(reader, &loaded[0]))
            status = err_set(err, -1, "rank %d of %d: %" PRIu64 " bytes read for %" PRIu64,
                             world->rank, world->ranks, read_bytes, array_bytes(&loaded[0]));
    }
    ckpt_reader_close(reader);
    io_close(io);
    layouts_free(loaded, SPECS);
    layouts_free(expected, SPECS);
    arrays_free(&global);
    return status;
}

static int load_on_each_node(struct comm *world, const char *folder, struct err *err)
{
    static const struct ckpt_find_options any = {.below = UINT64_MAX};
    struct node node = node_of(world, folder);
    struct io *io = NULL;
    char path[IO_PATH_BYTES_MAX];
    uint64_t step = 0;
    int status = io_open(node.folder, NULL, &io, err);
    if (!status)
        status = ckpt_find_collective(io, node.folder, &any, world, path, &step, NULL, err);
    if (!status)
        status = load(world, path, err);
    if (!status && world->rank == 0)
        printf("%" PRIu64 "\n", step);
    io_close(io);
    return status;
}

int main(int argc, char **argv)
{
    struct comm *world = NULL;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    int status = comm_mpi_open(NULL, &world, &err);
    if (!status && argc >= 4 && strcmp(argv[1], "save") == 0)
        status = save(world, argv + 2, argc - 2, false, &err);
    else if (!status && argc >= 4 && strcmp(argv[1], "save-nodes") == 0)
        status = save(world, argv + 2, argc - 2, true, &err);
    else if (!status && argc == 3 && strcmp(argv[1], "load-nodes") == 0)
        status = load_on_each_node(world, argv[2], &err);
    else if (!status && argc == 3 && strcmp(argv[1], "load") == 0)
        status = load(world, argv[2], &err);
    if (status)
        fprintf(stderr, "%s\n", err_format(&err, line, sizeof line));
    comm_close(world);
    return status ? 1 : 0;
}
