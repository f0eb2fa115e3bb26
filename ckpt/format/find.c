/*
 * find — lists the steps of a folder, resolves paths to steps, and checks folders (folder.h).
 */
#include "ckpt/ckpt.h"
#include "ckpt/format/folder.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ckpt_for_each_step(struct io *io, const char *folder,
                       int (*each)(void *context, uint64_t step, const char *path), void *context,
                       struct err *err)
{
    uint64_t *steps;
    size_t count;
    char path[IO_PATH_BYTES_MAX];
    int status = folder_list_steps(io, folder, &steps, &count, err);
    if (status)
        return status;
    for (size_t i = 0; i < count && !status; i++) {
        status = folder_step_path(folder, steps[i], path, err);
        if (!status)
            status = each(context, steps[i], path);
    }
    free(steps);
    return status;
}

struct list_context {
    struct io *io;
    int (*entry)(void *context, const struct ckpt_entry *entry);
    void *context;
    const struct log *log;
};

static int list_step(void *context, uint64_t step, const char *path)
{
    const struct list_context *list = context;
    struct manifest manifest;
    struct ckpt_entry found = {.step = step, .path = path};
    struct err detail = {0};
    if (folder_read_step(list->io, path, &manifest, &found.size_bytes, &detail)) {
        log_err(list->log, LOG_WARN, &detail, "not listed because it is incomplete");
        return 0;
    }
    found.wall_ns = manifest.wall_ns;
    found.state = manifest.state;
    int status = list->entry(list->context, &found);
    manifest_deinit(&manifest);
    return status;
}

int ckpt_list(struct io *io, const char *folder,
              int (*entry)(void *context, const struct ckpt_entry *entry), void *context,
              const struct log *log, struct err *err)
{
    struct list_context list = {.io = io, .entry = entry, .context = context, .log = log};
    return ckpt_for_each_step(io, folder, list_step, &list, err);
}

static bool has_manifest(struct io *io, const char *path)
{
    char name[IO_PATH_BYTES_MAX];
    struct io_stat info;
    return io_join_path(path, MANIFEST_NAME, name, NULL) == 0 &&
           io->names->stat(io, name, &info, NULL) == 0;
}

int folder_check_not_step(struct io *io, const char *folder, struct err *err)
{
    if (!has_manifest(io, folder))
        return 0;
    err_set(err, -EINVAL, "this is a checkpoint, not a folder of checkpoints");
    err_at(err, folder, ERR_NO_OFFSET);
    err_advise(err, "give the folder that contains it");
    return -EINVAL;
}

/* Returns 1 at the first step to end the walk. */
static int look_for_steps(void *context, const struct io_entry *entry)
{
    (void)context;
    uint64_t step;
    return (entry->kind == IO_ENTRY_FOLDER && folder_parse_step(entry->name, &step)) ||
           io_is_owner_record(entry->name);
}

/* Finds the folder of checkpoints in a run's folder. */
static bool find_subfolder(struct io *io, const char *folder, char *subfolder)
{
    return io_join_path(folder, CKPT_FOLDER_NAME, subfolder, NULL) == 0 &&
           io->names->list(io, subfolder, look_for_steps, NULL, NULL) > 0;
}

static void advise_subfolder(struct io *io, const char *folder, struct err *err)
{
    char subfolder[IO_PATH_BYTES_MAX];
    if (find_subfolder(io, folder, subfolder))
        err_advise(err, "a run keeps its checkpoints in a subfolder: give %s", subfolder);
}

int ckpt_resolve_folder(struct io *io, const char *path, char *ret_path, struct err *err)
{
    size_t bytes = strlen(path);
    if (bytes >= IO_PATH_BYTES_MAX)
        return io_long_path_error("", path, err);
    if (has_manifest(io, path) || io->names->list(io, path, look_for_steps, NULL, NULL) != 0 ||
        !find_subfolder(io, path, ret_path))
        memcpy(ret_path, path, bytes + 1);
    return 0;
}

int folder_check_has_steps(struct io *io, const char *folder, struct err *err)
{
    int status = folder_check_not_step(io, folder, err);
    if (!status)
        status = io->names->list(io, folder, look_for_steps, NULL, err);
    if (status)
        return status < 0 ? status : 0;
    err_set(err, -ENOENT, "there is no checkpoint, and the folder has no owner record");
    err_at(err, folder, ERR_NO_OFFSET);
    err_expected(err, "a folder with subfolders such as step-00000000");
    return -ENOENT;
}

static int no_step_error(struct io *io, const char *folder, struct err *err)
{
    err_set(err, -ENOENT, "no complete checkpoint");
    err_at(err, folder, ERR_NO_OFFSET);
    err_expected(err, "a folder such as step-00000000 with " MANIFEST_NAME);
    advise_subfolder(io, folder, err);
    return -ENOENT;
}

/* Returns -EBADMSG, not -ENOENT, because steps exist. */
static int all_damaged_error(struct io *io, const char *newest_path, const struct err *newest,
                             struct err *err)
{
    if (!folder_check_name(io, newest_path, err) && err) {
        *err = *newest;
        err->code = -EBADMSG;
        err_advise(
            err, "no checkpoint here is intact: restore one from a copy, or move the folder away");
    }
    return -EBADMSG;
}

static int find_newest(struct io *io, const char *folder, const struct ckpt_find_options *options,
                       char *path, uint64_t *ret_step, const struct log *log, struct err *err)
{
    uint64_t *steps;
    size_t count, i;
    char candidate[IO_PATH_BYTES_MAX];
    struct manifest manifest;
    struct err newest = {0};
    int status = folder_list_steps(io, folder, &steps, &count, err);
    if (status)
        return status;
    while (count > 0 && steps[count - 1] >= options->below)
        count--;
    status = -ENOENT;
    for (i = count; i > 0 && folder_is_damage(status) && !(options->stop_at_damage && i < count);
         i--) {
        struct err detail = {0};
        status = folder_step_path(folder, steps[i - 1], candidate, &detail);
        if (!status)
            status = folder_read_step(io, candidate, &manifest, NULL, &detail);
        if (folder_is_damage(status) && !options->stop_at_damage)
            log_err(log, LOG_WARN, &detail, "skipping a damaged checkpoint");
        else if (status && err)
            *err = detail;
        if (i == count)
            newest = detail;
    }
    uint64_t step = status ? 0 : steps[i], last = count > 0 ? steps[count - 1] : 0;
    free(steps);
    if (folder_is_damage(status) && count == 0)
        return no_step_error(io, folder, err);
    if (folder_is_damage(status)) {
        int joined = folder_step_path(folder, last, candidate, err);
        return joined ? joined : all_damaged_error(io, candidate, &newest, err);
    }
    if (status)
        return status;
    manifest_deinit(&manifest);
    strcpy(path, candidate);
    if (ret_step)
        *ret_step = step;
    return 0;
}

int ckpt_find_with(struct io *io, const char *path_or_folder,
                   const struct ckpt_find_options *options, char *path, uint64_t *ret_step,
                   const struct log *log, struct err *err)
{
    struct manifest manifest;
    if (!has_manifest(io, path_or_folder))
        return find_newest(io, path_or_folder, options, path, ret_step, log, err);
    int status = folder_read_step(io, path_or_folder, &manifest, NULL, err);
    if (status)
        return status;
    strcpy(path, path_or_folder); /* fits: a longer path was built from it */
    if (ret_step)
        *ret_step = manifest.step;
    manifest_deinit(&manifest);
    return 0;
}

int ckpt_find(struct io *io, const char *path_or_folder, char *path, uint64_t *ret_step,
              const struct log *log, struct err *err)
{
    static const struct ckpt_find_options any = {.below = UINT64_MAX};
    return ckpt_find_with(io, path_or_folder, &any, path, ret_step, log, err);
}
