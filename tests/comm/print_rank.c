/*
 * Detects the rank as millrace does and prints it. Run by print_rank.sh.
 */
#include "comm/ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>

static const char *get_variable(const char *name)
{
    return getenv(name);
}

int main(void)
{
    struct ranks ranks;
    struct comm *comm = NULL;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    int status = ranks_detect(get_variable, &ranks, &err);
    if (!status)
        status = ranks_open(&ranks, NULL, &comm, &err);
    if (status)
        printf("%s\n", err_format(&err, line, sizeof line));
    else
        printf("rank %d of %d by %s\n", comm->rank, comm->ranks, comm->ops->name);
    comm_close(comm);
    return status ? 1 : 0;
}
