/*
 * partition — tests that parts cover each group once, are cut at rows, are nearly equal, and form
 * shards.
 */
#include "trainer/parallel/partition.h"

#include "tests/support/test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { RANKS_MAX = 12 };

static void add_param(struct params *params, const char *name, uint64_t rows, uint64_t cols,
                      bool neighbor)
{
    struct err err;
    uint64_t index;
    const struct param_spec spec = {.name = name, .rows = rows, .cols = cols, .neighbor = neighbor};
    assert_ok(params_add(params, &spec, &index, &err), &err);
}

/* Groups with odd shapes: adjacent tensors that begin at unaligned elements, a group with fewer
 * elements than there are ranks, biases between matrices. */
static struct params make_params(void)
{
    struct params params = {0};
    struct err err;
    assert_ok(params_begin_unit(&params, "embed", &err), &err);
    add_param(&params, "table", 1009, 48, false);
    assert_ok(params_begin_unit(&params, "block", &err), &err);
    add_param(&params, "q", 48, 48, false);
    add_param(&params, "k", 13, 48, true);
    add_param(&params, "v", 13, 48, true);
    add_param(&params, "q.bias", 48, 0, false);
    add_param(&params, "k.bias", 13, 0, true);
    add_param(&params, "odd", 77, 30, false);
    assert_ok(params_begin_unit(&params, "head", &err), &err);
    add_param(&params, "bias", 3, 0, false);
    return params;
}

static struct partition make_partition(const struct params *params, uint32_t rank, uint32_t ranks,
                                       uint32_t shards, uint64_t keep_below)
{
    const struct partition_options options = {rank, ranks, shards, keep_below};
    struct partition partition;
    struct err err;
    assert_ok(partition_init(&partition, &options, params, &err), &err);
    return partition;
}

/* The number of ranks whose spans contain this element of the group. */
static int count_holders(const struct partition *partition, uint64_t group, uint64_t element,
                         bool parts)
{
    int count = 0;
    for (uint32_t rank = 0; rank < partition->options.ranks; rank++) {
        struct span span = parts ? partition_part(partition, group, rank)
                                 : partition_shard(partition, group, rank);
        count += element >= span.offset && element < span.offset + span.elements;
    }
    return count;
}

static void assert_covers(const struct partition *partition, uint64_t group)
{
    const struct param_group *g = &partition->params->groups[group];
    for (uint64_t element = g->offset; element < g->offset + g->elements; element++) {
        assert_int_equal(count_holders(partition, group, element, true), 1);
        assert_int_equal(count_holders(partition, group, element, false),
                         partition_replicas(partition, group));
    }
}

/* Asserts that the rows of all ranks' parts add up to each tensor's; span_rows itself rejects
 * partial rows. */
static void assert_whole_rows(const struct partition *partition)
{
    for (uint64_t i = 0; i < partition->params->count; i++) {
        const struct param *param = &partition->params->list[i];
        uint64_t rows = 0;
        for (uint32_t rank = 0; rank < partition->options.ranks; rank++) {
            struct span part = partition_part(partition, param->group, rank);
            assert_int_equal(part.offset % PARAMS_ALIGN, 0);
            rows += span_rows(&part, param).count;
        }
        assert_int_equal(rows, param->shape[0]);
    }
}

static void parts_cover_each_group_once_in_whole_rows(void **state)
{
    (void)state;
    struct params params = make_params();
    for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++)
        for (uint32_t shards = 1; shards <= ranks; shards++) {
            if (ranks % shards != 0)
                continue;
            struct partition partition = make_partition(&params, ranks - 1, ranks, shards, 0);
            for (uint64_t g = 0; g < params.groups_count; g++) {
                assert_int_equal(partition_replicas(&partition, g), ranks / shards);
                assert_covers(&partition, g);
            }
            assert_whole_rows(&partition);
            partition_deinit(&partition);
        }
    params_deinit(&params);
}

static void parts_of_a_large_group_are_nearly_equal(void **state)
{
    (void)state;
    struct params params = make_params();
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
        struct partition partition = make_partition(&params, 0, ranks, ranks, 0);
        double mean = (double)partition_group(&partition, 0).elements / ranks;
        /* a cut is off by at most 4 rows of 48 elements */
        for (uint32_t rank = 0; rank < ranks; rank++)
            assert_true(fabs((double)partition_part(&partition, 0, rank).elements - mean) <=
                        4 * 48);
        partition_deinit(&partition);
    }
    params_deinit(&params);
}

static void the_parts_of_a_shards_holders_cover_it(void **state)
{
    (void)state;
    struct params params = make_params();
    struct partition partition = make_partition(&params, 0, 12, 4, 0);
    for (uint32_t rank = 0; rank < 12; rank++) {
        struct span shard = partition_shard(&partition, 0, rank);
        uint64_t elements = 0;
        uint32_t sharers = 0, shard_group_size = 0;
        for (uint32_t other = 0; other < 12; other++) {
            struct span part = partition_part(&partition, 0, other);
            shard_group_size += partition_is_same_shard_group(&partition, 0, rank, other);
            if (!partition_is_same_shard(&partition, 0, rank, other))
                continue;
            sharers++;
            elements += part.elements;
            assert_true(part.offset >= shard.offset &&
                        part.offset + part.elements <= shard.offset + shard.elements);
        }
        assert_int_equal(sharers, 3);
        assert_int_equal(shard_group_size, 4); /* neighbors, like the ranks on one machine */
        assert_int_equal(elements, shard.elements);
    }
    assert_true(partition_is_same_shard_group(&partition, 0, 4, 7));
    assert_false(partition_is_same_shard_group(&partition, 0, 3, 4));
    partition_deinit(&partition);
    params_deinit(&params);
}

static void small_groups_can_be_kept_unsharded(void **state)
{
    (void)state;
    struct params params = make_params();
    struct partition partition = make_partition(&params, 1, 4, 4, 10000);
    assert_false(partition_is_whole(&partition, 0));
    assert_true(partition_is_whole(&partition, 1));
    assert_int_equal(partition_shard(&partition, 1, 1).elements, params.groups[1].elements);
    assert_int_equal(partition_replicas(&partition, 1), 4);
    assert_covers(&partition, 1);
    uint64_t held = 0;
    for (uint64_t g = 0; g < params.groups_count; g++)
        held += partition_shard(&partition, g, 1).elements;
    assert_int_equal(partition.shards.elements, held);
    partition_deinit(&partition);
    params_deinit(&params);
}

static void a_shard_count_that_does_not_divide_the_ranks_is_refused(void **state)
{
    (void)state;
    struct params params = make_params();
    const struct partition_options options = {0, 6, 4, 0};
    struct partition partition;
    struct err err;
    assert_int_equal(partition_init(&partition, &options, &params, &err), -EINVAL);
    assert_string_equal(err.expected, "parallel.shard to be a divisor of 6");
    params_deinit(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_cover_each_group_once_in_whole_rows),
        cmocka_unit_test(parts_of_a_large_group_are_nearly_equal),
        cmocka_unit_test(the_parts_of_a_shards_holders_cover_it),
        cmocka_unit_test(small_groups_can_be_kept_unsharded),
        cmocka_unit_test(a_shard_count_that_does_not_divide_the_ranks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
