/*
 * config_batch — batch.global, batch.micro and batch.accumulation: any two determine the third.
 * See config.h.
 */
#include "base/json/jsonx.h"
#include "trainer/config/config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int config_key_line(const int *lines, const char *key)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    for (size_t i = 0; i < count && lines; i++)
        if (strcmp(fields[i].key, key) == 0)
            return lines[i];
    return CONFIG_LINE_DEFAULT;
}

void config_clear_derived_batch(struct train_config *config, const int *lines)
{
    if (config->batch.accumulation == 0)
        return;
    if (config_key_line(lines, "batch.global") == CONFIG_LINE_DEFAULT)
        config->batch.global = 0;
    else if (config_key_line(lines, "batch.micro") == CONFIG_LINE_DEFAULT)
        config->batch.micro = 0;
}

static int set_batch_error(const struct train_config *config, uint32_t ranks, const char *what,
                           struct err *err)
{
    err_set(err, -EINVAL, "%s", what);
    err_expected(err, "batch.global = batch.micro * batch.accumulation * ranks");
    err_found(err,
              "global %" PRIu64 ", micro %" PRIu64 ", accumulation %" PRIu64 ", ranks %" PRIu32,
              config->batch.global, config->batch.micro, config->batch.accumulation, ranks);
    err_advise(err, "set two of the three batch keys");
    return -EINVAL;
}

static int check_micro(const struct train_config *config, uint32_t ranks, struct err *err)
{
    const char *mixes = config_infeasible_mixing_key(config);
    if (config->batch.micro > CONFIG_MICRO_MAX)
        return set_batch_error(
            config, ranks, "batch.accumulation results in micro-batches of more than 65536 samples",
            err);
    if (!mixes)
        return 0;
    set_batch_error(config, ranks, "mixing needs at least two images per micro-batch", err);
    err_advise(err, "lower batch.accumulation or remove %s", mixes);
    return -EINVAL;
}

int config_resolve_batch(struct train_config *config, uint32_t ranks, struct err *err)
{
    /* each factor is below 2^32, but a product of three may overflow */
    uint64_t all_ranks = config->batch.accumulation * ranks, global = config->batch.global,
             micro = config->batch.micro;
    if (config->batch.accumulation == 0)
        return 0;
    if (micro == 0 && global == 0)
        return set_batch_error(
            config, ranks, "batch.accumulation is set without batch.global or batch.micro", err);
    if (micro == 0 && global % all_ranks != 0)
        return set_batch_error(
            config, ranks,
            "batch.accumulation times the number of ranks does not divide batch.global", err);
    if (micro == 0)
        micro = global / all_ranks;
    if (__builtin_mul_overflow(micro, all_ranks, &all_ranks) || (global > 0 && all_ranks != global))
        return set_batch_error(config, ranks, "the batch sizes do not match", err);
    config->batch.global = all_ranks;
    config->batch.micro = micro;
    config->batch.accumulation = 0; /* would differ on a different number of ranks */
    return check_micro(config, ranks, err);
}

/* Does not check configured values; config_compare does. */
void config_restore_batch(struct train_config *config, const struct json_t *saved)
{
    uint64_t global = 0, micro = 0;
    if (config->batch.accumulation == 0 || jsonx_u64(jsonx_get(saved, "batch.global"), &global) ||
        jsonx_u64(jsonx_get(saved, "batch.micro"), &micro) || global == 0 || micro == 0)
        return;
    if (config->batch.global == 0)
        config->batch.global = global;
    if (config->batch.micro == 0)
        config->batch.micro = micro;
    config->batch.accumulation = 0;
}
