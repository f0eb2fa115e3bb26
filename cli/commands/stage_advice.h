/*
 * stage_advice — what to do about the stage of a loader that the others wait for.
 */
#ifndef MILLRACE_CLI_COMMANDS_STAGE_ADVICE_H
#define MILLRACE_CLI_COMMANDS_STAGE_ADVICE_H

#include "loader/loader.h"

/* A sentence, static. */
const char *stage_advice(enum loader_stage stage);

#endif
