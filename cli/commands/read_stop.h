/*
 * read_stop — stops `millrace read` on request, with advice on how to read the rest.
 *
 * Reading can resume only between steps, because the micro-batches of a step interleave its
 * positions. After a request, it therefore finishes the step, unless that takes long.
 */
#ifndef MILLRACE_CLI_COMMANDS_READ_STOP_H
#define MILLRACE_CLI_COMMANDS_READ_STOP_H

#include "loader/loader.h"

#include <stdatomic.h>

/* Owner thread. */
struct read_stop {
    const atomic_int *stop_flag;
    uint64_t epoch, start, count; /* as on the command line; count 0: to the end of the epoch */
    const char *repeat_option;    /* needed to read samples again, with a leading space; or "" */
    bool is_step_complete;        /* as of the last micro-batch */
    uint64_t requested_ns;        /* the request's time; 0: none */
    uint64_t samples_in_complete_steps;
};

/* Call after each micro-batch and each interrupted wait. samples_count: delivered so far. 0:
 * continue, also after the last sample; -EINTR with detail: stop. */
int read_stop_poll(struct read_stop *stop, struct loader *loader, uint64_t samples_count,
                   struct err *err);

#endif
