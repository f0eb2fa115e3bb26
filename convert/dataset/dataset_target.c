/*
 * dataset_target — see dataset_target.h.
 */
#include "convert/dataset/dataset_target.h"

#include "base/str.h"
#include "convert/dataset/dataset_journal.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct folder_contents {
    bool has_dataset, has_journal;
    struct str shard_names, folder_names, other_names; /* each name with its NUL */
};

static int classify_entry(void *context, const struct io_entry *entry)
{
    struct folder_contents *contents = context;
    const char *name = entry->name;
    bool file = entry->kind == IO_ENTRY_FILE;
    if (strncmp(name, IO_TEMPORARY_PREFIX, strlen(IO_TEMPORARY_PREFIX)) == 0 ||
        io_is_owner_record(name))
        return 0;
    if (entry->kind == IO_ENTRY_FOLDER)
        str_add(&contents->folder_names, name, strlen(name) + 1);
    else if (file && strcmp(name, DATASET_FILE_NAME) == 0)
        contents->has_dataset = true;
    else if (file && strcmp(name, JOURNAL_FILE_NAME) == 0)
        contents->has_journal = true;
    else if (file && output_is_shard_name(name))
        str_add(&contents->shard_names, name, strlen(name) + 1);
    else
        str_add(&contents->other_names, name, strlen(name) + 1);
    return 0;
}

static void contents_deinit(struct folder_contents *contents)
{
    str_deinit(&contents->shard_names);
    str_deinit(&contents->folder_names);
    str_deinit(&contents->other_names);
}

static int list_contents(struct io *io, const char *folder, struct folder_contents *contents,
                         struct err *err)
{
    *contents = (struct folder_contents){0};
    int status = io->names->list(io, folder, classify_entry, contents, err);
    if (!status && (str_status(&contents->shard_names) || str_status(&contents->folder_names) ||
                    str_status(&contents->other_names)))
        status = err_set(err, -ENOMEM, "out of memory for a folder's names");
    return status;
}

static bool is_empty(const struct folder_contents *contents)
{
    return !contents->has_dataset && !contents->has_journal && contents->shard_names.bytes == 0 &&
           contents->folder_names.bytes == 0 && contents->other_names.bytes == 0;
}

static int write_folder_path(const struct convert_options *options, uint32_t split, char *path,
                             struct err *err)
{
    return options->splits_count
               ? io_join_path(options->target, options->splits[split].name, path, err)
               : io_join_path("", options->target, path, err);
}

static uint32_t count_folders(const struct convert_options *options)
{
    return options->splits_count ? options->splits_count : 1;
}

static int count_complete_folders(struct io *io, const struct convert_options *options,
                                  uint32_t *ret_count, struct err *err)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < count_folders(options); i++) {
        char folder[IO_PATH_BYTES_MAX], path[IO_PATH_BYTES_MAX];
        struct io_stat info;
        int status = write_folder_path(options, i, folder, err);
        if (!status)
            status = io_join_path(folder, DATASET_FILE_NAME, path, err);
        if (status)
            return status;
        count += io->names->stat(io, path, &info, NULL) == 0;
    }
    *ret_count = count;
    return 0;
}

int target_is_complete(struct io *io, const struct convert_options *options, bool *ret_is_complete,
                       struct err *err)
{
    uint32_t count;
    int status = count_complete_folders(io, options, &count, err);
    if (!status)
        *ret_is_complete = count == count_folders(options);
    return status;
}

int target_examine(struct io *io, const struct convert_options *options,
                   enum target_state *ret_state, struct err *err)
{
    struct io_stat info;
    struct folder_contents contents = {0};
    uint32_t complete_count = 0;
    int status = io->names->stat(io, options->target, &info, err);
    if (status == -ENOENT) {
        *ret_state = TARGET_EMPTY;
        return 0;
    }
    if (!status && info.kind != IO_ENTRY_FOLDER) {
        err_set(err, -ENOTDIR, "the target is not a folder");
        err_at(err, options->target, ERR_NO_OFFSET);
        status = -ENOTDIR;
    }
    if (!status)
        status = list_contents(io, options->target, &contents, err);
    if (!status)
        status = count_complete_folders(io, options, &complete_count, err);
    if (!status)
        *ret_state = contents.has_journal                         ? TARGET_INTERRUPTED
                     : contents.has_dataset || complete_count > 0 ? TARGET_COMPLETE
                     : is_empty(&contents)                        ? TARGET_EMPTY
                                                                  : TARGET_UNRELATED;
    contents_deinit(&contents);
    return status;
}

/* A replaceable folder contains only our dataset. */
static int check_replaceable_folder(struct io *io, const char *folder, struct err *err)
{
    struct io_stat info;
    struct folder_contents contents = {0};
    int status = io->names->stat(io, folder, &info, err);
    if (status)
        return status == -ENOENT ? 0 : status;
    status = list_contents(io, folder, &contents, err);
    const char *other =
        contents.other_names.bytes > 0    ? contents.other_names.data
        : contents.folder_names.bytes > 0 ? contents.folder_names.data
        : !contents.has_dataset && contents.shard_names.bytes > 0
            ? contents.shard_names.data /* without a dataset.json, shards may be another tool's */
            : NULL;
    if (!status && other) {
        err_set(err, -EEXIST, "the folder to replace has more than its dataset: %.200s", other);
        err_at(err, folder, ERR_NO_OFFSET);
        err_advise(err, "move it elsewhere or give another target");
        status = -EEXIST;
    }
    contents_deinit(&contents);
    return status;
}

int target_check_replaceable(struct io *io, const struct convert_options *options, struct err *err)
{
    int status = 0;
    for (uint32_t i = 0; i < count_folders(options) && !status; i++) {
        char folder[IO_PATH_BYTES_MAX];
        status = write_folder_path(options, i, folder, err);
        if (!status)
            status = check_replaceable_folder(io, folder, err);
    }
    return status;
}

static int remove_entry(struct io *io, const char *folder, const char *name, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    int status = io_join_path(folder, name, path, err);
    return status ? status : io->names->remove(io, path, err);
}

int target_clear_folder(struct io *io, const char *target, struct err *err)
{
    struct io_stat info;
    struct folder_contents contents = {0}, remaining = {0};
    int status = io->names->stat(io, target, &info, err);
    if (status)
        return status == -ENOENT ? 0 : status;
    status = list_contents(io, target, &contents, err);
    if (!status && contents.has_dataset)
        status = remove_entry(io, target, DATASET_FILE_NAME, err);
    for (size_t at = 0; at < contents.shard_names.bytes && !status;
         at += strlen(contents.shard_names.data + at) + 1)
        status = remove_entry(io, target, contents.shard_names.data + at, err);
    if (!status && contents.has_journal)
        status = remove_entry(io, target, JOURNAL_FILE_NAME, err);
    if (!status) {
        int swept = io->transactions->sweep(io, target, NULL, NULL, err);
        status = swept < 0 ? swept : list_contents(io, target, &remaining, err);
    }
    if (!status && is_empty(&remaining))
        status = io->names->remove(io, target, err);
    contents_deinit(&contents);
    contents_deinit(&remaining);
    return status;
}

int target_clear(struct io *io, const char *target, struct err *err)
{
    struct convert_split splits[CONVERT_SPLITS_MAX];
    uint32_t count = 0;
    int status = journal_read_splits(io, target, splits, &count, err);
    for (uint32_t i = 0; i < count && !status; i++) {
        char folder[IO_PATH_BYTES_MAX];
        status = io_join_path(target, splits[i].name, folder, err);
        if (!status)
            status = target_clear_folder(io, folder, err);
    }
    return status ? status : target_clear_folder(io, target, err);
}

static int collect_owner_record(void *context, const struct io_entry *entry)
{
    if (io_is_owner_record(entry->name))
        str_add(context, entry->name, strlen(entry->name) + 1);
    return 0;
}

void target_remove_owner_records(struct io *io, const char *target)
{
    struct str names = {0};
    if (io->names->list(io, target, collect_owner_record, &names, NULL) == 0 && !str_status(&names))
        for (size_t at = 0; at < names.bytes; at += strlen(names.data + at) + 1)
            remove_entry(io, target, names.data + at, NULL);
    str_deinit(&names);
}

struct stale_folders {
    char prefix[IO_PATH_BYTES_MAX + 32];
    struct str names;
};

static int collect_stale_folder(void *context, const struct io_entry *entry)
{
    enum { NONCE_DIGITS = 16 };
    struct stale_folders *stale = context;
    size_t bytes = strlen(stale->prefix);
    char name[IO_NAME_BYTES_MAX];
    bool is_ours = strncmp(entry->name, stale->prefix, bytes) == 0 &&
                   strlen(entry->name) == bytes + NONCE_DIGITS;
    bool is_removal = io_parse_temporary(entry->name, name) && !name[0]; /* killed, or under way */
    if (entry->kind == IO_ENTRY_FOLDER && (is_ours || is_removal))
        str_add(&stale->names, entry->name, strlen(entry->name) + 1);
    return 0;
}

int target_sweep_siblings(struct io *io, const char *target, struct err *err)
{
    char path[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX];
    struct stale_folders stale = {0};
    int status = io_join_path("", target, path, err);
    if (status)
        return status;
    for (size_t bytes = strlen(path); bytes > 1 && path[bytes - 1] == '/'; bytes--)
        path[bytes - 1] = '\0';
    const char *slash = strrchr(path, '/');
    snprintf(stale.prefix, sizeof stale.prefix, IO_TEMPORARY_PREFIX "%s-" OUTPUT_OWNER "-0-",
             slash ? slash + 1 : path);
    io_parent_path(path, parent);
    status = io->names->list(io, parent, collect_stale_folder, &stale, err);
    if (!status && str_status(&stale.names))
        status = err_set(err, -ENOMEM, "out of memory for a folder's names");
    for (size_t at = 0; at < stale.names.bytes && !status;
         at += strlen(stale.names.data + at) + 1) {
        status = remove_entry(io, parent, stale.names.data + at, err);
        if (status == -ENOENT) /* another process was faster */
            status = 0;
    }
    str_deinit(&stale.names);
    return status;
}
