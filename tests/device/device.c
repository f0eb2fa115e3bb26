/*
 * device — what holds for every backend, then what makes each its own.
 */
#include "device/device.h"
#include "tests/support/test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct device *open_device(const char *name)
{
    struct err err = {0};
    struct device *device = NULL;
    assert_ok(device_open(name, &device, &err), &err);
    return device;
}

static void *allocate(struct device *device, enum mem_kind kind, size_t bytes)
{
    struct err err = {0};
    void *memory = NULL;
    assert_ok(device->ops->mem_alloc(device, kind, bytes, &memory, &err), &err);
    return memory;
}

static const char *const names[] = {"cpu", "null"};

static void devices_are_found_by_name(void **state)
{
    (void)state;
    struct err err = {0};
    struct device *device = open_device("auto");
    assert_string_equal(device->ops->name, "cpu");
    device_close(device);
    device_close(NULL);
    device = NULL;
    assert_int_equal(device_open("cuda", &device, &err), -ENODEV);
    assert_string_not_equal(err.advice, "");
    assert_int_equal(device_open("toaster", &device, &err), -ENODEV);
    assert_null(device);
}

static void memory_is_counted_by_kind_with_its_peak(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct device *device = open_device(names[i]);
        struct device_mem_info info;
        void *first = allocate(device, MEM_PINNED, 5000);
        void *second = allocate(device, MEM_PINNED, 7000);
        void *third = allocate(device, MEM_DEVICE, 10);
        device->ops->mem_free(device, MEM_PINNED, first, 5000);
        device->ops->mem_info(device, &info);
        assert_int_equal(info.used_bytes[MEM_PINNED], 7000);
        assert_int_equal(info.peak_bytes[MEM_PINNED], 12000);
        assert_int_equal(info.used_bytes[MEM_DEVICE], 10);
        assert_int_equal(info.used_bytes[MEM_PLAIN], 0);
        device->ops->mem_free(device, MEM_PINNED, second, 7000);
        device->ops->mem_free(device, MEM_DEVICE, third, 10);
        device->ops->mem_free(device, MEM_PLAIN, NULL, 99);
        device->ops->mem_info(device, &info);
        for (int kind = 0; kind < MEM_KIND_COUNT; kind++)
            assert_int_equal(info.used_bytes[kind], 0);
        device_close(device);
    }
}

static void memory_is_aligned_and_apart(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 4096, 4097, 2 << 20, (2 << 20) + 1, 5 << 20};
    for (size_t i = 0; i < 2; i++) {
        struct device *device = open_device(names[i]);
        for (int kind = 0; kind < MEM_KIND_COUNT; kind++) {
            char *pieces[6];
            for (size_t s = 0; s < 6; s++) {
                pieces[s] = allocate(device, (enum mem_kind)kind, sizes[s]);
                assert_int_equal((uintptr_t)pieces[s] % DEVICE_MEM_ALIGN_BYTES, 0);
                for (size_t other = 0; other < s; other++)
                    assert_true((uintptr_t)pieces[s] + sizes[s] <= (uintptr_t)pieces[other] ||
                                (uintptr_t)pieces[other] + sizes[other] <= (uintptr_t)pieces[s]);
            }
            for (size_t s = 0; s < 6; s++)
                device->ops->mem_free(device, (enum mem_kind)kind, pieces[s], sizes[s]);
        }
        device_close(device);
    }
}

static void memory_of_the_cpu_is_zeroed_and_writable(void **state)
{
    (void)state;
    struct device *device = open_device("cpu");
    for (int kind = 0; kind < MEM_KIND_COUNT; kind++) {
        size_t bytes = (3 << 20) + 123;
        for (int round = 0; round < 2; round++) {
            unsigned char *memory = allocate(device, (enum mem_kind)kind, bytes);
            for (size_t at = 0; at < bytes; at++)
                if (memory[at])
                    fail_msg("byte %zu of kind %d is not zero", at, kind);
            memset(memory, 0xee, bytes);
            device->ops->mem_free(device, (enum mem_kind)kind, memory, bytes);
        }
    }
    device_close(device);
}

static void too_much_memory_is_refused_not_counted(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct device *device = open_device(names[i]);
        struct err err = {0};
        struct device_mem_info info;
        void *memory = NULL;
        assert_int_equal(device->ops->mem_alloc(device, MEM_PLAIN, SIZE_MAX - 5, &memory, &err), -ENOMEM);
        assert_int_equal(device->ops->mem_alloc(device, MEM_HUGE, SIZE_MAX / 2, &memory, &err), -ENOMEM);
        assert_null(memory);
        device->ops->mem_info(device, &info);
        assert_int_equal(info.peak_bytes[MEM_PLAIN], 0);
        device_close(device);
    }
}

static void copies_are_there_after_their_event(void **state)
{
    (void)state;
    struct device *device = open_device("cpu");
    struct device_stream *stream = NULL, *other = NULL;
    struct device_event *event = NULL;
    struct err err = {0};
    assert_ok(device->ops->stream_open(device, &stream, &err), &err);
    assert_ok(device->ops->stream_open(device, &other, &err), &err);
    assert_ok(device->ops->event_open(device, &event, &err), &err);
    char *source = allocate(device, MEM_PINNED, 10000), *target = allocate(device, MEM_DEVICE, 10000);
    assert_ok(device->ops->fill(device, stream, source, 0x5a, 10000, &err), &err);
    source[9999] = 7;
    assert_ok(device->ops->copy(device, stream, target, source, 10000, &err), &err);
    assert_ok(device->ops->copy(device, stream, target, NULL, 0, &err), &err);
    assert_ok(device->ops->event_record(device, event, stream, &err), &err);
    assert_ok(device->ops->stream_wait_event(device, other, event, &err), &err);
    assert_ok(device->ops->event_wait(device, event, &err), &err);
    bool done = false;
    assert_ok(device->ops->event_done(device, event, &done, &err), &err);
    assert_true(done);
    assert_ok(device->ops->stream_sync(device, stream, &err), &err);
    assert_memory_equal(source, target, 10000);
    assert_int_equal(target[0], 0x5a);
    device->ops->mem_free(device, MEM_PINNED, source, 10000);
    device->ops->mem_free(device, MEM_DEVICE, target, 10000);
    device->ops->event_close(device, event);
    device->ops->stream_close(device, stream);
    device->ops->stream_close(device, other);
    device_close(device);
}

static void null_counts_a_model_that_no_machine_holds(void **state)
{
    (void)state;
    struct device *device = open_device("null");
    struct device_mem_info info;
    struct device_stream *stream = NULL;
    struct err err = {0};
    assert_ok(device->ops->stream_open(device, &stream, &err), &err);
    size_t bytes = (size_t)1 << 44;
    char *a = allocate(device, MEM_DEVICE, bytes), *b = allocate(device, MEM_DEVICE, bytes);
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
    struct device *device = open_device("null");
    volatile char *memory = allocate(device, MEM_PLAIN, 1 << 20);
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
    device->ops->mem_free(device, MEM_PLAIN, (void *)(uintptr_t)memory, 1 << 20);
    device_close(device);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *allocate_and_free(void *argument)
{
    struct device *device = argument;
    for (int round = 0; round < ROUNDS; round++) {
        void *memory;
        if (device->ops->mem_alloc(device, MEM_PLAIN, 4096, &memory, NULL))
            abort();
        device->ops->mem_free(device, MEM_PLAIN, memory, 4096);
    }
    return NULL;
}

static void threads_share_a_device(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct device *device = open_device(names[i]);
        struct device_mem_info info;
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, allocate_and_free, device), 0);
        for (int t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
        device->ops->mem_info(device, &info);
        assert_int_equal(info.used_bytes[MEM_PLAIN], 0);
        assert_in_range(info.peak_bytes[MEM_PLAIN], 4096, THREADS * 4096);
        device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_found_by_name),
        cmocka_unit_test(memory_is_counted_by_kind_with_its_peak),
        cmocka_unit_test(memory_is_aligned_and_apart),
        cmocka_unit_test(memory_of_the_cpu_is_zeroed_and_writable),
        cmocka_unit_test(too_much_memory_is_refused_not_counted),
        cmocka_unit_test(copies_are_there_after_their_event),
        cmocka_unit_test(null_counts_a_model_that_no_machine_holds),
        cmocka_unit_test(reading_null_memory_faults),
        cmocka_unit_test(threads_share_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
