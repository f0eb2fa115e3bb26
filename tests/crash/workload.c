/*
 * workload — see workload.h.
 */
#include "tests/crash/workload.h"

#include "base/json/jsonx.h"
#include "ckpt/ckpt.h"
#include "tests/ckpt/thread_comm.h"
#include "tests/crash/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 3, ROWS_DEFAULT = 96, COLUMNS = 33 };

/* All arrays in full, and one rank's view of them: the first is split by rows, the others are
 * replicated. */
struct arrays {
    struct ckpt_tensor tensors[ARRAYS];
    uint32_t *words[ARRAYS];
    uint64_t words_count[ARRAYS];
    uint64_t held_first[ARRAYS], held_count[ARRAYS]; /* which 64-bit words the rank holds */
};

static struct arrays make_arrays(const struct plan *plan, int rank, int ranks)
{
    uint64_t rows = plan->rows > 0 ? plan->rows : ROWS_DEFAULT;
    struct arrays arrays = {
        .tensors = {{.name = "w", .dtype = DTYPE_F32, .rank = 2, .shape = {rows, COLUMNS}},
                    {.name = "optimizer.m",
                     .dtype = DTYPE_F32,
                     .rank = 2,
                     .shape = {40, 50},
                     .replicated = true},
                    {.name = "optimizer.step", .dtype = DTYPE_I64, .replicated = true}},
        .words_count = {rows * COLUMNS, 40 * 50, 2}};
    for (int i = 0; i < ARRAYS; i++) {
        arrays.words[i] = calloc(arrays.words_count[i], sizeof(uint32_t));
        if (!arrays.words[i])
            abort();
        arrays.tensors[i].data = arrays.words[i];
        memcpy(arrays.tensors[i].extent, arrays.tensors[i].shape, sizeof arrays.tensors[i].extent);
    }
    uint64_t first = rows * (uint64_t)rank / (uint64_t)ranks,
             end = rows * ((uint64_t)rank + 1) / (uint64_t)ranks;
    arrays.tensors[0].start[0] = first;
    arrays.tensors[0].extent[0] = end - first;
    arrays.tensors[0].data = arrays.words[0] + first * COLUMNS;
    memcpy(arrays.held_count, arrays.words_count, sizeof arrays.held_count);
    arrays.held_first[0] = first * COLUMNS;
    arrays.held_count[0] = (end - first) * COLUMNS;
    return arrays;
}

static void free_arrays(struct arrays *arrays)
{
    for (int i = 0; i < ARRAYS; i++)
        free(arrays->words[i]);
}

static uint32_t make_word(uint64_t version, uint64_t array, uint64_t index)
{
    uint64_t x = (version * 0x9E3779B97F4A7C15u) ^ (array << 56) ^ index;
    x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(x >> 32);
}

static void fill(struct arrays *arrays, uint64_t version)
{
    for (int i = 0; i < ARRAYS; i++)
        for (uint64_t w = 0; w < arrays->words_count[i]; w++)
            arrays->words[i][w] = make_word(version, (uint64_t)i, w);
}

static bool is_filled(const struct arrays *arrays, uint64_t version)
{
    for (int i = 0; i < ARRAYS; i++)
        for (uint64_t w = arrays->held_first[i], left = arrays->held_count[i]; left > 0;
             w++, left--)
            if (arrays->words[i][w] != make_word(version, (uint64_t)i, w))
                return false;
    return true;
}

/* ---- Saving. ---- */

/* The saves made by one saver on all ranks. */
struct session {
    const struct plan *plan;
    struct io *io;
    const char *folder;
    atomic_uint *notes_count;
    unsigned next, end; /* indices of saves; only the first rank advances next */
    int status;         /* written by the first rank */
};

static int open_saver(const struct plan *plan, struct io *io, const char *folder, struct comm *comm,
                      const struct arrays *arrays, struct ckpt_saver **ret_saver, struct err *err)
{
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = io,
                                         .comm = comm,
                                         .layout = plan->is_consolidated ? CKPT_CONSOLIDATED
                                                                         : CKPT_SHARDED,
                                         .groups_count = 1,
                                         .keep.last = plan->keep,
                                         .run_id = "crash",
                                         .numerics_id = "any"};
    return ckpt_saver_open(&options, arrays->tensors, ARRAYS, ret_saver, err);
}

static int save_one(struct ckpt_saver *saver, struct arrays *arrays, struct plan_save save,
                    struct err *err)
{
    char state[64];
    fill(arrays, save.version);
    snprintf(state, sizeof state, "{\"version\":%llu}", (unsigned long long)save.version);
    int status = ckpt_saver_save(saver, save.step, state, err);
    return status ? status : ckpt_saver_wait(saver, err);
}

static void report_note(const struct session *session, unsigned number)
{
    recorder_note(number);
    if (session->notes_count)
        atomic_store(session->notes_count, number + 1);
}

/* Runs one rank's part; *ret_next is the save after the last one begun. */
static int run_session(const struct session *session, struct comm *comm, unsigned *ret_next,
                       struct err *err)
{
    const struct plan *plan = session->plan;
    struct arrays arrays = make_arrays(plan, comm->rank, comm->ranks);
    struct ckpt_saver *saver = NULL;
    unsigned next = session->next, end = session->end;
    bool is_first = comm->rank == 0;
    int status = open_saver(plan, session->io, session->folder, comm, &arrays, &saver, err);
    for (unsigned i = next; i < end && !status; i++) {
        if (is_first)
            report_note(session, WORKLOAD_BEGUN(i));
        status = save_one(saver, &arrays, plan->saves[i], err);
        if (is_first && !status)
            report_note(session, WORKLOAD_DONE(i));
        next = i + 1;
    }
    ckpt_saver_close(saver);
    free_arrays(&arrays);
    *ret_next = next;
    return status;
}

static void run_thread(void *context, struct comm *comm)
{
    struct session *session = context;
    unsigned next;
    int status = run_session(session, comm, &next, NULL);
    if (comm->rank == 0) {
        session->status = status;
        session->next = next;
    }
}

/* Extends the session to the next save that needs a new saver. */
static void extend_session(struct session *session)
{
    const struct plan *plan = session->plan;
    session->end = session->next + 1;
    while (session->end < plan->saves_count && !plan->saves[session->end].reopens)
        session->end++;
}

int workload_run_rank(const struct plan *plan, struct io *io, const char *folder, struct comm *comm,
                      atomic_uint *notes_count, struct err *err)
{
    struct session session = {.plan = plan, .io = io, .folder = folder, .notes_count = notes_count};
    int status = 0;
    while (session.next < plan->saves_count && !status) {
        extend_session(&session);
        status = run_session(&session, comm, &session.next, err);
    }
    return status;
}

unsigned workload_run(const struct plan *plan, struct io *io, const char *folder,
                      void (*revive)(void), atomic_uint *notes_count)
{
    struct session session = {.plan = plan, .io = io, .folder = folder, .notes_count = notes_count};
    unsigned failed_count = 0;
    recorder_refuse_rename_flags(plan->refuses_rename_flags);
    while (session.next < plan->saves_count) {
        extend_session(&session);
        thread_comm_run(plan->ranks, run_thread, &session);
        failed_count += session.status != 0;
        if (session.status && !revive)
            break;
        if (session.status)
            revive();
    }
    recorder_refuse_rename_flags(false);
    return failed_count;
}

static int acquire_and_save(const struct plan *plan, struct io *io, const char *folder,
                            const struct plan_save *save, struct err *err)
{
    struct arrays arrays = make_arrays(plan, 0, 1);
    struct ckpt_saver *saver = NULL;
    int status = open_saver(plan, io, folder, NULL, &arrays, &saver, err);
    if (!status && save)
        status = save_one(saver, &arrays, *save, err);
    ckpt_saver_close(saver);
    free_arrays(&arrays);
    return status;
}

int workload_save_once(const struct plan *plan, struct io *io, const char *folder,
                       struct plan_save save, struct err *err)
{
    return acquire_and_save(plan, io, folder, &save, err);
}

int workload_acquire_once(const struct plan *plan, struct io *io, const char *folder,
                          struct err *err)
{
    return acquire_and_save(plan, io, folder, NULL, err);
}

/* ---- Loading. ---- */

int workload_load(const struct plan *plan, struct io *io, const char *step_path,
                  uint64_t *ret_version, struct err *err)
{
    return workload_load_part(plan, io, step_path, 0, 1, ret_version, err);
}

int workload_load_part(const struct plan *plan, struct io *io, const char *step_path, int rank,
                       int ranks, uint64_t *ret_version, struct err *err)
{
    struct arrays arrays = make_arrays(plan, rank, ranks);
    struct ckpt_reader *reader = NULL;
    uint64_t version = 0;
    int status = ckpt_reader_open(io, step_path, &reader, err);
    if (!status)
        status = jsonx_get_u64(ckpt_reader_state(reader), "version", &version, step_path, err);
    if (!status)
        status = ckpt_reader_load(reader, arrays.tensors, ARRAYS, NULL, err);
    if (!status && !is_filled(&arrays, version))
        status = err_set(err, -EBADMSG, "%s loads, but not the bytes of version %llu", step_path,
                         (unsigned long long)version);
    ckpt_reader_close(reader);
    free_arrays(&arrays);
    if (!status)
        *ret_version = version;
    return status;
}
