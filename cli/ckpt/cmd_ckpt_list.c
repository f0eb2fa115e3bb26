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

struct listing {
    struct io *io;
    struct output *output;
    const char *folder;
    const char *only; /* name of the only step to list; NULL: all */
    bool has_listed;
    struct str incomplete; /* rows of incomplete steps */
    struct jsonx_writer incomplete_json;
};

static void write_complete(struct jsonx_writer *json, const struct manifest *manifest,
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

static void write_incomplete(struct listing *listing, const char *path, const char *problem)
{
    struct jsonx_writer *json = &listing->incomplete_json;
    listing->has_listed = true;
    jsonx_begin_object(json, NULL);
    jsonx_write_bool(json, "whole", false);
    jsonx_write_string(json, "path", path);
    jsonx_write_string(json, "problem", problem);
    jsonx_end_object(json);
}

static void list_step(struct listing *listing, const char *path)
{
    struct manifest manifest;
    uint64_t size_bytes;
    struct err detail = {0};
    char line[ERR_LINE_BYTES_MAX];
    if (folder_read_step(listing->io, path, &manifest, &size_bytes, &detail)) {
        write_incomplete(listing, path, err_format(&detail, line, sizeof line));
        return;
    }
    listing->has_listed = true;
    write_complete(&listing->output->json, &manifest, size_bytes, path);
    manifest_deinit(&manifest);
}

static int list_selected_step(void *context, uint64_t step, const char *path)
{
    struct listing *listing = context;
    char name[FOLDER_STEP_NAME_BYTES];
    if (!listing->only || strcmp(folder_step_name(step, name), listing->only) == 0)
        list_step(listing, path);
    return 0;
}

static int list_other_entry(void *context, const struct io_entry *entry)
{
    struct listing *listing = context;
    char path[IO_PATH_BYTES_MAX];
    uint64_t step;
    bool is_temporary = folder_is_leftover(entry->name);
    if ((!is_temporary && !folder_parse_backup(entry->name, &step)) ||
        io_join_path(listing->folder, entry->name, path, NULL))
        return 0;
    write_incomplete(listing, path,
                     is_temporary
                         ? "being written, or left by a process that died: `millrace ckpt sweep` "
                           "removes leftovers"
                         : "moved aside, because the step was saved again with other contents");
    return 0;
}

static int list_folder(struct listing *listing, struct err *err)
{
    int status = ckpt_for_each_step(listing->io, listing->folder, list_selected_step, listing, err);
    if (!status && !listing->only)
        status =
            listing->io->names->list(listing->io, listing->folder, list_other_entry, listing, err);
    if (!status && !listing->has_listed)
        status = folder_check_has_steps(listing->io, listing->folder, err);
    return status;
}

static int list_path(struct listing *listing, const char *path, struct err *err)
{
    char step[IO_PATH_BYTES_MAX], manifest[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX];
    struct io_stat info;
    uint64_t number;
    int status = ckpt_resolve_folder(listing->io, path, step, err);
    if (status)
        return status;
    for (size_t bytes = strlen(step); bytes > 1 && step[bytes - 1] == '/';)
        step[--bytes] = '\0';
    const char *slash = strrchr(step, '/'), *name = slash ? slash + 1 : step;
    status = io_join_path(step, MANIFEST_NAME, manifest, err);
    if (status)
        return status;
    listing->folder = step;
    if (listing->io->names->stat(listing->io, manifest, &info, NULL))
        return list_folder(listing, err);
    if (!folder_parse_step(name, &number)) { /* a step moved out of its folder, or a backup */
        list_step(listing, step);
        return 0;
    }
    io_parent_path(step, parent);
    listing->folder = parent;
    listing->only = name;
    return list_folder(listing, err);
}

static int run(const struct invocation *invocation, struct err *err)
{
    bool as_json = invocation->common->json;
    struct output output;
    struct listing listing = {.output = &output};
    listing.incomplete_json.out = &listing.incomplete;
    int status = storage_open(invocation->positional[0], NULL, &listing.io, err);
    if (status)
        return status;
    output_begin(&output);
    jsonx_begin_array(&output.json, "checkpoints");
    jsonx_begin_array(&listing.incomplete_json, NULL);
    status = list_path(&listing, invocation->positional[0], err);
    jsonx_end_array(&output.json);
    jsonx_end_array(&listing.incomplete_json);
    if (!status && (as_json || listing.incomplete.bytes > strlen("[]")))
        jsonx_write_raw(&output.json, "not_whole", str_text(&listing.incomplete),
                        listing.incomplete.bytes);
    if (!status && str_status(&listing.incomplete))
        status = err_set(err, -ENOMEM, "out of memory for the result");
    if (!status)
        status = output_end(&output, as_json, stdout, err);
    else
        output_abort(&output);
    str_deinit(&listing.incomplete);
    io_close(listing.io);
    return status;
}

static const char *const examples[] = {"millrace ckpt list runs/a/ckpt",
                                       "millrace ckpt list runs/a/ckpt --json", NULL};

const struct verb verb_ckpt_list = {
    .name = "ckpt list",
    .arguments = {"DIR", 1, 1},
    .summary = "List the complete checkpoints of a folder, oldest first, and the incomplete ones.",
    .details = "A checkpoint is complete if its manifest can be read and every file in it exists "
               "with the right size; `millrace verify` also verifies the checksums. The metrics "
               "are those known when the checkpoint was saved. A folder that never had checkpoints "
               "is an error; a run folder that has none yet is not.",
    .examples = examples,
    .args_bytes = sizeof(struct common_args),
    .run = run,
};
