/*
 * rank_sum — tests sums and means over real ranks, of any length and with any bucket size.
 */
#include "trainer/parallel/reduction/rank_sum.h"

#include "tests/support/ranks.h"

enum { ELEMENTS_MAX = 1000 };

static uint64_t used_bytes(struct device *device)
{
    struct device_mem_info info;
    device->ops->mem_info(device, &info);
    return info.used_bytes[MEM_PINNED];
}

static void try_bucket(struct ops *ops, uint64_t bucket_bytes)
{
    static float values[ELEMENTS_MAX];
    const struct rank_sum_options options = {.comm = world,
                                             .ops = ops,
                                             .bucket_bytes = bucket_bytes,
                                             .elements_max = ELEMENTS_MAX,
                                             .purpose = "the test"};
    struct rank_sum sum;
    struct err err;
    int ranks = world->ranks;
    float total = (float)(ranks * (ranks + 1)) / 2;
    assert_ok(rank_sum_open(&sum, &options, &err), &err);
    assert_ok(rank_sum_connect(&sum, &err), &err);
    assert_in_range(used_bytes(ops->device), 1,
                    2 * (ELEMENTS_MAX + (uint64_t)ranks) * sizeof(float));
    for (uint64_t count = 0; count <= ELEMENTS_MAX; count += count < 12 ? 1 : 247) {
        for (uint64_t i = 0; i < ELEMENTS_MAX; i++)
            values[i] = (float)((uint64_t)(world->rank + 1) * i * 12);
        assert_ok(rank_sum_add(&sum, values, count, &err), &err);
        for (uint64_t i = 0; i < count; i++)
            assert_true(values[i] == total * (float)(i * 12));
        assert_ok(rank_sum_mean(&sum, values, count, &err), &err);
        for (uint64_t i = 0; i < ELEMENTS_MAX; i++)
            assert_true(values[i] ==
                        (i < count ? total : (float)(world->rank + 1)) * (float)(i * 12));
    }
    rank_sum_close(&sum);
}

static void sums_and_means_cover_all_ranks(void **state)
{
    struct device *device;
    struct ops *ops;
    struct err err;
    (void)state;
    assert_ok(device_open("cpu", &device, &err), &err);
    assert_ok(ops_cpu_open(device, DTYPE_F32, 1, &ops, &err), &err);
    try_bucket(ops, 1);
    try_bucket(ops, 100);
    try_bucket(ops, 1 << 20);
    ops_close(ops);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_means_cover_all_ranks),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
