/*
 * read_samples — see read_samples.h.
 */
#include "tests/loader/read_samples.h"

#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

uint64_t read_samples(const struct loader_options *options, uint32_t ranks, uint64_t first,
                      uint32_t *ret_samples)
{
    uint64_t count = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct loader_options own = *options;
        struct loader *loader;
        const struct batch *batch;
        struct err err;
        own.batching.rank = rank;
        own.batching.ranks = ranks;
        own.position = first;
        assert_ok(loader_open(&own, &loader, &err), &err);
        while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
            for (uint32_t i = 0; i < batch->items_count; i++, count++) {
                const struct batch_item *item = &batch->items[i];
                char key[8] = "";
                assert_int_equal(item->key_bytes, 7);
                memcpy(key, item->key, 7);
                ret_samples[item->position] = (uint32_t)atoi(key + 1);
            }
            loader_release(loader, batch);
        }
        loader_close(loader);
    }
    return count;
}

void check_invariance(const struct loader_options *options, const uint32_t *samples, uint64_t count)
{
    uint32_t *again = calloc(count, sizeof *again);
    for (uint32_t ranks = 2; ranks <= 3; ranks++) {
        assert_int_equal(read_samples(options, ranks, 0, again), count);
        assert_memory_equal(again, samples, count * sizeof *again);
    }
    uint64_t first = count / 2;
    assert_int_equal(read_samples(options, 2, first, again), count - first);
    assert_memory_equal(again, samples, count * sizeof *again);
    free(again);
}
