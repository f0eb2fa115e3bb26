/*
 * held_disk — see held_disk.h.
 */
#include "tests/ckpt/held_disk.h"

#include <unistd.h>

struct gate disk = GATE_OPEN;

static const struct io_ops *sound;
static struct io_ops held;
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
    return sound->submit(queue, requests, count);
}

void blocked_disk_use(struct io *io, unsigned delay_us)
{
    delay_each_us = delay_us;
    if (io->ops == &held)
        return;
    sound = io->ops;
    held = *sound;
    held.submit = submit_behind_gate;
    io->ops = &held;
}
