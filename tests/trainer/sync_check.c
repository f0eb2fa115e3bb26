/*
 * Tests the comparison of real ranks: a bit flipped on one of them is reported with its rank, step
 * and tensor.
 */
#include "trainer/parallel/sync_check.h"

#include "tests/support/ranks.h"

#include <errno.h>
#include <string.h>

enum { ELEMENTS = 3000, TENSORS = 3 };

static float arrays[TENSORS][ELEMENTS];
static struct sync_check *check;

static int set_up(void **state)
{
    struct err err = {0};
    (void)state;
    for (int t = 0; t < TENSORS; t++)
        for (int i = 0; i < ELEMENTS; i++)
            arrays[t][i] = (float)(i * (t + 1)) + (t == 2 ? (float)(world->rank / 2) : 0);
    return sync_check_open(world, NULL, TENSORS, &check, &err);
}

/* Adds two tensors that all ranks hold, and one that is split between pairs of ranks. */
static void add_tensors(void)
{
    static const char *const names[] = {"blocks.0.attn.q.weight", "blocks.1.mlp.up.weight",
                                        "head.weight"};
    for (int t = 0; t < TENSORS; t++) {
        const struct sync_piece piece = {
            .kind = t == 0 ? "exp_avg" : NULL,
            .name = names[t],
            .offset_bytes = t == 2 ? (uint64_t)world->rank / 2 * sizeof arrays[t] : 0,
            .bytes = sizeof arrays[t],
            .data = arrays[t]};
        sync_check_add(check, &piece);
    }
}

static int compare(uint64_t step, struct err *err)
{
    sync_check_begin(check);
    add_tensors();
    return sync_check_compare(check, step, 0, NULL, err);
}

static int recheck(struct err *err)
{
    assert_true(sync_check_can_recheck(check));
    sync_check_begin_recheck(check);
    add_tensors();
    int status = sync_check_end_recheck(check, 0, NULL, err);
    assert_false(sync_check_can_recheck(check)); /* not before the next comparison */
    return status;
}

static void flip(int tensor)
{
    ((unsigned char *)arrays[tensor])[7777] ^= 0x10;
}

static int tear_down(void **state)
{
    (void)state;
    sync_check_close(check);
    return 0;
}

static void equal_ranks_pass_the_check(void **state)
{
    struct err err = {0};
    (void)state;
    assert_ok(compare(1, &err), &err);
    for (int i = 0; i < ELEMENTS; i++)
        arrays[0][i] += 1;
    assert_ok(compare(2, &err), &err);
}

static void assert_has(const char *line, const char *part)
{
    if (!strstr(line, part))
        fail_msg("\"%s\" is not in \"%s\"", part, line);
}

/* The first rank prints the error that all ranks find. */
static bool is_reported_here(const struct err *err)
{
    if (world->rank > 0)
        assert_string_equal(err->what, "");
    return world->rank == 0;
}

/* Tests each rank, including the first. If there are only two ranks, either may be named. */
static void a_flipped_bit_is_named_by_rank_step_and_tensor(void **state)
{
    (void)state;
    for (int flipped_rank = 0; world->ranks > 1 && flipped_rank < world->ranks; flipped_rank++) {
        struct err err = {0};
        char line[ERR_LINE_BYTES_MAX], found[64];
        if (world->rank == flipped_rank)
            flip(1);
        assert_int_equal(compare(40, &err), -EBADMSG);
        if (world->rank == flipped_rank)
            flip(1);
        if (!is_reported_here(&err))
            continue;
        err_format(&err, line, sizeof line);
        assert_has(line, "after step 40 blocks.1.mlp.up.weight is not the same on all ranks");
        if (world->ranks == 2) {
            assert_has(
                line,
                " on rank 0 but different bits on rank 1: one of them is wrong, but it is unknown "
                "which;");
            assert_null(strstr(line, "as on rank"));
        } else {
            snprintf(found, sizeof found, "found different bits on rank %d;", flipped_rank);
            assert_has(line, found);
        }
    }
}

/* Two ranks against two, and three ranks that all differ. */
static void without_a_majority_all_ranks_are_named(void **state)
{
    struct err err = {0};
    (void)state;
    if (world->ranks < 3)
        return;
    ((unsigned char *)arrays[1])[7] ^=
        (unsigned char)(world->ranks == 4 ? world->rank % 2 : world->rank);
    assert_int_equal(compare(40, &err), -EBADMSG);
    if (is_reported_here(&err))
        assert_has(err.found,
                   world->ranks == 4
                       ? " on rank 0, 2 but different bits on rank 1, 3: one of them is wrong"
                       : " on rank 0 but different bits on rank 1, 2: one of them is wrong");
}

/* Flips a bit on either rank of the last pair; a last rank without a partner is not compared. */
static void pieces_are_compared_among_ranks_that_hold_them(void **state)
{
    int pair = (world->ranks - 1) / 2 * 2;
    bool is_whole = pair + 1 < world->ranks;
    char found[80];
    (void)state;
    snprintf(found, sizeof found, " on rank %d but different bits on rank %d: one of them", pair,
             pair + 1);
    for (int flipped_rank = pair; flipped_rank < world->ranks; flipped_rank++) {
        struct err err = {0};
        if (world->rank == flipped_rank)
            flip(2);
        int status = compare(41, &err);
        if (world->rank == flipped_rank)
            flip(2);
        assert_int_equal(status, is_whole ? -EBADMSG : 0);
        if (!status || !is_reported_here(&err))
            continue;
        assert_has(err.what, "after step 41 head.weight is not");
        assert_has(err.found, found);
    }
}

/* Tests the last of an odd number of ranks, and a single rank, which alone holds everything. */
static void unreplicated_weights_are_compared_with_their_earlier_checksum(void **state)
{
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    bool is_last = world->rank == world->ranks - 1, is_odd = world->ranks % 2 == 1;
    (void)state;
    assert_false(sync_check_can_recheck(check));
    assert_ok(compare(50, &err), &err);
    assert_ok(recheck(&err), &err);
    assert_ok(compare(51, &err), &err);
    if (is_last)
        flip(2);
    int status = recheck(&err);
    assert_int_equal(status, !is_odd ? 0 : is_last ? -EBADMSG : -EREMOTEIO);
    if (status == -EBADMSG) {
        err_format(&err, line, sizeof line);
        assert_non_null(strstr(line, "after step 51 head.weight changed without an update"));
    }
    if (world->ranks == 1)
        return;
    if (is_last)
        /* other ranks also hold tensor 2, so it is compared; flipping the same bit again repairs
         * it */
        flip(is_odd ? 1 : 2);
    assert_int_equal(compare(52, &err), is_odd ? -EBADMSG : 0);
    assert_int_equal(sync_check_can_recheck(check), !is_odd);
}

static void a_rank_that_cannot_read_fails_on_all_ranks(void **state)
{
    struct err err = {0};
    (void)state;
    sync_check_begin(check);
    int own = world->rank == world->ranks - 1 ? -EIO : 0;
    if (own)
        err_set(&err, own, "the device is gone");
    assert_int_equal(sync_check_compare(check, 1, own, NULL, &err), own ? own : -EREMOTEIO);
}

static int copy_fails(struct device *device, struct device_stream *stream, void *target,
                      const void *source, size_t bytes, struct err *err)
{
    (void)device, (void)stream, (void)target, (void)source, (void)bytes;
    return err_set(err, -EIO, "the link is gone");
}

/* A device with separate memory, whose copies fail on the last rank. */
static void an_unreadable_piece_fails_on_all_ranks(void **state)
{
    const struct sync_piece piece = {
        .name = "head.weight", .bytes = sizeof arrays[0], .data = arrays[0]};
    struct sync_check *device_check;
    struct device *device;
    struct err err = {0};
    (void)state;
    assert_ok(device_open("cpu", &device, &err), &err);
    struct device_ops ops = *device->ops;
    ops.is_host = false;
    bool is_failing = world->rank == world->ranks - 1;
    if (is_failing)
        ops.copy = copy_fails;
    device->ops = &ops;
    assert_ok(sync_check_open(world, device, 1, &device_check, &err), &err);
    sync_check_begin(device_check);
    sync_check_add(device_check, &piece);
    assert_int_equal(sync_check_compare(device_check, 1, 0, NULL, &err),
                     is_failing ? -EIO : -EREMOTEIO);
    assert_non_null(strstr(err.what, is_failing ? "the link is gone" : "rank"));
    sync_check_close(device_check);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_ranks_pass_the_check, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flipped_bit_is_named_by_rank_step_and_tensor, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_a_majority_all_ranks_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pieces_are_compared_among_ranks_that_hold_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            unreplicated_weights_are_compared_with_their_earlier_checksum, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rank_that_cannot_read_fails_on_all_ranks, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_unreadable_piece_fails_on_all_ranks, set_up, tear_down),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
