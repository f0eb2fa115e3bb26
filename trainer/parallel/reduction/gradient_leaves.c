/*
 * gradient_leaves — see gradient_leaves.h.
 */
#include "trainer/parallel/reduction/gradient_leaves.h"

#include <assert.h>

static size_t leaf_bytes(const struct gradient_leaves *leaves)
{
    return leaves->partition->trained_group_elements_max * ops_master_bytes(leaves->ops);
}

int gradient_leaves_init(struct gradient_leaves *leaves, struct ops *ops,
                         const struct partition *partition, struct err *err)
{
    struct device *device = ops->device;
    int status = 0;
    *leaves = (struct gradient_leaves){.ops = ops, .partition = partition};
    for (int i = 0; i < GRADIENT_LEAVES_COUNT && !status; i++)
        status = device->ops->mem_alloc(device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                        leaf_bytes(leaves), &leaves->list[i].memory, err);
    if (status)
        gradient_leaves_deinit(leaves, true);
    return status;
}

void gradient_leaves_deinit(struct gradient_leaves *leaves, bool is_idle)
{
    for (int i = 0; leaves->ops && i < GRADIENT_LEAVES_COUNT; i++) {
        struct device *device = leaves->ops->device;
        if (is_idle)
            device->ops->mem_free(device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                  leaves->list[i].memory, leaf_bytes(leaves));
        else
            comm_retain(leaves->list[i].memory);
    }
    *leaves = (struct gradient_leaves){0};
}

/* The padding between and after tensors is zero in all arenas. */
static int zero_padding(const struct gradient_leaves *leaves, uint64_t group, char *leaf,
                        struct err *err)
{
    struct device *device = leaves->ops->device;
    const struct params *params = leaves->partition->params;
    const struct param_group *g = &params->groups[group];
    size_t element_bytes = ops_master_bytes(leaves->ops);
    uint64_t end = 0; /* end of the last tensor */
    int status = 0;
    for (uint64_t i = 0; i <= g->count && !status; i++) {
        const struct param *param = i < g->count ? &params->list[g->first + i] : NULL;
        if (param && param->frozen)
            continue;
        uint64_t next = param ? param->trained_offset - g->trained_offset : g->trained_elements;
        if (next > end)
            status = device->ops->fill(device, leaves->ops->stream, leaf + end * element_bytes, 0,
                                       (next - end) * element_bytes, err);
        end = param ? next + param->count : next;
    }
    return status;
}

int gradient_leaves_acquire(struct gradient_leaves *leaves, uint64_t group, void **ret_memory,
                            struct err *err)
{
    struct leaf *leaf = NULL; /* least recently acquired */
    for (int i = 0; i < GRADIENT_LEAVES_COUNT; i++) {
        struct leaf *other = &leaves->list[i];
        if (!other->is_acquired && (!leaf || other->last_acquisition < leaf->last_acquisition))
            leaf = other;
    }
    assert(leaf); /* at most a tied group and one other are written at a time */
    int status =
        leaf->last_acquisition > 0 ? bucket_exchange_wait(leaves->exchange, leaf->memory, err) : 0;
    leaf->is_acquired = true;
    leaf->group = group;
    leaf->last_acquisition = ++leaves->acquisitions_count;
    *ret_memory = leaf->memory;
    return status ? status : zero_padding(leaves, group, leaf->memory, err);
}

void *gradient_leaves_release(struct gradient_leaves *leaves, uint64_t group)
{
    for (int i = 0; i < GRADIENT_LEAVES_COUNT; i++)
        if (leaves->list[i].is_acquired && leaves->list[i].group == group) {
            leaves->list[i].is_acquired = false;
            return leaves->list[i].memory;
        }
    assert(!"the released leaf was not acquired");
    return NULL;
}
