/*
 * dataset_target — see dataset_target.h.
 */
#include "convert/dataset_target.h"

#include "base/str.h"
#include "convert/dataset_journal.h"
#include "io/whole.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a folder holds. */
struct contents {
    bool has_dataset, has_journal, has_other;
    struct str ours, folders; /* names, each with its NUL */
};

static bool is_shard_name(const char *name)
{
    size_t digits = strncmp(name, "shard-", 6) == 0 ? strspn(name + 6, "0123456789") : 0;
    return digits >= 6 && strcmp(name + 6 + digits, ".tar") == 0;
}

static int note(void *context, const struct io_entry *entry)
{
    struct contents *contents = context;
    const char *name = entry->name;
    bool file = entry->kind == IO_ENTRY_FILE;
    if (strncmp(name, IO_TEMPORARY_PREFIX, strlen(IO_TEMPORARY_PREFIX)) == 0)
        return 0;
    if (entry->kind == IO_ENTRY_FOLDER)
        str_add(&contents->folders, name, strlen(name) + 1);
    else if (file && strcmp(name, DATASET_FILE_NAME) == 0)
        contents->has_dataset = true;
    else if (file && strcmp(name, JOURNAL_FILE_NAME) == 0)
        contents->has_journal = true;
    else if (file && is_shard_name(name))
        str_add(&contents->ours, name, strlen(name) + 1);
    else
        contents->has_other = true;
    return 0;
}

static void contents_deinit(struct contents *contents)
{
    str_deinit(&contents->ours);
    str_deinit(&contents->folders);
}

static int look(struct io *io, const char *folder, struct contents *contents, struct err *err)
{
    *contents = (struct contents){0};
    int status = io->ops->list(io, folder, note, contents, err);
    if (!status && (str_status(&contents->ours) || str_status(&contents->folders)))
        status = err_set(err, -ENOMEM, "out of memory for a folder's names");
    return status;
}

static int look_below(struct io *io, const char *target, const struct contents *contents,
                      bool *ret_has_dataset, struct err *err)
{
    *ret_has_dataset = false;
    for (size_t at = 0; at < contents->folders.bytes; at += strlen(contents->folders.data + at) + 1) {
        char below[IO_PATH_BYTES_MAX], path[IO_PATH_BYTES_MAX];
        struct io_stat info;
        int status = io_join_path(target, contents->folders.data + at, below, err);
        if (!status)
            status = io_join_path(below, DATASET_FILE_NAME, path, err);
        if (status)
            return status;
        if (io->ops->stat(io, path, &info, NULL) == 0)
            *ret_has_dataset = true;
    }
    return 0;
}

int target_examine(struct io *io, const char *target, enum target_state *ret_state, struct err *err)
{
    struct io_stat info;
    struct contents contents = {0};
    bool whole_below = false;
    int status = io->ops->stat(io, target, &info, err);
    if (status == -ENOENT) {
        *ret_state = TARGET_FREE;
        return 0;
    }
    if (!status && info.kind != IO_ENTRY_FOLDER) {
        err_set(err, -ENOTDIR, "target is no folder");
        err_at(err, target, ERR_NO_OFFSET);
        status = -ENOTDIR;
    }
    if (!status)
        status = look(io, target, &contents, err);
    if (!status)
        status = look_below(io, target, &contents, &whole_below, err);
    if (!status) {
        bool empty = !contents.has_other && contents.ours.bytes == 0 && contents.folders.bytes == 0;
        *ret_state = contents.has_journal                  ? TARGET_BEGUN
                     : contents.has_dataset || whole_below ? TARGET_WHOLE
                     : empty                               ? TARGET_FREE
                                                           : TARGET_FOREIGN;
    }
    contents_deinit(&contents);
    return status;
}

static int remove_in(struct io *io, const char *folder, const char *name, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    int status = io_join_path(folder, name, path, err);
    return status ? status : io->ops->remove(io, path, err);
}

/* Removes our files in one folder, and the folder where nothing else is in it. */
static int clear_folder(struct io *io, const char *folder, const struct contents *contents, struct err *err)
{
    int status = contents->has_dataset ? remove_in(io, folder, DATASET_FILE_NAME, err) : 0;
    if (!status && contents->has_journal)
        status = remove_in(io, folder, JOURNAL_FILE_NAME, err);
    for (size_t at = 0; at < contents->ours.bytes && !status; at += strlen(contents->ours.data + at) + 1)
        status = remove_in(io, folder, contents->ours.data + at, err);
    struct contents after = {0};
    if (!status) {
        int swept = io->ops->sweep(io, folder, NULL, err);
        status = swept < 0 ? swept : look(io, folder, &after, err);
    }
    if (!status && !after.has_other && after.ours.bytes == 0 && after.folders.bytes == 0)
        status = io->ops->remove(io, folder, err);
    contents_deinit(&after);
    return status;
}

int target_clear(struct io *io, const char *target, struct err *err)
{
    struct io_stat info;
    struct contents contents = {0};
    int status = io->ops->stat(io, target, &info, err);
    if (status)
        return status == -ENOENT ? 0 : status;
    status = look(io, target, &contents, err);
    for (size_t at = 0; at < contents.folders.bytes && !status;
         at += strlen(contents.folders.data + at) + 1) {
        char below[IO_PATH_BYTES_MAX];
        struct contents inner = {0};
        status = io_join_path(target, contents.folders.data + at, below, err);
        if (!status)
            status = look(io, below, &inner, err);
        bool ours = inner.has_dataset || inner.ours.bytes > 0;
        if (!status && ours)
            status = clear_folder(io, below, &inner, err);
        contents_deinit(&inner);
    }
    if (!status)
        status = clear_folder(io, target, &contents, err);
    contents_deinit(&contents);
    return status;
}
