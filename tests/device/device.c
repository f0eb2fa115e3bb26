/*
 * device — the backends that every build has: the common contract, then behavior specific to each.
 * cuda.c tests the third backend.
 */
#include "tests/device/contract.h"
#include "tests/support/test.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void devices_are_found_by_name(void **state)
{
    (void)state;
    static const char *const absent[] = {"toaster", "cuda:", "cuda:x", "cuda:1x", "cuda1", ""};
    struct err err = {0};
    struct device *device = NULL;
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        assert_int_equal(device_open(absent[i], &device, &err), -ENODEV);
        assert_string_not_equal(err.expected, "");
        assert_null(device);
    }
    device_close(NULL);
}

static void auto_selects_a_gpu_if_there_is_one(void **state)
{
    (void)state;
    struct err err = {0};
    struct device *device = NULL;
    const char *best = "cuda";
    int status = device_open("cuda", &device, &err);
    if (status) {
        assert_int_equal(status, -ENODEV);
        assert_string_not_equal(err.what, "");
        assert_non_null(strstr(err.advice, "use device cpu"));
        best = "cpu";
    }
    device_close(device);
    device = contract_open("auto");
    assert_string_equal(device->ops->name, best);
    device_close(device);
}

/* Runs a contract case on the two backends that are available on every machine. */
#define ON_CPU_AND_NULL(name)                                                                      \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        contract_##name("cpu");                                                                    \
        contract_##name("null");                                                                   \
    }

ON_CPU_AND_NULL(memory_and_its_peak_are_counted_by_kind)
ON_CPU_AND_NULL(allocations_are_aligned_and_disjoint)
ON_CPU_AND_NULL(refused_allocations_are_not_counted)
ON_CPU_AND_NULL(threads_share_a_device)

static void cpu_memory_is_zeroed_and_writable(void **state)
{
    (void)state;
    contract_memory_is_zeroed_and_writable("cpu");
}

static void copies_are_complete_after_their_event(void **state)
{
    (void)state;
    contract_copies_are_complete_after_their_event("cpu");
}

static void the_null_device_counts_more_memory_than_any_machine_has(void **state)
{
    (void)state;
    struct device *device = contract_open("null");
    struct device_mem_info info;
    struct device_stream *stream = NULL;
    struct err err = {0};
    assert_ok(device->ops->stream_open(device, &stream, &err), &err);
    size_t bytes = (size_t)1 << 44;
    char *a = contract_allocate(device, MEM_DEVICE, bytes),
         *b = contract_allocate(device, MEM_DEVICE, bytes);
    assert_ok(device->ops->copy(device, stream, a, b, bytes, &err), &err);
    assert_ok(device->ops->fill(device, stream, a, 0, bytes, &err), &err);
    device->ops->mem_info(device, &info);
    assert_true(info.peak_bytes[MEM_DEVICE] == 2 * bytes);
    device->ops->mem_free(device, MEM_DEVICE, a, bytes);
    device->ops->mem_free(device, MEM_DEVICE, b, bytes);
    device->ops->stream_close(device, stream);
    device_close(device);
}

static void reading_null_memory_faults(void **state)
{
    (void)state;
    struct device *device = contract_open("null");
    volatile char *memory = contract_allocate(device, MEM_PAGEABLE, 1 << 20);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        _exit(memory[5000]);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS));
    device->ops->mem_free(device, MEM_PAGEABLE, (void *)(uintptr_t)memory, 1 << 20);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_found_by_name),
        cmocka_unit_test(auto_selects_a_gpu_if_there_is_one),
        cmocka_unit_test(memory_and_its_peak_are_counted_by_kind),
        cmocka_unit_test(allocations_are_aligned_and_disjoint),
        cmocka_unit_test(cpu_memory_is_zeroed_and_writable),
        cmocka_unit_test(refused_allocations_are_not_counted),
        cmocka_unit_test(copies_are_complete_after_their_event),
        cmocka_unit_test(the_null_device_counts_more_memory_than_any_machine_has),
        cmocka_unit_test(reading_null_memory_faults),
        cmocka_unit_test(threads_share_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
