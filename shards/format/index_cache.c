/*
 * index_cache — see index_cache.h.
 */
#include "shards/format/index_cache.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/hash.h"
#include "io/file_util.h"
#include "shards/format/index_layout.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEADER_BYTES = 256, HEADER_CRC_AT = 252, PATH_AT = 256, ENTRY_VERSION = 2, ALIGN_BYTES = 8 };
enum { PROBES_AT = 72, IDENTITY_AT = 104 };
static_assert(IDENTITY_AT + IO_IDENTITY_BYTES_MAX <= HEADER_CRC_AT, "any identity fits");
enum { NAME_DIGITS = 16, LEFTOVER_AGE_S = 3600 };         /* storing an entry takes far less time */
enum { ENTRY_PARTIAL = 256 };                             /* in addition to the trailer's flags */
enum { LOCK_WAIT_NS = 20000000, LOCK_WAITS_MAX = 15000 }; /* 5 minutes */
/* Number of header blocks checked before an entry is used, with one small read each. */
enum { PROBES_COUNT = 4 };
#define NO_PROBE UINT64_MAX

static const char entry_magic[8] = "MRINDEX";

static bool is_local(const struct io *io)
{
    return strcmp(io->ops->scheme, "file") == 0;
}

/* Returns NULL unless the path is absolute, as the XDG base directory specification requires. */
static const char *absolute_path_from_env(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0] == '/' ? value : NULL;
}

int index_cache_folder(char *folder)
{
    const char *xdg = absolute_path_from_env("XDG_CACHE_HOME"),
               *home = absolute_path_from_env("HOME");
    if (!xdg && !home)
        return -ENOENT;
    int bytes = snprintf(folder, IO_PATH_BYTES_MAX, "%s%s/millrace/index", xdg ? xdg : home,
                         xdg ? "" : "/.cache");
    return bytes < 0 || bytes >= IO_PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
}

static int entry_path(const char *full, char *cache_path)
{
    char folder[IO_PATH_BYTES_MAX];
    int status = index_cache_folder(folder);
    if (status)
        return status;
    int bytes = snprintf(cache_path, IO_PATH_BYTES_MAX, "%s/%016" PRIx64, folder,
                         hash_64(full, strlen(full)));
    return bytes < 0 || bytes >= IO_PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
}

int index_cache_path(struct io *io, const char *path, char *cache_path, struct err *err)
{
    char full[IO_PATH_BYTES_MAX];
    int status = io_resolve(io, path, full, err);
    if (status == -ENAMETOOLONG)
        return status;
    if (!status)
        status = entry_path(full, cache_path);
    if (status == -ENOENT) {
        err_set(err, status, "no folder is available for the index");
        err_at(err, path, ERR_NO_OFFSET);
        err_advise(err, "set XDG_CACHE_HOME or HOME to an absolute path");
    } else if (status) {
        err_errno(err, status, "could not name the index of %s", path);
    }
    return status;
}

/* Opens the cache's backend; *ret_own_io is NULL if the tar's backend is local and serves both. */
static int open_backend(struct io *io, const char *cache_path, struct io **ret_own_io,
                        struct err *err)
{
    *ret_own_io = NULL;
    return is_local(io) ? 0 : io_open(cache_path, NULL, ret_own_io, err);
}

/* Chooses header blocks before the data of evenly spaced samples. */
static int choose_probes(const struct plain_tar_index *index, const char *path,
                         uint64_t probes[PROBES_COUNT], struct err *err)
{
    struct shard_index *decoded;
    int status = shard_index_decode((const uint8_t *)index->index.data, index->index.bytes,
                                    &index->trailer, path, &decoded, err);
    if (status)
        return status;
    uint64_t samples = shard_index_samples(decoded);
    for (uint64_t i = 0; i < PROBES_COUNT; i++) {
        struct shard_field field = {0};
        probes[i] = NO_PROBE;
        for (uint32_t f = 0; samples > 0 && f < shard_index_fields(decoded) && !field.present; f++)
            shard_index_field(decoded, i * (samples - 1) / (PROBES_COUNT - 1), f, &field);
        if (field.present)
            probes[i] = field.data_offset - INDEX_UNIT_BYTES;
    }
    shard_index_close(decoded);
    return 0;
}

static int read_probes(const struct index_cache_tar *tar, const uint64_t probes[PROBES_COUNT],
                       uint32_t *ret_crc32c, struct err *err)
{
    uint8_t block[INDEX_UNIT_BYTES];
    uint32_t crc = 0;
    for (int i = 0; i < PROBES_COUNT; i++) {
        if (probes[i] == NO_PROBE)
            continue;
        int status = io_read_exact(tar->queue, tar->io, tar->file, tar->path, probes[i], block,
                                   sizeof block, err);
        if (status)
            return status;
        crc = crc32c(crc, block, sizeof block);
    }
    *ret_crc32c = crc;
    return 0;
}

static bool probes_match(const struct index_cache_tar *tar, const char *entry)
{
    uint64_t probes[PROBES_COUNT];
    uint32_t crc;
    for (size_t i = 0; i < PROBES_COUNT; i++)
        probes[i] = bytes_get_u64(entry + PROBES_AT + 8 * i);
    return read_probes(tar, probes, &crc, NULL) == 0 && crc == bytes_get_u32(entry + 68);
}

/* -EBADMSG: not an entry for this tar in its present state. */
static int decode_entry(const char *bytes, size_t count_bytes, const char *full,
                        const struct index_cache_tar *tar, struct plain_tar_index *found)
{
    struct io_identity identity, stored = {0};
    uint64_t file_bytes = tar->io->ops->file_size(tar->file);

    size_t path_bytes = strlen(full),
           index_at = PATH_AT + (size_t)bytes_round_up(path_bytes, ALIGN_BYTES);
    bool is_entry = count_bytes > index_at && memcmp(bytes, entry_magic, sizeof entry_magic) == 0 &&
                    crc32c(0, bytes, HEADER_CRC_AT) == bytes_get_u32(bytes + HEADER_CRC_AT) &&
                    bytes_get_u32(bytes + 8) == ENTRY_VERSION;
    if (!is_entry || tar->io->ops->file_identity(tar->file, &identity, NULL) ||
        bytes_get_u64(bytes + 16) != file_bytes || bytes_get_u32(bytes + 60) != path_bytes ||
        memcmp(bytes + PATH_AT, full, path_bytes) != 0 ||
        bytes_get_u64(bytes + 48) != count_bytes - index_at)
        return -EBADMSG;
    stored.bytes_count = (uint8_t)bytes_min(bytes_get_u32(bytes + 64), IO_IDENTITY_BYTES_MAX);
    memcpy(stored.bytes, bytes + IDENTITY_AT, stored.bytes_count);
    if (!io_identity_is_same(&stored, &identity))
        return -EBADMSG;
    uint32_t flags = bytes_get_u32(bytes + 12);
    found->is_partial = flags & ENTRY_PARTIAL;
    found->trailer = (struct shard_trailer){
        .version = SHARD_VERSION,
        .flags = flags & SHARD_FLAG_NO_CRCS,
        .index_offset = index_at,
        .index_bytes = count_bytes - index_at,
        .file_bytes = file_bytes,
        .archive_end = bytes_get_u64(bytes + 24),
        .samples = bytes_get_u64(bytes + 32),
        .index_crc32c = bytes_get_u32(bytes + 44),
        .fields = bytes_get_u32(bytes + 40),
    };
    found->identity_crc32c = bytes_get_u32(bytes + 56);
    bool plausible = found->trailer.archive_end <= file_bytes &&
                     found->trailer.samples <= UINT32_MAX &&
                     found->trailer.fields <= SHARD_FIELDS_MAX &&
                     !(flags & ~(uint32_t)(SHARD_FLAG_NO_CRCS | ENTRY_PARTIAL));
    if (!plausible ||
        crc32c(0, bytes + index_at, count_bytes - index_at) != found->trailer.index_crc32c ||
        !probes_match(tar, bytes))
        return -EBADMSG;
    str_add(&found->index, bytes + index_at, count_bytes - index_at);
    return str_status(&found->index);
}

int index_cache_load(const struct index_cache_tar *tar, bool accept_partial,
                     struct plain_tar_index *ret_index)
{
    char full[IO_PATH_BYTES_MAX], cache_path[IO_PATH_BYTES_MAX];
    struct io *own_io = NULL;
    struct plain_tar_index found = {0};
    char *bytes = NULL;
    size_t count_bytes;
    int status = io_resolve(tar->io, tar->path, full, NULL);
    if (!status)
        status = entry_path(full, cache_path);
    if (!status)
        status = open_backend(tar->io, cache_path, &own_io, NULL);
    if (!status)
        status = io_read_file(own_io ? own_io : tar->io, cache_path, SHARD_INDEX_BYTES_MAX, &bytes,
                              &count_bytes, NULL);
    if (!status)
        status = decode_entry(bytes, count_bytes, full, tar, &found);
    if (!status && found.is_partial && !accept_partial)
        status = -ENOENT;
    free(bytes);
    io_close(own_io);
    if (status)
        plain_tar_index_deinit(&found);
    else
        *ret_index = found;
    return status ? -ENOENT : 0;
}

/* Writes the path of the tar's lock file, and creates its folder. */
static int lock_path(const struct index_cache_tar *tar, char *path)
{
    static const char lock_suffix[] = ".lock";
    char cache_path[IO_PATH_BYTES_MAX], folder[IO_PATH_BYTES_MAX];
    struct io *own_io = NULL;
    int status = index_cache_path(tar->io, tar->path, cache_path, NULL);
    if (status)
        return status;
    io_parent_path(cache_path, folder);
    status = open_backend(tar->io, cache_path, &own_io, NULL);
    struct io *backend = own_io ? own_io : tar->io;
    if (!status)
        status = backend->names->make_folder(backend, folder, NULL);
    io_close(own_io);
    size_t bytes = strlen(cache_path);
    if (status || bytes + sizeof lock_suffix > IO_PATH_BYTES_MAX)
        return status ? status : -ENAMETOOLONG;
    memcpy(path, cache_path, bytes);
    memcpy(path + bytes, lock_suffix, sizeof lock_suffix);
    return 0;
}

int index_cache_load_or_begin(const struct index_cache_tar *tar, bool accept_partial,
                              struct plain_tar_index *ret_index, struct io_work_lock **ret_lock)
{
    struct plain_tar_index found = {0};
    char path[IO_PATH_BYTES_MAX];
    int lock_status = -EBUSY;
    *ret_lock = NULL;
    if (index_cache_load(tar, accept_partial, ret_index) == 0)
        return 0;
    if (lock_path(tar, path))
        return -ENOENT;
    for (int waits = 0; lock_status == -EBUSY && waits < LOCK_WAITS_MAX; waits++) {
        lock_status = io_work_lock_acquire(path, waits > 0, ret_lock);
        if (lock_status == -EBUSY)
            nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT_NS}, NULL);
        if (index_cache_load(tar, true, &found) == 0)
            /* Stop even at an unusable entry: its writer has finished. */
            break;
    }
    bool is_usable = found.index.bytes > 0 && (accept_partial || !found.is_partial);
    if (!is_usable) {
        plain_tar_index_deinit(&found);
        return -ENOENT;
    }
    *ret_index = found;
    io_work_lock_release(*ret_lock);
    *ret_lock = NULL;
    return 0;
}

static int encode_entry(const struct index_cache_tar *tar, const char *full,
                        const struct io_identity *identity, const struct plain_tar_index *index,
                        struct str *out, struct err *err)
{
    const struct shard_trailer *trailer = &index->trailer;
    size_t path_bytes = strlen(full);
    uint8_t header[HEADER_BYTES] = {0};
    uint64_t probes[PROBES_COUNT];
    uint32_t probes_crc = 0;
    int status = choose_probes(index, tar->path, probes, err);
    if (!status)
        status = read_probes(tar, probes, &probes_crc, err);
    if (status)
        return status;
    memcpy(header, entry_magic, sizeof entry_magic);
    bytes_put_u32(header + 8, ENTRY_VERSION);
    bytes_put_u32(header + 12, trailer->flags | (index->is_partial ? ENTRY_PARTIAL : 0));
    bytes_put_u64(header + 16, trailer->file_bytes);
    bytes_put_u64(header + 24, trailer->archive_end);
    bytes_put_u64(header + 32, trailer->samples);
    bytes_put_u32(header + 40, trailer->fields);
    bytes_put_u32(header + 44, trailer->index_crc32c);
    bytes_put_u64(header + 48, trailer->index_bytes);
    bytes_put_u32(header + 56, index->identity_crc32c);
    bytes_put_u32(header + 60, (uint32_t)path_bytes);
    bytes_put_u32(header + 64, identity->bytes_count);
    bytes_put_u32(header + 68, probes_crc);
    for (size_t i = 0; i < PROBES_COUNT; i++)
        bytes_put_u64(header + PROBES_AT + 8 * i, probes[i]);
    memcpy(header + IDENTITY_AT, identity->bytes, identity->bytes_count);
    bytes_put_u32(header + HEADER_CRC_AT, crc32c(0, header, HEADER_CRC_AT));
    str_add(out, header, sizeof header);
    str_add(out, full, path_bytes);
    str_add_fill(out, 0, (size_t)bytes_round_up(path_bytes, ALIGN_BYTES) - path_bytes);
    str_add(out, index->index.data, index->index.bytes);
    return str_status(out) ? err_set(err, -ENOMEM, "out of memory for an index") : 0;
}

/* Call it after the last read of member headers. */
static int check_unchanged(const struct index_cache_tar *tar, const struct io_identity *identity,
                           struct err *err)
{
    struct io_identity now;
    int status = tar->io->ops->file_identity(tar->file, &now, err);
    if (status || io_identity_is_same(identity, &now))
        return status;
    err_set(err, -ESTALE, "the tar changed while it was being indexed");
    err_at(err, tar->path, ERR_NO_OFFSET);
    err_advise(err, "run the same command again when nothing is writing the tar");
    return -ESTALE;
}

struct leftover_search {
    struct io *io;
    const char *folder;
};

static int remove_leftover(void *context, const struct io_entry *entry)
{
    const struct leftover_search *leftovers = context;
    struct io *io = leftovers->io;
    char name[IO_NAME_BYTES_MAX], path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    bool is_ours = io_parse_temporary(entry->name, name) && strlen(name) == NAME_DIGITS &&
                   strspn(name, "0123456789abcdef") == NAME_DIGITS;
    if (is_ours && io_join_path(leftovers->folder, entry->name, path, NULL) == 0 &&
        io->names->stat(io, path, &info, NULL) == 0 &&
        info.mtime_ns + LEFTOVER_AGE_S * CLOCK_NS_PER_S < clock_wall_ns())
        (void)io->names->remove(io, path, NULL);
    return 0;
}

/* Removes the temporary files of processes that died. Listing the folder may be slow, so only one
 * entry name in 16 triggers it. */
static void remove_leftovers(struct io *io, const char *folder, const char *cache_path)
{
    struct leftover_search leftovers = {.io = io, .folder = folder};
    if (cache_path[strlen(cache_path) - 1] == '0')
        (void)io->names->list(io, folder, remove_leftover, &leftovers, NULL);
}

int index_cache_store(const struct index_cache_tar *tar, const struct io_identity *identity,
                      const struct plain_tar_index *index, struct err *err)
{
    char full[IO_PATH_BYTES_MAX], cache_path[IO_PATH_BYTES_MAX], folder[IO_PATH_BYTES_MAX];
    struct io *own_io = NULL;
    struct str bytes = {0};
    int status = index_cache_path(tar->io, tar->path, cache_path, err);
    if (!status)
        status = io_resolve(tar->io, tar->path, full, err);
    if (!status)
        status = encode_entry(tar, full, identity, index, &bytes, err);
    if (!status)
        status = check_unchanged(tar, identity, err);
    if (status)
        goto out;
    io_parent_path(cache_path, folder);
    status = open_backend(tar->io, cache_path, &own_io, err);
    struct io *backend = own_io ? own_io : tar->io;
    if (!status)
        status = backend->names->make_folder(backend, folder, err);
    if (!status)
        status = io_write_file(backend, cache_path, bytes.data, bytes.bytes, true, err);
    if (!status)
        remove_leftovers(backend, folder, cache_path);
    if (status)
        err_advise(err, "indexes are stored there: set XDG_CACHE_HOME to a writable folder");
out:
    io_close(own_io);
    str_deinit(&bytes);
    return status;
}
