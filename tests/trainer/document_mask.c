/*
 * document_mask — tests which tokens attention reaches with data.text.mask=document, from the batch
 * to the losses, and which have targets in padded texts.
 */
#include "tests/support/test.h"
#include "tests/trainer/model_case.h"
#include "trainer/models/batch_upload.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 6, ITEMS = 3, END = 9, VOCABULARY = 10 };

/* A loader's batch, and the state that converts it to a micro-batch. */
struct micro_case {
    struct device *device;
    struct ops *ops;
    struct batch_upload upload;
    struct batch_item items[ITEMS];
    struct batch batch;
};

static struct micro_case *open_case(bool mask, int32_t *source, uint32_t items_count)
{
    struct micro_case *c = calloc(1, sizeof *c);
    struct err err;
    assert_non_null(c);
    open_test_ops(DTYPE_F32, 1, &c->device, &c->ops);
    const struct batch_upload_options options = {.items = ITEMS,
                                                 .block = BLOCK,
                                                 .vocabulary = VOCABULARY,
                                                 .document_starts = mask,
                                                 .document_end = END};
    assert_ok(batch_upload_init(&c->upload, &options, c->ops, &err), &err);
    c->batch = (struct batch){.items_count = items_count, .items = c->items, .fields_count = 1};
    c->batch.fields[0] = (struct batch_field){.name = "tokens", .data = source};
    return c;
}

static struct model_input push_batch(struct micro_case *c, uint64_t *ret_valid)
{
    struct model_input input;
    struct err err;
    assert_ok(batch_upload_push(&c->upload, NULL, &c->batch, &input, ret_valid, &err), &err);
    return input;
}

static void close_case(struct micro_case *c)
{
    batch_upload_deinit(&c->upload);
    ops_close(c->ops);
    device_close(c->device);
    free(c);
}

static void row_starts_follow_the_document_ends(void **state)
{
    (void)state;
    int32_t source[ITEMS * (BLOCK + 1)] = {
        1,   2, 3,   4, 5,   6,   7, /* a single document */
        1,   2, END, 3, END, END, 4, /* with an empty document between others */
        END, 1, 2,   3, 4,   END, 5};
    const int32_t expected[ITEMS * BLOCK] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 5, 0, 1, 1, 1, 1, 1};
    struct micro_case *c = open_case(true, source, ITEMS);
    uint64_t valid;
    struct model_input input = push_batch(c, &valid);
    assert_int_equal(valid, ITEMS * BLOCK);
    assert_non_null(input.language.row_starts);
    assert_memory_equal(input.language.row_starts, expected, sizeof expected);
    close_case(c);
}

static void absent_items_have_row_starts_too(void **state)
{
    (void)state;
    int32_t source[BLOCK + 1] = {1, END, 3, 4, 5, 6, 7};
    const int32_t expected[ITEMS * BLOCK] = {0, 0, 2, 2, 2, 2};
    struct micro_case *c = open_case(true, source, 1);
    uint64_t valid;
    struct model_input input = push_batch(c, &valid);
    assert_memory_equal(input.language.row_starts, expected, sizeof expected);
    close_case(c);
}

static void nothing_is_masked_by_default(void **state)
{
    (void)state;
    int32_t source[ITEMS * (BLOCK + 1)] = {END};
    struct micro_case *c = open_case(false, source, ITEMS);
    uint64_t valid;
    struct model_input input = push_batch(c, &valid);
    assert_null(input.language.row_starts);
    close_case(c);
}

/* Only tokens with a next token in their text have a target. */
static void padding_has_no_target(void **state)
{
    (void)state;
    int32_t source[ITEMS * (BLOCK + 1)] = {1, 2, 3, 4, 5, 6, 7, /* full */
                                           1, 2, 0, 0, 0, 0, 0, /* the shortest */
                                           5, 4, 3, 2, 0, 0, 0},
                                    lengths[ITEMS] = {BLOCK + 1, 2, 4};
    const int32_t expected[ITEMS * BLOCK] = {2,  3,  4,  5, 6, 7, 2,  -1, -1,
                                             -1, -1, -1, 4, 3, 2, -1, -1, -1};
    for (uint32_t items = ITEMS; items > 0; items--) { /* also of incomplete batches */
        struct micro_case *c = open_case(false, source, items);
        c->upload.options.has_lengths = true;
        c->batch.fields_count = 2;
        c->batch.fields[1] = (struct batch_field){.name = "tokens_length", .data = lengths};
        uint64_t valid, expected_valid = 0;
        struct model_input input = push_batch(c, &valid);
        assert_non_null(input.language.targets);
        assert_memory_equal(input.language.targets, expected, items * BLOCK * sizeof expected[0]);
        for (uint32_t i = items * BLOCK; i < ITEMS * BLOCK; i++)
            assert_int_equal(input.language.targets[i], -1);
        for (uint32_t i = 0; i < items; i++)
            expected_valid += (uint64_t)lengths[i] - 1;
        assert_int_equal(valid, expected_valid);
        assert_memory_equal(input.language.tokens, source, items * (BLOCK + 1) * sizeof source[0]);
        close_case(c);
    }
}

/* Losses of a model whose second document begins at token `cut`, before and after the first
 * document's tokens are changed. */
static void losses_before_and_after(bool mask, uint32_t cut, double *before, double *after,
                                    uint64_t *ret_rows)
{
    struct model_case c;
    case_open(&c, &case_gpt2, 2, DTYPE_F32, 2);
    uint32_t block = case_gpt2.language.block;
    int32_t *starts = calloc(c.rows, sizeof *starts);
    assert_non_null(starts);
    for (uint64_t row = 0; row < c.rows; row++)
        starts[row] = row % block >= cut ? (int32_t)cut : 0;
    c.row_starts = mask ? starts : NULL;
    case_loss(&c);
    memcpy(before, c.losses, c.rows * sizeof *before);
    for (uint64_t item = 0; item < 2; item++)
        for (uint32_t t = 0; t < cut; t++) {
            int32_t *token = &c.tokens[item * (block + 1) + t];
            *token = (*token + 1) % (int32_t)case_gpt2.language.vocabulary;
        }
    case_loss(&c);
    memcpy(after, c.losses, c.rows * sizeof *after);
    *ret_rows = c.rows;
    free(starts);
    case_close(&c);
}

static void a_document_does_not_affect_the_next_one(void **state)
{
    (void)state;
    enum { ROWS_MAX = 4096 };
    static double before[ROWS_MAX], after[ROWS_MAX];
    uint32_t block = case_gpt2.language.block, cut = block / 2;
    assert_true(2 * block <= ROWS_MAX && cut > 0);
    uint64_t rows;
    for (int mask = 0; mask < 2; mask++) {
        losses_before_and_after(mask, cut, before, after, &rows);
        uint64_t changed_first = 0, changed_second = 0;
        for (uint64_t row = 0; row < rows; row++)
            if (memcmp(&before[row], &after[row], sizeof before[row]) != 0)
                row % block >= cut ? changed_second++ : changed_first++;
        assert_true(changed_first > 0);
        assert_true(mask ? changed_second == 0 : changed_second > 0);
    }
}

static void row_starts_of_zero_mask_nothing(void **state)
{
    (void)state;
    struct model_case c;
    case_open(&c, &case_gpt2, 2, DTYPE_F32, 2);
    int32_t *zeros = calloc(c.rows, sizeof *zeros);
    double *losses = malloc(c.rows * sizeof *losses);
    assert_true(zeros && losses);
    case_loss(&c);
    memcpy(losses, c.losses, c.rows * sizeof *losses);
    c.row_starts = zeros;
    case_loss(&c);
    assert_memory_equal(losses, c.losses, c.rows * sizeof *losses);
    free(losses);
    free(zeros);
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_starts_follow_the_document_ends),
        cmocka_unit_test(absent_items_have_row_starts_too),
        cmocka_unit_test(nothing_is_masked_by_default),
        cmocka_unit_test(padding_has_no_target),
        cmocka_unit_test(a_document_does_not_affect_the_next_one),
        cmocka_unit_test(row_starts_of_zero_mask_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
