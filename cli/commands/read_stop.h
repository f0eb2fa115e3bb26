/*
 * read_stop — ends `millrace read` on request, with advice on how to read the rest.
 *
 * Only complete steps can be resumed, because the micro-batches of a step share its positions in
 * alternation. After a request, the current step is therefore read to its end, if that takes no
 * long wait.
 */
#ifndef MILLRACE_CLI_COMMANDS_READ_STOP_H
#define MILLRACE_CLI_COMMANDS_READ_STOP_H

#include "loader/loader.h"

#include <stdatomic.h>

/* Owner thread. */
struct read_stop {
    const atomic_int *requested;
    uint64_t epoch, start, count; /* as on the command line; count 0: to the end of the epoch */
    const char *repeat_option;    /* needed to read samples again, with a space before it; or "" */
    bool is_step_whole;           /* the last micro-batch ended its step */
    uint64_t requested_ns;        /* when the request was seen; 0: none */
    uint64_t whole_steps_count;   /* samples in complete steps */
};

/* Call after each micro-batch and after an interrupted wait for one. samples_count: delivered so
 * far. 0: go on, or everything was delivered. -EINTR with detail: stop. */
int read_stop_poll(struct read_stop *stop, struct loader *loader, uint64_t samples_count,
                   struct err *err);

#endif
