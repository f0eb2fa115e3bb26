/*
 * path_args — arguments and option values that are paths, as grammar.h tells them from others,
 * checked before a verb runs.
 */
#ifndef MILLRACE_CLI_CORE_PATH_ARGS_H
#define MILLRACE_CLI_CORE_PATH_ARGS_H

#include "cli/core/verb.h"

/* args and positional as options_parse filled them in. -EPROTONOSUPPORT names the argument whose
 * scheme no backend of this build serves. */
int path_args_check(const struct verb *verb, const void *args, const struct option_list *positional,
                    struct err *err);

#endif
