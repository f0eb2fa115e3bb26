/*
 * late_device — see late_device.h.
 */
#include "tests/loader/late_device.h"

#include "tests/support/test.h"

struct gate late_device_gate = GATE_OPEN;
atomic_int late_device_opened_events, late_device_recorded_events, late_device_ordered_streams;

static const struct device_ops *real_ops;
static struct device_ops late_ops;

static int late_event_open(struct device *device, struct device_event **ret_event, struct err *err)
{
    atomic_fetch_add(&late_device_opened_events, 1);
    return real_ops->event_open(device, ret_event, err);
}

static int late_event_record(struct device *device, struct device_event *event,
                             struct device_stream *stream, struct err *err)
{
    atomic_fetch_add(&late_device_recorded_events, 1);
    return real_ops->event_record(device, event, stream, err);
}

static int late_stream_wait_event(struct device *device, struct device_stream *stream,
                                  struct device_event *event, struct err *err)
{
    atomic_fetch_add(&late_device_ordered_streams, 1);
    return real_ops->stream_wait_event(device, stream, event, err);
}

static int late_event_wait(struct device *device, struct device_event *event, struct err *err)
{
    gate_pass(&late_device_gate);
    return real_ops->event_wait(device, event, err);
}

void late_device_open(struct device **ret_device)
{
    struct err err;
    assert_ok(device_open("cpu", ret_device, &err), &err);
    real_ops = (*ret_device)->ops;
    late_ops = *real_ops;
    late_ops.event_open = late_event_open;
    late_ops.event_record = late_event_record;
    late_ops.stream_wait_event = late_stream_wait_event;
    late_ops.event_wait = late_event_wait;
    (*ret_device)->ops = &late_ops;
    late_device_opened_events = late_device_recorded_events = late_device_ordered_streams = 0;
}

uint64_t late_device_used_bytes(struct device *device)
{
    struct device_mem_info info;
    uint64_t sum = 0;
    device->ops->mem_info(device, &info);
    for (int kind = 0; kind < MEM_KIND_COUNT; kind++)
        sum += info.used_bytes[kind];
    return sum;
}
