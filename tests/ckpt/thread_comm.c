/*
 * thread_comm — see thread_comm.h.
 *
 * A split gives the ranks of each color a new rendezvous, created by the first of them.
 */
#include "tests/ckpt/thread_comm.h"

#include "tests/support/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct rendezvous {
    pthread_barrier_t barrier;
    const void *sent[THREAD_COMM_RANKS_MAX];
    struct rendezvous *next; /* list of the rendezvous split from this one */
};

struct thread_comm {
    struct comm base;
    struct rendezvous *rendezvous;
};

static struct rendezvous *make_rendezvous(int ranks)
{
    struct rendezvous *rendezvous = malloc(sizeof *rendezvous);
    *rendezvous = (struct rendezvous){.next = NULL};
    pthread_barrier_init(&rendezvous->barrier, NULL, (unsigned)ranks);
    return rendezvous;
}

static struct comm *make_comm(struct rendezvous *rendezvous, int rank, int ranks);

/* Exchanges pointers: returns the pointer that each rank sent. Valid until the next `part`. */
static const void *const *meet(struct comm *comm, const void *send)
{
    struct rendezvous *rendezvous = ((struct thread_comm *)comm)->rendezvous;
    rendezvous->sent[comm->rank] = send;
    pthread_barrier_wait(&rendezvous->barrier);
    return rendezvous->sent;
}

static void part(struct comm *comm)
{
    pthread_barrier_wait(&((struct thread_comm *)comm)->rendezvous->barrier);
}

static int finish(struct comm *comm, struct comm_work *work)
{
    *work = (struct comm_work){.comm = comm, .done = true};
    return 0;
}

static int thread_split(struct comm *comm, int color, int key, struct comm **ret_comm,
                        struct err *err)
{
    (void)err;
    assert_true(color >= 0 && key == comm->rank);
    int first = -1, rank = 0, ranks = 0;
    const void *const *colors = meet(comm, &color);
    for (int r = 0; r < comm->ranks; r++) {
        if (*(const int *)colors[r] != color)
            continue;
        first = first < 0 ? r : first;
        rank += r < comm->rank;
        ranks++;
    }
    part(comm);
    struct rendezvous *world = ((struct thread_comm *)comm)->rendezvous;
    const void *const *made = meet(comm, rank == 0 ? make_rendezvous(ranks) : NULL);
    for (int r = 0; r < comm->ranks && comm->rank == 0; r++) {
        struct rendezvous *rendezvous = (struct rendezvous *)(uintptr_t)made[r];
        if (rendezvous) {
            rendezvous->next = world->next;
            world->next = rendezvous;
        }
    }
    *ret_comm = make_comm((struct rendezvous *)(uintptr_t)made[first], rank, ranks);
    part(comm);
    return 0;
}

static int thread_all_gather(struct comm *comm, const void *send, void *receive, size_t bytes,
                             const struct comm_options *options, struct comm_work *work,
                             struct err *err)
{
    (void)options;
    (void)err;
    const void *const *sent = meet(comm, send);
    for (int r = 0; r < comm->ranks; r++) {
        char *target = (char *)receive + (size_t)r * bytes;
        if (target != sent[r]) /* a rank's own part may be in place; other ranks read it there */
            memcpy(target, sent[r], bytes);
    }
    part(comm);
    return finish(comm, work);
}

static int thread_all_reduce_i64(struct comm *comm, int64_t *values, size_t count,
                                 enum comm_i64_op op, const struct comm_options *options,
                                 struct comm_work *work, struct err *err)
{
    (void)options;
    (void)err;
    assert_int_equal(count, 1);
    const void *const *sent = meet(comm, values);
    int64_t result = *(const int64_t *)sent[0];
    for (int r = 1; r < comm->ranks; r++) {
        int64_t value = *(const int64_t *)sent[r];
        switch (op) {
        case COMM_SUM:
            result += value;
            break;
        case COMM_MAX:
            result = value > result ? value : result;
            break;
        case COMM_OR:
            result |= value;
            break;
        }
    }
    part(comm);
    values[0] = result;
    return finish(comm, work);
}

/* One rank's slices, which the other ranks read. */
struct slices {
    const char *send;
    const size_t *offsets, *bytes;
};

static int thread_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets,
                             const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                             const size_t *receive_bytes, const struct comm_options *options,
                             struct comm_work *work, struct err *err)
{
    (void)options;
    (void)err;
    const struct slices own = {send, send_offsets, send_bytes};
    const void *const *sent = meet(comm, &own);
    for (int r = 0; r < comm->ranks; r++) {
        const struct slices *other = sent[r];
        assert_int_equal(other->bytes[comm->rank], receive_bytes[r]);
        memcpy((char *)receive + receive_offsets[r], other->send + other->offsets[comm->rank],
               receive_bytes[r]);
    }
    part(comm);
    return finish(comm, work);
}

static void thread_close(struct comm *comm)
{
    free(comm);
}

static const struct comm_ops thread_ops = {
    .name = "threads",
    .split = thread_split,
    .all_gather = thread_all_gather,
    .all_reduce_i64 = thread_all_reduce_i64,
    .all_to_all = thread_all_to_all,
    .close = thread_close,
};

static struct comm *make_comm(struct rendezvous *rendezvous, int rank, int ranks)
{
    struct thread_comm *comm = malloc(sizeof *comm);
    *comm = (struct thread_comm){.base = {.ops = &thread_ops, .rank = rank, .ranks = ranks},
                                 .rendezvous = rendezvous};
    return &comm->base;
}

struct rank_start {
    struct comm *comm;
    thread_comm_rank *rank;
    void *context;
};

static void *run(void *argument)
{
    struct rank_start *start = argument;
    start->rank(start->context, start->comm);
    comm_close(start->comm);
    return NULL;
}

void thread_comm_run(int ranks, thread_comm_rank *rank, void *context)
{
    pthread_t threads[THREAD_COMM_RANKS_MAX];
    struct rank_start starts[THREAD_COMM_RANKS_MAX];
    struct rendezvous *world = make_rendezvous(ranks);
    for (int r = 0; r < ranks; r++) {
        starts[r] = (struct rank_start){make_comm(world, r, ranks), rank, context};
        assert_int_equal(pthread_create(&threads[r], NULL, run, &starts[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    while (world) {
        struct rendezvous *next = world->next;
        pthread_barrier_destroy(&world->barrier);
        free(world);
        world = next;
    }
}
