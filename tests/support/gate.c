/*
 * gate — see gate.h.
 */
#include "tests/support/gate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void set(struct gate *gate, bool is_shut)
{
    pthread_mutex_lock(&gate->mutex);
    gate->is_shut = is_shut;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

void gate_shut(struct gate *gate)
{
    set(gate, true);
}

void gate_open(struct gate *gate)
{
    set(gate, false);
}

void gate_pass(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->waiting_count++;
    pthread_cond_broadcast(&gate->changed);
    while (gate->is_shut)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    gate->waiting_count--;
    pthread_mutex_unlock(&gate->mutex);
}

void gate_wait_for_threads(struct gate *gate, unsigned count)
{
    pthread_mutex_lock(&gate->mutex);
    while (gate->waiting_count < count)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

void gate_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

bool gate_is_asleep(pid_t thread)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *name_end = strrchr(text, ')'); /* "PID (NAME) STATE ..." */
    return name_end && strncmp(name_end, ") S", 3) == 0;
}
