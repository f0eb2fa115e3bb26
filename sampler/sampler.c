/*
 * sampler — see sampler.h. Keeps each dataset's order for the last requested epochs, and each
 * lane's current ciphers.
 */
#include "sampler/sampler.h"

#include "base/bytes.h"
#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* Near the end of a dataset's epoch, some lanes of a mix are already in the next one. */
enum { EPOCHS_KEPT = 2 };

struct sampler_dataset {
    struct order orders[EPOCHS_KEPT]; /* by epoch modulo EPOCHS_KEPT */
    struct order_cache *cache;
};

struct sampler {
    struct mix *mix;
    uint32_t count;
    struct sampler_dataset datasets[];
};

static int check_samples(uint64_t samples, struct err *err)
{
    if (samples >= 1 && samples <= SAMPLER_SAMPLES_MAX)
        return 0;
    err_set(err, -EINVAL, "the number of samples is out of range");
    err_expected(err, "1 to %" PRIu64, SAMPLER_SAMPLES_MAX);
    err_found(err, "%" PRIu64, samples);
    err_advise(err, samples ? "split the dataset" : "the dataset is empty: use another one");
    return -EINVAL;
}

static int check_params(const struct order_params *params, struct err *err)
{
    const struct order_params *p = params;
    int status = check_samples(p->samples, err);
    if (status)
        return status;
    if (p->lanes < 1 || p->lanes > p->samples || p->window < 1 || p->window > p->samples ||
        p->run < 1 || p->run > p->samples) {
        err_set(err, -EINVAL, "the parameters of the order are out of range");
        err_expected(err, "lanes, window and run from 1 to the %" PRIu64 " samples", p->samples);
        err_found(err, "lanes %" PRIu64 ", window %" PRIu64 ", run %" PRIu64, p->lanes, p->window,
                  p->run);
        err_advise(err, "leave them at auto");
        return -EINVAL;
    }
    return 0;
}

static int open_dataset(struct sampler *sampler, uint32_t number, const struct order_params *params,
                        struct err *err)
{
    struct sampler_dataset *dataset = &sampler->datasets[number];
    struct order_params own = *params;
    own.dataset = number;
    dataset->cache = order_cache_open(&own);
    if (!dataset->cache)
        return err_set(err, -ENOMEM, "out of memory for an order of %" PRIu64 " lanes", own.lanes);
    for (uint32_t epoch = 0; epoch < EPOCHS_KEPT; epoch++)
        order_init(&dataset->orders[epoch], &own, epoch);
    return 0;
}

static int open_mix(struct sampler *sampler, const struct sampler_source *sources, uint64_t lanes,
                    struct err *err)
{
    struct mix_source parts[MIX_DATASETS_MAX];
    uint64_t samples = 0;
    int status = 0;
    for (uint32_t i = 0; !status && i < sampler->count; i++) {
        status = check_params(&sources[i].order, err);
        parts[i] =
            (struct mix_source){.samples = sources[i].order.samples, .weight = sources[i].weight};
        samples += parts[i].samples;
    }
    if (!status)
        status = check_samples(samples, err);
    if (samples / SAMPLER_MIX_TURNS_MIN < lanes)
        lanes = 1;
    if (!status)
        status = mix_open(parts, sampler->count, lanes, &sampler->mix, err);
    for (uint32_t i = 0; !status && i < sampler->count; i++)
        status = open_dataset(sampler, i, &sources[i].order, err);
    return status;
}

int sampler_open_mix(const struct sampler_source *sources, uint32_t count, uint64_t lanes,
                     struct sampler **ret_sampler, struct err *err)
{
    if (count < 1 || count > MIX_DATASETS_MAX)
        return mix_weights_reduce(NULL, count, err); /* reports the error */
    struct sampler *sampler = calloc(1, sizeof *sampler + count * sizeof sampler->datasets[0]);
    if (!sampler)
        return err_set(err, -ENOMEM, "out of memory for a sampler");
    sampler->count = count;
    int status = open_mix(sampler, sources, lanes, err);
    if (status)
        sampler_close(sampler);
    else
        *ret_sampler = sampler;
    return status;
}

int sampler_open(const struct order_params *params, struct sampler **ret_sampler, struct err *err)
{
    const struct sampler_source single = {.order = *params, .weight = 1};
    return sampler_open_mix(&single, 1, 1, ret_sampler, err);
}

void sampler_close(struct sampler *sampler)
{
    if (!sampler)
        return;
    for (uint32_t i = 0; i < sampler->count; i++)
        order_cache_close(sampler->datasets[i].cache);
    mix_close(sampler->mix);
    free(sampler);
}

uint64_t sampler_samples(const struct sampler *sampler)
{
    return mix_samples(sampler->mix);
}

uint64_t sampler_lanes(const struct sampler *sampler)
{
    return mix_lanes(sampler->mix);
}

static const struct order *get_order(struct sampler *sampler, struct mix_location location)
{
    struct order *order = &sampler->datasets[location.dataset].orders[location.epoch % EPOCHS_KEPT];
    if (order->epoch != location.epoch) {
        struct order_params params = order->params;
        order_init(order, &params, location.epoch);
    }
    return order;
}

struct mix_location sampler_locate(const struct sampler *sampler, uint32_t epoch, uint64_t position)
{
    return mix_at(sampler->mix, epoch, position);
}

struct sample_ref sampler_sample(struct sampler *sampler, struct mix_location location)
{
    const struct order *order = get_order(sampler, location);
    uint64_t sample =
        order_sample(order, sampler->datasets[location.dataset].cache, location.position);
    return (struct sample_ref){
        .dataset = location.dataset, .epoch = location.epoch, .sample = sample};
}

struct sample_ref sampler_at(struct sampler *sampler, uint32_t epoch, uint64_t position)
{
    return sampler_sample(sampler, sampler_locate(sampler, epoch, position));
}

uint64_t sampler_position(const struct sampler *sampler, struct mix_location location,
                          uint32_t *ret_epoch)
{
    return mix_position(sampler->mix, location, ret_epoch);
}

uint64_t sampler_neighbors_ahead(struct sampler *sampler, struct mix_location location,
                                 uint32_t quarters)
{
    return order_neighbors_ahead(get_order(sampler, location),
                                 sampler->datasets[location.dataset].cache, location.position,
                                 quarters);
}

uint64_t sampler_mix_fingerprint(const uint64_t *fingerprints, const uint64_t *weights,
                                 uint32_t count)
{
    assert(count >= 1 && count <= MIX_DATASETS_MAX);
    if (count == 1)
        return fingerprints[0];
    uint8_t bytes[MIX_DATASETS_MAX * 16];
    for (uint32_t i = 0; i < count; i++) {
        bytes_put_u64(bytes + 16 * i, fingerprints[i]);
        bytes_put_u64(bytes + 16 * i + 8, weights[i]);
    }
    return hash_64(bytes, (size_t)count * 16);
}
