/*
 * run_compute — see run_compute.h.
 */
#include "trainer/run/parts/run_compute.h"

static int allocate(struct run_compute *compute, uint64_t bytes, void *ret_memory, struct err *err)
{
    struct device *device = compute->device;
    return device->ops->mem_alloc(device, mem_for(MEM_DEVICE, MEM_FOR_ACTIVATIONS), bytes,
                                  ret_memory, err);
}

static void release(struct run_compute *compute, void *memory, uint64_t bytes)
{
    struct device *device = compute->device;
    if (memory)
        device->ops->mem_free(device, mem_for(MEM_DEVICE, MEM_FOR_ACTIVATIONS), memory, bytes);
}

int run_compute_allocate(struct run_compute *compute, bool is_training, struct err *err)
{
    const struct model *model = compute->model;
    uint64_t rows = model_rows(model);
    int status = allocate(compute, model_activation_bytes(model, &compute->stage),
                          &compute->activations.memory, err);
    if (!status && is_training)
        status = model_open_offload(model, &compute->stage, &compute->activations.offload, err);
    if (!status)
        status = allocate(compute, rows * sizeof(double), &compute->losses, err);
    return status ? status : allocate(compute, rows, &compute->correct_flags, err);
}

void run_compute_release(struct run_compute *compute)
{
    if (!compute->model)
        return;
    uint64_t rows = model_rows(compute->model);
    release(compute, compute->correct_flags, rows);
    release(compute, compute->losses, rows * sizeof(double));
    offload_close(compute->activations.offload);
    release(compute, compute->activations.memory,
            model_activation_bytes(compute->model, &compute->stage));
}
