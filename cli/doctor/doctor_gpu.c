/*
 * doctor_gpu — checks whether this build can compute on the GPUs. See doctor.h.
 */
#include "cli/doctor/doctor.h"

#include "base/os/machine.h"
#include "device/cuda_libraries.h"
#include "device/device_cuda.h"
#include "device/gpu_probe.h"
#include "device/nvml.h"
#include "device/peak.h"
#include "loader/loader.h"
#include "trainer/ops/ops.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { GPUS_MAX = 64, GPU_NAME_BYTES = 128 };

/* The driver's file begins "Model: \t\t NVIDIA H100 80GB HBM3". */
static void read_model(const char *bus, char model[GPU_NAME_BYTES])
{
    char path[MACHINE_TEXT_BYTES], line[MACHINE_TEXT_BYTES];
    snprintf(model, GPU_NAME_BYTES, "NVIDIA GPU at %.60s", bus);
    snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%.60s/information", bus);
    if (machine_read_line(path, line, sizeof line) == 0 && strncmp(line, "Model:", 6) == 0)
        snprintf(model, GPU_NAME_BYTES, "%.100s", line + 6 + strspn(line + 6, " \t"));
}

/* Returns the number of the driver's GPUs. */
static size_t list_gpus(struct doctor_finding *finding)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/driver/nvidia/gpus");
    struct dirent *entry;
    jsonx_begin_array(&finding->json, "gpus");
    while (folder && count < GPUS_MAX && (entry = readdir(folder))) {
        char model[GPU_NAME_BYTES];
        if (entry->d_name[0] == '.')
            continue;
        read_model(entry->d_name, model);
        doctor_report(finding, "%s%s", count++ ? ", " : "", model);
        jsonx_write_string(&finding->json, NULL, model);
    }
    jsonx_end_array(&finding->json);
    if (folder)
        closedir(folder);
    return count;
}

static void check_devices(struct doctor_finding *finding)
{
    size_t gpus = list_gpus(finding), files = gpu_probe_count_files("");
    if (gpus == 0)
        doctor_report(finding, files ? "NVIDIA device files exist, but the driver does not respond"
                                     : "no NVIDIA GPU");
    else if (files == 0)
        doctor_report(finding, "; /dev/nvidia* is missing");
    jsonx_write_u64(&finding->json, "device_files_count", files);
    if ((gpus == 0) != (files == 0))
        doctor_advise(
            finding, DOCTOR_NOTE,
            "load the NVIDIA driver; in a container, pass the GPUs in (docker: --gpus all)");
}

static int open_training_device(struct device **ret_device, struct err *err)
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

/* Device metrics in training come from NVML. */
static void check_driver(struct doctor_finding *finding)
{
    struct nvml *nvml;
    struct err err = {0};
    char version[NVML_TEXT_BYTES] = "";
    int status = nvml_open(&nvml, &err);
    if (!status) {
        status = nvml_driver_version(nvml, version, &err);
        nvml_close(nvml);
    }
    jsonx_write_bool(&finding->json, "nvml_answers", status == 0);
    if (!status) {
        doctor_report(finding, "%s; NVML works", version);
        jsonx_write_string(&finding->json, "version", version);
        return;
    }
    doctor_report(finding, "%s; training metrics have no GPU utilization", err.what);
    jsonx_write_null(&finding->json, "version");
    if (gpu_probe_count_files("") > 0)
        doctor_advise(finding, DOCTOR_NOTE, "%s", err.advice);
}

static void write_gpu(struct jsonx_writer *json, const struct device_cuda_info *info)
{
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "name", info->name);
    jsonx_write_string(json, "bus", info->bus);
    jsonx_write_u64(json, "capability_major", (uint64_t)info->capability_major);
    jsonx_write_u64(json, "capability_minor", (uint64_t)info->capability_minor);
    jsonx_write_u64(json, "memory_bytes", info->total_bytes);
    jsonx_write_u64(json, "multiprocessors_count", (uint64_t)info->multiprocessors);
    jsonx_write_u64(json, "clock_hz", info->clock_hz);
    jsonx_write_f64(json, "peak_bf16_flops_per_second", peak_flops(info, DTYPE_BF16));
    jsonx_end_object(json);
}

static int list_cuda(struct doctor_finding *finding, struct err *err)
{
    struct device_cuda_info info = {0};
    int count = 0, status = device_cuda_count(&count, err);
    jsonx_begin_array(&finding->json, "gpus");
    for (int i = 0; i < count && i < GPUS_MAX && !status; i++) {
        char size[STR_SIZE_BYTES];
        status = device_cuda_describe(i, &info, err);
        if (status)
            break;
        doctor_report(finding, "%s%d: %s, compute capability %d.%d, %s", i ? "; " : "", i,
                      info.name, info.capability_major, info.capability_minor,
                      str_format_size(info.total_bytes, size));
        write_gpu(&finding->json, &info);
    }
    jsonx_end_array(&finding->json);
    if (status)
        return status;
    doctor_report(finding, "; CUDA runtime %d.%d, driver for %d.%d", info.runtime_version / 1000,
                  info.runtime_version % 1000 / 10, info.driver_version / 1000,
                  info.driver_version % 1000 / 10);
    jsonx_write_u64(&finding->json, "runtime_version", (uint64_t)info.runtime_version);
    jsonx_write_u64(&finding->json, "driver_version", (uint64_t)info.driver_version);
    return 0;
}

static void check_backend(struct doctor_finding *finding)
{
    struct device *device = NULL;
    struct err err = {0};
    int status = list_cuda(finding, &err);
    bool has_list = status == 0;
    if (!status)
        status = open_training_device(&device, &err);
    if (!status) {
        doctor_report(finding, "; `device: auto` trains on 0");
        device_close(device);
    } else {
        struct err count_err = {0};
        int gpus = 0, count_status = device_auto_gpu_count("", &gpus, &count_err);
        bool auto_fails = count_status || gpus > 0; /* `auto` fails on a GPU that it cannot use */
        doctor_report(finding, "%s%s; `device: auto` %s", has_list ? "; " : "", err.what,
                      auto_fails ? "is an error, `device: cpu` trains on the CPU"
                                 : "trains on the CPU");
        if (auto_fails)
            doctor_advise(finding, DOCTOR_NOTE, "%s", count_status ? count_err.advice : err.advice);
    }
    jsonx_write_bool(&finding->json, "is_usable", status == 0);
}

static void check_libraries(struct doctor_finding *finding)
{
    struct cuda_library libraries[CUDA_LIBRARIES_MAX];
    size_t count = cuda_libraries_find(libraries);
    jsonx_begin_array(&finding->json, "libraries");
    for (size_t i = 0; i < count; i++) {
        const struct cuda_library *library = &libraries[i];
        char version[48] = "absent";
        if (library->major > 0)
            snprintf(version, sizeof version, "%d.%d.%d", library->major, library->minor,
                     library->patch);
        doctor_report(finding, "%s%s %s (%s)", i ? ", " : "", library->name, version, library->use);
        jsonx_begin_object(&finding->json, NULL);
        jsonx_write_string(&finding->json, "name", library->name);
        if (library->major > 0)
            jsonx_write_string(&finding->json, "version", version);
        else
            jsonx_write_null(&finding->json, "version");
        jsonx_end_object(&finding->json);
    }
    jsonx_end_array(&finding->json);
    if (libraries[0].major == 0 && gpu_probe_count_files("") > 0)
        doctor_advise(finding, DOCTOR_NOTE,
                      "install libcublas of the CUDA toolkit or set LD_LIBRARY_PATH to its folder: "
                      "training on the GPU needs cuBLASLt");
}

/* Pins the default memory of a loader. RLIMIT_MEMLOCK does not apply to the driver, but containers
 * with a low limit often limit pinned memory too. */
static void check_pinned(struct doctor_finding *finding)
{
    struct device *device = NULL;
    struct rlimit limit;
    struct err err = {0};
    char size[STR_SIZE_BYTES], limit_text[STR_SIZE_BYTES] = "unlimited";
    uint64_t pinned_bytes = loader_options_default().memory_bytes;
    void *memory = NULL;
    if (getrlimit(RLIMIT_MEMLOCK, &limit))
        limit.rlim_cur = RLIM_INFINITY;
    if (limit.rlim_cur != RLIM_INFINITY)
        str_format_size(limit.rlim_cur, limit_text);
    str_format_size(pinned_bytes, size);
    int status = device_open("cuda", &device, &err);
    if (status) {
        doctor_report(finding, "not needed without a GPU; RLIMIT_MEMLOCK: %s", limit_text);
        jsonx_write_null(&finding->json, "is_given");
        return;
    }
    status = device->ops->mem_alloc(device, MEM_PINNED, pinned_bytes, &memory, &err);
    device->ops->mem_free(device, MEM_PINNED, memory, pinned_bytes);
    device_close(device);
    doctor_report(finding, "%s %s; RLIMIT_MEMLOCK: %s", size,
                  status ? "cannot be allocated" : "can be allocated", limit_text);
    jsonx_write_bool(&finding->json, "is_given", status == 0);
    jsonx_write_u64(&finding->json, "asked_bytes", pinned_bytes);
    if (status)
        doctor_advise(finding, DOCTOR_NOTE,
                      "reduce data.memory (128MiB), raise `ulimit -l`, or give the container more "
                      "memory");
}

static const struct doctor_check checks[] = {
    {"devices", check_devices},     {"driver", check_driver},        {"cuda", check_backend},
    {"libraries", check_libraries}, {"pinned memory", check_pinned},
};

const struct doctor_group doctor_gpu = {"gpu", checks, sizeof checks / sizeof checks[0]};
