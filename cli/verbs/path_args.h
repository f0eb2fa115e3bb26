/*
 * path_args — checks the paths in arguments and option values (grammar.h) before a verb runs.
 */
#ifndef MILLRACE_CLI_VERBS_PATH_ARGS_H
#define MILLRACE_CLI_VERBS_PATH_ARGS_H

#include "cli/verbs/verb.h"

/* args and positional: from options_parse. -EPROTONOSUPPORT names an argument with a scheme
 * that this build does not support; -ENAMETOOLONG names one that is too long. */
int path_args_check(const struct verb *verb, const void *args, const struct option_list *positional,
                    struct err *err);

#endif
