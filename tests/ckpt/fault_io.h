/*
 * fault_io — a backend that passes everything on, but counts, holds, delays, fails or dies at a chosen durable operation.
 *
 * Durable operations, counted together from 1 while `armed`: begin, create, write, seal, publish, remove. One at a time in a
 * process, since queues and sets are the inner backend's own.
 */
#ifndef MILLRACE_TESTS_CKPT_FAULT_IO_H
#define MILLRACE_TESTS_CKPT_FAULT_IO_H

#include "io/io.h"
#include "tests/support/gate.h"

#include <stdatomic.h>
#include <stdbool.h>

struct fault_plan {
    atomic_bool armed;
    int fail_at;             /* this operation fails; 0: none */
    int error;               /* with this -errno */
    int kill_at;             /* SIGKILL just before this operation; 0: never */
    int break_queue_at;      /* the queue of this submission of a write can't wait from now on; 0: none */
    struct gate *write_gate; /* each write passes it before it is submitted; NULL: there is none */
    unsigned write_delay_us; /* before each write */
    atomic_int operations_count;
    atomic_int reads_count;
    atomic_int under_way_count; /* requests of queues that are open */
    atomic_bool abandoned;      /* a set ended while requests were under way */
    atomic_long read_bytes;     /* asked for in IO_READ */
};

/* inner stays the caller's. */
struct io *fault_io_open(struct io *inner, struct fault_plan *plan);
void fault_io_close(struct io *io);

#endif
