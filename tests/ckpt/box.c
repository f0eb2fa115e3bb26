/*
 * Tests boxes and runs against loops over single elements.
 */
#include "ckpt/format/box.h"
#include "base/philox.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t draw(uint64_t round, uint32_t purpose, uint32_t below)
{
    return philox(99, round, purpose).word[0] % below;
}

static void random_box(uint64_t round, uint32_t purpose, const uint64_t *shape, uint32_t rank,
                       struct box *box)
{
    *box = (struct box){.rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        bool whole = draw(round, purpose + 2 * d, 3) == 0;
        box->start[d] = whole ? 0 : draw(round, purpose + 2 * d, (uint32_t)shape[d]);
        box->extent[d] =
            whole ? shape[d]
                  : 1 + draw(round, purpose + 2 * d + 1, (uint32_t)(shape[d] - box->start[d]));
    }
}

/* The element's index in the box; UINT64_MAX: outside the box. */
static uint64_t index_in(const struct box *box, const uint64_t *at)
{
    uint64_t index = 0;
    for (uint32_t d = 0; d < box->rank; d++) {
        if (at[d] < box->start[d] || at[d] >= box->start[d] + box->extent[d])
            return UINT64_MAX;
        index = index * box->extent[d] + (at[d] - box->start[d]);
    }
    return index;
}

static uint64_t volume(const struct box *box)
{
    uint64_t elements = 0;
    assert_int_equal(box_shape_volume(box->extent, box->rank, &elements), 0);
    return elements;
}

static void run_copies_equal_elementwise_copies(void **state)
{
    (void)state;
    int met = 0;
    for (uint64_t round = 0; round < 3000; round++) {
        uint32_t rank = draw(round, 1000, 5);
        uint64_t shape[DTYPE_RANK_MAX] = {0}, at[DTYPE_RANK_MAX];
        struct box source, target;
        for (uint32_t d = 0; d < rank; d++)
            shape[d] = 1 + draw(round, 1001 + d, 6);
        random_box(round, 2000, shape, rank, &source);
        random_box(round, 3000, shape, rank, &target);
        uint16_t from[1296], to[1296], expected[1296];
        memset(to, 0, sizeof to);
        memset(expected, 0, sizeof expected);
        for (uint64_t i = 0; i < 1296; i++)
            from[i] = (uint16_t)(i + 1);
        uint64_t elements = 1, common = 0;
        for (uint32_t d = 0; d < rank; d++)
            elements *= shape[d];
        for (uint64_t i = 0; i < elements; i++) {
            uint64_t rest = i;
            for (uint32_t d = rank; d-- > 0; rest /= shape[d])
                at[d] = rest % shape[d];
            uint64_t s = index_in(&source, at), t = index_in(&target, at);
            if (s != UINT64_MAX && t != UINT64_MAX) {
                expected[t] = from[s];
                common++;
            }
        }
        struct box_runs runs;
        bool meet = box_runs_init(&runs, &source, &target, DTYPE_U16);
        assert_int_equal(meet, common > 0);
        if (!meet)
            continue;
        met++;
        assert_int_equal(runs.runs_count * runs.run_bytes, common * sizeof from[0]);
        uint64_t end = 0;
        for (struct box_runs_cursor run = box_runs_first(&runs); run.left > 0;
             box_runs_next(&runs, &run)) {
            assert_true(run.source >= end); /* offsets increase */
            end = run.source + runs.run_bytes;
            memcpy((char *)to + run.target, (char *)from + run.source, runs.run_bytes);
        }
        assert_memory_equal(to, expected, sizeof to);
    }
    assert_true(met > 1000);
}

static void whole_rows_form_one_run(void **state)
{
    (void)state;
    const uint64_t shape[] = {10, 4, 5};
    struct box whole = box_from_shape(shape, 3), rows = whole, columns = whole;
    struct box_runs runs;
    rows.start[0] = 3;
    rows.extent[0] = 4;
    assert_true(box_runs_init(&runs, &whole, &rows, DTYPE_F32));
    assert_int_equal(runs.runs_count, 1);
    assert_int_equal(runs.source, 3 * 4 * 5 * 4);
    assert_int_equal(runs.target, 0);
    columns.extent[1] = 2;
    assert_true(box_runs_init(&runs, &whole, &columns, DTYPE_F32));
    assert_int_equal(runs.runs_count, 10);
    assert_int_equal(runs.run_bytes, 2 * 5 * 4);
}

static void ranges_are_covered_by_few_boxes_in_order(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 2000; round++) {
        uint32_t rank = draw(round, 1, 5);
        uint64_t shape[DTYPE_RANK_MAX] = {0}, elements = 1;
        for (uint32_t d = 0; d < rank; d++)
            elements *= shape[d] = 1 + draw(round, 2 + d, 6);
        uint64_t begin = draw(round, 10, (uint32_t)elements),
                 end = begin + 1 + draw(round, 11, (uint32_t)(elements - begin));
        uint32_t boxes = 0;
        for (uint64_t at = begin; at < end;) {
            uint64_t taken = 0, first = 0;
            struct box box = box_from_range(shape, rank, at, end, &taken);
            assert_int_equal(box_check(&box, shape), 0);
            assert_int_equal(volume(&box), taken);
            struct box whole = box_from_shape(shape, rank);
            struct box_runs runs; /* one run covers the whole box, starting at `at` */
            assert_true(box_runs_init(&runs, &whole, &box, DTYPE_U8));
            assert_int_equal(runs.runs_count * runs.run_bytes, taken);
            first = runs.source;
            assert_int_equal(first, at);
            assert_int_equal(box_runs_first(&runs).left, runs.runs_count);
            at += taken;
            assert_true(at <= end);
            boxes++;
        }
        assert_true(boxes <= (rank ? 2 * rank - 1 : 1));
    }
}

static void overflowing_products_and_ends_are_detected(void **state)
{
    (void)state;
    const uint64_t large[] = {UINT64_C(1) << 40, UINT64_C(1) << 40}, bytes[] = {UINT64_C(1) << 62};
    const uint64_t zero_last[] = {UINT64_C(1) << 62, 4, 4, 0};
    uint64_t result;
    assert_int_equal(box_shape_volume(large, 2, &result), -EOVERFLOW);
    assert_int_equal(box_shape_volume(zero_last, 4, &result), -EOVERFLOW);
    assert_int_equal(box_shape_bytes(bytes, 1, DTYPE_F32, &result), -EOVERFLOW);
    struct box box = {.rank = 1, .start = {UINT64_MAX}, .extent = {2}};
    assert_int_equal(box_check(&box, bytes), -EOVERFLOW);
    box.start[0] = bytes[0];
    assert_int_equal(box_check(&box, bytes), -ERANGE);
}

static void box_comparison_ignores_unused_dimensions(void **state)
{
    (void)state;
    struct box a, b; /* the boxes differ only in the bytes of unset fields */
    memset(&a, 0x55, sizeof a);
    memset(&b, 0xaa, sizeof b);
    a.rank = b.rank = 2;
    for (uint32_t d = 0; d < 2; d++) {
        a.start[d] = b.start[d] = d;
        a.extent[d] = b.extent[d] = 7 + d;
    }
    assert_true(box_equals(&a, &b));
    b.extent[1]++;
    assert_false(box_equals(&a, &b));
    b.extent[1]--;
    b.start[0]++;
    assert_false(box_equals(&a, &b));
    b.start[0]--;
    b.rank = 1;
    assert_false(box_equals(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_copies_equal_elementwise_copies),
        cmocka_unit_test(whole_rows_form_one_run),
        cmocka_unit_test(ranges_are_covered_by_few_boxes_in_order),
        cmocka_unit_test(overflowing_products_and_ends_are_detected),
        cmocka_unit_test(box_comparison_ignores_unused_dimensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
