/*
 * scalars — see scalars.h.
 */
#include "trainer/scalars.h"

#include <assert.h>

struct list {
    struct scalar *scalars;
    size_t count;
};

static void add(struct list *list, const char *name, double value)
{
    assert(list->count < SCALARS_MAX);
    list->scalars[list->count++] = (struct scalar){name, value, false};
}

static void add_count(struct list *list, const char *name, uint64_t value)
{
    assert(list->count < SCALARS_MAX);
    list->scalars[list->count++] = (struct scalar){name, (double)value, true};
}

static void add_gauges(struct list *list, const struct trainer_gauges *gauges)
{
    add(list, "model_flops_per_second", gauges->flops_per_second);
    if (gauges->peak_share > 0)
        add(list, "peak_share", gauges->peak_share);
    if (gauges->utilization_share >= 0)
        add(list, "device_utilization_share", gauges->utilization_share);
    if (gauges->device_used_bytes > 0)
        add_count(list, "device_used_bytes", gauges->device_used_bytes);
    if (gauges->device_taken_bytes > 0)
        add_count(list, "device_taken_bytes", gauges->device_taken_bytes);
    if (gauges->process_bytes > 0)
        add_count(list, "process_bytes", gauges->process_bytes);
}

static void add_step(struct list *list, const struct trainer_report *report)
{
    add(list, "loss", report->loss);
    add(list, "lr", report->lr);
    add(list, "gradient_norm", report->gradient_norm);
    add(list, "samples_per_second", report->samples_per_second);
    if (report->tokens_per_second > 0)
        add(list, "tokens_per_second", report->tokens_per_second);
    add(list, "data_wait_share", report->data_wait_share);
    add(list, "checkpoint_wait_share", report->checkpoint_wait_share);
    add_gauges(list, &report->gauges);
}

size_t scalars_of(const struct trainer_report *report, struct scalar scalars[SCALARS_MAX])
{
    struct list list = {.scalars = scalars};
    if (report->event != TRAINER_STEP && report->event != TRAINER_EVALUATED)
        return 0;
    add_count(&list, "epoch", report->epoch);
    if (report->event == TRAINER_STEP) {
        add_step(&list, report);
    } else {
        add(&list, SCALARS_VALIDATION_PREFIX "loss", report->loss);
        add(&list, SCALARS_VALIDATION_PREFIX "accuracy", report->accuracy);
    }
    return list.count;
}

void scalars_write(struct json_writer *json, const struct scalar *scalars, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (scalars[i].is_count)
            json_write_u64(json, scalars[i].name, (uint64_t)scalars[i].value);
        else
            json_write_f64(json, scalars[i].name, scalars[i].value);
}
