/*
 * device — see device.h. Picks the backend by name.
 */
#include "device/device.h"

#include <errno.h>
#include <string.h>

int device_open(const char *name, struct device **ret_device, struct err *err)
{
    if (strcmp(name, "cpu") == 0 || strcmp(name, "auto") == 0)
        return device_cpu_open(ret_device, err);
    if (strcmp(name, "null") == 0)
        return device_null_open(ret_device, err);
    if (strcmp(name, "cuda") == 0) {
        err_set(err, -ENODEV, "this build has no CUDA");
        err_advise(err, "use device cpu, or build where CMake finds a CUDA toolkit");
        return -ENODEV;
    }
    err_set(err, -ENODEV, "no such device: %.100s", name);
    err_expected(err, "auto, cpu or null");
    return -ENODEV;
}

void device_close(struct device *device)
{
    if (device)
        device->ops->close(device);
}

int device_upload(struct device *device, void *target, const void *source, size_t bytes, struct err *err)
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
