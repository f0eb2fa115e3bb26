/*
 * replay — see replay.h.
 */
#include "trainer/ops/replay.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int replay_init(struct replay *replay, struct ops *ops, uint32_t variants_count, struct err *err)
{
    *replay = (struct replay){.ops = ops, .variants_count = variants_count};
    replay->graphs = calloc(variants_count, sizeof(struct device_graph *));
    return replay->graphs
               ? 0
               : err_set(err, -ENOMEM, "out of memory for %u graphs", (unsigned)variants_count);
}

void replay_deinit(struct replay *replay)
{
    for (uint32_t i = 0; i < replay->variants_count && replay->graphs; i++)
        if (replay->graphs[i])
            replay->ops->device->ops->graph_close(replay->ops->device, replay->graphs[i]);
    free(replay->graphs);
    *replay = (struct replay){0};
}

static int record(struct replay *replay, uint32_t variant, void (*queue)(void *context),
                  void *context, struct err *err)
{
    struct ops *ops = replay->ops;
    const struct device_ops *device = ops->device->ops;
    int status = device->graph_begin(ops->device, ops->stream, err);
    if (status)
        return status;
    queue(context);
    status = device->graph_end(ops->device, ops->stream, &replay->graphs[variant], err);
    int first = status ? ops->table->status(ops, err) : 0; /* knows what it failed for */
    return first ? first : status;
}

int replay_run(struct replay *replay, uint32_t variant, void (*queue)(void *context), void *context,
               struct err *err)
{
    assert(variant < replay->variants_count);
    struct ops *ops = replay->ops;
    const struct device_ops *device = ops->device->ops;
    if (!replay->has_run || !device->graph_begin) {
        replay->has_run = true;
        queue(context);
        return 0;
    }
    int status = replay->graphs[variant] ? 0 : record(replay, variant, queue, context, err);
    return status ? status
                  : device->graph_launch(ops->device, replay->graphs[variant], ops->stream, err);
}
