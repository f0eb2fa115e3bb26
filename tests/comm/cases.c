/*
 * cases — see cases.h.
 */
#include "tests/comm/cases.h"

#include "base/os/thread.h"
#include "base/philox.h"
#include "tests/comm/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void wait_for(struct comm *comm, struct comm_work *work)
{
    struct err err = {0};
    assert_ok(comm_wait(comm, work, &err), &err);
}

/* Byte i of the message from `rank` to `to`. */
static unsigned char message_byte(int rank, int to, size_t i)
{
    return (unsigned char)(i * 31 + i / 251 + (size_t)rank * 7 + (size_t)to * 13);
}

static unsigned char *make_message(int rank, int to, size_t bytes)
{
    unsigned char *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = message_byte(rank, to, i);
    return data;
}

static void check_bytes(const unsigned char *data, int rank, int to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != message_byte(rank, to, i))
            fail_msg("byte %zu from rank %d to rank %d differs", i, rank, to);
}

static void gather(struct comm *comm, size_t bytes, bool in_place)
{
    struct comm_work work;
    struct err err = {0};
    struct buffer own = buffer_open(bytes), all = buffer_open((size_t)comm->ranks * bytes);
    const struct comm_options options = {.stream = own.stream};
    size_t place = (size_t)comm->rank * bytes;
    for (size_t i = 0; i < bytes; i++)
        *(in_place ? &all.host[place + i] : &own.host[i]) = message_byte(comm->rank, 0, i);
    buffer_upload(&own);
    buffer_upload(&all);
    assert_ok(comm->ops->all_gather(comm, in_place ? all.memory + place : own.memory, all.memory,
                                    bytes, &options, &work, &err),
              &err);
    wait_for(comm, &work);
    buffer_download(&all);
    for (int r = 0; r < comm->ranks; r++)
        check_bytes(all.host + (size_t)r * bytes, r, 0, bytes);
    buffer_close(&own);
    buffer_close(&all);
}

void all_gather_delivers_every_ranks_data(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 8, 4095, 70000, 3000001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        gather(world, sizes[i], false);
        gather(world, sizes[i], true);
    }
}

/* The number of bytes that `from` sends to `to`: none, a few or many. */
static size_t slice_bytes(int from, int to, uint32_t round)
{
    static const size_t sizes[] = {0, 1, 17, 5000, 300001};
    return sizes[philox(5, (uint64_t)from * 64 + (uint64_t)to, round).word[0] % 5];
}

static void exchange(struct comm *comm, uint32_t round)
{
    /* bytes sent and their offsets, bytes received and their offsets */
    size_t sizes[4][64], at[2] = {0, 0};
    struct comm_work work;
    struct err err = {0};
    for (int r = 0; r < comm->ranks; r++) {
        sizes[0][r] = slice_bytes(comm->rank, r, round);
        sizes[2][r] = slice_bytes(r, comm->rank, round);
        for (int side = 0; side < 2; side++) {
            sizes[2 * side + 1][r] = at[side];
            at[side] += sizes[2 * side][r];
        }
    }
    struct buffer send = buffer_open(at[0]), receive = buffer_open(at[1]);
    const struct comm_options options = {.stream = send.stream};
    for (int r = 0; r < comm->ranks; r++)
        for (size_t i = 0; i < sizes[0][r]; i++)
            send.host[sizes[1][r] + i] = message_byte(comm->rank, r, i);
    buffer_upload(&send);
    buffer_upload(&receive);
    assert_ok(comm->ops->all_to_all(comm, send.memory, sizes[1], sizes[0], receive.memory, sizes[3],
                                    sizes[2], &options, &work, &err),
              &err);
    wait_for(comm, &work);
    buffer_download(&receive);
    for (int r = 0; r < comm->ranks; r++)
        check_bytes(receive.host + sizes[3][r], r, comm->rank, sizes[2][r]);
    buffer_close(&send);
    buffer_close(&receive);
}

void all_to_all_moves_slices_of_any_sizes(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 8; round++)
        exchange(world, round);
}

/* Element i of the slice for `to` on `rank`. Sums of these values depend on the order of
 * addition. */
static double slice_element(int rank, int to, size_t i)
{
    uint32_t word = philox(9, i, (uint32_t)(rank * 64 + to)).word[0];
    double value = 1.0 + (double)(word >> 8) / 3e6;
    return word & 1 ? -value : value * (word & 2 ? 1e6 : 1e-3);
}

/* T(lo, hi) by definition, in the type's own arithmetic. */
static double tree_sum_reference(enum dtype dtype, int lo, int hi, int to, size_t i)
{
    if (hi - lo == 1)
        return dtype == DTYPE_F32 ? (double)(float)slice_element(lo, to, i)
                                  : slice_element(lo, to, i);
    int half = 1;
    while (half * 2 < hi - lo)
        half *= 2;
    double left = tree_sum_reference(dtype, lo, lo + half, to, i),
           right = tree_sum_reference(dtype, lo + half, hi, to, i);
    return dtype == DTYPE_F32 ? (double)((float)left + (float)right) : left + right;
}

static void set_element(void *data, enum dtype dtype, size_t i, double value)
{
    if (dtype == DTYPE_F32)
        ((float *)data)[i] = (float)value;
    else
        ((double *)data)[i] = value;
}

static double get_element(const void *data, enum dtype dtype, size_t i)
{
    return dtype == DTYPE_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void check_deterministic_sum(struct comm *comm, size_t count, enum dtype dtype)
{
    struct comm_work work;
    struct err err = {0};
    if (comm->takes_device_memory) {
        assert_int_equal(comm->ops->reduce_scatter(comm, NULL, NULL, count, dtype,
                                                   COMM_DETERMINISTIC, NULL, &work, &err),
                         -ENOTSUP);
        return;
    }
    size_t element = dtype_bytes(dtype);
    void *send = calloc((size_t)comm->ranks * count + 1, element),
         *sum = calloc(count + 1, element);
    for (int to = 0; to < comm->ranks; to++)
        for (size_t i = 0; i < count; i++)
            set_element(send, dtype, (size_t)to * count + i, slice_element(comm->rank, to, i));
    assert_ok(comm->ops->reduce_scatter(comm, send, sum, count, dtype, COMM_DETERMINISTIC, NULL,
                                        &work, &err),
              &err);
    wait_for(comm, &work);
    for (size_t i = 0; i < count; i++) {
        double expected = tree_sum_reference(dtype, 0, comm->ranks, comm->rank, i),
               found = get_element(sum, dtype, i);
        if (memcmp(&expected, &found, sizeof found) != 0)
            fail_msg("element %zu of %zu: expected %a, found %a", i, count, expected, found);
    }
    free(send);
    free(sum);
}

void canonical_sums_follow_the_tree_order(void **state)
{
    (void)state;
    /* counts of doubles: part of a piece, one piece, two pieces */
    static const size_t counts[] = {0, 1, 1000, 131072, 131079};
    size_t counts_count = test_is_sanitized() && world->ranks > 2 ? 3 : 5;
    for (size_t i = 0; i < counts_count; i++) {
        check_deterministic_sum(world, counts[i], DTYPE_F32);
        check_deterministic_sum(world, counts[i], DTYPE_F64);
    }
}

enum { CONCURRENT_SUMS = 3, CONCURRENT_SUM_ELEMENTS = 300000, CONCURRENT_BYTES = 70000 };

/* Delays each rank by a different time before the next call, so some ranks run far ahead of
 * others. */
static void delay_call(const struct comm *comm, uint32_t call)
{
    uint32_t word = philox(11, (uint64_t)comm->rank, call).word[0];
    nanosleep(&(struct timespec){.tv_nsec = (long)(word % 4) * 10000000}, NULL);
}

void one_communicator_may_have_several_operations_in_flight(void **state)
{
    (void)state;
    if (world->takes_device_memory)
        return; /* does not support canonical sums */
    struct comm_work sums[CONCURRENT_SUMS], gathers[CONCURRENT_SUMS];
    struct err err = {0};
    size_t ranks = (size_t)world->ranks, count = CONCURRENT_SUM_ELEMENTS;
    double *send = malloc(ranks * count * sizeof *send), *sum[CONCURRENT_SUMS];
    unsigned char *own = make_message(world->rank, 0, CONCURRENT_BYTES), *all[CONCURRENT_SUMS];
    assert_non_null(send);
    for (size_t to = 0; to < ranks; to++)
        for (size_t i = 0; i < count; i++)
            send[to * count + i] = slice_element(world->rank, (int)to, i);
    for (uint32_t n = 0; n < CONCURRENT_SUMS; n++) {
        sum[n] = malloc(count * sizeof *sum[n]);
        all[n] = malloc(ranks * CONCURRENT_BYTES);
        assert_true(sum[n] && all[n]);
        delay_call(world, 2 * n);
        assert_ok(world->ops->reduce_scatter(world, send, sum[n], count, DTYPE_F64,
                                             COMM_DETERMINISTIC, NULL, &sums[n], &err),
                  &err);
        delay_call(world, 2 * n + 1);
        assert_ok(
            world->ops->all_gather(world, own, all[n], CONCURRENT_BYTES, NULL, &gathers[n], &err),
            &err);
    }
    for (size_t n = 0; n < CONCURRENT_SUMS; n++) {
        wait_for(world, &gathers[n]);
        for (size_t r = 0; r < ranks; r++)
            check_bytes(all[n] + r * CONCURRENT_BYTES, (int)r, 0, CONCURRENT_BYTES);
        wait_for(world, &sums[n]);
        for (size_t i = 0; i < count; i += 17)
            if (sum[n][i] != tree_sum_reference(DTYPE_F64, 0, world->ranks, world->rank, i))
                fail_msg("element %zu of sum %zu differs", i, n);
        free(sum[n]), free(all[n]);
    }
    free(send), free(own);
}

void too_many_concurrent_canonical_sums_are_refused(void **state)
{
    (void)state;
    if (world->takes_device_memory)
        return;
    struct comm_work works[COMM_DETERMINISTIC_MAX], more;
    struct err err = {0};
    float *send = calloc((size_t)world->ranks, sizeof *send),
          *sums = calloc(COMM_DETERMINISTIC_MAX, sizeof *sums);
    assert_true(send && sums);
    for (int i = 0; i < world->ranks; i++)
        send[i] = (float)(i + 1);
    for (size_t n = 0; n < COMM_DETERMINISTIC_MAX; n++)
        assert_ok(world->ops->reduce_scatter(world, send, &sums[n], 1, DTYPE_F32,
                                             COMM_DETERMINISTIC, NULL, &works[n], &err),
                  &err);
    assert_int_equal(world->ops->reduce_scatter(world, send, &sums[0], 1, DTYPE_F32,
                                                COMM_DETERMINISTIC, NULL, &more, &err),
                     -EBUSY);
    for (size_t n = 0; n < COMM_DETERMINISTIC_MAX; n++) {
        wait_for(world, &works[n]);
        assert_true(sums[n] == (float)((world->rank + 1) * world->ranks));
    }
    check_deterministic_sum(world, 1000, DTYPE_F32); /* a slot is free for another sum */
    free(send), free(sums);
}

static void check_fast_sum(struct comm *comm, size_t count, enum dtype dtype)
{
    struct comm_work work;
    struct err err = {0};
    size_t element = dtype_bytes(dtype);
    struct buffer send = buffer_open((size_t)comm->ranks * count * element),
                  sum = buffer_open(count * element);
    const struct comm_options options = {.stream = send.stream};
    /* sums of integers are exact in any order */
    for (size_t i = 0; i < (size_t)comm->ranks * count; i++)
        set_element(send.host, dtype, i, (double)(i % 1000 + (size_t)comm->rank));
    buffer_upload(&send);
    assert_ok(comm->ops->reduce_scatter(comm, send.memory, sum.memory, count, dtype, COMM_FAST,
                                        &options, &work, &err),
              &err);
    wait_for(comm, &work);
    buffer_download(&sum);
    for (size_t i = 0; i < count; i++) {
        double expected = (double)(((size_t)comm->rank * count + i) % 1000) * comm->ranks +
                          comm->ranks * (comm->ranks - 1) / 2;
        if (get_element(sum.host, dtype, i) != expected)
            fail_msg("element %zu of %zu: expected %g, found %g", i, count, expected,
                     get_element(sum.host, dtype, i));
    }
    buffer_close(&send);
    buffer_close(&sum);
}

void fast_sums_use_the_library(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 4097, 300007};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        check_fast_sum(world, counts[i], DTYPE_F32);
        check_fast_sum(world, counts[i], DTYPE_F64);
    }
}

static void reduce(int64_t *values, size_t count, enum comm_i64_op op)
{
    struct comm_work work;
    struct err err = {0};
    assert_ok(world->ops->all_reduce_i64(world, values, count, op, NULL, &work, &err), &err);
    wait_for(world, &work);
}

void integers_are_reduced_exactly(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    int64_t rank = world->rank, ranks = world->ranks;
    int64_t words[3] = {INT64_MAX - rank, -rank, (INT64_C(1) << 62) + rank};
    reduce(words, 3, COMM_MAX);
    assert_true(words[0] == INT64_MAX && words[1] == 0 &&
                words[2] == (INT64_C(1) << 62) + ranks - 1);
    int64_t flags[2] = {INT64_C(1) << rank, rank == ranks - 1 ? INT64_MIN : 0};
    reduce(flags, 2, COMM_OR);
    assert_true(flags[0] == (INT64_C(1) << ranks) - 1 && flags[1] == INT64_MIN);
    int64_t *many = malloc(MANY * sizeof *many);
    for (int64_t i = 0; i < MANY; i++)
        many[i] = i * (rank + 1) - (INT64_C(1) << 40);
    reduce(many, MANY, COMM_SUM);
    for (int64_t i = 0; i < MANY; i++)
        assert_true(many[i] == i * ranks * (ranks + 1) / 2 - ranks * (INT64_C(1) << 40));
    reduce(many, 0, COMM_SUM);
    free(many);
}

/* Rounds of messages to the next rank, received in a different order than they were sent. A single
 * rank sends to itself. */
void messages_arrive_by_tag_in_order(void **state)
{
    (void)state;
    enum { MESSAGES = 6 };
    static const size_t sizes[MESSAGES] = {5, 0, 100000, 5, 40, 2000001};
    static const int tags[MESSAGES] = {3, 3, 0, 3, 70000, 1}, order[MESSAGES] = {5, 2, 0, 1, 4, 3};
    struct comm_work sent[MESSAGES], received[MESSAGES];
    unsigned char *out[MESSAGES], *in[MESSAGES];
    int to = (world->rank + 1) % world->ranks,
        from = (world->rank + world->ranks - 1) % world->ranks;
    struct err err = {0};
    for (int i = 0; i < MESSAGES; i++) {
        out[i] = make_message(world->rank, i, sizes[i]);
        assert_ok(world->ops->send(world, out[i], sizes[i], to, tags[i], NULL, &sent[i], &err),
                  &err);
    }
    for (int k = 0; k < MESSAGES; k++) {
        int i = order[k];
        in[i] = calloc(1, sizes[i] + 1);
        assert_ok(
            world->ops->receive(world, in[i], sizes[i], from, tags[i], NULL, &received[i], &err),
            &err);
        wait_for(world, &received[i]);
        check_bytes(in[i], from, i, sizes[i]);
    }
    for (int i = 0; i < MESSAGES; i++) {
        wait_for(world, &sent[i]);
        free(out[i]);
        free(in[i]);
    }
    struct comm_work work;
    assert_int_equal(world->ops->send(world, "", 1, to, 1 << 30, NULL, &work, &err), -EINVAL);
}

void polling_ends_when_the_work_is_done(void **state)
{
    (void)state;
    int64_t value = 1;
    struct comm_work work;
    struct err err = {0};
    bool done = false;
    assert_ok(world->ops->all_reduce_i64(world, &value, 1, COMM_SUM, NULL, &work, &err), &err);
    while (!done)
        assert_ok(world->ops->test(&work, &done, &err), &err);
    assert_int_equal(work.status, 0);
    assert_int_equal(value, world->ranks);
    wait_for(world, &work); /* returns at once */
}

static struct comm *split(struct comm *comm, int color, int key)
{
    struct comm *made = comm;
    struct err err = {0};
    assert_ok(comm->ops->split(comm, color, key, &made, &err), &err);
    return made;
}

void split_sorts_by_key_and_excludes_ranks_without_a_color(void **state)
{
    (void)state;
    int rank = world->rank, ranks = world->ranks;
    struct comm *backwards = split(world, 0, -rank);
    assert_int_equal(backwards->rank, ranks - 1 - rank);
    assert_int_equal(backwards->ranks, ranks);
    gather(backwards, 100, false);
    struct comm *half = split(backwards, rank % 2, 0);
    assert_int_equal(half->ranks, (ranks + 1 - rank % 2) / 2);
    gather(half, 1000, true);
    check_deterministic_sum(half, 100, DTYPE_F64);
    check_fast_sum(half, 100, DTYPE_F32);
    struct comm *first = split(world, rank == 0 ? 5 : -1, 0);
    assert_true((first != NULL) == (rank == 0));
    if (first)
        gather(first, 10, false);
    comm_close(first);
    comm_close(backwards); /* communicators split from it stay open */
    gather(half, 10, false);
    comm_close(half);
}

void closed_communicators_free_their_slots(void **state)
{
    (void)state;
    /* Each communicator uses a thread and a socket for every other rank. */
    int comms_count = world->takes_device_memory ? 40 : 600;
    for (int i = 0; i < comms_count; i++) {
        struct comm *comm = split(world, i % 3 == 0 ? world->rank % 2 : 0, i);
        if (i % 50 == 0)
            gather(comm, 20, false);
        comm_close(comm);
    }
}

/* Rank 0 has one more communicator than the others, so only rank 0 runs out of slots. */
void a_communicator_that_one_rank_cannot_open_fails_on_all(void **state)
{
    (void)state;
    enum { COMMS_MAX = 256 };
    struct comm *comms[COMMS_MAX];
    struct err err = {0};
    int count = 0;
    assert_ok(world->ops->split(world, world->rank == 0 ? 0 : -1, 0, &comms[count], &err), &err);
    count += comms[count] != NULL;
    for (int i = 0; i < COMMS_MAX - 2; i++)
        comms[count++] = split(world, 0, 0);
    assert_int_equal(world->ops->split(world, 0, 0, &comms[count], &err), -ENOBUFS);
    assert_string_equal(err.what, "rank 0 has 256 communicators open");
    gather(comms[count - 1], 20, false);
    comm_close(comms[--count]);
    comms[count++] = split(world, 0, 0);
    while (count > 0)
        comm_close(comms[--count]);
}

/* A thread of a rank, with its own communicator. */
struct worker {
    struct comm *comm;
    int number;
    struct buffer_arena arena;
};

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    buffer_use_arena(&worker->arena);
    for (uint32_t i = 0; i < 30; i++) {
        gather(worker->comm, i * 97, i % 2);
        exchange(worker->comm, i + (uint32_t)worker->number * 100);
        check_deterministic_sum(worker->comm, 50 * (size_t)worker->number, DTYPE_F32);
        check_fast_sum(worker->comm, i, DTYPE_F64);
        struct comm *part = split(worker->comm, worker->comm->rank % 2, 0);
        gather(part, i, false);
        comm_close(part);
    }
    buffer_release_thread();
    return NULL;
}

void communicators_can_work_concurrently(void **state)
{
    (void)state;
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){split(world, 0, i % 2 ? world->rank : -world->rank), i, {0}};
        buffer_open_arena(&workers[i].arena);
        check_fast_sum(workers[i].comm, 1, DTYPE_F64); /* run the first ones in sequence */
    }
    /* start them in a different order on each rank */
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(
            thread_start(&threads[i], run_worker, &workers[(i + world->rank) % THREADS]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        comm_close(workers[i].comm);
        buffer_close_arena(&workers[i].arena);
    }
}
