/*
 * device — see device.h. Picks the backend by name.
 */
#include "device/device_cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ORDINAL_MAX = 1023 };

/* "cuda", or "cuda:N". False where it is neither. */
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

int device_open(const char *name, struct device **ret_device, struct err *err)
{
    int ordinal = 0;
    if (strcmp(name, "auto") == 0) {
        int status = device_cuda_open(0, ret_device, err);
        if (status != -ENODEV)
            return status;
        err_clear(err);
        return device_cpu_open(ret_device, err);
    }
    if (strcmp(name, "cpu") == 0)
        return device_cpu_open(ret_device, err);
    if (strcmp(name, "null") == 0)
        return device_null_open(ret_device, err);
    if (parse_cuda(name, &ordinal))
        return device_cuda_open(ordinal, ret_device, err);
    err_set(err, -ENODEV, "no such device: %.100s", name);
    err_expected(err, "auto, cpu, cuda, cuda:N or null");
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
