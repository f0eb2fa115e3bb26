#include "ckpt/format/folder.h"

#include "base/str.h"
#include "ckpt/ckpt.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_DIGITS_MAX = 19 };
static const char backup_prefix[] = "aside-";

const char *folder_step_name(uint64_t step, char name[FOLDER_STEP_NAME_BYTES])
{
    snprintf(name, FOLDER_STEP_NAME_BYTES, "step-%08" PRIu64, step);
    return name;
}

bool folder_parse_step(const char *name, uint64_t *ret_step)
{
    char formatted[FOLDER_STEP_NAME_BYTES];
    size_t digits = strncmp(name, "step-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    if (digits == 0 || digits > STEP_DIGITS_MAX || name[5 + digits] != '\0')
        return false;
    uint64_t step = strtoull(name + 5, NULL, 10);
    if (strcmp(folder_step_name(step, formatted), name) != 0)
        return false;
    *ret_step = step;
    return true;
}

int folder_step_path(const char *folder, uint64_t step, char *path, struct err *err)
{
    char name[FOLDER_STEP_NAME_BYTES];
    return io_join_path(folder, folder_step_name(step, name), path, err);
}

int folder_backup_path(const char *folder, uint64_t step, char *path, struct err *err)
{
    char step_name[FOLDER_STEP_NAME_BYTES], name[sizeof backup_prefix + FOLDER_STEP_NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", backup_prefix, folder_step_name(step, step_name));
    return io_join_path(folder, name, path, err);
}

bool folder_parse_backup(const char *name, uint64_t *ret_step)
{
    size_t bytes = strlen(backup_prefix);
    return strncmp(name, backup_prefix, bytes) == 0 && folder_parse_step(name + bytes, ret_step);
}

bool folder_is_leftover(const char *entry_name)
{
    char name[IO_NAME_BYTES_MAX];
    uint64_t step;
    return io_parse_temporary(entry_name, name) &&
           (!*name || folder_parse_step(name, &step) || folder_parse_backup(name, &step));
}

bool folder_expects_file(struct io *io, const char *step_path, const struct manifest_file *file)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    return !file->is_elsewhere || io_join_path(step_path, file->name, path, NULL) != 0 ||
           io->names->stat(io, path, &info, NULL) != -ENOENT;
}

int folder_check_file(struct io *io, const char *step_path, const struct manifest_file *file,
                      struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    int status = io_join_path(step_path, file->name, path, err);
    if (!status)
        status = io->names->stat(io, path, &info, err);
    if (status)
        return status;
    if (info.kind == IO_ENTRY_FILE && info.size_bytes == file->size_bytes)
        return 0;
    err_set(err, -EBADMSG, "the size of a checkpoint file differs from its manifest");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "%" PRIu64 " bytes", file->size_bytes);
    err_found(err, "%" PRIu64, info.size_bytes);
    err_advise(err, "the checkpoint is damaged: use another one");
    return -EBADMSG;
}

static int read_manifest(struct io *io, const char *step_path, struct manifest *ret_manifest,
                         uint64_t *ret_bytes, struct err *err)
{
    char path[IO_PATH_BYTES_MAX], *text = NULL;
    size_t bytes = 0;
    int status = io_join_path(step_path, MANIFEST_NAME, path, err);
    if (!status)
        status = io_read_file(io, path, MANIFEST_BYTES_MAX, &text, &bytes, err);
    if (!status)
        status = manifest_parse(text, bytes, path, ret_manifest, err);
    if (!status)
        *ret_bytes = bytes;
    free(text);
    return status;
}

/* Otherwise a run would resume from a misnamed folder, and retention would count it. Names of other
 * forms are not checked. */
static int check_name(const char *step_path, uint64_t step, struct err *err)
{
    char trimmed[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX];
    char expected[FOLDER_STEP_NAME_BYTES];
    uint64_t folder_step;
    snprintf(trimmed, sizeof trimmed, "%s", step_path);
    for (size_t bytes = strlen(trimmed); bytes > 1 && trimmed[bytes - 1] == '/';)
        trimmed[--bytes] = '\0';
    const char *slash = strrchr(trimmed, '/'), *name = slash ? slash + 1 : trimmed;
    if (!folder_parse_step(name, &folder_step) || folder_step == step)
        return 0;
    folder_step_name(step, expected);
    io_parent_path(trimmed, parent);
    err_set(err, -EBADMSG, "the folder's name does not match the step in its manifest");
    err_at(err, trimmed, ERR_NO_OFFSET);
    err_expected(err, "%s", expected);
    err_found(err, "%s", name);
    err_advise(err, "rename it: mv -T %s %s/%s", trimmed, parent, expected);
    return -EBADMSG;
}

int folder_read_manifest(struct io *io, const char *step_path, struct manifest *ret_manifest,
                         uint64_t *ret_bytes, struct err *err)
{
    struct manifest manifest;
    int status = read_manifest(io, step_path, &manifest, ret_bytes, err);
    if (status)
        return status;
    status = check_name(step_path, manifest.step, err);
    if (status)
        manifest_deinit(&manifest);
    else
        *ret_manifest = manifest;
    return status;
}

int folder_check_name(struct io *io, const char *step_path, struct err *err)
{
    struct manifest manifest;
    uint64_t bytes;
    if (read_manifest(io, step_path, &manifest, &bytes, NULL))
        return 0;
    int status = check_name(step_path, manifest.step, err);
    manifest_deinit(&manifest);
    return status;
}

bool folder_is_damage(int status)
{
    return status == -EBADMSG || status == -ENOENT || status == -ENODATA || status == -EFBIG;
}

int folder_classify_failure(struct io *io, const char *step_path, const struct manifest *manifest,
                            int status, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_head head = {0};
    uint32_t crc = 0;
    if (!folder_is_damage(status) || io_join_path(step_path, MANIFEST_NAME, path, NULL))
        return status;
    int found = io_read_head(io, path, MANIFEST_HEAD_BYTES, &head, NULL);
    bool is_other =
        !found && manifest_peek_crc32c(head.data, head.bytes, &crc) && crc != manifest->crc32c;
    free(head.data);
    if (found != -ENOENT && !is_other)
        return status;
    err_set(err, -ESTALE, "the checkpoint was %s while it was being read",
            is_other ? "saved again" : "removed");
    err_at(err, step_path, ERR_NO_OFFSET);
    err_advise(err, "run the same command again");
    return -ESTALE;
}

static int read_step_once(struct io *io, const char *step_path, struct manifest *ret_manifest,
                          uint64_t *ret_size_bytes, struct err *err)
{
    struct manifest manifest;
    uint64_t size_bytes = 0;
    int status = folder_read_manifest(io, step_path, &manifest, &size_bytes, err);
    if (status)
        return status;
    for (uint64_t i = 0; i < manifest.files_count && !status; i++) {
        if (!folder_expects_file(io, step_path, &manifest.files[i]))
            continue;
        size_bytes += manifest.files[i].size_bytes;
        status = folder_check_file(io, step_path, &manifest.files[i], err);
    }
    if (status) {
        status = folder_classify_failure(io, step_path, &manifest, status, err);
        manifest_deinit(&manifest);
        return status;
    }
    *ret_manifest = manifest;
    if (ret_size_bytes)
        *ret_size_bytes = size_bytes;
    return 0;
}

int folder_read_step(struct io *io, const char *step_path, struct manifest *ret_manifest,
                     uint64_t *ret_size_bytes, struct err *err)
{
    enum { ATTEMPTS_MAX = 8 }; /* an attempt fails if a concurrent save replaces the step */
    int status = -ESTALE;
    for (int attempt = 0; attempt < ATTEMPTS_MAX && status == -ESTALE; attempt++)
        status = read_step_once(io, step_path, ret_manifest, ret_size_bytes, err);
    return status;
}

static int collect_step(void *context, const struct io_entry *entry)
{
    struct str *steps = context;
    uint64_t step;
    if (entry->kind == IO_ENTRY_FOLDER && folder_parse_step(entry->name, &step))
        str_add(steps, &step, sizeof step);
    return str_status(steps);
}

static int compare_steps(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int folder_list_steps(struct io *io, const char *folder, uint64_t **ret_steps, size_t *ret_count,
                      struct err *err)
{
    struct str steps = {0};
    int status = str_reserve(&steps, sizeof(uint64_t)); /* so that an empty list is not NULL */
    if (!status)
        status = io->names->list(io, folder, collect_step, &steps, err);
    if (str_status(&steps))
        err_set(err, status = -ENOMEM, "not enough memory to list a folder of steps");
    if (status) {
        str_deinit(&steps);
        return status;
    }
    *ret_count = steps.bytes / sizeof(uint64_t);
    qsort(steps.data, *ret_count, sizeof(uint64_t), compare_steps);
    *ret_steps = (uint64_t *)(void *)steps.data;
    return 0;
}
