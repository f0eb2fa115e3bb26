/*
 * blocked_disk — a disk that the test can block: a thread that submits a write waits at the gate.
 * (The fault-injecting backend instead holds a write in its queue, and the submitter continues.)
 *
 *     blocked_disk_install(io, 0);
 *     gate_shut(&disk);
 */
#ifndef MILLRACE_TESTS_CKPT_BLOCKED_DISK_H
#define MILLRACE_TESTS_CKPT_BLOCKED_DISK_H

#include "io/io.h"
#include "tests/support/gate.h"

extern struct gate disk;

/* From now on, the backend's writes pass the gate, and each takes delay_us longer. Works for one
 * backend at a time, until that backend is closed. */
void blocked_disk_install(struct io *io, unsigned delay_us);

#endif
