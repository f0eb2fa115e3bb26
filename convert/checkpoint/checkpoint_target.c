/*
 * checkpoint_target — see checkpoint_target.h.
 */
#include "convert/checkpoint/checkpoint_target.h"

#include "base/str.h"
#include "io/path_within.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Allows replacing a checkpoint that is a single file: it stays readable until the commit. */
static int check_outside_source(struct io *source_io, const char *source, const char *target,
                                struct err *err)
{
    struct io_stat info;
    int status = source_io->names->stat(source_io, source, &info, err);
    if (status || info.kind != IO_ENTRY_FOLDER || !io_is_within(target, source))
        return status;
    err_set(err, -EINVAL, "DST is inside the source checkpoint");
    err_at(err, target, ERR_NO_OFFSET);
    err_advise(err, "give a DST outside %.120s", source);
    return -EINVAL;
}

int checkpoint_target_check_file(struct io *io, struct io *source_io, const char *source,
                                 const char *target, struct err *err)
{
    struct io_stat info;
    int status = check_outside_source(source_io, source, target, err);
    if (status || io->names->stat(io, target, &info, NULL) || info.kind != IO_ENTRY_FOLDER)
        return status;
    err_set(err, -EISDIR, "DST is a folder, but the output is one file");
    err_at(err, target, ERR_NO_OFFSET);
    err_advise(err, "give a file name, such as model.safetensors in that folder");
    return -EISDIR;
}

int checkpoint_target_reject_existing(const char *target, struct err *err)
{
    err_set(err, -EEXIST, "the name is already in use");
    err_at(err, target, ERR_NO_OFFSET);
    err_advise(err, "remove it, choose another name, or ask for it to be replaced");
    return -EEXIST;
}

static bool is_output_name(const char *name)
{
    return strcmp(name, "config.json") == 0 || strcmp(name, "model.safetensors.index.json") == 0 ||
           (strncmp(name, "model", strlen("model")) == 0 && str_ends_with(name, ".safetensors"));
}

struct foreign_entry {
    char name[256]; /* "" or the first entry that conversions do not write */
};

static int find_foreign_entry(void *context, const struct io_entry *entry)
{
    struct foreign_entry *foreign = context;
    if (entry->kind == IO_ENTRY_FILE && is_output_name(entry->name))
        return 0;
    snprintf(foreign->name, sizeof foreign->name, "%s", entry->name);
    return 1;
}

int checkpoint_target_check_folder(struct io *io, struct io *source_io, const char *source,
                                   const char *target, bool replace, struct err *err)
{
    struct foreign_entry foreign = {0};
    struct io_stat info;
    int status = check_outside_source(source_io, source, target, err);
    if (status || !replace || io->names->stat(io, target, &info, NULL) ||
        info.kind != IO_ENTRY_FOLDER)
        return status;
    status = io->names->list(io, target, find_foreign_entry, &foreign, err);
    if (!foreign.name[0])
        return status;
    err_set(err, -EEXIST, "DST has files that a conversion to hf does not write");
    err_at(err, target, ERR_NO_OFFSET);
    err_expected(err, "only config.json and model*.safetensors");
    err_found(err, "%s", foreign.name);
    err_advise(err, "give another DST: replacing this one would delete these files");
    return -EEXIST;
}
