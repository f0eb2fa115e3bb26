/*
 * gpu_probe — trees laid out like the kernel's in which a GPU is present, hidden, denied or absent.
 */
#include "device/gpu_probe.h"
#include "device/device.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[TEST_PATH_BYTES_MAX];

static int set_up(void **state)
{
    (void)state;
    test_make_folder(root);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_remove_folder(root);
    return 0;
}

static void write_root_file(const char *path, const char *text)
{
    char full[2 * TEST_PATH_BYTES_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    assert_int_equal(test_run("mkdir -p \"$(dirname '%s')\"", full), 0);
    test_write_file(full, text, strlen(text));
}

static void expect_gpu(const char *gpu_path, int status)
{
    struct gpu_probe probe = {.status = 77};
    assert_true(gpu_probe_find(root, &probe));
    assert_string_equal(probe.gpu_path, gpu_path);
    assert_int_equal(probe.status, status);
}

static void expect_no_gpu(void)
{
    struct gpu_probe probe = {.status = 77};
    assert_false(gpu_probe_find(root, &probe));
    assert_int_equal(probe.status, 77);
}

static void write_pci(const char *address, const char *vendor, const char *class)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", address);
    write_root_file(path, vendor);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", address);
    write_root_file(path, class);
}

static void a_machine_without_gpus_reports_none(void **state)
{
    (void)state;
    expect_no_gpu();
    write_root_file("/dev/nvidiactl", "");
    write_root_file("/dev/null", "");
    expect_no_gpu();
    assert_int_equal(gpu_probe_count_files(root), 0);
}

static void a_device_file_is_a_gpu_in_a_container_too(void **state)
{
    (void)state;
    write_root_file("/.dockerenv", "");
    write_root_file("/dev/nvidia3", "");
    expect_gpu("/dev/nvidia3", 0);
    write_root_file("/dev/nvidia0", "");
    expect_gpu("/dev/nvidia0", 0);
    assert_int_equal(gpu_probe_count_files(root), 2);
}

static void an_unopenable_device_file_is_reported(void **state)
{
    char path[2 * TEST_PATH_BYTES_MAX];
    struct err err = {0};
    int gpus = 77;
    (void)state;
    write_root_file("/dev/nvidia0", "");
    snprintf(path, sizeof path, "%s/dev/nvidia0", root);
    /* root ignores permissions, but cannot open a folder for writing */
    if (geteuid() == 0) {
        assert_int_equal(unlink(path), 0);
        write_root_file("/dev/nvidia0/inside", "");
        expect_gpu("/dev/nvidia0", -EISDIR);
    } else {
        assert_int_equal(test_run("chmod 0 '%s'", path), 0);
        expect_gpu("/dev/nvidia0", -EACCES);
    }
    if (device_auto_gpu_count("", &gpus, NULL) == 0 && gpus > 0)
        return; /* CUDA works here */
    assert_int_equal(device_auto_gpu_count(root, &gpus, &err), -ENODEV);
    assert_string_equal(err.path, "/dev/nvidia0");
    assert_string_equal(err.found, strerror(geteuid() == 0 ? EISDIR : EACCES));
    assert_non_null(strstr(err.advice, "use device cpu"));
}

static void a_gpu_without_a_device_file_is_reported_except_in_a_container(void **state)
{
    (void)state;
    write_root_file("/proc/driver/nvidia/gpus/0000:65:00.0/information", "Model: NVIDIA H100\n");
    expect_gpu("/proc/driver/nvidia/gpus/0000:65:00.0", 0);
    write_root_file("/run/.containerenv", "");
    expect_no_gpu();
}

static void a_gpu_without_a_driver_is_found_on_the_bus(void **state)
{
    (void)state;
    write_pci("0000:00:02.0", "0x8086\n", "0x030000\n"); /* a device of another vendor */
    write_pci("0000:65:00.1", "0x10de\n", "0x040300\n"); /* the GPU's audio function */
    expect_no_gpu();
    write_pci("0000:65:00.0", "0x10de\n", "0x030200\n");
    expect_gpu("/sys/bus/pci/devices/0000:65:00.0", 0);
    write_root_file("/proc/self/mountinfo",
                    "22 1 0:20 / /proc rw - proc proc rw\n"
                    "30 22 0:26 / / rw,relatime - overlay overlay rw,lowerdir=/a\n");
    expect_no_gpu();
}

static void a_gpu_passed_to_a_virtual_machine_is_not_counted(void **state)
{
    (void)state;
    write_pci("0000:65:00.0", "0x10de\n", "0x030200\n");
    assert_int_equal(
        test_run(
            "ln -s ../../../bus/pci/drivers/vfio-pci '%s/sys/bus/pci/devices/0000:65:00.0/driver'",
            root),
        0);
    expect_no_gpu();
}

static void only_an_empty_or_invalid_list_hides_all_gpus(void **state)
{
    (void)state;
    assert_true(gpu_probe_hides_all(""));
    assert_true(gpu_probe_hides_all("-1"));
    assert_true(gpu_probe_hides_all("NoDevFiles"));
    assert_false(gpu_probe_hides_all(NULL));
    assert_false(gpu_probe_hides_all("0"));
    assert_false(gpu_probe_hides_all("GPU-8932f937"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_machine_without_gpus_reports_none),
        CASE(a_device_file_is_a_gpu_in_a_container_too),
        CASE(an_unopenable_device_file_is_reported),
        CASE(a_gpu_without_a_device_file_is_reported_except_in_a_container),
        CASE(a_gpu_without_a_driver_is_found_on_the_bus),
        CASE(a_gpu_passed_to_a_virtual_machine_is_not_counted),
        CASE(only_an_empty_or_invalid_list_hides_all_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
