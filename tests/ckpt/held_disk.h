/*
 * held_disk — a disk that the test can block: a thread that submits a write waits at the gate. (A
 * write held by the fault-injecting backend waits in its queue instead, and its submitter
 * continues.)
 *
 *     blocked_disk_use(io, 0);
 *     gate_shut(&disk);
 */
#ifndef MILLRACE_TESTS_CKPT_HELD_DISK_H
#define MILLRACE_TESTS_CKPT_HELD_DISK_H

#include "io/io.h"
#include "tests/support/gate.h"

extern struct gate disk;

/* From now on, the backend's writes pass the gate, and each takes delay_us longer. Works for one
 * backend at a time, until that backend is closed. */
void blocked_disk_use(struct io *io, unsigned delay_us);

#endif
