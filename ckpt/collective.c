#include "ckpt/collective.h"

struct comm_options collective_options(const char *purpose)
{
    return (struct comm_options){.purpose = purpose};
}

int collective_agree(struct comm *comm, int status, const char *purpose, struct err *err)
{
    struct comm_options options = collective_options(purpose);
    return comm_agree(comm, status, &options, err);
}

int collective_any(struct comm *comm, bool *flag, const char *purpose, struct err *err)
{
    int64_t value = *flag;
    struct comm_options options = collective_options(purpose);
    struct comm_work work;
    int status = comm->ops->all_reduce_i64(comm, &value, 1, COMM_OR, &options, &work, err);
    if (!status)
        status = comm_wait(comm, &work, err);
    if (!status)
        *flag = value != 0;
    return status;
}

int collective_gather(struct comm *comm, void *all, size_t bytes, const char *purpose,
                      struct err *err)
{
    const char *own = (const char *)all + (size_t)comm->rank * bytes;
    struct comm_options options = collective_options(purpose);
    struct comm_work work;
    int status = comm->ops->all_gather(comm, own, all, bytes, &options, &work, err);
    return status ? status : comm_wait(comm, &work, err);
}
