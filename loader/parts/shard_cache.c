/*
 * shard_cache — see shard_cache.h.
 */
#include "loader/parts/shard_cache.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct cache_entry {
    struct shard *shard;
    struct err *damage; /* why it can never be opened; NULL: no known damage */
    uint64_t last_used;
    /* increases only under mutex, so the thread that holds it may close an unused shard */
    atomic_uint_least32_t users;
};

struct shard_cache {
    struct io *io;
    const struct dataset *datasets[MIX_DATASETS_MAX];
    uint64_t first_shards[MIX_DATASETS_MAX + 1]; /* each dataset's first shard, and the total */
    uint32_t datasets_count;
    atomic_uint_least64_t opening; /* 1 + the shard being opened; 0: none */
    /* guards the fields below; never taken while holding another mutex */
    pthread_mutex_t mutex;
    uint64_t clock;
    uint32_t open_count, open_max;
    uint32_t *open_shards;        /* unordered */
    struct cache_entry entries[]; /* one per shard */
};

uint32_t shard_cache_open_max(void)
{
    uint64_t quarter = open_files_max() / 4;
    if (quarter > SHARDS_OPEN_MAX)
        return SHARDS_OPEN_MAX;
    return quarter < SHARDS_OPEN_MIN ? SHARDS_OPEN_MIN : (uint32_t)quarter;
}

int shard_cache_open(struct io *io, const struct dataset *const *datasets, uint32_t count,
                     struct shard_cache **ret_cache, struct err *err)
{
    assert(count <= MIX_DATASETS_MAX);
    uint64_t shards = 0;
    for (uint32_t i = 0; i < count; i++)
        shards += datasets[i]->shards_count;
    struct shard_cache *cache = calloc(1, sizeof *cache + shards * sizeof cache->entries[0]);
    uint32_t *list = calloc(shards ? shards : 1, sizeof *list);
    if (!cache || !list) {
        free(list);
        free(cache);
        return err_set(err, -ENOMEM, "out of memory for a table of %" PRIu64 " shards", shards);
    }
    cache->io = io;
    cache->datasets_count = count;
    for (uint32_t i = 0; i < count; i++) {
        cache->datasets[i] = datasets[i];
        cache->first_shards[i + 1] = cache->first_shards[i] + datasets[i]->shards_count;
    }
    cache->open_shards = list;
    cache->open_max = shard_cache_open_max();
    pthread_mutex_init(&cache->mutex, NULL);
    *ret_cache = cache;
    return 0;
}

void shard_cache_close(struct shard_cache *cache)
{
    if (!cache)
        return;
    for (uint64_t i = 0; i < cache->first_shards[cache->datasets_count]; i++) {
        assert(cache->entries[i].users == 0);
        shard_close(cache->entries[i].shard);
        free(cache->entries[i].damage);
    }
    pthread_mutex_destroy(&cache->mutex);
    free(cache->open_shards);
    free(cache);
}

/* Closes the least recently used shard. False: all are in use. */
static bool close_oldest(struct shard_cache *cache)
{
    uint32_t oldest = cache->open_count;
    for (uint32_t i = 0; i < cache->open_count; i++) {
        const struct cache_entry *entry = &cache->entries[cache->open_shards[i]];
        bool is_older = oldest == cache->open_count ||
                        entry->last_used < cache->entries[cache->open_shards[oldest]].last_used;
        if (entry->users == 0 && is_older)
            oldest = i;
    }
    if (oldest == cache->open_count)
        return false;
    struct cache_entry *entry = &cache->entries[cache->open_shards[oldest]];
    shard_close(entry->shard);
    entry->shard = NULL;
    cache->open_shards[oldest] = cache->open_shards[--cache->open_count];
    return true;
}

static uint32_t find_dataset(const struct shard_cache *cache, uint64_t shard)
{
    uint32_t dataset = 0;
    while (shard >= cache->first_shards[dataset + 1])
        dataset++;
    return dataset;
}

uint64_t shard_cache_first(const struct shard_cache *cache, uint32_t dataset)
{
    return cache->first_shards[dataset];
}

int shard_cache_path(const struct shard_cache *cache, uint64_t shard, char *path, struct err *err)
{
    uint32_t dataset = find_dataset(cache, shard);
    return dataset_shard_path(cache->datasets[dataset], shard - cache->first_shards[dataset], path,
                              err);
}

bool shard_cache_is_short_of_files(int status)
{
    return status == -EMFILE || status == -ENFILE;
}

/* Closes unused shards until the share allows one more file. */
static int make_room_for_file(struct shard_cache *cache, enum open_files_fraction share,
                              const char *path, struct err *err)
{
    while (!open_files_next_is_within(share)) {
        if (close_oldest(cache))
            continue;
        err_set(err, -EMFILE, "the process has too many open files to open another shard");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "at most %d/8 of the %" PRIu64 " allowed", share, open_files_max());
        err_found(err, "%" PRIu32 " shards in use at once", cache->open_count);
        open_files_advise(err);
        return -EMFILE;
    }
    return 0;
}

/* Retrying would not help and, without an index, would reread the whole file. */
static void note_damage(struct cache_entry *entry, int status, const struct err *why)
{
    if (status != -EBADMSG || !why)
        return;
    entry->damage = malloc(sizeof *entry->damage);
    if (entry->damage)
        *entry->damage = *why;
}

static int open_entry(struct shard_cache *cache, uint64_t shard, enum open_files_fraction share,
                      struct err *err)
{
    struct cache_entry *entry = &cache->entries[shard];
    struct shard *opened = NULL;
    char path[IO_PATH_BYTES_MAX];
    while (cache->open_count >= cache->open_max && close_oldest(cache))
        ;
    uint32_t dataset = find_dataset(cache, shard);
    int status = shard_cache_path(cache, shard, path, err);
    if (!status)
        status = make_room_for_file(cache, share, path, err);
    if (!status) {
        atomic_store(&cache->opening, shard + 1);
        do /* other parts of the process may have taken the descriptors */
            status = dataset_open_shard(cache->io, cache->datasets[dataset],
                                        shard - cache->first_shards[dataset], &opened, err);
        while (shard_cache_is_short_of_files(status) && close_oldest(cache));
        atomic_store(&cache->opening, 0);
    }
    if (status) {
        note_damage(entry, status, err);
        return status;
    }
    entry->shard = opened;
    cache->open_shards[cache->open_count++] = (uint32_t)shard;
    return 0;
}

bool shard_cache_is_opening(const struct shard_cache *cache, uint64_t *ret_shard)
{
    uint64_t opening = atomic_load(&cache->opening);
    if (opening)
        *ret_shard = opening - 1;
    return opening != 0;
}

int shard_cache_get(struct shard_cache *cache, uint64_t shard, enum open_files_fraction share,
                    struct shard **ret_shard, struct err *err)
{
    int status = 0;
    pthread_mutex_lock(&cache->mutex);
    struct cache_entry *entry = &cache->entries[shard];
    if (entry->damage) {
        status = entry->damage->code;
        if (err)
            *err = *entry->damage;
    } else if (!entry->shard) {
        status = open_entry(cache, shard, share, err);
    }
    if (!status) {
        entry->users++;
        entry->last_used = ++cache->clock;
        *ret_shard = entry->shard;
    }
    pthread_mutex_unlock(&cache->mutex);
    return status;
}

void shard_cache_put(struct shard_cache *cache, uint64_t shard)
{
    uint32_t before = atomic_fetch_sub(&cache->entries[shard].users, 1);
    assert(before > 0);
    (void)before;
}
