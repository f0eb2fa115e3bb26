/*
 * mesh — coordinates and axes, for every rank of a world whose other ranks are only imagined.
 */
#include "comm/mesh.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 2 * MESH_AXIS_COUNT };

/* Remembers how it was split; its parts are of the same kind. */
struct paper_comm {
    struct comm comm;
    int calls_count, fail_at; /* the fail_at-th split fails; 0: none */
    int color[CALLS_MAX], key[CALLS_MAX];
};

static int paper_split(struct comm *comm, int color, int key, struct comm **ret_comm,
                       struct err *err);

static void paper_close(struct comm *comm)
{
    free(comm);
}

static const struct comm_ops paper_ops = {
    .name = "paper", .split = paper_split, .close = paper_close};

static int paper_split(struct comm *comm, int color, int key, struct comm **ret_comm,
                       struct err *err)
{
    struct paper_comm *world = (struct paper_comm *)comm;
    world->color[world->calls_count] = color;
    world->key[world->calls_count++] = key;
    if (world->calls_count == world->fail_at)
        return err_set(err, -EIO, "torn");
    struct paper_comm *part = calloc(1, sizeof *part);
    assert_non_null(part);
    part->comm.ops = &paper_ops;
    *ret_comm = &part->comm;
    return 0;
}

static struct paper_comm world_of(int rank, int ranks)
{
    return (struct paper_comm){.comm = {.ops = &paper_ops, .rank = rank, .ranks = ranks}};
}

static void ranks_have_the_coordinates_of_the_formula(void **state)
{
    (void)state;
    const int extent[MESH_AXIS_COUNT] = {2, 3, 2, 1, 4};
    for (int rank = 0; rank < 48; rank++) {
        struct paper_comm world = world_of(rank, 48);
        struct mesh mesh;
        struct err err = {0};
        assert_ok(mesh_init(&mesh, &world.comm, extent, &err), &err);
        const int *c = mesh.coordinate;
        assert_int_equal(
            (((c[MESH_PP] * 3 + c[MESH_DP_REPLICATE]) * 2 + c[MESH_DP_SHARD]) * 1 + c[MESH_CP]) *
                    4 +
                c[MESH_TP],
            rank);
        for (int axis = 0; axis < MESH_AXIS_COUNT; axis++) {
            assert_in_range(c[axis], 0, extent[axis] - 1);
            assert_int_equal(mesh.extent[axis], extent[axis]);
            assert_non_null(mesh.axis[axis]);
        }
        mesh_deinit(&mesh);
    }
}

/* Along each axis exactly the ranks that share all other coordinates get one color, ordered by
 * their own. */
static void an_axis_holds_the_ranks_that_differ_there_only(void **state)
{
    (void)state;
    enum { RANKS = 24 };
    const int extent[MESH_AXIS_COUNT] = {2, 1, 3, 2, 2};
    struct paper_comm worlds[RANKS];
    struct mesh meshes[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        struct err err = {0};
        worlds[rank] = world_of(rank, RANKS);
        assert_ok(mesh_init(&meshes[rank], &worlds[rank].comm, extent, &err), &err);
        assert_int_equal(worlds[rank].calls_count, MESH_AXIS_COUNT);
    }
    for (int call = 0; call < MESH_AXIS_COUNT; call++) {
        int axis = MESH_AXIS_COUNT - 1 - call;
        for (int a = 0; a < RANKS; a++) {
            assert_int_equal(worlds[a].key[call], meshes[a].coordinate[axis]);
            assert_true(worlds[a].color[call] >= 0);
            for (int b = 0; b < RANKS; b++) {
                bool alike = true;
                for (int other = 0; other < MESH_AXIS_COUNT; other++)
                    alike = alike && (other == axis ||
                                      meshes[a].coordinate[other] == meshes[b].coordinate[other]);
                assert_int_equal(worlds[a].color[call] == worlds[b].color[call], alike);
            }
        }
    }
    for (int rank = 0; rank < RANKS; rank++)
        mesh_deinit(&meshes[rank]);
}

static void a_mesh_of_another_size_is_refused(void **state)
{
    (void)state;
    static const int wrong[][MESH_AXIS_COUNT] = {
        {1, 1, 1, 1, 1}, {1, 1, 5, 1, 1},   {1, 1, 4, 2, 1},
        {0, 1, 4, 1, 1}, {1, 1, -4, -1, 1}, {65536, 65536, 65536, 65536, 4},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct paper_comm world = world_of(0, 4);
        struct mesh mesh;
        struct err err = {0};
        assert_int_equal(mesh_init(&mesh, &world.comm, wrong[i], &err), -EINVAL);
        assert_string_not_equal(err.what, "");
        assert_int_equal(world.calls_count, 0);
    }
}

static void a_split_that_fails_leaves_nothing_behind(void **state)
{
    (void)state;
    for (int fail_at = 1; fail_at <= MESH_AXIS_COUNT; fail_at++) {
        struct paper_comm world = world_of(1, 2);
        world.fail_at = fail_at;
        struct mesh mesh;
        struct err err = {0};
        assert_int_equal(mesh_init(&mesh, &world.comm, (const int[]){1, 1, 2, 1, 1}, &err), -EIO);
        assert_string_equal(err.what, "torn");
    }
}

static void one_rank_is_a_mesh_too(void **state)
{
    (void)state;
    struct comm *world = NULL;
    struct mesh mesh;
    struct err err = {0};
    assert_ok(comm_self_open(&world, &err), &err);
    assert_ok(mesh_init(&mesh, world, (const int[]){1, 1, 1, 1, 1}, &err), &err);
    for (int axis = 0; axis < MESH_AXIS_COUNT; axis++) {
        assert_int_equal(mesh.axis[axis]->ranks, 1);
        assert_ok(comm_barrier(mesh.axis[axis], NULL, &err), &err);
    }
    mesh_deinit(&mesh);
    comm_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_the_coordinates_of_the_formula),
        cmocka_unit_test(an_axis_holds_the_ranks_that_differ_there_only),
        cmocka_unit_test(a_mesh_of_another_size_is_refused),
        cmocka_unit_test(a_split_that_fails_leaves_nothing_behind),
        cmocka_unit_test(one_rank_is_a_mesh_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
