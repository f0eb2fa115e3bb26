/*
 * sampler — see sampler.h. The order of the epoch that was last asked for is kept, and the ciphers of the last
 * windows.
 */
#include "sampler/sampler.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct sampler {
    struct order order;
    struct order_cache *cache;
};

static int check_params(const struct order_params *params, struct err *err)
{
    const struct order_params *p = params;
    if (p->samples < 1 || p->samples > SAMPLER_SAMPLES_MAX) {
        err_set(err, -EINVAL, "no order over so many samples");
        err_expected(err, "1 to %" PRIu64, SAMPLER_SAMPLES_MAX);
        err_found(err, "%" PRIu64, p->samples);
        err_advise(err, p->samples ? "split the dataset" : "the dataset is empty: give another one");
        return -EINVAL;
    }
    if (p->lanes < 1 || p->lanes > p->samples || p->window < 1 || p->window > p->samples || p->run < 1 ||
        p->run > p->samples) {
        err_set(err, -EINVAL, "the order's parameters are out of range");
        err_expected(err, "lanes, window and run from 1 to the %" PRIu64 " samples", p->samples);
        err_found(err, "lanes %" PRIu64 ", window %" PRIu64 ", run %" PRIu64, p->lanes, p->window, p->run);
        err_advise(err, "leave them at auto");
        return -EINVAL;
    }
    return 0;
}

int sampler_open(const struct order_params *params, struct sampler **ret_sampler, struct err *err)
{
    int status = check_params(params, err);
    if (status)
        return status;
    struct sampler *sampler = calloc(1, sizeof *sampler);
    struct order_cache *cache = order_cache_open(params);
    if (!sampler || !cache) {
        order_cache_close(cache);
        free(sampler);
        return err_set(err, -ENOMEM, "out of memory for an order of %" PRIu64 " lanes", params->lanes);
    }
    sampler->cache = cache;
    order_init(&sampler->order, params, 0);
    *ret_sampler = sampler;
    return 0;
}

void sampler_close(struct sampler *sampler)
{
    if (!sampler)
        return;
    order_cache_close(sampler->cache);
    free(sampler);
}

struct sample_ref sampler_at(struct sampler *sampler, uint32_t epoch, uint64_t position)
{
    if (sampler->order.epoch != epoch) {
        struct order_params params = sampler->order.params;
        order_init(&sampler->order, &params, epoch);
    }
    uint64_t sample = order_sample(&sampler->order, sampler->cache, position);
    return (struct sample_ref){.dataset = 0, .epoch = epoch, .sample = sample};
}
