/*
 * file_temporary — temporary names, removal of trees, and the sweep. See file_local.h.
 *
 *     .tmp-<name>-<owner>-<attempt>-<nonce>      parsed from the end: the owner has no "-"
 *     .tmp-<name>-+replaced-0-<nonce>            the old output during its replacement; real
 *                                                owners have no "+"
 */
#include "io/file_util.h"
#include "io/local/file_local.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OWNER_ENCODED_BYTES_MAX = 3 * FILE_OWNER_BYTES_MAX + 1,
    NONCE_DIGITS = 16,
    TAIL_BYTES_MAX = OWNER_ENCODED_BYTES_MAX + 1 + 20 + 1 + 16 + 1, /* -owner-attempt-nonce */
};

static int encode_owner(const char *owner_id, char text[OWNER_ENCODED_BYTES_MAX], struct err *err)
{
    if (!owner_id || !*owner_id)
        owner_id = "0";
    if (strlen(owner_id) > FILE_OWNER_BYTES_MAX)
        return err_set(err, -ENAMETOOLONG, "an owner's name is longer than %d bytes: %.64s...",
                       FILE_OWNER_BYTES_MAX, owner_id);
    for (; *owner_id; owner_id++) {
        unsigned char c = (unsigned char)*owner_id;
        if ((c < 0x80 && isalnum(c)) || c == '.' || c == '_')
            *text++ = (char)c;
        else
            text += sprintf(text, "%%%02x", c);
    }
    *text = '\0';
    return 0;
}

static const char replaced_owner[] = "+replaced";
#define REMOVED_NAME  "old" /* such an entry has no owner and no name to restore */
#define REMOVED_OWNER "removed"

/* full_name holds NAME_MAX + 1. */
static int format_name(const char *name, const char *owner, uint64_t attempt, uint64_t nonce,
                       char *full_name, struct err *err)
{
    char tail[TAIL_BYTES_MAX];
    int tail_bytes =
        snprintf(tail, sizeof tail, "-%s-%" PRIu64 "-%016" PRIx64, owner, attempt, nonce);
    int room = NAME_MAX - (int)strlen(IO_TEMPORARY_PREFIX) - tail_bytes;
    if (room < 1)
        return local_error(err, -ENAMETOOLONG, name, "could not form a temporary name");
    snprintf(full_name, NAME_MAX + 1, IO_TEMPORARY_PREFIX "%.*s%s", room, name, tail);
    return 0;
}

static int format_path(const char *parent, const char *name, const char *owner, uint64_t attempt,
                       char *path, struct err *err)
{
    char full_name[NAME_MAX + 1];
    uint64_t nonce;
    if (getentropy(&nonce, sizeof nonce))
        return err_errno(err, -errno, "could not generate a temporary name");
    int status = format_name(name, owner, attempt, nonce, full_name, err);
    return status ? status : io_join_path(parent, full_name, path, err);
}

int temporary_path(const char *parent, const char *name, const char *owner_id, uint64_t attempt,
                   char *path, struct err *err)
{
    char owner[OWNER_ENCODED_BYTES_MAX];
    int status = encode_owner(owner_id, owner, err);
    return status ? status : format_path(parent, name, owner, attempt, path, err);
}

int temporary_prefix(const char *name, const char *owner_id, uint64_t attempt, char *prefix,
                     struct err *err)
{
    char owner[OWNER_ENCODED_BYTES_MAX];
    int status = encode_owner(owner_id, owner, err);
    if (!status)
        status = format_name(name, owner, attempt, 0, prefix, err);
    if (!status)
        prefix[strlen(prefix) - NONCE_DIGITS] = '\0';
    return status;
}

bool temporary_has_prefix(const char *entry_name, const char *prefix)
{
    size_t bytes = strlen(prefix);
    return strncmp(entry_name, prefix, bytes) == 0 &&
           strspn(entry_name + bytes, "0123456789abcdef") == NONCE_DIGITS &&
           entry_name[bytes + NONCE_DIGITS] == '\0';
}

/* name has the prefix; owner is encoded. *ret_stem_end is the end of <name>. */
static bool has_owner(const char *name, const char *owner, size_t *ret_stem_end)
{
    const char *end = name + strlen(name);
    for (int dashes = 0; dashes < 2; dashes++) { /* skips nonce and attempt */
        do {
            if (end == name)
                return false;
            end--;
        } while (*end != '-');
    }
    size_t bytes = strlen(owner);
    *ret_stem_end = (size_t)(end - name) - bytes - 1;
    return (size_t)(end - name) > bytes + strlen(IO_TEMPORARY_PREFIX) &&
           end[-(ptrdiff_t)bytes - 1] == '-' && memcmp(end - bytes, owner, bytes) == 0;
}

/* NULL if there is no "-" before end. */
static const char *last_dash(const char *text, const char *end)
{
    if (!end)
        return NULL;
    while (end > text && end[-1] != '-')
        end--;
    return end > text ? end - 1 : NULL;
}

bool io_parse_temporary(const char *entry_name, char *name)
{
    static const char removed[] = REMOVED_NAME "-" REMOVED_OWNER "-0";
    const size_t prefix_bytes = strlen(IO_TEMPORARY_PREFIX);
    if (strncmp(entry_name, IO_TEMPORARY_PREFIX, prefix_bytes) != 0)
        return false;
    const char *stem = entry_name + prefix_bytes;
    const char *nonce = last_dash(stem, stem + strlen(stem)), *attempt = last_dash(stem, nonce);
    const char *owner = last_dash(stem, attempt); /* each points to its dash */
    if (!owner || owner == stem || attempt == owner + 1 || nonce == attempt + 1)
        return false;
    if (attempt + 1 + strspn(attempt + 1, "0123456789") != nonce ||
        strspn(nonce + 1, "0123456789abcdef") != NONCE_DIGITS || nonce[1 + NONCE_DIGITS] != '\0')
        return false;
    bool is_removed =
        (size_t)(nonce - stem) == strlen(removed) && memcmp(stem, removed, strlen(removed)) == 0;
    snprintf(name, IO_NAME_BYTES_MAX, "%.*s", is_removed ? 0 : (int)(owner - stem), stem);
    return true;
}

static int remove_below(int folder_fd, int depth);

/* Returns 0 or -errno; succeeds if the name does not exist. */
static int remove_at(int folder_fd, const char *name, int depth)
{
    if (unlinkat(folder_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    int unlink_status = -errno;
    int fd = LOCAL_RETRY(openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return errno == ENOENT ? 0 : errno == ENOTDIR ? unlink_status : -errno;
    int status = remove_below(fd, depth); /* closes fd */
    if (!status && unlinkat(folder_fd, name, AT_REMOVEDIR) && errno != ENOENT)
        status = -errno;
    return status;
}

static int remove_below(int folder_fd, int depth)
{
    DIR *folder = fdopendir(folder_fd);
    if (!folder) {
        int status = -errno;
        close(folder_fd);
        return status;
    }
    int status = depth >= FILE_TREE_DEPTH_MAX ? -ELOOP : 0;
    while (!status) {
        errno = 0;
        struct dirent *entry = readdir(folder);
        if (!entry) {
            status = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = remove_at(folder_fd, entry->d_name, depth + 1);
    }
    closedir(folder);
    return status;
}

int temporary_remove(const char *path, struct err *err)
{
    int status = remove_at(AT_FDCWD, path, 0);
    return status ? local_error(err, status, path, "could not remove") : 0;
}

static int rename_to_temporary(const char *path, const char *name, const char *owner,
                               char *temporary, struct err *err)
{
    char parent[IO_PATH_BYTES_MAX];
    io_parent_path(path, parent);
    int status = format_path(parent, name, owner, 0, temporary, err);
    if (status)
        return status;
    return rename(path, temporary) ? local_error(err, -errno, path, "could not rename") : 0;
}

int temporary_rename_for_removal(const char *path, char *temporary, struct err *err)
{
    return rename_to_temporary(path, REMOVED_NAME, REMOVED_OWNER, temporary, err);
}

int temporary_rename_for_replacement(const char *path, char *temporary, struct err *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t around = strlen(IO_TEMPORARY_PREFIX) + strlen("-") + strlen(replaced_owner) +
                    strlen("-0-") + NONCE_DIGITS;
    if (strlen(name) > NAME_MAX - around) /* a truncated name could not be restored */
        return local_error(err, -ENAMETOOLONG, path, "could not form a temporary name");
    return rename_to_temporary(path, name, replaced_owner, temporary, err);
}

struct sweep_context {
    const char *folder;
    const char *owner; /* encoded; NULL: sweeps all owners */
    bool (*is_ours)(const char *entry_name);
    bool is_synced;
    int swept_count, status;
    struct err *err; /* of the first failure */
};

/* Renames an output back if its replacement never appeared. Returns 1 if its name is taken. */
static int restore_replaced(const struct sweep_context *sweep, const char *path, const char *stem,
                            size_t stem_bytes, struct err *err)
{
    char name[NAME_MAX + 1], final[IO_PATH_BYTES_MAX];
    struct stat info;
    snprintf(name, sizeof name, "%.*s", (int)stem_bytes, stem);
    int status = io_join_path(sweep->folder, name, final, err);
    if (status)
        return status;
    if (lstat(final, &info) == 0)
        return 1;
    /* The kernel never replaces a non-empty folder. */
    if (errno != ENOENT || rename(path, final))
        return local_error(err, -errno, final,
                           "could not restore the output that was being replaced");
    return local_sync_folder(sweep->folder, err);
}

/* A writer that died between an exchange of names and its fsync left the old output under a name
 * that is not durable. If the output were removed before a sync, its final name could come back
 * without contents after a power loss. */
static int sync_before_removal(struct sweep_context *sweep, struct err *err)
{
    int status = sweep->is_synced ? 0 : local_sync_folder(sweep->folder, err);
    sweep->is_synced = status == 0;
    return status;
}

static int sweep_entry(void *context, const struct io_entry *entry)
{
    struct sweep_context *sweep = context;
    const size_t prefix_bytes = strlen(IO_TEMPORARY_PREFIX);
    size_t stem_end;
    if (strncmp(entry->name, IO_TEMPORARY_PREFIX, prefix_bytes) != 0 ||
        (sweep->is_ours && !sweep->is_ours(entry->name)) ||
        (sweep->owner && has_owner(entry->name, sweep->owner, &stem_end)))
        return 0;
    struct err *err = sweep->status ? NULL : sweep->err;
    char path[IO_PATH_BYTES_MAX], temporary[IO_PATH_BYTES_MAX];
    int status = io_join_path(sweep->folder, entry->name, path, err), taken = 1;
    if (!status)
        status = sync_before_removal(sweep, err);
    if (!status && has_owner(entry->name, replaced_owner, &stem_end)) {
        taken =
            restore_replaced(sweep, path, entry->name + prefix_bytes, stem_end - prefix_bytes, err);
        status = taken < 0 ? taken : 0;
    }
    if (!status && !taken)
        return 0;
    /* Renamed first, so that a live writer cannot add to it or commit it. */
    if (!status)
        status = temporary_rename_for_removal(path, temporary, err);
    if (!status)
        status = temporary_remove(temporary, err);
    if (!status)
        sweep->swept_count++;
    else if (!sweep->status && status != -ENOENT) /* another sweep may have removed it */
        sweep->status = status;
    return 0;
}

int local_sweep(struct io *io, const char *folder, const char *owner_id,
                bool (*is_ours)(const char *entry_name), struct err *err)
{
    char owner[OWNER_ENCODED_BYTES_MAX];
    int status = encode_owner(owner_id, owner, err);
    if (!status)
        status = local_path(folder, &folder, err);
    if (status)
        return status;
    struct sweep_context sweep = {
        .folder = folder, .owner = owner_id ? owner : NULL, .is_ours = is_ours, .err = err};
    status = local_list(io, folder, sweep_entry, &sweep, err);
    return status ? status : sweep.status ? sweep.status : sweep.swept_count;
}
