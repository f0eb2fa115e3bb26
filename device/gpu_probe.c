/*
 * gpu_probe — see gpu_probe.h.
 */
#include "device/gpu_probe.h"

#include "base/os/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NVIDIA_VENDOR      0x10de
#define PCI_CLASS_DISPLAY  0x03 /* first of three bytes */
#define PROC_GPUS          "/proc/driver/nvidia/gpus"
#define PCI_DEVICES        "/sys/bus/pci/devices"
#define PASSTHROUGH_DRIVER "vfio-pci" /* owns devices of virtual machines */

unsigned gpu_probe_count_files(const char *root)
{
    unsigned count = 0;
    for (unsigned i = 0; i < GPU_PROBE_FILES_MAX; i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/nvidia%u", i);
        count += machine_has_file(root, path);
    }
    return count;
}

static bool find_file(const char *root, struct gpu_probe *probe)
{
    for (unsigned i = 0; i < GPU_PROBE_FILES_MAX; i++) {
        char path[32], root_path[PATH_MAX];
        snprintf(path, sizeof path, "/dev/nvidia%u", i);
        if (!machine_has_file(root, path))
            continue;
        snprintf(root_path, sizeof root_path, "%s%s", root, path);
        int file = open(root_path, O_RDWR | O_CLOEXEC | O_NONBLOCK), code = errno;
        if (file >= 0)
            close(file);
        if (file < 0 && code == EPERM)
            continue;
        snprintf(probe->gpu_path, sizeof probe->gpu_path, "%s", path);
        probe->status = file < 0 ? -code : 0;
        return true;
    }
    return false;
}

/* Finds the first entry of the folder that is_gpu accepts. */
static bool find_entry(const char *root, const char *folder, bool (*is_gpu)(const char *path),
                       struct gpu_probe *probe)
{
    char path[PATH_MAX];
    struct dirent *entry;
    bool is_found = false;
    snprintf(path, sizeof path, "%s%s", root, folder);
    DIR *entries = opendir(path);
    while (entries && !is_found && (entry = readdir(entries))) {
        snprintf(path, sizeof path, "%s%s/%.64s", root, folder, entry->d_name);
        is_found = entry->d_name[0] != '.' && is_gpu(path);
        if (is_found) {
            probe->status = 0;
            snprintf(probe->gpu_path, sizeof probe->gpu_path, "%s/%.64s", folder, entry->d_name);
        }
    }
    if (entries)
        closedir(entries);
    return is_found;
}

static bool accept_any(const char *path)
{
    (void)path;
    return true;
}

static unsigned long read_number(const char *folder, const char *name)
{
    char path[PATH_MAX + 16], text[32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return machine_read_line(path, text, sizeof text) ? 0 : strtoul(text, NULL, 16);
}

static bool is_pci_gpu(const char *path)
{
    char link[PATH_MAX + 16], driver[PATH_MAX];
    if (read_number(path, "vendor") != NVIDIA_VENDOR ||
        read_number(path, "class") >> 16 != PCI_CLASS_DISPLAY)
        return false;
    snprintf(link, sizeof link, "%s/driver", path);
    ssize_t bytes = readlink(link, driver, sizeof driver - 1);
    driver[bytes > 0 ? bytes : 0] = '\0';
    const char *name = strrchr(driver, '/');
    return strcmp(name ? name + 1 : driver, PASSTHROUGH_DRIVER) != 0;
}

bool gpu_probe_find(const char *root, struct gpu_probe *ret_probe)
{
    if (gpu_probe_count_files(root) > 0)
        return find_file(root, ret_probe);
    if (machine_container(root))
        return false;
    return find_entry(root, PROC_GPUS, accept_any, ret_probe) ||
           find_entry(root, PCI_DEVICES, is_pci_gpu, ret_probe);
}

bool gpu_probe_hides_all(const char *visible_devices)
{
    if (!visible_devices)
        return false;
    return visible_devices[0] == '\0' || visible_devices[0] == '-' ||
           strcmp(visible_devices, "NoDevFiles") == 0;
}
