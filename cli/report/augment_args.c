#include "cli/report/augment_args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS_MAX = 4 };

int number_list_parse(const char *text, const char *prefix, const char *name, unsigned count_min,
                      unsigned count_max, double *numbers, struct err *err)
{
    unsigned count = 0;
    const char *at = text;
    for (char *end; count < count_max; at = end + 1) {
        numbers[count] = strtod(at, &end);
        if (end == at || (*end && *end != ','))
            break;
        count++;
        if (!*end && count >= count_min)
            return 0;
        if (!*end)
            break;
    }
    err_set(err, -EINVAL, "%s%s has an invalid value", prefix, name);
    err_expected(err,
                 count_max == 1           ? "%u number"
                 : count_min == count_max ? "%u comma-separated numbers"
                                          : "up to %u comma-separated numbers",
                 count_max);
    err_found(err, "\"%.100s\"", text);
    return -EINVAL;
}

int augment_args_parse(const char *prefix, const char *randaugment, const char *jitter,
                       struct augment_options *ret_options, struct err *err)
{
    double randaugment_values[NUMBERS_MAX] = {0}, jitter_values[NUMBERS_MAX] = {0};
    int status = randaugment ? number_list_parse(randaugment, prefix, "randaugment", 2, 2,
                                                 randaugment_values, err)
                             : 0;
    if (!status && jitter)
        status = number_list_parse(jitter, prefix, "jitter", 1, 4, jitter_values, err);
    if (status)
        return status;
    struct augment_options options = {.brightness = jitter_values[0],
                                      .contrast = jitter_values[1],
                                      .saturation = jitter_values[2],
                                      .hue = jitter_values[3]};
    for (int i = 0; i < 2; i++) {
        if (randaugment_values[i] >= 0 && randaugment_values[i] <= RANDAUGMENT_MAGNITUDE_MAX &&
            randaugment_values[i] == (uint32_t)randaugment_values[i])
            continue;
        err_set(err, -EINVAL, "%srandaugment has an invalid value", prefix);
        err_expected(err, "OPS,MAGNITUDE as whole numbers, at most %d,%d", RANDAUGMENT_OPS_MAX,
                     RANDAUGMENT_MAGNITUDE_MAX);
        err_found(err, "\"%.100s\"", randaugment);
        return -EINVAL;
    }
    options.randaugment_ops = (uint32_t)randaugment_values[0];
    options.randaugment_magnitude = (uint32_t)randaugment_values[1];
    status = augment_options_check(&options, err);
    if (!status)
        *ret_options = options;
    return status;
}

int mixup_args_parse(const char *prefix, const char *mixup, const char *cutmix,
                     struct mixup_options *options, struct err *err)
{
    double alphas[2] = {0};
    int status = mixup ? number_list_parse(mixup, prefix, "mixup", 1, 1, &alphas[0], err) : 0;
    if (!status && cutmix)
        status = number_list_parse(cutmix, prefix, "cutmix", 1, 1, &alphas[1], err);
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

static int parse_channels(const char *text, const char *prefix, const char *name, uint32_t channels,
                          double values[3], struct err *err)
{
    double numbers[NUMBERS_MAX] = {0};
    bool is_list = strchr(text, ',');
    unsigned count = is_list ? channels : 1;
    int status = number_list_parse(text, prefix, name, count, count, numbers, err);
    for (uint32_t c = 0; !status && c < channels; c++)
        values[c] = numbers[is_list ? c : 0];
    return status;
}

int normalize_args_parse(const char *prefix, const char *mean, const char *std,
                         struct normalize_options *options, struct err *err)
{
    struct normalize_options parsed = *options;
    int status =
        mean ? parse_channels(mean, prefix, "mean", options->channels, parsed.mean, err) : 0;
    if (!status && std)
        status = parse_channels(std, prefix, "std", options->channels, parsed.std, err);
    if (!status)
        *options = parsed;
    return status;
}
