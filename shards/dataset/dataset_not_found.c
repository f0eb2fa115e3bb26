/*
 * dataset_not_found — see dataset_not_found.h.
 */
#include "shards/dataset/dataset_not_found.h"

#include "io/file_util.h"
#include "shards/dataset/dataset.h"

#include <errno.h>

struct search {
    struct io *io;
    const char *folder;
    char found[IO_PATH_BYTES_MAX];
};

bool dataset_exists(struct io *io, const char *folder)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    return io_join_path(folder, DATASET_FILE_NAME, path, NULL) == 0 &&
           io->names->stat(io, path, &info, NULL) != -ENOENT;
}

static int look_within(void *context, const struct io_entry *entry)
{
    struct search *search = context;
    return entry->kind == IO_ENTRY_FOLDER &&
           io_join_path(search->folder, entry->name, search->found, NULL) == 0 &&
           dataset_exists(search->io, search->found);
}

int dataset_not_found(struct io *io, const char *folder, struct err *err)
{
    struct search search = {.io = io, .folder = folder};
    err_set(err, -ENOENT, "the folder is not a dataset");
    err_at(err, folder, ERR_NO_OFFSET);
    err_expected(err, DATASET_FILE_NAME " in it");
    if (io->names->list(io, folder, look_within, &search, NULL) > 0)
        err_advise(err, "give a dataset inside it, such as %s", search.found);
    else
        err_advise(err,
                   "create one from a folder of photos or text with `millrace convert dataset`");
    return -ENOENT;
}
