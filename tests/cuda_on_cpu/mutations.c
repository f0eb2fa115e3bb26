/*
 * mutations — tests the shim: each bug in a mutant is caught in the expected way, and the correct
 * versions pass.
 */
#include "tests/support/test.h"

#include <string.h>

/* How a mutant is caught: its output contains these words. */
#define BY_VALUES "wrong values"
#if defined(__SANITIZE_THREAD__)
#define BY_RACE "ThreadSanitizer: data race"
#else
#define BY_RACE BY_VALUES
#endif
#if defined(__SANITIZE_ADDRESS__)
#define BY_POISON "AddressSanitizer: use-after-poison"
#else
#define BY_POISON BY_VALUES
#endif

static void run_mutant(const char *name, char *text, size_t bytes, int *ret_status)
{
    *ret_status = test_run_output(text, bytes, "ASAN_OPTIONS=detect_leaks=0 '%s' %s 2>&1",
                                  TEST_BUILD_DIR "/tests/cuda_on_cpu/cuda_mutant", name);
}

static void assert_caught(const char *name, const char *by)
{
    char text[65536];
    int status;
    run_mutant(name, text, sizeof text, &status);
    if (status == 0)
        fail_msg("%s was not caught", name);
    if (!strstr(text, by))
        fail_msg("%s was caught (status %d), but not by \"%s\":\n%s", name, status, by, text);
}

static void a_correct_kernel_passes(void **state)
{
    (void)state;
    static const char *const names[] = {"reverse", "sum", "product", "streams", "graph", "host"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[65536];
        int status;
        run_mutant(names[i], text, sizeof text, &status);
        if (status)
            fail_msg("%s exited with %d:\n%s", names[i], status, text);
    }
}

#define CAUGHT(case, name, by)                                                                     \
    static void case (void **state)                                                                \
    {                                                                                              \
        (void)state;                                                                               \
        assert_caught(name, by);                                                                   \
    }

CAUGHT(a_missing_barrier, "no-barrier", BY_RACE)
CAUGHT(a_missing_barrier_before_a_buffer_is_reused, "no-second-barrier", BY_RACE)
CAUGHT(an_early_return, "early-return", "__syncthreads")
CAUGHT(a_barrier_in_each_branch, "two-barriers", "while others wait at")
CAUGHT(a_shuffle_with_a_bad_mask, "bad-mask", "waits for its warp at")
CAUGHT(a_full_mask_with_half_a_warp, "half-warp", "cuda_on_cpu: ")
CAUGHT(a_missing_syncwarp, "no-syncwarp", BY_RACE)
CAUGHT(a_missing_wait_for_copies, "no-copy-wait", BY_POISON)
CAUGHT(a_missing_barrier_after_copies, "no-copy-barrier", BY_POISON)
CAUGHT(copies_without_a_wait, "unawaited-copy", "asynchronous copies that it did not wait for")
CAUGHT(swapped_registers_of_a_fragment, "swapped-fragment", BY_VALUES)
CAUGHT(a_fragment_from_a_wrong_row, "wrong-row", BY_VALUES)
CAUGHT(a_fragment_that_is_not_transposed, "not-transposed", BY_VALUES)
CAUGHT(a_stream_that_does_not_wait, "no-stream-wait", BY_VALUES)
CAUGHT(a_stream_that_overwrites_what_another_reads, "no-read-wait", BY_VALUES)
CAUGHT(an_event_recorded_too_early, "early-record", BY_VALUES)
CAUGHT(a_pinned_buffer_reused_too_early, "reused-buffer", BY_VALUES)
CAUGHT(a_result_read_too_early, "no-sync", BY_VALUES)
CAUGHT(a_missing_wait_in_a_graph, "no-wait-in-graph", BY_VALUES)
CAUGHT(a_host_pointer_passed_to_a_kernel, "host-pointer-argument",
       "argument 1 points to memory that a device")
CAUGHT(a_freed_pointer_passed_to_a_kernel, "freed-argument",
       "argument 1 points to memory that a device")
CAUGHT(a_fill_past_the_end, "copy-too-long", "129 bytes from byte 0 of an allocation of 128 bytes")
CAUGHT(a_block_of_33_threads, "odd-block", "is not a multiple of 32")

/* These end in a fault or a sanitizer report; the machine determines which. */
static void overruns_and_touched_device_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"shared-overrun", "global-overrun", "host-touches-device"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[65536];
        int status;
        run_mutant(names[i], text, sizeof text, &status);
        if (status == 0)
            fail_msg("%s was not caught", names[i]);
    }
}

static void a_race_that_leaves_correct_values(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    assert_caught("same-value", BY_RACE);
#else
    test_skip("only ThreadSanitizer sees a race whose values are right (preset tsan)");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_correct_kernel_passes),
        cmocka_unit_test(a_missing_barrier),
        cmocka_unit_test(a_missing_barrier_before_a_buffer_is_reused),
        cmocka_unit_test(an_early_return),
        cmocka_unit_test(a_barrier_in_each_branch),
        cmocka_unit_test(a_shuffle_with_a_bad_mask),
        cmocka_unit_test(a_full_mask_with_half_a_warp),
        cmocka_unit_test(a_missing_syncwarp),
        cmocka_unit_test(a_missing_wait_for_copies),
        cmocka_unit_test(a_missing_barrier_after_copies),
        cmocka_unit_test(copies_without_a_wait),
        cmocka_unit_test(swapped_registers_of_a_fragment),
        cmocka_unit_test(a_fragment_from_a_wrong_row),
        cmocka_unit_test(a_fragment_that_is_not_transposed),
        cmocka_unit_test(a_stream_that_does_not_wait),
        cmocka_unit_test(a_stream_that_overwrites_what_another_reads),
        cmocka_unit_test(an_event_recorded_too_early),
        cmocka_unit_test(a_pinned_buffer_reused_too_early),
        cmocka_unit_test(a_result_read_too_early),
        cmocka_unit_test(a_missing_wait_in_a_graph),
        cmocka_unit_test(a_host_pointer_passed_to_a_kernel),
        cmocka_unit_test(a_freed_pointer_passed_to_a_kernel),
        cmocka_unit_test(a_fill_past_the_end),
        cmocka_unit_test(a_block_of_33_threads),
        cmocka_unit_test(overruns_and_touched_device_memory),
        cmocka_unit_test(a_race_that_leaves_correct_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
