/*
 * index_cache — see index_cache.h.
 */
#include "shards/index_cache.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/hash.h"
#include "io/whole.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 128, HEADER_CRC_AT = 124, PATH_AT = 128, ENTRY_VERSION = 1, ALIGN_BYTES = 8 };
enum { NAME_DIGITS = 16, LEFTOVER_AGE_S = 3600 }; /* nobody takes so long to store one */
enum { ENTRY_PARTIAL = 256 };                     /* a flag beside the trailer's */

static const char entry_magic[8] = "MRINDEX";

static bool is_local(const struct io *io)
{
    return strcmp(io->ops->scheme, "file") == 0;
}

/* The path that names the tar wherever the program was started: absolute, or a URL as it is. text: IO_PATH_BYTES_MAX. */
static int full_path(const struct io *io, const char *path, char *text)
{
    char *real = is_local(io) ? realpath(strncmp(path, "file:", 5) == 0 ? path + 5 : path, NULL) : NULL;
    if (is_local(io) && !real)
        return -errno;
    int bytes = snprintf(text, IO_PATH_BYTES_MAX, "%s", real ? real : path);
    free(real);
    return bytes < 0 || bytes >= IO_PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
}

/* An absolute path that is set and not empty, as the XDG base directory specification asks. */
static const char *folder_of(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0] == '/' ? value : NULL;
}

int index_cache_folder(char *folder)
{
    const char *xdg = folder_of("XDG_CACHE_HOME"), *home = folder_of("HOME");
    if (!xdg && !home)
        return -ENOENT;
    int bytes =
        snprintf(folder, IO_PATH_BYTES_MAX, "%s%s/millrace/index", xdg ? xdg : home, xdg ? "" : "/.cache");
    return bytes < 0 || bytes >= IO_PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
}

static int entry_path(const char *full, char *cache_path)
{
    char folder[IO_PATH_BYTES_MAX];
    int status = index_cache_folder(folder);
    if (status)
        return status;
    int bytes =
        snprintf(cache_path, IO_PATH_BYTES_MAX, "%s/%016" PRIx64, folder, hash_64(full, strlen(full)));
    return bytes < 0 || bytes >= IO_PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
}

int index_cache_path(struct io *io, const char *path, char *cache_path, struct err *err)
{
    char full[IO_PATH_BYTES_MAX];
    int status = full_path(io, path, full);
    if (!status)
        status = entry_path(full, cache_path);
    if (status == -ENOENT) {
        err_set(err, status, "there is no folder to keep the index in");
        err_at(err, path, ERR_NO_OFFSET);
        err_advise(err, "set XDG_CACHE_HOME or HOME to an absolute path");
    } else if (status) {
        err_errno(err, status, "could not name the index of %s", path);
    }
    return status;
}

/* The backend of the cache: the tar's own where that is local. */
static int open_backend(struct io *io, const char *cache_path, struct io **ret_own, struct err *err)
{
    *ret_own = NULL;
    return is_local(io) ? 0 : io_open(cache_path, NULL, ret_own, err);
}

/* -EBADMSG where the bytes are no entry for this tar as it is now. */
static int decode(const char *bytes, size_t count_bytes, const char *full, const struct io_stat *info,
                  struct foreign_index *found)
{
    size_t path_bytes = strlen(full), index_at = PATH_AT + (size_t)bytes_round_up(path_bytes, ALIGN_BYTES);
    bool is_entry = count_bytes > index_at && memcmp(bytes, entry_magic, sizeof entry_magic) == 0 &&
                    crc32c(0, bytes, HEADER_CRC_AT) == bytes_get_u32(bytes + HEADER_CRC_AT) &&
                    bytes_get_u32(bytes + 8) == ENTRY_VERSION;
    if (!is_entry || bytes_get_u64(bytes + 16) != info->size_bytes ||
        bytes_get_u64(bytes + 24) != info->mtime_ns || bytes_get_u64(bytes + 32) != info->version ||
        bytes_get_u32(bytes + 76) != path_bytes || memcmp(bytes + PATH_AT, full, path_bytes) != 0 ||
        bytes_get_u64(bytes + 64) != count_bytes - index_at)
        return -EBADMSG;
    uint32_t flags = bytes_get_u32(bytes + 12);
    found->is_partial = flags & ENTRY_PARTIAL;
    found->trailer = (struct shard_trailer){
        .version = SHARD_VERSION,
        .flags = flags & SHARD_FLAG_NO_CRCS,
        .index_offset = index_at,
        .index_bytes = count_bytes - index_at,
        .file_bytes = info->size_bytes,
        .archive_end = bytes_get_u64(bytes + 40),
        .samples = bytes_get_u64(bytes + 48),
        .index_crc32c = bytes_get_u32(bytes + 60),
        .fields = bytes_get_u32(bytes + 56),
    };
    found->identity_crc32c = bytes_get_u32(bytes + 72);
    bool plausible = found->trailer.archive_end <= info->size_bytes && found->trailer.samples <= UINT32_MAX &&
                     found->trailer.fields <= SHARD_FIELDS_MAX &&
                     !(flags & ~(uint32_t)(SHARD_FLAG_NO_CRCS | ENTRY_PARTIAL));
    if (!plausible || crc32c(0, bytes + index_at, count_bytes - index_at) != found->trailer.index_crc32c)
        return -EBADMSG;
    str_add(&found->index, bytes + index_at, count_bytes - index_at);
    return str_status(&found->index);
}

int index_cache_load(struct io *io, const char *path, bool partial_will_do, struct foreign_index *ret_index)
{
    char full[IO_PATH_BYTES_MAX], cache_path[IO_PATH_BYTES_MAX];
    struct io *own = NULL;
    struct io_stat info;
    struct foreign_index found = {0};
    char *bytes = NULL;
    size_t count_bytes;
    int status = full_path(io, path, full);
    if (!status)
        status = entry_path(full, cache_path);
    if (!status)
        status = io->ops->stat(io, path, &info, NULL);
    if (!status)
        status = open_backend(io, cache_path, &own, NULL);
    if (!status)
        status = io_read_file(own ? own : io, cache_path, SHARD_INDEX_BYTES_MAX, &bytes, &count_bytes, NULL);
    if (!status)
        status = decode(bytes, count_bytes, full, &info, &found);
    if (!status && found.is_partial && !partial_will_do)
        status = -ENOENT;
    free(bytes);
    io_close(own);
    if (status)
        foreign_index_deinit(&found);
    else
        *ret_index = found;
    return status ? -ENOENT : 0;
}

static int encode(const char *full, const struct io_stat *info, const struct foreign_index *index,
                  struct str *out)
{
    const struct shard_trailer *trailer = &index->trailer;
    size_t path_bytes = strlen(full);
    uint8_t header[HEADER_BYTES] = {0};
    memcpy(header, entry_magic, sizeof entry_magic);
    bytes_put_u32(header + 8, ENTRY_VERSION);
    bytes_put_u32(header + 12, trailer->flags | (index->is_partial ? ENTRY_PARTIAL : 0));
    bytes_put_u64(header + 16, info->size_bytes);
    bytes_put_u64(header + 24, info->mtime_ns);
    bytes_put_u64(header + 32, info->version);
    bytes_put_u64(header + 40, trailer->archive_end);
    bytes_put_u64(header + 48, trailer->samples);
    bytes_put_u32(header + 56, trailer->fields);
    bytes_put_u32(header + 60, trailer->index_crc32c);
    bytes_put_u64(header + 64, trailer->index_bytes);
    bytes_put_u32(header + 72, index->identity_crc32c);
    bytes_put_u32(header + 76, (uint32_t)path_bytes);
    bytes_put_u32(header + HEADER_CRC_AT, crc32c(0, header, HEADER_CRC_AT));
    str_add(out, header, sizeof header);
    str_add(out, full, path_bytes);
    str_add_fill(out, 0, (size_t)bytes_round_up(path_bytes, ALIGN_BYTES) - path_bytes);
    str_add(out, index->index.data, index->index.bytes);
    return str_status(out);
}

struct leftovers {
    struct io *io;
    const char *folder;
};

static int remove_leftover(void *context, const struct io_entry *entry)
{
    const struct leftovers *leftovers = context;
    struct io *io = leftovers->io;
    char name[IO_NAME_BYTES_MAX], path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    bool is_ours = io_parse_temporary(entry->name, name) && strlen(name) == NAME_DIGITS &&
                   strspn(name, "0123456789abcdef") == NAME_DIGITS;
    if (is_ours && io_join_path(leftovers->folder, entry->name, path, NULL) == 0 &&
        io->ops->stat(io, path, &info, NULL) == 0 &&
        info.mtime_ns + LEFTOVER_AGE_S * CLOCK_NS_PER_S < clock_wall_ns())
        (void)io->ops->remove(io, path, NULL); /* others may do the same */
    return 0;
}

/* Who dies while it stores an index leaves a temporary. Looking for them costs a list of the folder, which may have an entry for each of very many
 * tars, all stored one after the other: one name of 16 is let pay for it. */
static void sweep(struct io *io, const char *folder, const char *cache_path)
{
    struct leftovers leftovers = {.io = io, .folder = folder};
    if (cache_path[strlen(cache_path) - 1] == '0')
        (void)io->ops->list(io, folder, remove_leftover, &leftovers, NULL);
}

int index_cache_store(struct io *io, const char *path, const struct io_stat *info,
                      const struct foreign_index *index, struct err *err)
{
    char full[IO_PATH_BYTES_MAX], cache_path[IO_PATH_BYTES_MAX], folder[IO_PATH_BYTES_MAX];
    struct io *own = NULL;
    struct str bytes = {0};
    int status = index_cache_path(io, path, cache_path, err);
    if (status)
        return status;
    status = full_path(io, path, full);
    if (!status)
        status = encode(full, info, index, &bytes);
    if (status) {
        err_errno(err, status, "could not keep the index of %s", path);
        goto out;
    }
    io_parent_path(cache_path, folder);
    status = open_backend(io, cache_path, &own, err);
    struct io *backend = own ? own : io;
    if (!status)
        status = backend->ops->make_folder(backend, folder, err);
    if (!status)
        status = io_write_file(backend, cache_path, bytes.data, bytes.bytes, true, err);
    if (!status)
        sweep(backend, folder, cache_path);
    if (status)
        err_advise(err, "indexes are kept there: set XDG_CACHE_HOME to a folder that can be written");
out:
    io_close(own);
    str_deinit(&bytes);
    return status;
}
