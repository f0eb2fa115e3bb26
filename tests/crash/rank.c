/*
 * crash_rank — one of the ranks that rank_run.h describes.
 *
 *     crash_rank FILE
 */
#include "tests/crash/rank_run.h"

#include "ckpt/ckpt.h"
#include "comm/comm_mpi.h"
#include "tests/crash/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

/* Holds the shared lock until the process ends. */
static struct rank_run *join_run(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH))
        return NULL;
    void *run = mmap(NULL, sizeof(struct rank_run), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return run == MAP_FAILED ? NULL : run;
}

static int load_newest(const struct rank_run *run, struct io *io, const struct comm *world,
                       struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    uint64_t step = 0, version = 0;
    int status = ckpt_find(io, run->folder, path, &step, NULL, err);
    if (status == -ENOENT && run->newest.step == 0)
        return 0;
    if (!status)
        status = workload_load_part(&run->plan, io, path, world->rank, world->ranks, &version, err);
    if (!status && (step != run->newest.step || version != run->newest.version))
        status = err_set(err, -EBADMSG,
                         "step %" PRIu64 " of version %" PRIu64
                         " is the newest on rank %d, not %" PRIu64 " of version %" PRIu64,
                         step, version, world->rank, run->newest.step, run->newest.version);
    return status;
}

static int run_rank(struct rank_run *run, struct comm *world, struct err *err)
{
    struct io *io = NULL;
    int status = io_open("file:", &(struct io_options){.engine = run->engine}, &io, err);
    if (status)
        return status;
    if (run->loads_newest)
        status = load_newest(run, io, world, err);
    if (!status)
        status = comm_barrier(world, NULL, err); /* no rank saves before all have loaded */
    recorder_count_calls_in(&run->calls[world->rank]);
    if (run->dying_rank == world->rank)
        recorder_kill_at(run->dying_call, false);
    atomic_store(&run->pids[world->rank], getpid());
    if (!status)
        status = workload_run_rank(&run->plan, io, run->folder, world, &run->notes_count, err);
    io_close(io);
    return status;
}

int main(int count, char **arguments)
{
    struct rank_run *run = count == 2 ? join_run(arguments[1]) : NULL;
    struct comm *world = NULL;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    if (!run) {
        fprintf(stderr, "usage: crash_rank FILE, under mpirun\n");
        return 2;
    }
    int status = comm_mpi_open(NULL, &world, &err);
    if (!status && world->ranks > RANK_RUN_RANKS_MAX)
        status = err_set(&err, -E2BIG, "%d ranks are too many", world->ranks);
    if (!status)
        status = run_rank(run, world, &err);
    if (status)
        fprintf(stderr, "%s\n", err_format(&err, line, sizeof line));
    if (status && world)
        world->ops->abort(world);
    comm_close(world);
    return status ? 1 : 0;
}
