/*
 * conversion_target — see conversion.h. Decides what to do with the target.
 */
#include "convert/dataset/conversion.h"
#include "convert/dataset/dataset_journal.h"
#include "convert/dataset/dataset_target.h"

#include <errno.h>

enum action {
    ACTION_CREATE,
    ACTION_RESTART, /* remove an interrupted conversion's files */
    ACTION_RESUME,  /* continue from the journal */
    ACTION_REUSE,   /* do nothing if the existing dataset is the requested one */
    ACTION_REPLACE, /* replace the dataset when the new one is complete */
};

int conversion_check_ownership(const struct conversion *conversion, struct err *err)
{
    return conversion->io->locks->check(conversion->lock, err);
}

static int reject_target(const char *target, enum target_state state, struct err *err)
{
    err_set(err, -EEXIST, "%s",
            state == TARGET_COMPLETE      ? "the target already has a dataset"
            : state == TARGET_INTERRUPTED ? "the target has an interrupted conversion"
                                          : "the target is a folder with other files");
    err_at(err, target, ERR_NO_OFFSET);
    err_advise(err, "%s",
               state == TARGET_INTERRUPTED ? "use --resume to continue, or --force to start over"
               : state == TARGET_COMPLETE  ? "give another target or replace it with --force"
                                           : "give an empty or new folder");
    return -EEXIST;
}

/* Creates the target folder, even if it was removed after locking, and locks it. */
static int acquire_target(struct conversion *conversion, struct err *err)
{
    struct io *io = conversion->io;
    const char *target = conversion->options->target;
    int status = io->names->make_folder(io, target, err);
    if (status)
        return status;
    return conversion->lock ? io->locks->check(conversion->lock, err)
                            : io->locks->acquire(io, target, NULL, &conversion->lock, err);
}

void conversion_release_target(struct conversion *conversion)
{
    if (!conversion->lock)
        return;
    if (!conversion_check_ownership(conversion, NULL))
        target_remove_owner_records(conversion->io, conversion->options->target);
    conversion->io->locks->release(conversion->lock);
}

/* Also removes an interrupted run's temporary files. */
static int make_folder(struct io *io, const char *path, struct err *err)
{
    int status = io->names->make_folder(io, path, err);
    if (status)
        return status;
    int swept = io->transactions->sweep(io, path, NULL, NULL, err);
    return swept < 0 ? swept : 0;
}

static int make_folders(struct conversion *conversion, struct err *err)
{
    int status = make_folder(conversion->io, conversion->options->target, err);
    if (!status && conversion->is_replacement && !conversion->options->splits_count)
        status = target_sweep_siblings(conversion->io, conversion->options->target, err);
    for (uint32_t i = 0; i < conversion->outputs_count && !status; i++)
        status = conversion->is_replacement
                     ? output_begin_replacement(&conversion->outputs[i], err)
                     : make_folder(conversion->io, conversion->outputs[i].folder, err);
    return status;
}

/* *ret_is_complete: same files and options, and one sample per item unless errors are skipped. */
static int find_complete_outputs(struct conversion *conversion, bool *ret_is_complete,
                                 struct err *err)
{
    uint64_t samples = 0;
    *ret_is_complete = true;
    for (uint32_t i = 0; i < conversion->outputs_count && *ret_is_complete; i++) {
        struct output *output = &conversion->outputs[i];
        int status = output_find_complete(output, ret_is_complete, err);
        if (status)
            return status;
        for (uint64_t shard = 0; shard < output_shards_count(output); shard++)
            samples += output_shard_at(output, shard)->summary.samples;
    }
    if (samples != conversion->source->items_count &&
        conversion->source->items_count != SOURCE_COUNT_UNKNOWN &&
        !conversion->options->skip_errors)
        *ret_is_complete = false;
    if (*ret_is_complete)
        log_line(conversion->options->log, LOG_INFO, "%s is already complete",
                 conversion->options->target);
    return 0;
}

/* -EEXIST: the target's state and the options conflict. */
static int choose_action(const struct conversion *conversion, enum action *ret_action,
                         struct err *err)
{
    const struct convert_options *options = conversion->options;
    enum target_state state;
    bool complete = false;
    int status = target_examine(conversion->io, options, &state, err);
    /* A conversion that was killed before it removed the journal counts as complete. */
    if (!status && state == TARGET_INTERRUPTED)
        status = target_is_complete(conversion->io, options, &complete, err);
    if (status)
        return status;
    if (state == TARGET_EMPTY)
        *ret_action = ACTION_CREATE;
    else if (state == TARGET_INTERRUPTED && options->resume)
        *ret_action = ACTION_RESUME;
    else if (state == TARGET_INTERRUPTED && options->force && !complete)
        *ret_action = ACTION_RESTART;
    else if (state == TARGET_COMPLETE && options->resume)
        *ret_action = ACTION_REUSE;
    else if (state != TARGET_UNRELATED && options->force) {
        *ret_action = ACTION_REPLACE;
        return target_check_replaceable(conversion->io, options, err);
    } else
        return reject_target(options->target, state, err);
    return 0;
}

static int reject_other_conversion(const char *target, struct err *err)
{
    err_set(err, -ESTALE,
            "the target's dataset has other files or options, or is from another version");
    err_at(err, target, ERR_NO_OFFSET);
    err_advise(err, "use the same options, give another target, or replace it with --force");
    return -ESTALE;
}

int conversion_prepare_target(struct conversion *conversion, bool *ret_is_complete, struct err *err)
{
    const char *target = conversion->options->target;
    struct io *io = conversion->io;
    enum action action;
    int status = choose_action(conversion, &action, err);
    if (!status && action != ACTION_REUSE)
        status = acquire_target(conversion, err);
    /* Decide again, because another conversion may have owned the target until now. */
    if (!status && action != ACTION_REUSE)
        status = choose_action(conversion, &action, err);
    if (!status && action == ACTION_REUSE)
        status = find_complete_outputs(conversion, ret_is_complete, err);
    if (!status && action == ACTION_REUSE && !*ret_is_complete)
        status = reject_other_conversion(target, err);
    /* A conversion that was killed after its commit left the lock's files, which releasing removes.
     * They are harmless where this fails. */
    if (!status && *ret_is_complete && !conversion->lock)
        io->locks->acquire(io, target, NULL, &conversion->lock, NULL);
    if (status || *ret_is_complete)
        return status;
    if (action == ACTION_RESTART) {
        /* The remaining files do not belong to the interrupted conversion. */
        status = target_clear(io, target, err);
        if (!status)
            status = acquire_target(conversion, err);
        if (!status)
            status = choose_action(conversion, &action, err);
    }
    if (!status && action == ACTION_RESUME)
        status = journal_load(io, target, conversion->identity, conversion->outputs,
                              conversion->outputs_count, err);
    conversion->is_replacement = action == ACTION_REPLACE;
    /* Before the splits' folders: a target with folders and no journal is not ours. */
    if (!status && action == ACTION_CREATE)
        status = journal_write(io, target, conversion->identity, conversion->outputs,
                               conversion->outputs_count, err);
    if (!status)
        status = make_folders(conversion, err);
    if (status && action == ACTION_CREATE && !conversion_check_ownership(conversion, NULL)) {
        for (uint32_t i = 0; i < conversion->outputs_count; i++)
            target_clear_folder(io, conversion->outputs[i].folder, NULL);
        target_clear_folder(io, target, NULL);
    }
    return status;
}

int conversion_check_target(struct conversion *conversion, struct err *err)
{
    enum target_state state;
    enum action action;
    int status = target_examine(conversion->io, conversion->options, &state, err);
    if (!status && state == TARGET_INTERRUPTED)
        status = acquire_target(conversion, err);
    if (!status)
        status = choose_action(conversion, &action, err);
    if (!status && action == ACTION_REPLACE)
        status = acquire_target(conversion, err);
    conversion->will_resume = !status && action == ACTION_RESUME;
    return status;
}
