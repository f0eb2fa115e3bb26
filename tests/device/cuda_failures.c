/*
 * cuda_failures — error messages when driver, device or memory are missing or fail. Runs only on
 * the CPU, where failures can be simulated.
 */
#include "device/device_cuda.h"
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/device/contract.h"
#include "tests/support/test.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void assert_open_fails(const char *line)
{
    char text[ERR_LINE_BYTES_MAX];
    struct err err = {0};
    struct device *device = NULL;
    assert_int_equal(device_open("cuda", &device, &err), -ENODEV);
    assert_null(device);
    assert_string_equal(err_format(&err, text, sizeof text), line);
    device = contract_open("auto");
    assert_string_equal(device->ops->name, "cpu");
    device_close(device);
    shim_set_driver(CUDART_VERSION, 1);
    device = contract_open("auto");
    assert_string_equal(device->ops->name, "cuda");
    device_close(device);
}

static void a_missing_driver_gives_a_one_line_error(void **state)
{
    (void)state;
    shim_set_driver(0, 0);
    assert_open_fails(
        "no NVIDIA driver on this machine; use device cpu, or install the driver and check "
        "it with nvidia-smi");
}

static void an_old_driver_is_reported_with_both_versions(void **state)
{
    (void)state;
    char line[ERR_LINE_BYTES_MAX];
    shim_set_driver(11080, 1);
    snprintf(line, sizeof line,
             "the NVIDIA driver is too old: expected one for CUDA %d.%d or newer, found one for "
             "CUDA 11.8; "
             "use device "
             "cpu, or update the driver",
             CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    assert_open_fails(line);
}

static void without_a_device_the_error_names_what_hides_it(void **state)
{
    (void)state;
    shim_set_driver(CUDART_VERSION, 0);
    assert_open_fails("there is no GPU that CUDA can use; use device cpu, or check nvidia-smi and "
                      "CUDA_VISIBLE_DEVICES");
}

/* root: a tree that contains a GPU's device file. */
static void assert_gpu_refused(const char *root, const char *line)
{
    char text[ERR_LINE_BYTES_MAX];
    struct err err = {0};
    int gpus = 77;
    assert_int_equal(device_auto_gpu_count(root, &gpus, &err), -ENODEV);
    assert_int_equal(gpus, 77);
    assert_string_equal(err_format(&err, text, sizeof text), line);
}

static void auto_refuses_an_unusable_gpu(void **state)
{
    (void)state;
    char root[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 16], line[ERR_LINE_BYTES_MAX];
    struct err err = {0};
    int gpus = 77;
    test_make_folder(root);
    shim_set_driver(11080, 1);
    /* CUDA's library is installed, but there is no GPU */
    assert_ok(device_auto_gpu_count(root, &gpus, &err), &err);
    assert_int_equal(gpus, 0);
    assert_int_equal(test_run("mkdir '%s/dev'", root), 0);
    snprintf(path, sizeof path, "%s/dev/nvidia0", root);
    test_write_file(path, "", 0);
    snprintf(line, sizeof line,
             "the NVIDIA driver is too old: /dev/nvidia0: expected one for CUDA %d.%d or newer, "
             "found one for "
             "CUDA 11.8; use device cpu, or update the driver",
             CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    assert_gpu_refused(root, line);
    shim_set_driver(0, 0);
    assert_gpu_refused(
        root, "no NVIDIA driver on this machine: /dev/nvidia0; use device cpu, or install the "
              "driver and check it with nvidia-smi");
    shim_set_driver(CUDART_VERSION, 0);
    assert_gpu_refused(root,
                       "there is no GPU that CUDA can use: /dev/nvidia0; use device cpu, or check "
                       "nvidia-smi and CUDA_VISIBLE_DEVICES");
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0); /* hidden on purpose, not missing */
    assert_ok(device_auto_gpu_count(root, &gpus, &err), &err);
    assert_int_equal(gpus, 0);
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    shim_set_driver(CUDART_VERSION, 2);
    assert_ok(device_auto_gpu_count(root, &gpus, &err), &err);
    assert_int_equal(gpus, 2);
    shim_set_driver(CUDART_VERSION, 1);
    test_remove_folder(root);
}

static void auto_refuses_a_gpu_that_is_too_old_for_the_build(void **state)
{
    (void)state;
    struct err err = {0};
    struct device *device = NULL;
    struct shim_architecture now = shim_architecture();
    shim_set_architecture((struct shim_architecture){7, 0, now.shared_bytes_max});
    assert_int_equal(device_open("auto", &device, &err), -ENODEV);
    assert_non_null(strstr(err.what, "is too old for this build"));
    shim_set_architecture(now);
}

static void lack_of_memory_is_reported_in_bytes(void **state)
{
    (void)state;
    struct err err = {0};
    struct device_mem_info info;
    void *memory = NULL;
    shim_set_memory(64 << 20);
    struct device *device = contract_open("cuda");
    void *first = contract_allocate(device, MEM_DEVICE, 16 << 20);
    assert_int_equal(device->ops->mem_alloc(device, MEM_DEVICE, 60 << 20, &memory, &err), -ENOMEM);
    assert_null(memory);
    assert_non_null(strstr(err.what, "62914560 bytes"));
    assert_non_null(strstr(err.found, "48.0 MiB free of 64.0 MiB"));
    assert_string_not_equal(err.advice, "");
    device->ops->mem_info(device, &info);
    assert_int_equal(info.used_bytes[MEM_DEVICE], 16 << 20);
    assert_int_equal(info.free_bytes, 48 << 20);
    device->ops->mem_free(device, MEM_DEVICE, first, 16 << 20);
    device_close(device);
    shim_set_memory((size_t)4 << 30);
}

static void after_a_device_is_lost_every_call_fails(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        struct err err = {0};
        struct device *device = contract_open("cuda");
        struct device_stream *stream;
        struct device_event *event;
        assert_ok(device->ops->stream_open(device, &stream, &err), &err);
        assert_ok(device->ops->event_open(device, &event, &err), &err);
        char *memory = contract_allocate(device, MEM_DEVICE, 100);
        shim_set_failure(cudaErrorIllegalAddress);
        int status = device->ops->fill(device, stream, memory, 1, 100, &err);
        if (!status)
            status = device->ops->event_record(device, event, stream, &err);
        if (!status)
            status = device->ops->event_wait(device, event, &err);
        assert_int_equal(status, -EIO);
        assert_non_null(strstr(err.what, "an illegal memory access was encountered"));
        assert_string_not_equal(err.advice, "");
        assert_int_equal(device->ops->stream_sync(device, stream, &err), -EIO);
        shim_set_failure(cudaSuccess);
        device->ops->mem_free(device, MEM_DEVICE, memory, 100);
        device->ops->event_close(device, event);
        device->ops->stream_close(device, stream);
        device_close(device);
    }
}

static void the_host_cannot_touch_device_memory(void **state)
{
    (void)state;
    order_set(1); /* the stream order in which host access faults */
    struct device *device = contract_open("cuda");
    volatile char *memory = contract_allocate(device, MEM_DEVICE, 100);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        _exit(memory[50]);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS));
    device->ops->mem_free(device, MEM_DEVICE, (void *)(uintptr_t)memory, 100);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_driver_gives_a_one_line_error),
        cmocka_unit_test(an_old_driver_is_reported_with_both_versions),
        cmocka_unit_test(without_a_device_the_error_names_what_hides_it),
        cmocka_unit_test(auto_refuses_an_unusable_gpu),
        cmocka_unit_test(auto_refuses_a_gpu_that_is_too_old_for_the_build),
        cmocka_unit_test(lack_of_memory_is_reported_in_bytes),
        cmocka_unit_test(after_a_device_is_lost_every_call_fails),
        cmocka_unit_test(the_host_cannot_touch_device_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
