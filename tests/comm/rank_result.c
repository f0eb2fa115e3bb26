/*
 * rank_result — see rank_result.h.
 */
#include "tests/comm/rank_result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void write_rank_result(const struct comm *world, int status, const struct err *err)
{
    char name[64], line[ERR_LINE_BYTES_MAX], text[ERR_LINE_BYTES_MAX + 64];
    snprintf(text, sizeof text, "%s %s\n", status ? strerrorname_np(-status) : "0",
             status ? err_format(err, line, sizeof line) : "");
    snprintf(name, sizeof name, "got.%d.part", world->rank);
    FILE *file = fopen(name, "w");
    if (!file || fputs(text, file) < 0 || fclose(file))
        exit(3);
    char whole[64];
    snprintf(whole, sizeof whole, "got.%d", world->rank);
    if (rename(name, whole))
        exit(3);
    for (int r = 0; r < world->ranks; r++) {
        snprintf(whole, sizeof whole, "got.%d", r);
        while (access(whole, F_OK))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}
