/*
 * mpi_engine_open — see mpi_engine.h.
 */
#include "comm/mpi/mpi_engine.h"

#include "base/os/thread.h"
#include "comm/mpi/mpi_op.h"
#include "comm/mpi/mpi_thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { MESSAGE_DEFAULT_BYTES = 8 << 20 };

/* Process-wide, because a process has one MPI. */
static atomic_flag engine_exists = ATOMIC_FLAG_INIT;

static void release(struct mpi_engine *engine)
{
    engine_deinit(&engine->base);
    pthread_cond_destroy(&engine->wake);
    free(engine);
    atomic_flag_clear(&engine_exists);
}

static void wake_thread(struct engine *engine)
{
    pthread_cond_signal(&mpi_engine_of(engine)->wake);
}

static const char *query_activity(struct engine *engine, int rank, uint64_t since_ns,
                                  uint64_t *ret_queried_ns)
{
    return mpi_activity_query(mpi_engine_of(engine)->activity, rank, since_ns, ret_queried_ns);
}

static void close_engine(struct engine *base)
{
    struct mpi_engine *engine = mpi_engine_of(base);
    engine_quit(base);
    if (base->has_ended)
        comm_retain(engine);
    else
        release(engine);
}

static const struct engine_ops mpi_engine_ops = {
    .op_bytes = sizeof(struct mpi_op),
    .deinit = mpi_op_deinit,
    .plan = mpi_op_plan,
    .wake = wake_thread,
    .close = close_engine,
    .post = mpi_op_post,
    .poll = mpi_op_poll,
    .query_activity = query_activity,
    .has_unfinished = mpi_op_has_unfinished,
    .notify_others = mpi_thread_notify_others,
};

static int start_thread(struct mpi_engine *engine, struct err *err)
{
    int status = thread_start(&engine->base.thread, mpi_thread_main, engine);
    if (status)
        return err_errno(err, status, "could not start a thread for MPI");
    pthread_mutex_lock(&engine->base.mutex);
    while (!engine->is_open)
        pthread_cond_wait(&engine->base.completion, &engine->base.mutex);
    status = engine->open_status;
    if (status && err)
        *err = engine->open_detail;
    pthread_mutex_unlock(&engine->base.mutex);
    if (status)
        pthread_join(engine->base.thread, NULL);
    return status;
}

int mpi_engine_open(size_t message_bytes_max, struct engine **ret_engine, struct err *err)
{
    if (atomic_flag_test_and_set(&engine_exists))
        return err_set(
            err, -EBUSY,
            "another communicator of all ranks uses MPI (split that one), or its run has ended");
    struct mpi_engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        atomic_flag_clear(&engine_exists);
        return err_set(err, -ENOMEM, "out of memory for MPI");
    }
    engine->message_bytes_max = message_bytes_max ? message_bytes_max : MESSAGE_DEFAULT_BYTES;
    engine->control_request = MPI_REQUEST_NULL;
    engine_init(&engine->base, &mpi_engine_ops);
    thread_cond_init(&engine->wake);
    int status = start_thread(engine, err);
    if (status)
        release(engine);
    else
        *ret_engine = &engine->base;
    return status;
}

MPI_Comm mpi_engine_world(const struct engine *engine)
{
    return ((const struct mpi_engine *)engine)->world;
}
