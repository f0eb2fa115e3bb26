/*
 * mesh — the ranks of a run as a grid with named axes, and a communicator an axis.
 *
 * rank = (((pp * dp_replicate + r) * dp_shard + s) * cp + c) * tp + t: neighbours in rank share the
 * axis that talks most.
 */
#ifndef MILLRACE_COMM_MESH_H
#define MILLRACE_COMM_MESH_H

#include "comm/comm.h"

enum mesh_axis { MESH_PP, MESH_DP_REPLICATE, MESH_DP_SHARD, MESH_CP, MESH_TP, MESH_AXIS_COUNT };

/* Immutable after open. Owns the communicators in axis[], borrows world. */
struct mesh {
    struct comm *world;
    int extent[MESH_AXIS_COUNT];     /* their product is the number of ranks */
    int coordinate[MESH_AXIS_COUNT]; /* of this rank */
    struct comm
        *axis[MESH_AXIS_COUNT]; /* the ranks that differ from this one in that coordinate only */
};

/* extent: 1 or more each. -EINVAL where their product is not the number of ranks. Collective,
 * blocks. */
int mesh_init(struct mesh *mesh, struct comm *world, const int extent[MESH_AXIS_COUNT],
              struct err *err);
void mesh_deinit(struct mesh *mesh);

#endif
