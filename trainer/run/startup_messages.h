/*
 * startup_messages — a run's summary before its first step.
 */
#ifndef MILLRACE_TRAINER_RUN_STARTUP_MESSAGES_H
#define MILLRACE_TRAINER_RUN_STARTUP_MESSAGES_H

#include "trainer/run/run.h"

void startup_messages_print(const struct run *run);

#endif
