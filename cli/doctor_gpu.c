/*
 * doctor_gpu — whether there is a GPU, and whether this build computes on it. See doctor.h.
 */
#include "cli/doctor.h"

#include "base/machine.h"
#include "device/device.h"
#include "trainer/ops.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GPUS_MAX = 64, GPU_NAME_BYTES = 128 };

/* "Model: \t\t NVIDIA H100 80GB HBM3" in the driver's file of a GPU. */
static void read_model(const char *bus, char model[GPU_NAME_BYTES])
{
    char path[MACHINE_TEXT_BYTES], line[MACHINE_TEXT_BYTES];
    snprintf(model, GPU_NAME_BYTES, "NVIDIA GPU at %.60s", bus);
    snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%.60s/information", bus);
    if (machine_read_line(path, line, sizeof line) == 0 && strncmp(line, "Model:", 6) == 0)
        snprintf(model, GPU_NAME_BYTES, "%.100s", line + 6 + strspn(line + 6, " \t"));
}

/* GPUs that the driver shows, into the facts; their number. */
static size_t list_gpus(struct doctor_finding *finding)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/driver/nvidia/gpus");
    struct dirent *entry;
    json_begin_array(&finding->json, "gpus");
    while (folder && count < GPUS_MAX && (entry = readdir(folder))) {
        char model[GPU_NAME_BYTES];
        if (entry->d_name[0] == '.')
            continue;
        read_model(entry->d_name, model);
        doctor_found(finding, "%s%s", count++ ? ", " : "", model);
        json_write_string(&finding->json, NULL, model);
    }
    json_end_array(&finding->json);
    if (folder)
        closedir(folder);
    return count;
}

/* Device files as a container gets them, /dev/nvidia0 and so on; not nvidiactl. */
static size_t count_device_files(void)
{
    size_t count = 0;
    for (size_t i = 0; i < GPUS_MAX; i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/nvidia%zu", i);
        count += access(path, F_OK) == 0;
    }
    return count;
}

static void check_devices(const struct doctor_folder *folder, struct doctor_finding *finding)
{
    (void)folder;
    size_t gpus = list_gpus(finding), files = count_device_files();
    if (gpus == 0)
        doctor_found(finding,
                     files ? "device files of an NVIDIA driver, which does not answer" : "no NVIDIA GPU");
    else if (files == 0)
        doctor_found(finding, "; no /dev/nvidia* by which to reach them");
    json_write_u64(&finding->json, "device_files_count", files);
    if ((gpus == 0) != (files == 0))
        doctor_advise(finding, DOCTOR_NOTE,
                      "load the NVIDIA driver; in a container, pass the GPUs in (docker: --gpus all)");
}

/* Whether a training would come by a device and by what computes on it, which needs libraries of its own. */
static int open_as_training_does(struct device **ret_device, struct err *err)
{
    struct device *device;
    struct ops *ops;
    int status = device_open("cuda", &device, err);
    if (status)
        return status;
    status = ops_open(device, DTYPE_BF16, 0, &ops, err);
    if (status) {
        device_close(device);
        return status;
    }
    ops_close(ops);
    *ret_device = device;
    return 0;
}

/* The build's own answer. A GPU that lies idle is worth a note. */
static void check_backend(const struct doctor_folder *folder, struct doctor_finding *finding)
{
    (void)folder;
    struct device *device = NULL;
    struct err err = {0};
    int status = open_as_training_does(&device, &err);
    if (!status) {
        struct device_mem_info info;
        char size[STR_SIZE_BYTES];
        device->ops->mem_info(device, &info);
        doctor_found(finding, "%s, %s of memory", device->ops->name, str_format_size(info.total_bytes, size));
        json_write_u64(&finding->json, "memory_bytes", info.total_bytes);
        device_close(device);
    } else {
        doctor_found(finding, "%s; training runs on the CPU", err.what);
        if (count_device_files() > 0)
            doctor_advise(finding, DOCTOR_NOTE, "%s", err.advice);
    }
    json_write_bool(&finding->json, "is_usable", status == 0);
}

static const struct doctor_check checks[] = {
    {"devices", check_devices},
    {"cuda", check_backend},
};

const struct doctor_group doctor_gpu = {"gpu", checks, sizeof checks / sizeof checks[0]};
