/*
 * augment_args — parses the values of --randaugment, --jitter, --mixup and --cutmix.
 */
#ifndef MILLRACE_CLI_COMMANDS_AUGMENT_ARGS_H
#define MILLRACE_CLI_COMMANDS_AUGMENT_ARGS_H

#include "image/augment.h"
#include "image/mixup.h"

/* randaugment: "OPS,MAGNITUDE"; jitter: "BRIGHTNESS[,CONTRAST[,SATURATION[,HUE]]]". NULL: none.
 * -EINVAL with detail. */
int augment_args_parse(const char *randaugment, const char *jitter,
                       struct augment_options *ret_options, struct err *err);

/* Sets only the alphas. NULL: none. -EINVAL with detail. */
int mixup_args_parse(const char *mixup, const char *cutmix, struct mixup_options *options,
                     struct err *err);

#endif
