/*
 * startup_messages — what a run says of itself before its first step: data, how well it is mixed,
 * model, device, memory.
 */
#ifndef MILLRACE_TRAINER_RUN_STARTUP_MESSAGES_H
#define MILLRACE_TRAINER_RUN_STARTUP_MESSAGES_H

#include "trainer/run/run.h"

/* By run_say, a line each. */
void startup_messages(const struct run *run);

#endif
