/*
 * scalars — see scalars.h.
 */
#include "trainer/report/scalars.h"

#include <assert.h>

struct scalar_list {
    struct scalar *scalars;
    size_t count;
};

static void add_real(struct scalar_list *list, const char *name, double value)
{
    assert(list->count < SCALARS_MAX);
    list->scalars[list->count++] = (struct scalar){name, value, false};
}

static void add_count(struct scalar_list *list, const char *name, uint64_t value)
{
    assert(list->count < SCALARS_MAX);
    list->scalars[list->count++] = (struct scalar){name, (double)value, true};
}

static void add_device_metrics(struct scalar_list *list,
                               const struct trainer_device_metrics *metrics)
{
    add_real(list, "model_flops_per_second", metrics->flops_per_second);
    if (metrics->peak_share > 0)
        add_real(list, "peak_share", metrics->peak_share);
    if (metrics->utilization_share >= 0)
        add_real(list, "device_utilization_share", metrics->utilization_share);
    if (metrics->device_used_bytes > 0)
        add_count(list, "device_used_bytes", metrics->device_used_bytes);
    if (metrics->device_taken_bytes > 0)
        add_count(list, "device_taken_bytes", metrics->device_taken_bytes);
    if (metrics->process_bytes > 0)
        add_count(list, "process_bytes", metrics->process_bytes);
}

static void add_time(struct scalar_list *list, const struct trainer_report *report)
{
    static const struct {
        enum time_category category;
        const char *name;
        bool sync, async; /* reported without, with report->is_async */
    } fields[] = {
        {TIME_LOAD, "load_seconds", true, true},
        {TIME_FORWARD, "forward_seconds", true, false},
        {TIME_BACKWARD, "backward_seconds", true, false},
        {TIME_REDUCE, "reduce_seconds", true, true},
        {TIME_UPDATE, "update_seconds", true, false},
        {TIME_QUEUE, "queue_seconds", false, true},
        {TIME_DEVICE, "device_seconds", false, true},
        {TIME_SAVE, "save_seconds", true, true},
        {TIME_OTHER, "other_seconds", true, true},
    };
    add_real(list, "elapsed_seconds", report->elapsed_seconds);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (report->is_async ? fields[i].async : fields[i].sync)
            add_real(list, fields[i].name, (double)report->time.ns[fields[i].category] / 1e9);
}

static void add_device_time(struct scalar_list *list, const struct category_times *time)
{
    add_real(list, "device_forward_seconds", (double)time->ns[TIME_FORWARD] / 1e9);
    add_real(list, "device_backward_seconds", (double)time->ns[TIME_BACKWARD] / 1e9);
    add_real(list, "device_reduce_seconds", (double)time->ns[TIME_REDUCE] / 1e9);
    add_real(list, "device_update_seconds", (double)time->ns[TIME_UPDATE] / 1e9);
}

static void add_step(struct scalar_list *list, const struct trainer_report *report)
{
    add_real(list, "loss", report->loss);
    add_real(list, "lr", report->lr);
    add_real(list, "gradient_norm", report->gradient_norm);
    add_real(list, "samples_per_second", report->samples_per_second);
    if (report->tokens_per_second > 0)
        add_real(list, "tokens_per_second", report->tokens_per_second);
    add_real(list, "data_wait_share", report->data_wait_share);
    add_real(list, "checkpoint_wait_share", report->checkpoint_wait_share);
    add_time(list, report);
    if (report->is_async)
        add_device_time(list, &report->device_time);
    add_device_metrics(list, &report->metrics);
}

size_t scalars_from_report(const struct trainer_report *report, struct scalar scalars[SCALARS_MAX])
{
    struct scalar_list list = {.scalars = scalars};
    if (report->event != TRAINER_PROGRESS && report->event != TRAINER_EVALUATED)
        return 0;
    add_count(&list, "epoch", report->epoch);
    if (report->event == TRAINER_PROGRESS) {
        add_step(&list, report);
    } else {
        add_real(&list, SCALARS_VALIDATION_PREFIX "loss", report->loss);
        add_real(&list, SCALARS_VALIDATION_PREFIX "accuracy", report->accuracy);
    }
    return list.count;
}

void scalars_write(struct jsonx_writer *json, const struct scalar *scalars, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (scalars[i].is_count)
            jsonx_write_u64(json, scalars[i].name, (uint64_t)scalars[i].value);
        else
            jsonx_write_f64(json, scalars[i].name, scalars[i].value);
}
