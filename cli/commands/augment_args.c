/*
 * augment_args — see augment_args.h.
 */
#include "cli/commands/augment_args.h"

#include <errno.h>
#include <stdlib.h>

enum { NUMBERS_MAX = 4 };

/* Parses `least` to `most` comma-separated numbers; omitted ones are 0. */
static int parse_numbers(const char *text, const char *option, unsigned least, unsigned most,
                         double *numbers, struct err *err)
{
    unsigned count = 0;
    const char *at = text;
    for (char *end; count < most; at = end + 1) {
        numbers[count] = strtod(at, &end);
        if (end == at || (*end && *end != ','))
            break;
        count++;
        if (!*end && count >= least)
            return 0;
        if (!*end)
            break;
    }
    err_set(err, -EINVAL, "--%s has an invalid value", option);
    err_expected(err,
                 most == 1       ? "%u number"
                 : least == most ? "%u comma-separated numbers"
                                 : "up to %u comma-separated numbers",
                 most);
    err_found(err, "\"%.100s\"", text);
    return -EINVAL;
}

int augment_args_parse(const char *randaugment, const char *jitter,
                       struct augment_options *ret_options, struct err *err)
{
    double drawn[NUMBERS_MAX] = {0}, around[NUMBERS_MAX] = {0};
    int status = randaugment ? parse_numbers(randaugment, "randaugment", 2, 2, drawn, err) : 0;
    if (!status && jitter)
        status = parse_numbers(jitter, "jitter", 1, 4, around, err);
    if (status)
        return status;
    struct augment_options options = {
        .brightness = around[0], .contrast = around[1], .saturation = around[2], .hue = around[3]};
    for (int i = 0; i < 2; i++) {
        if (drawn[i] >= 0 && drawn[i] <= RANDAUGMENT_MAGNITUDE_MAX &&
            drawn[i] == (uint32_t)drawn[i])
            continue;
        err_set(err, -EINVAL, "--randaugment has an invalid value");
        err_expected(err, "OPS,MAGNITUDE as whole numbers, at most %d,%d", RANDAUGMENT_OPS_MAX,
                     RANDAUGMENT_MAGNITUDE_MAX);
        err_found(err, "\"%.100s\"", randaugment);
        return -EINVAL;
    }
    options.randaugment_ops = (uint32_t)drawn[0];
    options.randaugment_magnitude = (uint32_t)drawn[1];
    status = augment_options_check(&options, err);
    if (!status)
        *ret_options = options;
    return status;
}

int mixup_args_parse(const char *mixup, const char *cutmix, struct mixup_options *options,
                     struct err *err)
{
    double alphas[2] = {0};
    int status = mixup ? parse_numbers(mixup, "mixup", 1, 1, &alphas[0], err) : 0;
    if (!status && cutmix)
        status = parse_numbers(cutmix, "cutmix", 1, 1, &alphas[1], err);
    if (status)
        return status;
    struct mixup_options parsed = *options;
    parsed.mixup_alpha = alphas[0];
    parsed.cutmix_alpha = alphas[1];
    status = mixup_options_check(&parsed, err);
    if (!status)
        *options = parsed;
    return status;
}
