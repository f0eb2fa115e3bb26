/*
 * mpi_inquiry — see mpi_inquiry.h.
 */
#include "comm/mpi/mpi_inquiry.h"

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/engine/engine_thread.h"

#include <errno.h>
#include <stdlib.h>

struct message {
    MPI_Request request;
    char text[ENGINE_ACTIVITY_BYTES];
};

/* An inquiry to one rank. */
struct check {
    struct message question, answer;
    uint64_t asked_ns;
    bool is_in_flight;
};

struct mpi_inquiry {
    struct engine *engine;
    MPI_Comm control;
    MPI_Request listening;
    MPI_Status from;         /* of the last received inquiry */
    struct message *answers; /* [ranks]: the last answer sent */
    struct check *checks;    /* [ranks] */
};

static int listen_on(struct mpi_inquiry *inquiry, struct err *err)
{
    return mpi_check(MPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, MPI_INQUIRY_TAG_QUESTION,
                               inquiry->control, &inquiry->listening),
                     "listening", err);
}

int mpi_inquiry_open(struct engine *engine, MPI_Comm control, struct mpi_inquiry **ret_inquiry,
                     struct err *err)
{
    struct mpi_inquiry *inquiry = calloc(1, sizeof *inquiry);
    struct message *answers = calloc((size_t)engine->ranks, sizeof *answers);
    struct check *checks = calloc((size_t)engine->ranks, sizeof *checks);
    int status = inquiry && answers && checks ? 0 : err_set(err, -ENOMEM, "out of memory for MPI");
    if (!status) {
        *inquiry = (struct mpi_inquiry){
            .engine = engine, .control = control, .answers = answers, .checks = checks};
        status = listen_on(inquiry, err);
    }
    if (status) {
        free(answers);
        free(checks);
        free(inquiry);
        return status;
    }
    for (int r = 0; r < engine->ranks; r++)
        answers[r].request = MPI_REQUEST_NULL;
    *ret_inquiry = inquiry;
    return 0;
}

static void cancel(MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL)
        return;
    MPI_Cancel(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

void mpi_inquiry_close(struct mpi_inquiry *inquiry, bool is_over)
{
    if (!inquiry)
        return;
    if (is_over) {
        comm_retain(inquiry->answers);
        comm_retain(inquiry->checks);
        comm_retain(inquiry);
        return;
    }
    cancel(&inquiry->listening);
    for (int r = 0; r < inquiry->engine->ranks; r++)
        if (inquiry->checks[r].is_in_flight)
            cancel(&inquiry->checks[r].answer.request);
    free(inquiry->answers);
    free(inquiry->checks);
    free(inquiry);
}

void mpi_inquiry_serve(struct mpi_inquiry *inquiry)
{
    int received = 0;
    if (inquiry->listening == MPI_REQUEST_NULL ||
        MPI_Test(&inquiry->listening, &received, &inquiry->from) != MPI_SUCCESS || !received)
        return;
    int asker = inquiry->from.MPI_SOURCE;
    struct message *answer = &inquiry->answers[asker];
    int sent = 1;
    if (answer->request != MPI_REQUEST_NULL)
        MPI_Test(&answer->request, &sent, MPI_STATUS_IGNORE);
    if (sent) { /* skip if the previous answer is in flight */
        engine_answer(inquiry->engine, answer->text);
        MPI_Isend(answer->text, ENGINE_ACTIVITY_BYTES, MPI_BYTE, asker, MPI_INQUIRY_TAG_ANSWER,
                  inquiry->control, &answer->request);
    }
    listen_on(inquiry, NULL);
}

static void ask(struct mpi_inquiry *inquiry, int rank, struct message *question,
                struct message *answer)
{
    question->request = answer->request = MPI_REQUEST_NULL;
    MPI_Irecv(answer->text, ENGINE_ACTIVITY_BYTES, MPI_BYTE, rank, MPI_INQUIRY_TAG_ANSWER,
              inquiry->control, &answer->request);
    MPI_Isend(question->text, 0, MPI_BYTE, rank, MPI_INQUIRY_TAG_QUESTION, inquiry->control,
              &question->request);
}

const char *mpi_inquiry_check(struct mpi_inquiry *inquiry, int rank, uint64_t since_ns,
                              uint64_t *ret_asked_ns)
{
    struct check *check = &inquiry->checks[rank];
    if (check->is_in_flight) {
        int sent = 0, came = 0;
        MPI_Test(&check->question.request, &sent, MPI_STATUS_IGNORE);
        MPI_Test(&check->answer.request, &came, MPI_STATUS_IGNORE);
        check->is_in_flight = !sent || !came;
    }
    if (!check->is_in_flight && check->asked_ns < since_ns) {
        ask(inquiry, rank, &check->question, &check->answer);
        check->asked_ns = clock_now_ns();
        check->is_in_flight = true;
    }
    *ret_asked_ns = check->asked_ns;
    if (check->is_in_flight)
        return NULL;
    check->answer.text[ENGINE_ACTIVITY_BYTES - 1] = '\0';
    return check->answer.text;
}
