/*
 * resume — tests of consolidated files written by several threads, and of resuming killed
 * conversions.
 */
#include "ckpt/load/reader.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/pieces.h"
#include "io/faults/io_fault.h"
#include "tests/ckpt/fixture.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DURABLE_MAX = 100, LONG_NAME_BYTES = 240 };

static char steps[FIXTURE_PATH_BYTES], target[FIXTURE_PATH_BYTES], expected[FIXTURE_PATH_BYTES];
static uint64_t data_bytes; /* the model's data, without the header */

static struct convert_checkpoint_result convert_to(const char *output, unsigned workers,
                                                   bool resume)
{
    struct convert_checkpoint_result result;
    struct err err = {0};
    struct convert_checkpoint_options options = {
        .source = steps, .target = output, .workers_count = workers, .resume = resume};
    assert_ok(convert_checkpoint_full(io, &options, &result, &err), &err);
    return result;
}

static void save_step(uint64_t seed)
{
    static const struct array_spec specs[] = {{"a", DTYPE_F32, "1021x1531", 0},
                                              {"b", DTYPE_BF16, "3x777x401", 1},
                                              {"c", DTYPE_F64, "1048577", 1},
                                              {"d", DTYPE_U8, "5", 0}};
    char step[FIXTURE_PATH_BYTES];
    struct arrays arrays = arrays_make(specs, sizeof specs / sizeof specs[0]);
    arrays_fill(&arrays, seed);
    fixture_save_step(io, steps, &arrays, seed, step);
    data_bytes = 0;
    for (uint64_t i = 0; i < arrays.count; i++)
        data_bytes += array_bytes(&arrays.tensors[i]);
    arrays_free(&arrays);
}

/* Creates a step of five pieces and the expected file. */
static int set_up(void **state)
{
    scratch_set_up(state);
    snprintf(steps, sizeof steps, "%s/ckpt", folder);
    snprintf(target, sizeof target, "%s/full.safetensors", folder);
    snprintf(expected, sizeof expected, "%s/expected.safetensors", folder);
    save_step(21);
    convert_to(expected, 1, false);
    return 0;
}

static void assert_only_expected(void)
{
    char entries[256];
    assert_int_equal(test_run("cmp '%s' '%s'", target, expected), 0);
    assert_int_equal(test_run_output(entries, sizeof entries, "ls -A '%s'", folder), 0);
    assert_string_equal(entries, "ckpt\nexpected.safetensors\nfull.safetensors\n");
}

/* Runs the conversion in a separate process with disk faults. */
static pid_t start_conversion(const char *fault, bool resume)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    struct io *faulty;
    struct convert_checkpoint_result result;
    struct convert_checkpoint_options options = {
        .source = steps, .target = target, .workers_count = 2, .resume = resume};
    if (io_fault_open("file:", NULL, fault, &faulty, NULL))
        _exit(2);
    _exit(convert_checkpoint_full(faulty, &options, &result, NULL) ? 1 : 0);
}

/* Waits for the child. Returns whether it was killed; if not, it must have succeeded. */
static bool wait_is_killed(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status);
}

static void any_number_of_threads_writes_the_same_file(void **state)
{
    (void)state;
    for (unsigned workers = 0; workers <= PIECES_WORKERS_MAX; workers++) {
        convert_to(target, workers, false);
        assert_only_expected();
        assert_int_equal(unlink(target), 0);
    }
}

static void a_killed_file_conversion_resumes_to_the_same_bytes(void **state)
{
    (void)state;
    unsigned kills = 0, kept = 0;
    for (bool killed = true; killed; kills++) {
        char fault[32];
        assert_true(kills < DURABLE_MAX);
        snprintf(fault, sizeof fault, "durable:kill@%u", kills + 1);
        killed = wait_is_killed(start_conversion(fault, kills % 2));
        if (!killed)
            assert_only_expected();
        struct convert_checkpoint_result result = convert_to(target, 2, true);
        assert_true(result.kept_bytes <= result.written_bytes);
        kept += killed && result.kept_bytes > 0;
        assert_only_expected();
        assert_int_equal(unlink(target), 0);
    }
    print_message("%u kills, %u of them left something that was kept\n", kills - 1, kept);
    assert_true(kills > 12 && kept > 3);
}

/* Each run resumes the previous one and makes some progress: a header, four pieces in progress, and
 * one recorded in the journal. */
static void a_repeatedly_killed_conversion_finishes(void **state)
{
    (void)state;
    unsigned kills = 0;
    while (wait_is_killed(start_conversion("write:kill@7", true)))
        assert_true(++kills < DURABLE_MAX);
    assert_true(kills > 0);
    assert_only_expected();
}

static void a_complete_target_is_not_rewritten(void **state)
{
    (void)state;
    assert_true(wait_is_killed(start_conversion("commit:kill@1", false)));
    struct io *sound = io;
    struct err err = {0};
    assert_ok(io_fault_open("file:", NULL, "read:eio:rank-", &io, &err), &err);
    /* the source can't be read */
    struct convert_checkpoint_result result = convert_to(target, 2, true);
    io_close(io);
    io = sound;
    assert_int_equal(result.kept_bytes, data_bytes);
    assert_only_expected();
}

/* Each change damages the output or the journal, or truncates one of them. */
static void changed_pieces_are_written_again(void **state)
{
    (void)state;
    static const struct {
        const char *change; /* a shell command; $f is the file, $j the journal */
        uint64_t lost_extents_min;
    } changes[] = {
        {"printf '\\377' | dd of=\"$f\" bs=1 seek=9000000 conv=notrunc", 1},
        {"truncate -s 9000000 \"$f\"", 2},
        {"printf 'abcdefgh' | dd of=\"$j\" bs=8 seek=1 conv=notrunc", 1},
        {"truncate -s 12 \"$j\"", 3},
        {"rm \"$j\"", 4},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        assert_true(wait_is_killed(start_conversion("commit:kill@1", false)));
        assert_int_equal(test_run("cd '%s' && f=$(ls .tmp-full.safetensors-*) && j=$(ls "
                                  ".tmp-full.safetensors.pieces-*) && "
                                  "{ %s; } 2>/dev/null",
                                  folder, changes[i].change),
                         0);
        struct convert_checkpoint_result result = convert_to(target, 2, true);
        assert_true(result.kept_bytes + changes[i].lost_extents_min * PIECE_BYTES <=
                    data_bytes + PIECE_BYTES - 1);
        assert_only_expected();
        assert_int_equal(unlink(target), 0);
    }
}

static void a_different_checkpoint_starts_over(void **state)
{
    (void)state;
    assert_true(wait_is_killed(start_conversion("commit:kill@1", false)));
    save_step(22);
    struct convert_checkpoint_result result = convert_to(target, 2, true);
    assert_int_equal(result.kept_bytes, 0);
    assert_int_not_equal(test_run("cmp -s '%s' '%s'", target, expected), 0);
}

/* The conversion waits just before the commit, after writing all its data. */
static void a_running_conversion_is_not_resumed(void **state)
{
    (void)state;
    struct convert_checkpoint_result result;
    struct err err = {0};
    struct convert_checkpoint_options options = {.source = steps, .target = target, .resume = true};
    pid_t child = start_conversion("commit:hold", false);
    while (test_run("test -s %s/.tmp-full.safetensors.pieces-* 2>/dev/null", folder) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(convert_checkpoint_full(io, &options, &result, &err), -EBUSY);
    assert_int_not_equal(access(target, F_OK), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_true(wait_is_killed(child));
    assert_true(convert_to(target, 2, true).kept_bytes > 0);
    assert_only_expected();
}

static void resuming_accepts_a_complete_target_and_keeps_a_different_one(void **state)
{
    (void)state;
    struct convert_checkpoint_result result;
    struct err err = {0};
    convert_to(target, 2, false);
    assert_true(convert_to(target, 2, true).kept_bytes > 0);
    assert_only_expected();
    struct convert_checkpoint_options options = {.source = steps, .target = target, .resume = true};
    assert_int_equal(
        test_run("printf x | dd of='%s' bs=1 seek=5000000 conv=notrunc 2>/dev/null", target), 0);
    assert_int_equal(convert_checkpoint_full(io, &options, &result, &err), -EEXIST);
    options.force = true;
    assert_ok(convert_checkpoint_full(io, &options, &result, &err), &err);
    assert_only_expected();
}

/* The error must not mark the target as stale: a stale target would be removed. */
static void a_failing_source_does_not_blame_the_target(void **state)
{
    (void)state;
    struct convert_checkpoint_result result;
    struct err err = {0};
    struct io *faulty;
    struct convert_checkpoint_options options = {.source = steps, .target = target, .resume = true};
    convert_to(target, 2, false);
    assert_ok(io_fault_open("file:", NULL, "read:eio:rank-", &faulty, &err), &err);
    assert_int_equal(convert_checkpoint_full(faulty, &options, &result, &err), -EIO);
    io_close(faulty);
    assert_only_expected();
}

static void a_target_with_a_shortened_temporary_name_is_resumed(void **state)
{
    (void)state;
    size_t begin = strlen(folder) + 1;
    assert_true(begin + LONG_NAME_BYTES < sizeof target);
    memset(target + begin, 'x', LONG_NAME_BYTES);
    target[begin + LONG_NAME_BYTES] = '\0';
    assert_true(wait_is_killed(start_conversion("commit:kill@1", false)));
    assert_int_equal(convert_to(target, 2, true).kept_bytes, data_bytes);
    assert_int_equal(test_run("cmp '%s' '%s'", target, expected), 0);
    assert_int_equal(test_run("ls -A '%s' | grep -q '^\\.tmp-'", folder), 1);
}

/* When a conversion replaces a file, the old file stays until the new one is complete. */
static void a_killed_replacement_resumes_with_force(void **state)
{
    (void)state;
    struct convert_checkpoint_result result;
    struct err err = {0};
    assert_true(wait_is_killed(start_conversion("commit:kill@1", false)));
    test_write_file(target, "mine", 4);
    struct convert_checkpoint_options options = {
        .source = steps, .target = target, .resume = true, .force = true};
    assert_ok(convert_checkpoint_full(io, &options, &result, &err), &err);
    assert_int_equal(result.kept_bytes, data_bytes);
    assert_only_expected();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_number_of_threads_writes_the_same_file, set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_killed_file_conversion_resumes_to_the_same_bytes, set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_repeatedly_killed_conversion_finishes, set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_complete_target_is_not_rewritten, set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(changed_pieces_are_written_again, set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_different_checkpoint_starts_over, set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_running_conversion_is_not_resumed, set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(
            resuming_accepts_a_complete_target_and_keeps_a_different_one, set_up,
            scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_failing_source_does_not_blame_the_target, set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_target_with_a_shortened_temporary_name_is_resumed, set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_killed_replacement_resumes_with_force, set_up,
                                        scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
