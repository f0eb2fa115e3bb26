/*
 * blocked_disk — see blocked_disk.h.
 */
#include "tests/ckpt/blocked_disk.h"

#include <unistd.h>

struct gate disk = GATE_OPEN;

static const struct io_ops *real_ops;
static struct io_ops blocked_ops;
static unsigned delay_each_us;

static int submit_behind_gate(struct io_queue *queue, struct io_request *const *requests,
                              unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (requests[i]->kind != IO_WRITE)
            continue;
        gate_pass(&disk);
        if (delay_each_us > 0)
            usleep(delay_each_us);
    }
    return real_ops->submit(queue, requests, count);
}

void blocked_disk_install(struct io *io, unsigned delay_us)
{
    delay_each_us = delay_us;
    if (io->ops == &blocked_ops)
        return;
    real_ops = io->ops;
    blocked_ops = *real_ops;
    blocked_ops.submit = submit_behind_gate;
    io->ops = &blocked_ops;
}
