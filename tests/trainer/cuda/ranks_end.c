/*
 * One rank of a run on GPUs with NCCL, in which rank 1's disk fails during training; started by
 * ranks_end.sh. With the argument `make`, creates the dataset. See also
 * tests/comm/failing_nccl_rank.c.
 */
#include "comm/comm_mpi.h"
#include "convert/dataset/dataset.h"
#include "io/faults/io_fault.h"
#include "tests/comm/rank_result.h"
#include "tests/cuda_on_cpu/control.h"
#include "trainer/trainer.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    TEXT_BYTES = 2000000, /* too many to stay in memory: reads go on */
    GPUS = 4,
};

static int make_dataset(struct io *io, struct err *err)
{
    struct convert_result result;
    const struct convert_options convert = {
        .source = "text.txt", .target = "text", .tokenizer = "bytes", .errors_max = -1};
    FILE *file = fopen("text.txt", "w");
    for (int i = 0; file && i < TEXT_BYTES; i++)
        fputc('a' + (int)((uint32_t)i * (uint32_t)i / 7 % 19), file);
    return file && fclose(file) == 0 ? convert_dataset(io, &convert, &result, err) : -1;
}

static int train(struct comm *world, struct io *io, struct err *err)
{
    static const char *const sets[] = {
        "run.dir=run",         "data.train=text",
        "device=cuda",         "threads=1",
        "run.steps=1000000",   "run.seed=5",
        "data.memory=4MiB",    "data.workers=1",
        "data.text.block=8",   "model.type=gpt2",
        "model.layers=2",      "model.width=16",
        "model.heads=1",       "batch.global=6",
        "batch.micro=1",       "log.every=1000",
        "eval.every=0",        "checkpoint.every=0",
        "parallel.comm=nccl",  "parallel.strategy=zero3",
        "parallel.prefetch=2", "parallel.timeout=0s"}; /* no timeout may end a rank */
    struct train_config config;
    struct trainer_result result;
    int status = config_parse("", 0, "none", sets, sizeof sets / sizeof sets[0], &config, err);
    const struct trainer_options options = {
        .config = &config, .comm = world, .local_rank = world->rank, .io = io};
    return status ? status : trainer_run(&options, &result, err);
}

int main(int argc, char **argv)
{
    struct comm *world;
    struct io *io = NULL;
    struct err err = {0};
    if (argc == 2 && strcmp(argv[1], "make") == 0) {
        bool has_failed = io_open(".", NULL, &io, &err) || make_dataset(io, &err);
        io_close(io);
        return has_failed;
    }
    if (comm_mpi_open(NULL, &world, &err))
        return 2;
    shim_set_driver(CUDART_VERSION, GPUS);
    const char *rules = world->rank == 1 ? "read:eio@12+:shard-000000" : NULL;
    int status = io_fault_open(".", NULL, rules, &io, &err);
    if (!status)
        status = train(world, io, &err);
    write_rank_result(world, status, &err);
    io_close(io);
    comm_close(world);
    return 0;
}
