/*
 * batching — divides positions into steps and micro-batches, and assigns the micro-batches to
 * ranks (sampler.h).
 */
#include "sampler/sampler.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>

int batching_check(const struct batching *batching, struct err *err)
{
    const struct batching *b = batching;
    if (b->micro < 1 || b->global < b->micro || b->global > BATCHING_SAMPLES_MAX ||
        b->global % b->micro != 0) {
        err_set(err, -EINVAL, "the micro-batch does not divide the global batch");
        err_expected(err, "a global batch of 1 to %d samples, and a micro-batch that divides it",
                     BATCHING_SAMPLES_MAX);
        err_found(err, "global %" PRIu64 ", micro %" PRIu64, b->global, b->micro);
        err_advise(err, "choose the micro-batch among the divisors of the global batch");
        return -EINVAL;
    }
    uint64_t micros = batching_micros(b);
    if (b->ranks < 1 || b->ranks > micros) {
        err_set(err, -EINVAL, "there are more ranks than micro-batches");
        err_expected(err, "1 to %" PRIu64 " ranks, global %" PRIu64 " / micro %" PRIu64, micros,
                     b->global, b->micro);
        err_found(err, "%" PRIu32, b->ranks);
        err_advise(err, "make the micro-batch smaller, or use fewer ranks");
        return -EINVAL;
    }
    if (b->rank >= b->ranks) {
        err_set(err, -EINVAL, "the rank is out of range");
        err_expected(err, "0 to %" PRIu32, b->ranks - 1);
        err_found(err, "%" PRIu32, b->rank);
        err_advise(err, "ranks are counted from 0");
        return -EINVAL;
    }
    return 0;
}

static uint64_t range_begin(const struct batching *batching, uint64_t rank)
{
    /* below 2^32 * BATCHING_SAMPLES_MAX */
    return rank * batching_micros(batching) / batching->ranks;
}

uint64_t batching_owned_count(const struct batching *batching)
{
    if (batching->interleaved)
        return (batching_micros(batching) - batching->rank + batching->ranks - 1) / batching->ranks;
    return range_begin(batching, (uint64_t)batching->rank + 1) -
           range_begin(batching, batching->rank);
}

uint64_t batching_owned_micro(const struct batching *batching, uint64_t n)
{
    if (batching->interleaved)
        return batching->rank + n * batching->ranks;
    return range_begin(batching, batching->rank) + n;
}

bool batching_owned_index(const struct batching *batching, uint64_t micro, uint64_t *ret_n)
{
    uint64_t begin = range_begin(batching, batching->rank);
    *ret_n = batching->interleaved ? micro / batching->ranks : micro - begin;
    if (batching->interleaved)
        return micro % batching->ranks == batching->rank;
    return micro >= begin && micro < range_begin(batching, (uint64_t)batching->rank + 1);
}

struct batching_positions batching_positions(const struct batching *batching, enum order_kind kind,
                                             uint64_t epoch_end, uint64_t step, uint64_t micro)
{
    uint64_t micros = batching_micros(batching), begin = step * batching->global;
    uint64_t positions = bytes_min(batching->global, epoch_end - begin);
    if (kind == ORDER_SEQUENTIAL) { /* products are below 2^60 */
        uint64_t first = micro * positions / micros, end = (micro + 1) * positions / micros;
        return (struct batching_positions){begin + first, 1, end - first};
    }
    return (struct batching_positions){begin + micro, micros,
                                       (positions + micros - 1 - micro) / micros};
}

uint64_t batching_micro_of(const struct batching *batching, enum order_kind kind,
                           uint64_t epoch_end, uint64_t position)
{
    uint64_t micros = batching_micros(batching), offset = position % batching->global;
    if (kind != ORDER_SEQUENTIAL)
        return offset % micros;
    uint64_t positions = bytes_min(batching->global, epoch_end - (position - offset));
    return ((offset + 1) * micros - 1) / positions;
}
