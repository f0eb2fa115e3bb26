/*
 * startup_messages — prints a run's summary before its first step.
 */
#ifndef MILLRACE_TRAINER_RUN_STARTUP_MESSAGES_H
#define MILLRACE_TRAINER_RUN_STARTUP_MESSAGES_H

#include "trainer/run/run.h"

void startup_messages(const struct run *run);

#endif
