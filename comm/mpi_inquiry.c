/*
 * mpi_inquiry — see mpi_inquiry.h.
 */
#include "comm/mpi_inquiry.h"

#include "base/clock.h"
#include "comm/comm.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ANSWER_BYTES = 80, ASKED_MAX = 3, ANSWER_NS = 1000000000, PAUSE_NS = 1000000 };

/* To or from one rank, once in a run. */
struct letter {
    MPI_Request request;
    char text[ANSWER_BYTES];
};

struct mpi_inquiry {
    MPI_Comm control;
    int ranks;
    MPI_Request listening;
    MPI_Status from;        /* of what was heard last */
    struct letter *answers; /* [ranks] given */
    struct letter questions[ASKED_MAX], answered[ASKED_MAX];
    pthread_mutex_t mutex;
    const char *what; /* guarded, as the two below */
    uint64_t number, since_ns;
};

static int listen_on(struct mpi_inquiry *inquiry, struct err *err)
{
    return mpi_check(MPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, MPI_INQUIRY_TAG_QUESTION, inquiry->control,
                               &inquiry->listening),
                     "listening", err);
}

int mpi_inquiry_open(MPI_Comm control, int ranks, struct mpi_inquiry **ret_inquiry, struct err *err)
{
    struct mpi_inquiry *inquiry = calloc(1, sizeof *inquiry);
    struct letter *answers = calloc((size_t)ranks, sizeof *answers);
    int status = inquiry && answers ? 0 : err_set(err, -ENOMEM, "out of memory for MPI");
    if (!status) {
        *inquiry = (struct mpi_inquiry){.control = control, .ranks = ranks, .answers = answers};
        inquiry->since_ns = clock_now_ns();
        status = listen_on(inquiry, err);
    }
    if (status) {
        free(answers);
        free(inquiry);
        return status;
    }
    for (int r = 0; r < ranks; r++)
        answers[r].request = MPI_REQUEST_NULL;
    pthread_mutex_init(&inquiry->mutex, NULL);
    *ret_inquiry = inquiry;
    return 0;
}

void mpi_inquiry_close(struct mpi_inquiry *inquiry, bool is_over)
{
    if (!inquiry)
        return;
    if (is_over) {
        comm_retain(inquiry->answers);
        comm_retain(inquiry);
        return;
    }
    if (inquiry->listening != MPI_REQUEST_NULL) {
        MPI_Cancel(&inquiry->listening);
        MPI_Wait(&inquiry->listening, MPI_STATUS_IGNORE);
    }
    pthread_mutex_destroy(&inquiry->mutex);
    free(inquiry->answers);
    free(inquiry);
}

void mpi_inquiry_note(struct mpi_inquiry *inquiry, const char *what, uint64_t number)
{
    pthread_mutex_lock(&inquiry->mutex);
    inquiry->what = what;
    inquiry->number = number;
    inquiry->since_ns = clock_now_ns();
    pthread_mutex_unlock(&inquiry->mutex);
}

static void tell(struct mpi_inquiry *inquiry, char text[ANSWER_BYTES])
{
    pthread_mutex_lock(&inquiry->mutex);
    double seconds = clock_seconds(clock_now_ns() - inquiry->since_ns);
    if (inquiry->what)
        snprintf(text, ANSWER_BYTES, "at %.32s of step %llu for %.1f s", inquiry->what,
                 (unsigned long long)inquiry->number, seconds);
    else
        snprintf(text, ANSWER_BYTES, "here for %.1f s", seconds);
    pthread_mutex_unlock(&inquiry->mutex);
}

void mpi_inquiry_serve(struct mpi_inquiry *inquiry)
{
    int heard = 0;
    if (inquiry->listening == MPI_REQUEST_NULL ||
        MPI_Test(&inquiry->listening, &heard, &inquiry->from) != MPI_SUCCESS || !heard)
        return;
    int asker = inquiry->from.MPI_SOURCE;
    struct letter *answer = &inquiry->answers[asker];
    if (answer->request == MPI_REQUEST_NULL) { /* asked once */
        tell(inquiry, answer->text);
        MPI_Isend(answer->text, ANSWER_BYTES, MPI_BYTE, asker, MPI_INQUIRY_TAG_ANSWER, inquiry->control,
                  &answer->request);
    }
    listen_on(inquiry, NULL);
}

/* Until all have answered, or the time is up; those that have not have a request left. */
static void await(struct mpi_inquiry *inquiry, int count)
{
    uint64_t until_ns = clock_now_ns() + ANSWER_NS;
    for (;;) {
        int left = 0;
        for (int i = 0; i < count; i++) {
            int done = 0;
            MPI_Test(&inquiry->questions[i].request, &done, MPI_STATUS_IGNORE);
            MPI_Test(&inquiry->answered[i].request, &done, MPI_STATUS_IGNORE);
            left += !done;
        }
        if (left == 0 || clock_now_ns() >= until_ns)
            return;
        mpi_inquiry_serve(inquiry);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

void mpi_inquiry_ask(struct mpi_inquiry *inquiry, const struct mpi_op *op, char *text, size_t bytes)
{
    int late[ASKED_MAX];
    int count = mpi_op_list_late(op, late, ASKED_MAX);
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        int peer = op->world_ranks[late[i]];
        struct letter *question = &inquiry->questions[i], *answer = &inquiry->answered[i];
        question->request = answer->request = MPI_REQUEST_NULL;
        MPI_Irecv(answer->text, ANSWER_BYTES, MPI_BYTE, peer, MPI_INQUIRY_TAG_ANSWER, inquiry->control,
                  &answer->request);
        MPI_Isend(question->text, 0, MPI_BYTE, peer, MPI_INQUIRY_TAG_QUESTION, inquiry->control,
                  &question->request);
    }
    await(inquiry, count);
    text[0] = '\0';
    for (int i = 0; i < count && used < bytes; i++) {
        bool has_answered = inquiry->answered[i].request == MPI_REQUEST_NULL;
        used += (size_t)snprintf(text + used, bytes - used, "; rank %d: %.*s", late[i], ANSWER_BYTES - 1,
                                 has_answered ? inquiry->answered[i].text
                                              : "no answer, as of a process that is stopped");
    }
}
