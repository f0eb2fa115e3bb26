/*
 * stage_advice — advice about the loader stage that limits throughput.
 */
#ifndef MILLRACE_CLI_COMMANDS_STAGE_ADVICE_H
#define MILLRACE_CLI_COMMANDS_STAGE_ADVICE_H

#include "loader/loader.h"

/* One sentence, static. */
const char *stage_advice(enum loader_stage stage);

#endif
