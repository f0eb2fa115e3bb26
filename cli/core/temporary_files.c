/*
 * temporary_files — see temporary_files.h.
 *
 *     free ──add──> busy (copying the path) ──> added ──remove──> free
 *                                                 └──remove_all──> gone
 */
#include "cli/core/temporary_files.h"

#include "io/local/file_local.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { FILES_MAX = 64 };
enum state { STATE_FREE, STATE_BUSY, STATE_ADDED, STATE_GONE };

struct entry {
    atomic_int state;
    /* Written while the state is STATE_BUSY; immutable afterwards. */
    char path[IO_PATH_BYTES_MAX];
};

/* Static, so that a signal handler can access them. */
static struct entry entries[FILES_MAX];
static atomic_bool is_exiting;
static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_BOOL_LOCK_FREE == 2,
              "a handler may access only lock-free atomics");

static int claim_entry(const char *path)
{
    for (int i = 0; i < FILES_MAX; i++) {
        int expected = STATE_FREE;
        if (!atomic_compare_exchange_strong(&entries[i].state, &expected, STATE_BUSY))
            continue;
        strcpy(entries[i].path, path);
        atomic_store(&entries[i].state, STATE_ADDED);
        return i;
    }
    return -1;
}

static int add(const char *path)
{
    int index = local_path(path, &path, NULL) ? -1 : claim_entry(path);
    while (atomic_load(&is_exiting))
        pause();
    return index;
}

static void remove_one(int index)
{
    int expected = STATE_ADDED;
    if (index >= 0)
        atomic_compare_exchange_strong(&entries[index].state, &expected, STATE_FREE);
}

const struct io_temporaries temporary_files = {.add = add, .remove = remove_one};

void temporary_files_remove_all(void)
{
    atomic_store(&is_exiting, true);
    for (int i = 0; i < FILES_MAX; i++) {
        int expected = STATE_ADDED;
        if (atomic_compare_exchange_strong(&entries[i].state, &expected, STATE_GONE))
            unlink(entries[i].path);
    }
    for (int i = 0; i < FILES_MAX; i++)
        if (atomic_load(&entries[i].state) == STATE_GONE)
            rmdir(entries[i].path); /* fails harmlessly for files */
}
