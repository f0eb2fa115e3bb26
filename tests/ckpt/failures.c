/*
 * Failing disks, deaths at every durable operation, damage, owners and retention: the last whole checkpoint stays, and what
 * is listed is whole.
 */
#include "ckpt/manifest.h"
#include "tests/ckpt/fault_io.h"
#include "tests/ckpt/fixture.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct arrays arrays;

static const struct array_spec specs[] = {
    {"a.weight", DTYPE_F32, "300x1000", 0},
    {"b.weight", DTYPE_F32, "700x1000", 1},
    {"optimizer.step", DTYPE_I64, "-", 2},
};

static int set_up(void **state)
{
    scratch_set_up(state);
    arrays = arrays_make(specs, 3);
    return 0;
}

static int tear_down(void **state)
{
    arrays_free(&arrays);
    return scratch_tear_down(state);
}

static int temporaries_count(void)
{
    char text[32];
    assert_int_equal(test_run_output(text, sizeof text, "ls -A '%s' | grep -c '^.tmp-' || true", folder), 0);
    return atoi(text);
}

/* Every listed step has the arrays that were filled with its number. */
static void check_listed(int least)
{
    uint64_t newest = 0;
    char path[FIXTURE_PATH_BYTES];
    int count = fixture_list(io, folder, &newest);
    assert_true(count >= least);
    for (uint64_t step = 1; step <= newest; step++) {
        snprintf(path, sizeof path, "%s/step-%08llu", folder, (unsigned long long)step);
        if (access(path, F_OK) != 0)
            continue;
        arrays_fill(&arrays, step);
        assert_true(fixture_step_equals(io, path, &arrays));
        count--;
    }
    assert_int_equal(count, 0);
}

static struct ckpt_saver *open_with(struct io *with, uint32_t keep_last)
{
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = with,
                                         .groups_count = arrays.groups_count,
                                         .keep.last = keep_last,
                                         .run_id = "test-run",
                                         .numerics_id = "any"};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(ckpt_saver_open(&options, arrays.tensors, arrays.count, &saver, &err), &err);
    return saver;
}

static void a_failure_at_any_operation_fails_the_save_and_nothing_else(void **state)
{
    (void)state;
    static const int errors[] = {-ENOSPC, -EIO, -EDQUOT, -EROFS};
    char path[FIXTURE_PATH_BYTES];
    int operation = 1;
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, path);
    for (;; operation++) {
        struct fault_plan plan = {.armed = true, .fail_at = operation, .error = errors[operation % 4]};
        struct io *faulty = fault_io_open(io, &plan);
        struct ckpt_saver *saver = open_with(faulty, 0);
        struct err err = {0};
        arrays_fill(&arrays, 2);
        assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
        for (uint32_t g = 0; g < arrays.groups_count; g++)
            ckpt_saver_before_update(saver, g); /* never hangs */
        int status = ckpt_saver_wait(saver, &err);
        struct ckpt_saver_stats stats = ckpt_saver_stats(saver);
        if (status == 0) { /* beyond the last operation */
            assert_int_equal(stats.saves_count, 1);
            assert_int_equal(stats.last_step, 2);
            ckpt_saver_close(saver);
            break;
        }
        assert_int_equal(status, plan.error);
        assert_int_equal(stats.failures_count, 1);
        assert_true(stats.last_step == UINT64_MAX);
        assert_int_equal(ckpt_saver_wait(saver, &err), 0); /* told once */
        assert_int_equal(temporaries_count(), 0);
        assert_int_equal(fixture_list(io, folder, NULL), 1);
        plan.fail_at = 0;
        arrays_fill(&arrays, 3);
        assert_ok(ckpt_saver_save(saver, 3, FIXTURE_STATE, &err), &err); /* the next one works */
        assert_ok(ckpt_saver_wait(saver, &err), &err);
        ckpt_saver_close(saver);
        assert_int_equal(fixture_list(io, folder, NULL), 2);
        check_listed(2);
        assert_int_equal(test_run("rm -r '%s'/step-00000003", folder), 0);
    }
    assert_true(operation >= 10); /* begin, create, 4 writes, seal, create, write, seal, publish */
    check_listed(2);
}

static void a_queue_that_can_not_wait_fails_its_save_and_the_next_one_has_another(void **state)
{
    (void)state;
    enum { IMAGE_WRITES = 4 };
    char path[FIXTURE_PATH_BYTES];
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, path);
    for (int write = 1; write <= IMAGE_WRITES; write++) {
        struct fault_plan plan = {.armed = true, .break_queue_at = write, .error = -EIO};
        struct ckpt_saver *saver = open_with(fault_io_open(io, &plan), 0);
        struct err err = {0};
        arrays_fill(&arrays, 2);
        assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
        for (uint32_t g = 0; g < arrays.groups_count; g++)
            ckpt_saver_before_update(saver, g); /* never hangs */
        assert_int_equal(ckpt_saver_wait(saver, &err), -EIO);
        assert_non_null(strstr(err.path, "step-00000002"));
        assert_false(plan.abandoned);
        assert_int_equal(temporaries_count(), 0);
        for (uint64_t step = 3; step <= 4; step++) {
            arrays_fill(&arrays, step);
            assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
            assert_ok(ckpt_saver_wait(saver, &err), &err);
        }
        ckpt_saver_close(saver);
        check_listed(3);
        assert_int_equal(test_run("rm -r '%s'/step-00000003 '%s'/step-00000004", folder, folder), 0);
    }
}

static void the_next_save_tells_of_the_failure_before_it(void **state)
{
    (void)state;
    struct fault_plan plan = {.armed = true, .fail_at = 4, .error = -EIO};
    struct ckpt_saver *saver = open_with(fault_io_open(io, &plan), 0);
    struct err err = {0};
    arrays_fill(&arrays, 1);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    assert_int_equal(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), -EIO);
    assert_non_null(strstr(err.path, "step-00000001"));
    assert_ok(ckpt_saver_wait(saver, &err), &err); /* which was begun all the same */
    ckpt_saver_close(saver);
    check_listed(1);
}

/* A child saves step 2 and, keeping one, removes step 1; it dies as the plan says. */
static pid_t start_child(struct fault_plan *plan)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct io *own = NULL;
        if (io_open(folder, NULL, &own, NULL))
            _exit(99);
        struct ckpt_saver *saver = open_with(fault_io_open(own, plan), 1);
        plan->armed = true;
        if (ckpt_saver_save(saver, 2, FIXTURE_STATE, NULL) || ckpt_saver_wait(saver, NULL))
            _exit(98);
        ckpt_saver_close(saver);
        _exit(0);
    }
    return child;
}

/* The exit status, 128 + signal. */
static int end_child(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool is_running(pid_t child)
{
    siginfo_t info = {0};
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid == 0;
}

/* After a death: only whole ones are listed, one at least; the newest loads; the next owner sweeps and saves. */
static void check_after_death(void)
{
    uint64_t step = 0;
    char path[FIXTURE_PATH_BYTES];
    struct err err = {0};
    check_listed(1);
    assert_ok(ckpt_find(io, folder, path, &step, NULL, &err), &err);
    assert_true(step == 1 || step == 2);
    arrays_fill(&arrays, step);
    assert_true(fixture_step_equals(io, path, &arrays));
    struct ckpt_saver *saver = open_with(io, 1);
    assert_int_equal(temporaries_count(), 0);
    arrays_fill(&arrays, 3);
    fixture_save(saver, 3);
    ckpt_saver_close(saver);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    check_listed(1);
}

static void begin_again(void)
{
    char path[FIXTURE_PATH_BYTES];
    assert_int_equal(test_run("rm -rf '%s'/* '%s'/.tmp-*", folder, folder), 0);
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, path);
    arrays_fill(&arrays, 2);
}

static void killed_at_every_durable_operation_a_whole_one_is_found(void **state)
{
    (void)state;
    int operation = 1;
    for (;; operation++) {
        begin_again();
        struct fault_plan plan = {.kill_at = operation};
        int status = end_child(start_child(&plan));
        check_after_death();
        if (status == 0)
            break;
        assert_int_equal(status, 128 + SIGKILL);
    }
    print_message("%d kills, one before each durable operation\n", operation - 1);
    assert_true(operation > 11);
}

/* Some time after the child has begun a random one of its operations: between, within or behind them. */
static void killed_at_random_instants_a_whole_one_is_found(void **state)
{
    (void)state;
    int rounds = 12, inside = 0;
    unsigned seed = (unsigned)time(NULL);
    struct fault_plan *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    print_message("seed %u\n", seed);
    srand(seed);
    for (int i = 0; i < rounds; i++) {
        begin_again();
        *shared = (struct fault_plan){.write_delay_us = 500};
        int operation = 1 + rand() % 12;
        pid_t child = start_child(shared);
        while (shared->operations_count < operation && is_running(child))
            gate_pause();
        kill(child, SIGKILL);
        int status = end_child(child);
        assert_true(status == 0 || status == 128 + SIGKILL);
        inside += status != 0;
        check_after_death();
    }
    print_message("%d of %d kills came before the save's end\n", inside, rounds);
    munmap(shared, sizeof *shared);
}

static void a_second_owner_is_refused_and_told_who_it_is(void **state)
{
    (void)state;
    struct ckpt_saver *first = open_with(io, 0), *second = NULL;
    struct ckpt_saver_options options = {.folder = folder, .io = io, .groups_count = arrays.groups_count};
    struct err err = {0};
    char pid[32];
    assert_int_equal(ckpt_saver_open(&options, arrays.tensors, arrays.count, &second, &err), -EBUSY);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    assert_non_null(strstr(err.found, pid));
    ckpt_saver_close(first);
    assert_ok(ckpt_saver_open(&options, arrays.tensors, arrays.count, &second, &err), &err);
    ckpt_saver_close(second);
}

static void the_last_n_are_kept_and_never_less(void **state)
{
    (void)state;
    struct ckpt_saver *saver = open_with(io, 2);
    uint64_t newest = 0;
    for (uint64_t step = 1; step <= 5; step++) {
        arrays_fill(&arrays, step);
        fixture_save(saver, step);
        assert_int_equal(fixture_list(io, folder, &newest), step < 2 ? 1 : 2);
        assert_int_equal(newest, step);
    }
    ckpt_saver_close(saver);
    check_listed(2);
    assert_int_equal(temporaries_count(), 0);
}

static void retention_never_removes_the_one_just_saved(void **state)
{
    (void)state;
    struct ckpt_saver *saver = open_with(io, 1);
    char path[FIXTURE_PATH_BYTES];
    arrays_fill(&arrays, 9);
    fixture_save(saver, 9);
    arrays_fill(&arrays, 4);
    fixture_save(saver, 4); /* after going back to an earlier one */
    ckpt_saver_close(saver);
    snprintf(path, sizeof path, "%s/step-00000004", folder);
    assert_true(fixture_step_equals(io, path, &arrays));
}

static void broken_steps_are_neither_counted_nor_removed(void **state)
{
    (void)state;
    struct ckpt_saver *saver = open_with(io, 2);
    uint64_t newest;
    arrays_fill(&arrays, 1);
    fixture_save(saver, 1);
    assert_int_equal(
        test_run("mkdir '%s'/step-00000007 '%s'/step-8 && echo '{' >'%s'/step-00000007/manifest.json", folder,
                 folder, folder),
        0);
    arrays_fill(&arrays, 8);
    fixture_save(saver, 8);
    ckpt_saver_close(saver);
    assert_int_equal(fixture_list(io, folder, &newest), 2);
    assert_int_equal(newest, 8);
    assert_int_equal(test_run("test -d '%s'/step-00000007", folder), 0);
}

static void the_same_step_again_is_kept_or_replaced(void **state)
{
    (void)state;
    char path[FIXTURE_PATH_BYTES], before[64], after[64];
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_int_equal(test_run_output(before, sizeof before, "stat -c %%i '%s'", path), 0);
    fixture_save_step(io, folder, &arrays, 1, path); /* the same content: the old one stays */
    assert_int_equal(test_run_output(after, sizeof after, "stat -c %%i '%s'", path), 0);
    assert_string_equal(before, after);
    arrays_fill(&arrays, 2);
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_true(fixture_step_equals(io, path, &arrays));
    assert_int_equal(test_run_output(after, sizeof after, "stat -c %%i '%s'", path), 0);
    assert_string_not_equal(before, after);
    assert_int_equal(test_run("echo >'%s'/manifest.json", path), 0);
    fixture_save_step(io, folder, &arrays, 1, path); /* a broken one gives way */
    assert_true(fixture_step_equals(io, path, &arrays));
    assert_int_equal(temporaries_count(), 0);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
}

/* Saves the arrays as step 1; the inode of its folder then. */
static void save_first_step(const struct arrays *saved, const char *numerics_id, const char *state_json,
                            char inode[64])
{
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = io,
                                         .groups_count = saved->groups_count,
                                         .run_id = "test-run",
                                         .numerics_id = numerics_id};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(ckpt_saver_open(&options, saved->tensors, saved->count, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, 1, state_json, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_close(saver);
    assert_int_equal(test_run_output(inode, 64, "stat -c %%i '%s/step-00000001'", folder), 0);
}

static void the_same_bytes_with_another_meaning_replace_the_step(void **state)
{
    (void)state;
    static const struct array_spec turned_spec = {"a.weight", DTYPE_F32, "1000x300", 0};
    struct arrays one = arrays_make(specs, 1), turned = arrays_make(&turned_spec, 1);
    char first[64], again[64], other[64];
    save_first_step(&one, "here", "{\"position\":7}", first);
    save_first_step(&one, "here", "{ \"position\": 7 }", again);
    assert_string_equal(first, again); /* nothing differs */
    save_first_step(&one, "here", "{\"position\":8}", other);
    assert_string_not_equal(again, other);
    save_first_step(&one, "there", "{\"position\":8}", again);
    assert_string_not_equal(again, other);
    save_first_step(&turned, "there", "{\"position\":8}", other);
    assert_string_not_equal(again, other);
    arrays_free(&one);
    arrays_free(&turned);
}

static void a_failed_save_removes_none_of_the_steps_before_it(void **state)
{
    (void)state;
    for (int operation = 1; operation <= 9; operation++) { /* the ninth is the last before the name appears */
        struct fault_plan plan = {.fail_at = operation, .error = -EIO};
        struct ckpt_saver *saver = open_with(fault_io_open(io, &plan), 1);
        uint64_t newest = 0;
        struct err err = {0};
        arrays_fill(&arrays, 1);
        fixture_save(saver, 1);
        plan.armed = true;
        arrays_fill(&arrays, 2);
        assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
        assert_int_equal(ckpt_saver_wait(saver, &err), -EIO);
        ckpt_saver_close(saver);
        assert_int_equal(fixture_list(io, folder, &newest), 1);
        assert_int_equal(newest, 1);
    }
    check_listed(1);
}

static void a_damaged_step_is_made_again_by_the_same_save(void **state)
{
    (void)state;
    char path[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    size_t bytes;
    struct err err = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, path);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", path);
    unsigned char *data = test_read_file(file, &bytes);
    data[bytes / 2] ^= 1; /* the manifest is as it was */
    test_write_file(file, data, bytes);
    free(data);
    assert_true(ckpt_verify(io, path, NULL, NULL, NULL, &err) > 0);
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_int_equal(ckpt_verify(io, path, NULL, NULL, NULL, &err), 0);
    assert_true(fixture_step_equals(io, path, &arrays));
    assert_int_equal(temporaries_count(), 0);
}

struct named {
    int count;
    char what[ERR_TEXT_BYTES_MAX];
    int64_t offset;
};

static void take_bad(void *context, const struct err *detail)
{
    struct named *named = context;
    if (named->count++ == 0) {
        snprintf(named->what, sizeof named->what, "%s", detail->what);
        named->offset = detail->offset;
    }
}

static void one_flipped_bit_anywhere_is_detected_and_named(void **state)
{
    (void)state;
    static const struct array_spec small[] = {
        {"a", DTYPE_F32, "5x7", 0}, {"b", DTYPE_U8, "13", 0}, {"optimizer.c", DTYPE_F64, "3", 0}};
    struct arrays few = arrays_make(small, 3), loaded = arrays_like(&few);
    char step[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    size_t bytes;
    uint64_t flips = 0;
    arrays_fill(&few, 1);
    fixture_save_step(io, folder, &few, 1, step);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", step);
    unsigned char *data = test_read_file(file, &bytes);
    FILE *out = fopen(file, "r+b");
    setvbuf(out, NULL, _IONBF, 0);
    for (size_t i = 0; i < bytes; i += i < 4096 && test_is_sanitized() ? 17 : 1, flips++) {
        struct ckpt_reader *reader;
        struct named named = {0};
        struct err err = {0};
        fseek(out, (long)i, SEEK_SET);
        fputc(data[i] ^ 1 << i % 8, out);
        assert_ok(ckpt_reader_open(io, step, &reader, &err), &err);
        assert_int_equal(ckpt_reader_load(reader, loaded.tensors, loaded.count, NULL, &err), -EBADMSG);
        assert_non_null(strstr(err.what, "tensor \""));
        assert_int_equal(err.offset, 0);
        ckpt_reader_close(reader);
        if (i % 7 == 0) {
            assert_true(ckpt_verify(io, step, take_bad, &named, NULL, &err) >= 1);
            assert_non_null(strstr(named.what, "tensor \""));
        }
        fseek(out, (long)i, SEEK_SET);
        fputc(data[i], out);
    }
    fclose(out);
    free(data);
    assert_int_equal(ckpt_verify(io, step, NULL, NULL, NULL, NULL), 0);
    snprintf(file, sizeof file, "%s/manifest.json", step);
    data = test_read_file(file, &bytes);
    for (size_t i = 0; i < bytes * 8; i += test_is_sanitized() ? 5 : 1, flips++) {
        struct ckpt_reader *reader;
        struct err err = {0};
        data[i / 8] ^= (unsigned char)(1 << i % 8);
        test_write_file(file, data, bytes);
        assert_int_equal(ckpt_reader_open(io, step, &reader, &err), -EBADMSG);
        assert_string_equal(err.path, file);
        data[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    test_write_file(file, data, bytes);
    assert_true(fixture_step_equals(io, step, &few));
    print_message("%llu flips\n", (unsigned long long)flips);
    free(data);
    arrays_free(&few);
    arrays_free(&loaded);
}

static void damage_is_named_and_others_still_load(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    size_t bytes;
    struct ckpt_reader *reader;
    struct err err = {0};
    struct named named = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, step);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", step);
    unsigned char *data = test_read_file(file, &bytes);
    data[3 << 20] ^= 1; /* the first byte of the fourth block, which is b.weight's alone */
    test_write_file(file, data, bytes);
    free(data);
    assert_ok(ckpt_reader_open(io, step, &reader, &err), &err);
    assert_int_equal(ckpt_reader_load(reader, &arrays.tensors[1], 1, NULL, &err), -EBADMSG);
    assert_non_null(strstr(err.what, "\"b.weight\""));
    assert_string_equal(err.path, file);
    assert_int_equal(err.offset, 3 << 20);
    assert_ok(ckpt_reader_load(reader, &arrays.tensors[0], 1, NULL, &err), &err);
    ckpt_reader_close(reader);
    assert_int_equal(ckpt_verify(io, step, take_bad, &named, NULL, &err), 1);
    assert_non_null(strstr(named.what, "\"b.weight\""));
    assert_int_equal(named.offset, 3 << 20);
    assert_int_equal(ckpt_hash(io, step, &(struct ckpt_hashes){0}, NULL, NULL, &err), -EBADMSG);
}

static void missing_and_cut_files_are_not_listed(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES];
    struct ckpt_reader *reader;
    struct named named = {0};
    struct err err = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, step);
    fixture_save_step(io, folder, &arrays, 2, step);
    assert_int_equal(test_run("truncate -s -1 '%s'/rank-00000.safetensors", step), 0);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    assert_int_equal(ckpt_reader_open(io, step, &reader, &err), -EBADMSG);
    assert_int_equal(ckpt_verify(io, step, take_bad, &named, NULL, &err), 1);
    assert_int_equal(test_run("printf xx >>'%s'/rank-00000.safetensors", step), 0); /* now one too many */
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    assert_int_equal(ckpt_reader_open(io, step, &reader, &err), -EBADMSG);
    assert_int_equal(ckpt_verify(io, step, take_bad, &named, NULL, &err), 1);
    assert_int_equal(test_run("rm '%s'/rank-00000.safetensors", step), 0);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    assert_int_equal(ckpt_reader_open(io, step, &reader, &err), -ENOENT);
    assert_int_equal(test_run("rm '%s'/../step-00000001/manifest.json", step), 0);
    assert_int_equal(fixture_list(io, folder, NULL), 0);
}

static void a_file_that_changes_size_after_the_manifest_was_read_is_named(void **state)
{
    (void)state;
    static const char *const changes[] = {"truncate -s -1", "truncate -s +1"};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char step[FIXTURE_PATH_BYTES];
        struct ckpt_reader *reader;
        struct err err = {0};
        fixture_save_step(io, folder, &arrays, 1, step);
        assert_ok(ckpt_reader_open(io, step, &reader, &err), &err);
        assert_int_equal(test_run("%s '%s'/rank-00000.safetensors", changes[i], step), 0);
        assert_int_equal(ckpt_reader_load(reader, arrays.tensors, arrays.count, NULL, &err), -EBADMSG);
        assert_non_null(strstr(err.path, "rank-00000.safetensors"));
        ckpt_reader_close(reader);
    }
}

struct warnings {
    int count;
    char last[LOG_LINE_BYTES_MAX];
};

static void take_warning(void *context, enum log_level level, const char *line)
{
    struct warnings *warnings = context;
    assert_int_equal(level, LOG_WARN);
    warnings->count++;
    snprintf(warnings->last, sizeof warnings->last, "%s", line);
}

static void a_damaged_newest_step_is_passed_over_aloud(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES], found[FIXTURE_PATH_BYTES];
    struct warnings warnings = {0};
    struct log log = {.write = take_warning, .context = &warnings};
    struct err err = {0};
    uint64_t number = 0;
    arrays_fill(&arrays, 1);
    for (uint64_t i = 1; i <= 3; i++)
        fixture_save_step(io, folder, &arrays, i, step);
    assert_ok(ckpt_find(io, folder, found, &number, &log, &err), &err);
    assert_int_equal(number, 3);
    assert_int_equal(warnings.count, 0);
    assert_int_equal(test_run("echo x >>'%s'/manifest.json", step), 0);
    assert_int_equal(test_run("truncate -s -1 '%s'/../step-00000002/rank-00000.safetensors", step), 0);
    assert_ok(ckpt_find(io, folder, found, &number, &log, &err), &err);
    assert_int_equal(number, 1);
    assert_int_equal(warnings.count, 2);
    assert_non_null(strstr(warnings.last, "step-00000002"));
}

static void damaged_steps_alone_are_an_error_and_not_nothing(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES], found[FIXTURE_PATH_BYTES];
    struct err err = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, step);
    fixture_save_step(io, folder, &arrays, 2, step);
    assert_int_equal(test_run("rm '%s'/../step-00000001/manifest.json", step), 0);
    assert_int_equal(test_run("rm '%s'/rank-00000.safetensors", step), 0);
    assert_int_equal(ckpt_find(io, folder, found, NULL, NULL, &err), -EBADMSG);
    assert_int_equal(err.code, -EBADMSG);
    assert_non_null(strstr(err.path, "step-00000002")); /* the newest is named */
    assert_true(err.advice[0]);
}

static void a_step_that_can_not_be_read_is_never_passed_over(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES], found[FIXTURE_PATH_BYTES];
    struct err err = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, step);
    fixture_save_step(io, folder, &arrays, 2, step);
    assert_int_equal(test_run("cd '%s' && rm manifest.json && ln -s manifest.json manifest.json", step), 0);
    assert_int_equal(ckpt_find(io, folder, found, NULL, NULL, &err), -ELOOP);
    assert_non_null(strstr(err.path, "step-00000002"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_failure_at_any_operation_fails_the_save_and_nothing_else, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_queue_that_can_not_wait_fails_its_save_and_the_next_one_has_another,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_next_save_tells_of_the_failure_before_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_at_every_durable_operation_a_whole_one_is_found, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(killed_at_random_instants_a_whole_one_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_owner_is_refused_and_told_who_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_n_are_kept_and_never_less, set_up, tear_down),
        cmocka_unit_test_setup_teardown(retention_never_removes_the_one_just_saved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(broken_steps_are_neither_counted_nor_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_step_again_is_kept_or_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_bytes_with_another_meaning_replace_the_step, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failed_save_removes_none_of_the_steps_before_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_step_is_made_again_by_the_same_save, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_flipped_bit_anywhere_is_detected_and_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_named_and_others_still_load, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_changes_size_after_the_manifest_was_read_is_named, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(missing_and_cut_files_are_not_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_newest_step_is_passed_over_aloud, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_steps_alone_are_an_error_and_not_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_step_that_can_not_be_read_is_never_passed_over, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
