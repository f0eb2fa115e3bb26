#include "cli/bench/io_benchmark.h"

#include "base/bytes.h"
#include "base/cipher.h"
#include "base/clock.h"
#include "device/device.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { COPY_BYTES = 64 << 20 };

static uint64_t cpu_now_ns(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return ((uint64_t)used.ru_utime.tv_sec + (uint64_t)used.ru_stime.tv_sec) * CLOCK_NS_PER_S +
           ((uint64_t)used.ru_utime.tv_usec + (uint64_t)used.ru_stime.tv_usec) * 1000;
}

void io_benchmark_begin(struct io_benchmark *totals)
{
    totals->elapsed_ns -= clock_now_ns();
    totals->cpu_ns -= cpu_now_ns();
}

void io_benchmark_end(struct io_benchmark *totals)
{
    totals->elapsed_ns += clock_now_ns();
    totals->cpu_ns += cpu_now_ns();
}

struct block_run {
    struct io *io;
    struct io_file *file;
    const char *path;
    const struct io_benchmark_job *job;
    struct io_queue *queue;
    struct io_request *requests; /* depth elements, like idle and done */
    struct io_request **idle, **done;
    unsigned idle_count;
    uint64_t began_ns, blocks, next; /* next: counted over all passes */
    struct cipher order;
};

static bool is_over(const struct block_run *run)
{
    return (run->job->is_one_pass && run->next >= run->blocks) ||
           clock_now_ns() - run->began_ns >= run->job->ns_max ||
           (run->job->stop && *run->job->stop);
}

static int submit_blocks(struct block_run *run, struct err *err)
{
    const struct io_benchmark_job *job = run->job;
    unsigned count = 0;
    while (count < run->idle_count && !(job->is_one_pass && run->next >= run->blocks)) {
        struct io_request *request = run->idle[run->idle_count - 1 - count++];
        uint64_t block = run->next++ % run->blocks;
        request->offset =
            (job->is_random ? cipher_encrypt(&run->order, block) : block) * job->block_bytes;
    }
    if (count == 0)
        return 0;
    run->idle_count -= count;
    int submitted = run->io->ops->submit(run->queue, run->idle + run->idle_count, count);
    assert(submitted < 0 ||
           (unsigned)submitted == count); /* the queue is as deep as the number of requests */
    return submitted < 0 ? err_errno(err, submitted, "could not submit to an I/O queue") : 0;
}

static int reap_blocks(struct block_run *run, struct io_benchmark *totals, struct err *err)
{
    int count = run->io->ops->reap(run->queue, run->done, run->job->depth, 1, IO_FOREVER);
    if (count < 0)
        return err_errno(err, count, "could not wait for an I/O queue");
    for (int i = 0; i < count; i++) {
        struct io_request *request = run->done[i];
        if (request->result != (ssize_t)request->bytes) {
            int code = request->result < 0 ? (int)request->result : -EIO;
            err_errno(err, code, request->kind == IO_READ ? "could not read" : "could not write");
            err_at(err, run->path, (int64_t)request->offset);
            return code;
        }
        run->idle[run->idle_count++] = request;
        totals->bytes += request->bytes;
        totals->operations_count++;
    }
    return 0;
}

static int run_blocks(struct block_run *run, struct io_benchmark *totals, struct err *err)
{
    int status = 0;
    io_benchmark_begin(totals);
    run->began_ns = clock_now_ns();
    while (!status && !is_over(run)) {
        status = submit_blocks(run, err);
        if (!status && run->idle_count < run->job->depth)
            status = reap_blocks(run, totals, err);
    }
    while (!status && run->idle_count < run->job->depth)
        status = reap_blocks(run, totals, err);
    io_benchmark_end(totals);
    return status;
}

int io_benchmark_run(struct io *io, struct io_file *file, const char *path,
                     const struct io_benchmark_job *job, struct io_benchmark *totals,
                     struct err *err)
{
    assert(job->depth > 0 && job->block_bytes % IO_ALIGN_BYTES == 0 &&
           job->file_bytes >= job->block_bytes);
    struct block_run run = {.io = io, .file = file, .path = path, .job = job};
    struct device *device = NULL;
    void *memory = NULL;
    uint64_t memory_bytes = job->depth * job->block_bytes;
    run.blocks = job->file_bytes / job->block_bytes;
    cipher_init(&run.order, run.blocks, (const uint64_t[4]){0});
    run.requests = calloc(job->depth, sizeof *run.requests);
    run.idle = calloc(job->depth, sizeof *run.idle);
    run.done = calloc(job->depth, sizeof *run.done);
    int status = run.requests && run.idle && run.done
                     ? 0
                     : err_set(err, -ENOMEM, "not enough memory to measure");
    if (!status)
        status = device_cpu_open(&device, err);
    if (!status)
        status = device->ops->mem_alloc(device, MEM_HUGE, memory_bytes, &memory, err);
    if (!status)
        status = io->ops->queue_open(io, job->depth, &run.queue, err);
    if (status)
        goto out;
    memset(memory, 0x5A, memory_bytes);
    if (io->ops->queue_register)
        io->ops->queue_register(run.queue, memory, memory_bytes);
    for (unsigned i = 0; i < job->depth; i++) {
        run.requests[i] = (struct io_request){.kind = job->kind,
                                              .file = file,
                                              .data = (uint8_t *)memory + i * job->block_bytes,
                                              .bytes = job->block_bytes,
                                              .flags = IO_NOREUSE};
        run.idle[run.idle_count++] = &run.requests[i];
    }
    status = run_blocks(&run, totals, err);
    if (!status && job->stop && *job->stop)
        status = err_set(err, -EINTR, "stopped on request");
out:
    if (run.queue)
        io->ops->queue_close(run.queue);
    if (memory)
        device->ops->mem_free(device, MEM_HUGE, memory, memory_bytes);
    device_close(device);
    free(run.requests);
    free(run.idle);
    free(run.done);
    return status;
}

int io_benchmark_copy(uint64_t ns_max, struct io_benchmark *totals, struct err *err)
{
    uint8_t *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    if (!from || !to) {
        free(from);
        free(to);
        return err_set(err, -ENOMEM, "not enough memory to measure");
    }
    memset(from, 0x5A, COPY_BYTES);
    memset(to, 0, COPY_BYTES);
    io_benchmark_begin(totals);
    uint64_t began_ns = clock_now_ns();
    do {
        memcpy(to, from, COPY_BYTES);
        from[totals->operations_count % COPY_BYTES] ^=
            to[COPY_BYTES - 1]; /* keeps the compiler from removing the copies */
        totals->bytes += COPY_BYTES;
        totals->operations_count++;
    } while (clock_now_ns() - began_ns < ns_max);
    io_benchmark_end(totals);
    free(from);
    free(to);
    return 0;
}

double io_benchmark_per_second(const struct io_benchmark *totals, double count)
{
    return count / clock_seconds(totals->elapsed_ns ? totals->elapsed_ns : 1);
}

double io_benchmark_per_cpu_second(const struct io_benchmark *totals, double count)
{
    return count / clock_seconds(totals->cpu_ns ? totals->cpu_ns : 1);
}

double io_benchmark_bytes_per_second(const struct io_benchmark *totals)
{
    return io_benchmark_per_second(totals, (double)totals->bytes);
}

double io_benchmark_bytes_per_cpu_second(const struct io_benchmark *totals)
{
    return io_benchmark_per_cpu_second(totals, (double)totals->bytes);
}
