/*
 * temporary_registry — see temporary_registry.h.
 *
 *     free ──register──> busy: its path is copied ──> noted ──unregister──> free
 *                                                       └──remove_all──> gone, for good
 */
#include "io/files/temporary_registry.h"

#include "io/local/file_local.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum state { STATE_FREE, STATE_BUSY, STATE_NOTED, STATE_GONE };

struct entry {
    atomic_int state;
    /* Written by the thread that set STATE_BUSY; immutable once noted. */
    char path[IO_PATH_BYTES_MAX];
};

/* Static: a signal handler has no other way to find them. */
static struct entry entries[IO_TEMPORARY_REGISTRY_MAX];
static atomic_bool is_ending;
static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_BOOL_LOCK_FREE == 2,
              "a handler may touch lock-free atomics only");

static int note(const char *path)
{
    for (int i = 0; i < IO_TEMPORARY_REGISTRY_MAX; i++) {
        int expected = STATE_FREE;
        if (!atomic_compare_exchange_strong(&entries[i].state, &expected, STATE_BUSY))
            continue;
        strcpy(entries[i].path, path); /* local_path limits its length */
        atomic_store(&entries[i].state, STATE_NOTED);
        return i;
    }
    return -1;
}

int io_temporary_register(const char *path)
{
    int number = local_path(path, &path, NULL) ? -1 : note(path);
    while (atomic_load(&is_ending))
        pause();
    return number;
}

void io_temporary_unregister(int number)
{
    int expected = STATE_NOTED;
    if (number >= 0)
        atomic_compare_exchange_strong(&entries[number].state, &expected, STATE_FREE);
}

void io_temporary_remove_all(void)
{
    atomic_store(&is_ending, true);
    for (int i = 0; i < IO_TEMPORARY_REGISTRY_MAX; i++) {
        int expected = STATE_NOTED;
        if (atomic_compare_exchange_strong(&entries[i].state, &expected, STATE_GONE))
            unlink(entries[i].path);
    }
    for (int i = 0; i < IO_TEMPORARY_REGISTRY_MAX; i++)
        if (atomic_load(&entries[i].state) == STATE_GONE)
            rmdir(entries[i].path); /* fails harmlessly for files */
}
