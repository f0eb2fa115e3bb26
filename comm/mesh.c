/*
 * mesh — see mesh.h. The last axis varies fastest with the rank.
 */
#include "comm/mesh.h"

#include <errno.h>

static const char *const axis_names[MESH_AXIS_COUNT] = {"pp", "dp_replicate", "dp_shard", "cp",
                                                        "tp"};

static int check_extents(const struct comm *world, const int extent[MESH_AXIS_COUNT],
                         struct err *err)
{
    int64_t product = 1;
    for (int axis = 0; axis < MESH_AXIS_COUNT; axis++) {
        if (extent[axis] < 1)
            return err_set(err, -EINVAL, "the mesh axis %s has %d ranks; it needs 1 at least",
                           axis_names[axis], extent[axis]);
        product *= extent[axis];
        if (product > world->ranks)
            break; /* and no overflow */
    }
    if (product == world->ranks)
        return 0;
    err_set(err, -EINVAL,
            "the mesh pp=%d dp_replicate=%d dp_shard=%d cp=%d tp=%d does not have as many ranks as "
            "the run",
            extent[MESH_PP], extent[MESH_DP_REPLICATE], extent[MESH_DP_SHARD], extent[MESH_CP],
            extent[MESH_TP]);
    err_expected(err, "a product of %d", world->ranks);
    err_advise(err, "change the extents or the number of ranks");
    return -EINVAL;
}

int mesh_init(struct mesh *mesh, struct comm *world, const int extent[MESH_AXIS_COUNT],
              struct err *err)
{
    int status = check_extents(world, extent, err);
    if (status)
        return status;
    struct mesh built = {.world = world};
    int stride = 1;
    for (int axis = MESH_AXIS_COUNT - 1; axis >= 0; axis--) {
        built.extent[axis] = extent[axis];
        built.coordinate[axis] = world->rank / stride % extent[axis];
        int others =
            world->rank - built.coordinate[axis] *
                              stride; /* the rank with 0 there: the same for all along the axis */
        status = world->ops->split(world, others, built.coordinate[axis], &built.axis[axis], err);
        if (status) {
            mesh_deinit(&built);
            return status;
        }
        stride *= extent[axis];
    }
    *mesh = built;
    return 0;
}

void mesh_deinit(struct mesh *mesh)
{
    for (int axis = 0; axis < MESH_AXIS_COUNT; axis++)
        comm_close(mesh->axis[axis]);
    *mesh = (struct mesh){0};
}
