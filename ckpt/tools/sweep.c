#include "ckpt/ckpt.h"
#include "ckpt/format/folder.h"

struct leftovers {
    void (*each)(void *context, const char *name);
    void *context;
};

static int report_leftover(void *context, const struct io_entry *entry)
{
    const struct leftovers *leftovers = context;
    if (folder_is_leftover(entry->name))
        leftovers->each(leftovers->context, entry->name);
    return 0;
}

int ckpt_sweep(struct io *io, const char *folder, void (*each)(void *context, const char *name),
               void *context, struct err *err)
{
    struct leftovers leftovers = {each, context};
    struct io_lock *lock;
    int status = folder_check_has_steps(io, folder, err);
    if (!status)
        status = io->locks->acquire(io, folder, NULL, &lock, err);
    if (status)
        return status;
    if (each)
        status = io->names->list(io, folder, report_leftover, &leftovers, err);
    if (!status)
        status = io->transactions->sweep(io, folder, NULL, folder_is_leftover, err);
    io->locks->release(lock);
    return status;
}
