/*
 * augment_args — parses the values of randaugment, jitter, mixup, cutmix, mean and std, which are
 * options of `millrace read` and keys of its fields.
 *
 * prefix is what messages place before these names, such as "--".
 */
#ifndef MILLRACE_CLI_REPORT_AUGMENT_ARGS_H
#define MILLRACE_CLI_REPORT_AUGMENT_ARGS_H

#include "image/augment.h"
#include "image/mixup.h"
#include "image/normalize.h"

/* Parses count_min to count_max comma-separated numbers. Leaves omitted ones unchanged.
 * -EINVAL with detail. */
int number_list_parse(const char *text, const char *prefix, const char *name, unsigned count_min,
                      unsigned count_max, double *numbers, struct err *err);

/* randaugment: "OPS,MAGNITUDE"; jitter: "BRIGHTNESS[,CONTRAST[,SATURATION[,HUE]]]". NULL: none.
 * -EINVAL with detail. */
int augment_args_parse(const char *prefix, const char *randaugment, const char *jitter,
                       struct augment_options *ret_options, struct err *err);

/* Sets only the alphas. NULL: none. -EINVAL with detail. */
int mixup_args_parse(const char *prefix, const char *mixup, const char *cutmix,
                     struct mixup_options *options, struct err *err);

/* Sets mean and std, each given as one number for all channels, or one for each of
 * options->channels. NULL: none. -EINVAL with detail. */
int normalize_args_parse(const char *prefix, const char *mean, const char *std,
                         struct normalize_options *options, struct err *err);

#endif
