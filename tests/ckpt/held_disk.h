/*
 * held_disk — a disk that the test holds: who submits a write stands at the gate, with that one
 * write in hand. (A write that the fault-injecting backend holds waits in its queue, and lets its
 * submitter go on.)
 *
 *     held_disk_use(io, 0);
 *     gate_shut(&disk);
 */
#ifndef MILLRACE_TESTS_CKPT_HELD_DISK_H
#define MILLRACE_TESTS_CKPT_HELD_DISK_H

#include "io/io.h"
#include "tests/support/gate.h"

extern struct gate disk;

/* From now on the backend's writes pass the gate, and each takes so much longer. For one backend at
 * a time, until it closes. */
void held_disk_use(struct io *io, unsigned delay_us);

#endif
