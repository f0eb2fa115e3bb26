/*
 * fault_io — see fault_io.h.
 */
#include "tests/ckpt/fault_io.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    struct io base;
    struct io_ops ops;
    struct io *inner;
    struct fault_plan *plan;
    struct io_request *_Atomic failing; /* the write that is to fail */
    struct io_queue *_Atomic broken;    /* the queue that can't wait */
    int writes_count;
} fault;

/* Counts an operation; dies, or says that it must fail. */
static int enter(void)
{
    struct fault_plan *plan = fault.plan;
    if (!plan->armed)
        return 0;
    int number = atomic_fetch_add(&plan->operations_count, 1) + 1;
    if (number == plan->kill_at)
        raise(SIGKILL);
    return number == plan->fail_at ? plan->error : 0;
}

static int failed(struct err *err, int code)
{
    return err_errno(err, code, "provoked");
}

static int fault_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (requests[i]->kind == IO_READ) {
            atomic_fetch_add(&fault.plan->reads_count, 1);
            atomic_fetch_add(&fault.plan->read_bytes, (long)requests[i]->bytes);
            continue;
        }
        if (fault.plan->write_gate)
            gate_pass(fault.plan->write_gate);
        if (fault.plan->write_delay_us)
            usleep(fault.plan->write_delay_us);
        if (enter())
            atomic_store(&fault.failing, requests[i]);
        if (fault.plan->armed && ++fault.writes_count == fault.plan->break_queue_at)
            atomic_store(&fault.broken, queue);
    }
    int taken = fault.inner->ops->submit(queue, requests, count);
    atomic_fetch_add(&fault.plan->under_way_count, taken > 0 ? taken : 0);
    return taken;
}

static void fault_queue_close(struct io_queue *queue)
{
    fault.inner->ops->queue_close(queue);
    if (atomic_load(&fault.broken) != queue)
        return;
    atomic_store(&fault.broken, NULL);
    atomic_store(&fault.plan->under_way_count, 0); /* no other queue was at work */
}

static int fault_reap(struct io_queue *queue, struct io_request **done, unsigned count_max, unsigned least,
                      int timeout_ms)
{
    if (atomic_load(&fault.broken) == queue)
        return fault.plan->error;
    int count = fault.inner->ops->reap(queue, done, count_max, least, timeout_ms);
    atomic_fetch_sub(&fault.plan->under_way_count, count);
    for (int i = 0; i < count; i++) {
        struct io_request *failing = atomic_load(&fault.failing);
        if (failing && done[i] == failing) {
            done[i]->result = fault.plan->error;
            atomic_store(&fault.failing, NULL);
        }
    }
    return count;
}

static int fault_file_open(struct io *io, const char *path, struct io_file **ret_file, struct err *err)
{
    (void)io;
    return fault.inner->ops->file_open(fault.inner, path, ret_file, err);
}

static int fault_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err)
{
    (void)io;
    return fault.inner->ops->queue_open(fault.inner, depth, ret_queue, err);
}

static int fault_remove(struct io *io, const char *path, struct err *err)
{
    (void)io;
    int status = enter();
    if (status)
        return failed(err, status);
    return fault.inner->ops->remove(fault.inner, path, err);
}

static int fault_set_begin(struct io *io, const struct io_set_options *options, struct io_set **ret_set,
                           struct err *err)
{
    (void)io;
    int status = enter();
    if (status)
        return failed(err, status);
    return fault.inner->ops->set_begin(fault.inner, options, ret_set, err);
}

static int fault_set_create(struct io_set *set, const char *name, uint64_t bytes_expected,
                            struct io_file **ret_file, struct err *err)
{
    int status = enter();
    if (status)
        return failed(err, status);
    return fault.inner->ops->set_create(set, name, bytes_expected, ret_file, err);
}

static int fault_set_seal(struct io_set *set, struct io_file *file, uint64_t final_bytes, struct err *err)
{
    int code = enter();
    int status = fault.inner->ops->set_seal(set, file, final_bytes, err);
    return code ? failed(err, code) : status;
}

static int fault_set_publish(struct io_set *set, struct err *err)
{
    int status = enter();
    if (status) {
        fault.inner->ops->set_abort(set);
        return failed(err, status);
    }
    return fault.inner->ops->set_publish(set, err);
}

static void fault_set_abort(struct io_set *set)
{
    if (set && atomic_load(&fault.plan->under_way_count) > 0)
        atomic_store(&fault.plan->abandoned, true);
    fault.inner->ops->set_abort(set);
}

struct io *fault_io_open(struct io *inner, struct fault_plan *plan)
{
    fault.ops = *inner->ops;
    fault.ops.name = "fault";
    fault.ops.submit = fault_submit;
    fault.ops.reap = fault_reap;
    fault.ops.file_open = fault_file_open;
    fault.ops.queue_open = fault_queue_open;
    fault.ops.queue_close = fault_queue_close;
    fault.ops.remove = fault_remove;
    fault.ops.set_begin = fault_set_begin;
    fault.ops.set_create = fault_set_create;
    fault.ops.set_seal = fault_set_seal;
    fault.ops.set_publish = fault_set_publish;
    fault.ops.set_abort = fault_set_abort;
    fault.base.ops = &fault.ops;
    fault.inner = inner;
    fault.plan = plan;
    atomic_store(&fault.failing, NULL);
    atomic_store(&fault.broken, NULL);
    fault.writes_count = 0;
    return &fault.base;
}

void fault_io_close(struct io *io)
{
    (void)io;
    fault.inner = NULL;
}
