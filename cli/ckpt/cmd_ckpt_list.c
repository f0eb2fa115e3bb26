/*
 * cmd_ckpt_list — `millrace ckpt list DIR`.
 */
#include "base/clock.h"
#include "base/json/jsonx.h"
#include "base/json/jsonx_format.h"
#include "ckpt/ckpt.h"
#include "ckpt/format/folder.h"
#include "cli/core/output.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct list_args {
    struct common_args common;
};

struct list {
    struct io *io;
    struct output *output;
    const char *folder;
    const char *only; /* path of the only step to list; NULL: all */
    bool has_listed;
    struct str broken; /* rows of incomplete steps */
    struct jsonx_writer broken_json;
};

static void write_whole(struct jsonx_writer *json, const struct manifest *manifest,
                        uint64_t size_bytes, const char *path)
{
    char time[CLOCK_ISO_BYTES];
    struct json_t *metrics = jsonx_get(manifest->state, "metrics");
    jsonx_begin_object(json, NULL);
    jsonx_write_u64(json, "step", manifest->step);
    jsonx_write_string(json, "written", clock_format_iso(manifest->wall_ns, time));
    jsonx_write_u64(json, "size_bytes", size_bytes);
    jsonx_write_bool(json, "whole", true);
    if (jsonx_kind(metrics) == JSON_KIND_OBJECT) {
        jsonx_copy(json, "metrics", metrics);
    } else {
        jsonx_begin_object(json, "metrics");
        jsonx_end_object(json);
    }
    jsonx_write_string(json, "path", path);
    jsonx_end_object(json);
}

static void write_broken(struct list *list, const char *path, const char *problem)
{
    struct jsonx_writer *json = &list->broken_json;
    list->has_listed = true;
    jsonx_begin_object(json, NULL);
    jsonx_write_bool(json, "whole", false);
    jsonx_write_string(json, "path", path);
    jsonx_write_string(json, "problem", problem);
    jsonx_end_object(json);
}

static void list_step(struct list *list, const char *path)
{
    struct manifest manifest;
    uint64_t size_bytes;
    struct err detail = {0};
    char line[ERR_LINE_BYTES_MAX];
    if (folder_read_step(list->io, path, &manifest, &size_bytes, &detail)) {
        write_broken(list, path, err_format(&detail, line, sizeof line));
        return;
    }
    list->has_listed = true;
    write_whole(&list->output->json, &manifest, size_bytes, path);
    manifest_deinit(&manifest);
}

static int list_each_step(void *context, uint64_t step, const char *path)
{
    struct list *list = context;
    char name[FOLDER_STEP_NAME_BYTES];
    if (!list->only || strcmp(folder_step_name(step, name), list->only) == 0)
        list_step(list, path);
    return 0;
}

static int list_other(void *context, const struct io_entry *entry)
{
    struct list *list = context;
    char path[IO_PATH_BYTES_MAX];
    uint64_t step;
    bool is_temporary = folder_is_leftover(entry->name);
    if ((!is_temporary && !folder_parse_backup(entry->name, &step)) ||
        io_join_path(list->folder, entry->name, path, NULL))
        return 0;
    write_broken(list, path,
                 is_temporary
                     ? "being written, or left by a process that died: `millrace ckpt sweep` "
                       "removes leftovers"
                     : "moved aside, because the step was saved again with other contents");
    return 0;
}

static int list_folder(struct list *list, struct err *err)
{
    int status = ckpt_each_step(list->io, list->folder, list_each_step, list, err);
    if (!status && !list->only)
        status = list->io->names->list(list->io, list->folder, list_other, list, err);
    if (!status && !list->has_listed)
        status = folder_check_has_steps(list->io, list->folder, err);
    return status;
}

static int list_path(struct list *list, const char *path, struct err *err)
{
    char step[IO_PATH_BYTES_MAX], manifest[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX];
    struct io_stat info;
    uint64_t number;
    int status = ckpt_resolve(list->io, path, step, err);
    if (status)
        return status;
    for (size_t bytes = strlen(step); bytes > 1 && step[bytes - 1] == '/';)
        step[--bytes] = '\0';
    const char *slash = strrchr(step, '/'), *name = slash ? slash + 1 : step;
    status = io_join_path(step, MANIFEST_NAME, manifest, err);
    if (status)
        return status;
    list->folder = step;
    if (list->io->names->stat(list->io, manifest, &info, NULL))
        return list_folder(list, err);
    if (!folder_parse_step(name, &number)) { /* moved out of its folder, or a backup */
        list_step(list, step);
        return 0;
    }
    io_parent_path(step, parent);
    list->folder = parent;
    list->only = name;
    return list_folder(list, err);
}

static int run(const struct invocation *invocation, struct err *err)
{
    bool as_json = invocation->common->json;
    struct output output;
    struct list list = {.output = &output};
    list.broken_json.out = &list.broken;
    int status = storage_open(invocation->positional[0], NULL, &list.io, err);
    if (status)
        return status;
    output_begin(&output);
    jsonx_begin_array(&output.json, "checkpoints");
    jsonx_begin_array(&list.broken_json, NULL);
    status = list_path(&list, invocation->positional[0], err);
    jsonx_end_array(&output.json);
    jsonx_end_array(&list.broken_json);
    if (!status && (as_json || list.broken.bytes > strlen("[]")))
        jsonx_write_raw(&output.json, "not_whole", str_text(&list.broken), list.broken.bytes);
    if (!status && str_status(&list.broken))
        status = err_set(err, -ENOMEM, "out of memory for the result");
    if (!status)
        status = output_end(&output, as_json, stdout, err);
    else
        output_abort(&output);
    str_deinit(&list.broken);
    io_close(list.io);
    return status;
}

static const char *const examples[] = {"millrace ckpt list runs/a/ckpt",
                                       "millrace ckpt list runs/a/ckpt --json", NULL};

const struct verb verb_ckpt_list = {
    .name = "ckpt list",
    .arguments = "DIR",
    .arguments_least = 1,
    .arguments_most = 1,
    .summary = "List the complete checkpoints of a folder, oldest first, and the incomplete ones.",
    .details = "A checkpoint is complete if its manifest can be read and every file in it exists "
               "with the right size; `millrace verify` also verifies the checksums. The metrics "
               "are those known when the checkpoint was saved. A folder that never had checkpoints "
               "is an error; a run folder without checkpoints yet is not.",
    .examples = examples,
    .args_bytes = sizeof(struct list_args),
    .run = run,
};
