/*
 * The comparison of ranks, on real ones: a bit that is flipped on one of them is named.
 */
#include "trainer/sync_check.h"

#include "tests/support/ranks.h"

#include <errno.h>
#include <string.h>

enum { ELEMENTS = 3000, TENSORS = 3 };

static float arrays[TENSORS][ELEMENTS];
static struct ckpt_tensor tensors[TENSORS];
static struct sync_check *check;

/* The last one is each rank's own. */
static int set_up(void **state)
{
    static const char *const names[] = {"blocks.0.attn.q.weight", "blocks.1.mlp.up.weight", "head.weight"};
    struct err err = {0};
    (void)state;
    for (int t = 0; t < TENSORS; t++) {
        for (int i = 0; i < ELEMENTS; i++)
            arrays[t][i] = (float)(i * (t + 1)) + (t == 2 ? (float)world->rank : 0);
        tensors[t] = (struct ckpt_tensor){.name = names[t],
                                          .dtype = DTYPE_F32,
                                          .rank = 2,
                                          .shape = {100, 30},
                                          .extent = {100, 30},
                                          .replicated = t != 2,
                                          .data = arrays[t]};
    }
    return sync_check_open(world, NULL, tensors, TENSORS, &check, &err);
}

static int tear_down(void **state)
{
    (void)state;
    sync_check_close(check);
    return 0;
}

static void equal_ranks_are_in_step(void **state)
{
    struct err err = {0};
    (void)state;
    assert_ok(sync_check_look(check, 1, NULL, &err), &err);
    for (int i = 0; i < ELEMENTS; i++)
        arrays[0][i] += 1;
    assert_ok(sync_check_look(check, 2, NULL, &err), &err);
}

static void a_flipped_bit_is_named_by_rank_step_and_tensor(void **state)
{
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    int hurt = world->ranks - 1;
    (void)state;
    if (world->ranks == 1)
        return;
    if (world->rank == hurt)
        ((unsigned char *)arrays[1])[7777] ^= 0x10;
    assert_int_equal(sync_check_look(check, 40, NULL, &err), -EBADMSG);
    err_format(&err, line, sizeof line);
    assert_non_null(strstr(line, "after step 40 blocks.1.mlp.up.weight is not the same on all ranks"));
    char found[40];
    snprintf(found, sizeof found, "found other bits on rank %d;", hurt);
    assert_non_null(strstr(line, found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_ranks_are_in_step, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flipped_bit_is_named_by_rank_step_and_tensor, set_up, tear_down),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
