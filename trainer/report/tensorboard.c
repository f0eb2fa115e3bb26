/*
 * tensorboard — see tensorboard.h. The only user of protobuf-c; tensorboard.proto defines the
 * messages.
 */
#include "trainer/report/tensorboard.h"

#include "base/clock.h"
#include "io/file_util.h"
#include "trainer/report/event_file.h"

#include "tensorboard.pb-c.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum run_kind { RUN_TRAIN, RUN_VALIDATION, RUN_COUNT };

struct tensorboard {
    struct event_file *runs[RUN_COUNT];
};

static int add_event(struct event_file *file, const Tensorboard__Event *event, struct err *err)
{
    size_t bytes = tensorboard__event__get_packed_size(event);
    assert(bytes <= EVENT_BYTES_MAX);
    tensorboard__event__pack(event, event_file_buffer(file));
    return event_file_append(file, bytes, err);
}

/* The version must come first: without it TensorBoard ignores session starts. */
static int begin_file(struct event_file *file, uint64_t step, struct err *err)
{
    Tensorboard__SessionLog start = TENSORBOARD__SESSION_LOG__INIT;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    event.wall_time = clock_seconds(clock_wall_ns());
    event.what_case = TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    event.file_version = (char *)(uintptr_t) "brain.Event:2";
    int status = add_event(file, &event, err);
    if (status)
        return status;
    start.status = TENSORBOARD__SESSION_LOG__SESSION_STATUS__START;
    event.step = (int64_t)step;
    event.what_case = TENSORBOARD__EVENT__WHAT_SESSION_LOG;
    event.session_log = &start;
    return add_event(file, &event, err);
}

static int open_run(struct io *io, const char *folder, const char *name, uint64_t step,
                    struct event_file **ret_file, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    int status = io_join_path(folder, name, path, err);
    if (!status)
        status = event_file_open(io, path, ret_file, err);
    return status ? status : begin_file(*ret_file, step, err);
}

int tensorboard_open(struct io *io, const char *folder, struct tensorboard_start start,
                     struct tensorboard **ret_tensorboard, struct err *err)
{
    struct tensorboard *tensorboard = calloc(1, sizeof *tensorboard);
    if (!tensorboard)
        return err_set(err, -ENOMEM, "out of memory for TensorBoard's events");
    int status =
        open_run(io, folder, "train", start.progress_step, &tensorboard->runs[RUN_TRAIN], err);
    if (!status)
        status = open_run(io, folder, "validation", start.evaluation_step,
                          &tensorboard->runs[RUN_VALIDATION], err);
    if (status)
        tensorboard_close(tensorboard);
    else
        *ret_tensorboard = tensorboard;
    return status;
}

void tensorboard_close(struct tensorboard *tensorboard)
{
    if (!tensorboard)
        return;
    for (int i = 0; i < RUN_COUNT; i++)
        event_file_close(tensorboard->runs[i]);
    free(tensorboard);
}

static char *scalar_tag(const struct scalar *scalar)
{
    size_t prefix = strlen(SCALARS_VALIDATION_PREFIX);
    bool has_prefix = strncmp(scalar->name, SCALARS_VALIDATION_PREFIX, prefix) == 0;
    /* protobuf-c does not modify tags */
    return (char *)(uintptr_t)(scalar->name + (has_prefix ? prefix : 0));
}

int tensorboard_write(struct tensorboard *tensorboard, const struct trainer_report *report,
                      const struct scalar *scalars, size_t count, uint64_t wall_ns, struct err *err)
{
    Tensorboard__Summary__Value values[SCALARS_MAX], *list[SCALARS_MAX];
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    assert(count <= SCALARS_MAX);
    for (size_t i = 0; i < count; i++) {
        tensorboard__summary__value__init(&values[i]);
        values[i].tag = scalar_tag(&scalars[i]);
        values[i].value_case = TENSORBOARD__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
        values[i].simple_value = (float)scalars[i].value;
        list[i] = &values[i];
    }
    summary.n_value = count;
    summary.value = list;
    event.wall_time = clock_seconds(wall_ns);
    event.step = (int64_t)report->step;
    event.what_case = TENSORBOARD__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return add_event(
        tensorboard->runs[report->event == TRAINER_EVALUATED ? RUN_VALIDATION : RUN_TRAIN], &event,
        err);
}
