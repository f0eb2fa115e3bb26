/*
 * device_open — selects the backend by name. See device.h.
 */
#include "device/device_cuda.h"
#include "device/gpu_probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ORDINAL_MAX = 1023 };

/* Returns false for names other than "cuda" and "cuda:N". */
static bool parse_cuda(const char *name, int *ret_ordinal)
{
    static const char prefix[] = "cuda";
    size_t length = sizeof prefix - 1;
    if (strncmp(name, prefix, length) != 0)
        return false;
    if (name[length] == '\0') {
        *ret_ordinal = 0;
        return true;
    }
    char *end;
    if (name[length] != ':' || name[length + 1] < '0' || name[length + 1] > '9')
        return false;
    unsigned long ordinal = strtoul(name + length + 1, &end, 10);
    *ret_ordinal = ordinal < ORDINAL_MAX ? (int)ordinal : ORDINAL_MAX;
    return *end == '\0';
}

/* "auto" must not silently ignore an assigned but unusable GPU. why: CUDA's reason. */
static int explain_unusable_gpu(const struct gpu_probe *probe, struct err *why)
{
    err_at(why, probe->gpu_path, ERR_NO_OFFSET);
    if (probe->status == 0)
        return -ENODEV;
    err_expected(why, "a device file that can be opened");
    err_found(why, "%s", strerror(-probe->status));
    if (probe->status == -EACCES)
        err_advise(why, "use device cpu, or let this user open the file (join its group)");
    return -ENODEV;
}

int device_auto_gpu_count(const char *root, int *ret_gpus, struct err *err)
{
    struct gpu_probe probe;
    struct err why = {0};
    int status = device_cuda_count(ret_gpus, &why);
    if (status == -ENODEV &&
        (gpu_probe_hides_all(getenv("CUDA_VISIBLE_DEVICES")) || !gpu_probe_find(root, &probe))) {
        *ret_gpus = 0;
        return 0;
    }
    if (status == -ENODEV)
        explain_unusable_gpu(&probe, &why);
    if (status && err)
        *err = why;
    return status;
}

static int open_auto(struct device **ret_device, struct err *err)
{
    int gpus = 0, status = device_auto_gpu_count("", &gpus, err);
    if (status)
        return status;
    return gpus > 0 ? device_cuda_open(0, ret_device, err) : device_cpu_open(ret_device, err);
}

int device_open(const char *name, struct device **ret_device, struct err *err)
{
    int ordinal = 0;
    if (strcmp(name, "auto") == 0)
        return open_auto(ret_device, err);
    if (strcmp(name, "cpu") == 0)
        return device_cpu_open(ret_device, err);
    if (strcmp(name, "null") == 0)
        return device_null_open(ret_device, err);
    if (parse_cuda(name, &ordinal))
        return device_cuda_open(ordinal, ret_device, err);
    err_set(err, -ENODEV, "unknown device: %.100s", name);
    err_expected(err, "auto, cpu, cuda, cuda:N or null");
    return -ENODEV;
}

void device_close(struct device *device)
{
    if (device)
        device->ops->close(device);
}

int device_upload(struct device *device, void *target, const void *source, size_t bytes,
                  struct err *err)
{
    struct device_stream *stream;
    int status = device->ops->stream_open(device, &stream, err);
    if (status)
        return status;
    status = device->ops->copy(device, stream, target, source, bytes, err);
    if (!status)
        status = device->ops->stream_sync(device, stream, err);
    device->ops->stream_close(device, stream);
    return status;
}
