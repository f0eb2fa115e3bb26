/*
 * path_args — checks the arguments and option values that are paths (grammar.h) before a verb runs.
 */
#ifndef MILLRACE_CLI_CORE_PATH_ARGS_H
#define MILLRACE_CLI_CORE_PATH_ARGS_H

#include "cli/core/verb.h"

/* args and positional as filled in by options_parse. -EPROTONOSUPPORT names the argument whose
 * scheme no backend of this build supports. */
int path_args_check(const struct verb *verb, const void *args, const struct option_list *positional,
                    struct err *err);

#endif
