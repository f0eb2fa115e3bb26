/*
 * freeze — see freeze.h.
 */
#include "trainer/models/freeze.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

static int reject_unmatched(const char *pattern, const struct params *params, struct err *err)
{
    err_set(err, -EINVAL, "no parameter matches \"%s\" in model.freeze", pattern);
    err_expected(err, "comma-separated patterns of names such as %s", params->list[0].name);
    err_advise(err, "docs/reference/models.md lists the names");
    return -EINVAL;
}

static int apply_pattern(struct params *params, const char *pattern, struct err *err)
{
    bool freeze = pattern[0] != '!';
    uint64_t matched_count = 0;
    for (uint64_t i = 0; i < params->count; i++) {
        if (fnmatch(pattern + !freeze, params->list[i].name, 0) != 0)
            continue;
        params->list[i].frozen = freeze;
        matched_count++;
    }
    return matched_count > 0 ? 0 : reject_unmatched(pattern, params, err);
}

static const char *next_pattern(char **rest)
{
    char *pattern = strsep(rest, ",");
    while (isspace((unsigned char)*pattern))
        pattern++;
    size_t length = strlen(pattern);
    while (length > 0 && isspace((unsigned char)pattern[length - 1]))
        pattern[--length] = '\0';
    return pattern;
}

static int check_frozen(const struct params *params, struct err *err)
{
    uint64_t trained_count = 0;
    for (uint64_t i = 0; i < params->count; i++) {
        const struct param *param = &params->list[i];
        trained_count += !param->frozen;
        if (!param->neighbor || param->frozen == param[-1].frozen)
            continue;
        err_set(err, -EINVAL, "model.freeze selects only one of %s and %s, which share a product",
                param[-1].name, param->name);
        err_advise(err, "freeze all or none of q, k and v, or of gate and up");
        return -EINVAL;
    }
    if (trained_count > 0)
        return 0;
    err_set(err, -EINVAL, "model.freeze leaves nothing to train");
    err_advise(err, "end it with the parameters to train, such as \", !head.*\"");
    return -EINVAL;
}

int freeze_params(struct params *params, const char *patterns, struct err *err)
{
    char text[FREEZE_PATTERNS_BYTES_MAX], *rest = text;
    if (!patterns[0])
        return 0;
    if (strlen(patterns) >= sizeof text)
        return err_set(err, -EINVAL, "model.freeze is too long");
    strcpy(text, patterns);
    int status = 0;
    while (rest && !status)
        status = apply_pattern(params, next_pattern(&rest), err);
    if (!status)
        status = check_frozen(params, err);
    if (!status)
        params_lay_out_trained(params);
    return status;
}
