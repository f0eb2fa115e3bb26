/*
 * steps — see steps.h.
 */
#include "tests/ckpt/steps.h"

#include "io/faults/io_fault.h"

#include <stdlib.h>
#include <unistd.h>

struct arrays arrays;

const struct array_spec steps_specs[STEPS_ARRAYS] = {
    {"a.weight", DTYPE_F32, "300x1000", 0},
    {"b.weight", DTYPE_F32, "700x1000", 1},
    {"optimizer.step", DTYPE_I64, "-", 2},
};

int steps_set_up(void **state)
{
    scratch_set_up(state);
    arrays = arrays_make(steps_specs, STEPS_ARRAYS);
    return 0;
}

int steps_tear_down(void **state)
{
    arrays_free(&arrays);
    return scratch_tear_down(state);
}

struct io *steps_open_faulty(const char *rules)
{
    struct io *faulty = NULL;
    struct err err = {0};
    assert_ok(io_fault_open(folder, NULL, rules, &faulty, &err), &err);
    return faulty;
}

void steps_set_faults(struct io *faulty, const char *format, ...)
{
    char rules[256];
    struct err err = {0};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rules, sizeof rules, format, arguments);
    va_end(arguments);
    assert_ok(io_fault_set(faulty, rules, &err), &err);
}

struct ckpt_saver *steps_open(struct io *backend, uint32_t keep_last)
{
    return steps_open_keeping(backend, &(struct ckpt_keep_rules){.last = keep_last});
}

struct ckpt_saver *steps_open_keeping(struct io *backend, const struct ckpt_keep_rules *keep)
{
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = backend,
                                         .groups_count = arrays.groups_count,
                                         .keep = *keep,
                                         .run_id = "test-run",
                                         .numerics_id = "any"};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(ckpt_saver_open(&options, arrays.tensors, arrays.count, &saver, &err), &err);
    return saver;
}

int steps_temporaries_count(void)
{
    char text[32];
    assert_int_equal(
        test_run_output(text, sizeof text, "ls -A '%s' | grep -c '^.tmp-' || true", folder), 0);
    return atoi(text);
}

void steps_check_listed(int count_min)
{
    uint64_t newest = 0;
    char path[FIXTURE_PATH_BYTES];
    int count = fixture_list(io, folder, &newest);
    assert_true(count >= count_min);
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
