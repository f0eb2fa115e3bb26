/*
 * augment_args — parses the values of --randaugment, --jitter, --mixup, --cutmix, --mean and --std.
 */
#ifndef MILLRACE_CLI_COMMANDS_AUGMENT_ARGS_H
#define MILLRACE_CLI_COMMANDS_AUGMENT_ARGS_H

#include "image/augment.h"
#include "image/mixup.h"
#include "image/normalize.h"

/* randaugment: "OPS,MAGNITUDE"; jitter: "BRIGHTNESS[,CONTRAST[,SATURATION[,HUE]]]". NULL: none.
 * -EINVAL with detail. */
int augment_args_parse(const char *randaugment, const char *jitter,
                       struct augment_options *ret_options, struct err *err);

/* Sets only the alphas. NULL: none. -EINVAL with detail. */
int mixup_args_parse(const char *mixup, const char *cutmix, struct mixup_options *options,
                     struct err *err);

/* Sets mean and std, each given as one number for all channels, or one for each of
 * options->channels. NULL: none. -EINVAL with detail. */
int normalize_args_parse(const char *mean, const char *std, struct normalize_options *options,
                         struct err *err);

#endif
