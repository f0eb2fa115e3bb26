/*
 * recorder — see recorder.h: recording, and what happens at each call.
 */
#include "tests/crash/recorder_internal.h"

#include "io/file_util.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct identity {
    dev_t device;
    ino_t inode;
};

static struct {
    pthread_mutex_t mutex; /* guards the recording */
    struct history *history;
    /* [node]; if several have the same inode number, the newest is in use */
    struct identity *identities;

    /* Set only while no calls are made. */
    atomic_uint *count;
    unsigned kill_at;
    atomic_uint die_at;
    bool dies_after; /* die at the next operation of kind dies_after_kind */
    enum history_kind dies_after_kind;
    bool kill_in_the_middle, skip_syncs, refuse_rename_flags;
    enum recorder_bug bug;
    void (*callback)(void *context, unsigned n);
    void *callback_context;
} script = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static atomic_uint own_count;
static _Thread_local bool is_in_callback;

/* ---- Requests. ---- */

void recorder_count_calls_in(atomic_uint *count)
{
    script.count = count ? count : &own_count;
    atomic_store(script.count, 0);
}

void recorder_kill_at(unsigned n, bool in_the_middle)
{
    script.kill_at = n;
    script.kill_in_the_middle = in_the_middle;
    if (!script.count)
        recorder_count_calls_in(NULL);
}

void recorder_die_at(unsigned n)
{
    atomic_store(&script.die_at, n);
    script.dies_after = false;
    recorder_count_calls_in(NULL);
}

void recorder_die_after(enum history_kind kind)
{
    recorder_die_at(0);
    script.dies_after = true;
    script.dies_after_kind = kind;
}

void recorder_set_callback(void (*callback)(void *context, unsigned n), void *context)
{
    script.callback = callback;
    script.callback_context = context;
    recorder_count_calls_in(NULL);
}

void recorder_skip_syncs(bool skip)
{
    script.skip_syncs = skip;
}

void recorder_seed_bug(enum recorder_bug bug)
{
    script.bug = bug;
}

void recorder_refuse_rename_flags(bool refuse)
{
    script.refuse_rename_flags = refuse;
}

bool recorder_has_bug(enum recorder_bug bug)
{
    return script.bug == bug;
}

bool recorder_skips_syncs(void)
{
    return script.skip_syncs;
}

bool recorder_refuses_rename_flags(void)
{
    return script.refuse_rename_flags;
}

enum recorder_before_call recorder_before_call(void (*half)(void *context), void *context)
{
    if (!script.count || is_in_callback)
        return CALL_PROCEEDS;
    unsigned n = atomic_fetch_add(script.count, 1) + 1;
    if (script.kill_at == n) {
        if (half && script.kill_in_the_middle)
            half(context);
        kill(getpid(), SIGKILL);
    }
    if (script.callback) {
        is_in_callback = true;
        script.callback(script.callback_context, n);
        is_in_callback = false;
    }
    unsigned die_at = atomic_load(&script.die_at);
    return die_at > 0 && n >= die_at ? CALL_FAILS : CALL_PROCEEDS;
}

/* ---- Recording. ---- */

void recorder_lock(void)
{
    pthread_mutex_lock(&script.mutex);
}

void recorder_unlock(void)
{
    pthread_mutex_unlock(&script.mutex);
}

bool recorder_is_on(void)
{
    return script.history != NULL;
}

static void set_identity(uint32_t node, const struct stat *info)
{
    script.identities = realloc(script.identities, (node + 1) * sizeof *script.identities);
    if (!script.identities)
        abort();
    script.identities[node] = (struct identity){info->st_dev, info->st_ino};
}

uint32_t recorder_find_node(const struct stat *info)
{
    if (!script.history)
        return TREE_NONE;
    for (uint32_t node = script.history->base.count; node-- > 0;)
        if (script.identities[node].device == info->st_dev &&
            script.identities[node].inode == info->st_ino)
            return node;
    return TREE_NONE;
}

uint32_t recorder_find_path(const char *path)
{
    struct stat info;
    return lstat(path, &info) ? TREE_NONE : recorder_find_node(&info);
}

uint32_t recorder_find_parent(const char *path)
{
    char folder[IO_PATH_BYTES_MAX];
    io_parent_path(path, folder);
    return recorder_find_path(folder);
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void recorder_add_name_op(enum history_kind kind, uint32_t folder, const char *name,
                          const char *other, uint32_t child)
{
    if (folder == TREE_NONE)
        return;
    if (script.dies_after && script.dies_after_kind == kind) {
        script.dies_after = false;
        atomic_store(&script.die_at, atomic_load(script.count) + 1);
    }
    history_add(script.history,
                (struct history_op){.kind = kind,
                                    .node = folder,
                                    .child = child,
                                    .name = strdup(last_name(name)),
                                    .other = other ? strdup(last_name(other)) : NULL});
}

void recorder_new_node(const char *path, bool is_folder)
{
    struct stat info;
    uint32_t folder = recorder_find_parent(path);
    if (folder == TREE_NONE || lstat(path, &info))
        return;
    uint32_t node = tree_add(&script.history->base, is_folder);
    set_identity(node, &info);
    recorder_add_name_op(HISTORY_LINK, folder, path, NULL, node);
}

uint32_t recorder_start(struct history_op op)
{
    return op.node == TREE_NONE ? HISTORY_NEVER : history_add(script.history, op);
}

void recorder_finish(uint32_t op, uint64_t bytes)
{
    if (op == HISTORY_NEVER || !script.history)
        return;
    if (script.history->ops[op].kind == HISTORY_WRITE)
        script.history->ops[op].bytes = bytes;
    history_end(script.history, op);
}

void recorder_note(uint32_t number)
{
    recorder_lock();
    if (script.history)
        history_add(script.history, (struct history_op){.kind = HISTORY_NOTE, .node = number});
    recorder_unlock();
}

static void record_initial_node(void *context, uint32_t node, const char *path)
{
    struct stat info;
    (void)context;
    if (lstat(path, &info))
        abort();
    set_identity(node, &info);
}

void recorder_begin(struct history *history, const char *folder)
{
    *history = (struct history){0};
    tree_scan(&history->base, folder, record_initial_node, NULL);
    script.history = history;
}

void recorder_end(void)
{
    struct history *history = script.history;
    script.history = NULL;
    free(script.identities);
    script.identities = NULL;
    history_close(history);
}

bool recorder_is_complete(const struct history *history, const char *folder)
{
    struct tree told, real;
    history_visible_tree(history, HISTORY_NEVER, &told);
    tree_scan(&real, folder, NULL, NULL);
    struct hash128 a = tree_digest(&told), b = tree_digest(&real);
    tree_deinit(&told);
    tree_deinit(&real);
    return a.high == b.high && a.low == b.low;
}
