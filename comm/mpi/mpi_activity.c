/*
 * mpi_activity — see mpi_activity.h.
 */
#include "comm/mpi/mpi_activity.h"

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/engine/engine_thread.h"

#include <errno.h>
#include <stdlib.h>

enum { TAG_QUERY = 1, TAG_REPLY }; /* mpi_thread.c uses tag 0 */

struct reply {
    MPI_Request request;
    char text[ENGINE_ACTIVITY_BYTES];
};

/* The last query sent to a rank. */
struct query {
    MPI_Request request;
    struct reply reply;
    uint64_t queried_ns;
    bool is_in_flight;
};

struct mpi_activity {
    struct engine *engine;
    MPI_Comm control;
    MPI_Request listen_request;
    struct reply *replies; /* [ranks]: the last reply sent to each */
    struct query *queries; /* [ranks] */
};

static int post_listen(struct mpi_activity *activity, struct err *err)
{
    return mpi_check(MPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, TAG_QUERY, activity->control,
                               &activity->listen_request),
                     "listening", err);
}

int mpi_activity_open(struct engine *engine, MPI_Comm control, struct mpi_activity **ret_activity,
                      struct err *err)
{
    struct mpi_activity *activity = calloc(1, sizeof *activity);
    struct reply *replies = calloc((size_t)engine->ranks, sizeof *replies);
    struct query *queries = calloc((size_t)engine->ranks, sizeof *queries);
    int status =
        activity && replies && queries ? 0 : err_set(err, -ENOMEM, "out of memory for MPI");
    if (!status) {
        *activity = (struct mpi_activity){
            .engine = engine, .control = control, .replies = replies, .queries = queries};
        status = post_listen(activity, err);
    }
    if (status) {
        free(replies);
        free(queries);
        free(activity);
        return status;
    }
    for (int r = 0; r < engine->ranks; r++)
        replies[r].request = MPI_REQUEST_NULL;
    *ret_activity = activity;
    return 0;
}

static void cancel_request(MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL)
        return;
    MPI_Cancel(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

void mpi_activity_close(struct mpi_activity *activity, bool run_ended)
{
    if (!activity)
        return;
    if (run_ended) {
        comm_retain(activity->replies);
        comm_retain(activity->queries);
        comm_retain(activity);
        return;
    }
    cancel_request(&activity->listen_request);
    for (int r = 0; r < activity->engine->ranks; r++)
        if (activity->queries[r].is_in_flight)
            cancel_request(&activity->queries[r].reply.request);
    free(activity->replies);
    free(activity->queries);
    free(activity);
}

void mpi_activity_serve(struct mpi_activity *activity)
{
    int received = 0;
    MPI_Status query;
    if (activity->listen_request == MPI_REQUEST_NULL ||
        MPI_Test(&activity->listen_request, &received, &query) != MPI_SUCCESS || !received)
        return;
    int rank = query.MPI_SOURCE;
    struct reply *reply = &activity->replies[rank];
    int sent = 1;
    if (reply->request != MPI_REQUEST_NULL)
        MPI_Test(&reply->request, &sent, MPI_STATUS_IGNORE);
    if (sent) { /* skip if the previous reply is in flight */
        engine_format_activity(activity->engine, reply->text);
        MPI_Isend(reply->text, ENGINE_ACTIVITY_BYTES, MPI_BYTE, rank, TAG_REPLY, activity->control,
                  &reply->request);
    }
    post_listen(activity, NULL);
}

static void post_query(struct mpi_activity *activity, int rank, struct query *query)
{
    query->request = query->reply.request = MPI_REQUEST_NULL;
    MPI_Irecv(query->reply.text, ENGINE_ACTIVITY_BYTES, MPI_BYTE, rank, TAG_REPLY,
              activity->control, &query->reply.request);
    MPI_Isend(NULL, 0, MPI_BYTE, rank, TAG_QUERY, activity->control, &query->request);
    query->queried_ns = clock_now_ns();
    query->is_in_flight = true;
}

const char *mpi_activity_query(struct mpi_activity *activity, int rank, uint64_t since_ns,
                               uint64_t *ret_queried_ns)
{
    struct query *query = &activity->queries[rank];
    if (query->is_in_flight) {
        int sent = 0, replied = 0;
        MPI_Test(&query->request, &sent, MPI_STATUS_IGNORE);
        MPI_Test(&query->reply.request, &replied, MPI_STATUS_IGNORE);
        query->is_in_flight = !sent || !replied;
    }
    if (!query->is_in_flight && query->queried_ns < since_ns)
        post_query(activity, rank, query);
    *ret_queried_ns = query->queried_ns;
    if (query->is_in_flight)
        return NULL;
    query->reply.text[ENGINE_ACTIVITY_BYTES - 1] = '\0';
    return query->reply.text;
}
