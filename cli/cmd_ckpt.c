/*
 * cmd_ckpt — `millrace ckpt list DIR` and `millrace ckpt hash PATH`; `ckpt diff` is in cmd_ckpt_diff.c.
 */
#include "base/clock.h"
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "ckpt/manifest.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "io/whole.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct ckpt_args {
    struct common_args common;
};

static int list_entry(void *context, const struct ckpt_entry *entry)
{
    struct output *output = context;
    char time[CLOCK_ISO_BYTES];
    json_begin_object(&output->json, NULL);
    json_write_u64(&output->json, "step", entry->step);
    json_write_string(&output->json, "written", clock_format_iso(entry->wall_ns, time));
    json_write_u64(&output->json, "size_bytes", entry->size_bytes);
    double loss;
    if (json_f64(json_get(json_get(entry->state, "metrics"), "val_loss"), &loss) == 0)
        json_write_f64(&output->json, "val_loss", loss);
    else
        json_write_null(&output->json, "val_loss");
    json_write_string(&output->json, "path", entry->path);
    json_end_object(&output->json);
    return 0;
}

/* Only the step that was named. */
struct one_step {
    struct output *output;
    const char *name;
};

static int list_one(void *context, const struct ckpt_entry *entry)
{
    struct one_step *one = context;
    const char *slash = strrchr(entry->path, '/');
    return strcmp(slash ? slash + 1 : entry->path, one->name) == 0 ? list_entry(one->output, entry) : 0;
}

/* A folder of steps, or one step of it. */
static int list(struct io *io, const char *path, struct output *output, const struct log *log,
                struct err *err)
{
    char manifest[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX], step[IO_PATH_BYTES_MAX];
    struct io_stat stat;
    snprintf(step, sizeof step, "%s", path);
    for (size_t bytes = strlen(step); bytes > 1 && step[bytes - 1] == '/';)
        step[--bytes] = '\0';
    int status = io_join_path(step, MANIFEST_NAME, manifest, err);
    if (status || io->ops->stat(io, manifest, &stat, NULL))
        return status ? status : ckpt_list(io, path, list_entry, output, log, err);
    const char *slash = strrchr(step, '/');
    struct one_step one = {.output = output, .name = slash ? slash + 1 : step};
    io_parent_path(step, parent);
    return ckpt_list(io, parent, list_one, &one, log, err);
}

static int run_list(const struct invocation *invocation, struct err *err)
{
    const char *folder = invocation->positional[0];
    struct output output;
    struct io *io = NULL;
    int status = io_open(folder, NULL, &io, err);
    if (status)
        return status;
    output_begin(&output);
    json_begin_array(&output.json, "checkpoints");
    status = list(io, folder, &output, invocation->log, err);
    json_end_array(&output.json);
    if (status)
        output_abort(&output);
    else
        status = output_end(&output, invocation->common->json, stdout, err);
    io_close(io);
    return status;
}

static int print_hashes(const struct ckpt_hashes *hashes, bool as_json, struct err *err)
{
    struct output output;
    char hex[HASH128_HEX_BYTES];
    output_begin(&output);
    for (int i = 0; i < CKPT_SECTION_COUNT; i++) {
        const char *name = ckpt_section_name((enum ckpt_section)i);
        if (!hashes->present[i])
            continue;
        json_write_string(&output.json, name, hash128_format(hashes->hash[i], hex));
        if (!as_json)
            printf("%s\t%s\n", name, hex);
    }
    if (as_json)
        return output_end(&output, true, stdout, err);
    output_abort(&output);
    return 0;
}

static void show_progress(void *context, uint64_t bytes_done, uint64_t bytes)
{
    progress_update(context, bytes_done, bytes);
}

static int run_hash(const struct invocation *invocation, struct err *err)
{
    const char *path = invocation->positional[0];
    struct ckpt_hashes hashes;
    struct ckpt_watch watch = {show_progress, invocation->console};
    struct io *io = NULL;
    int status = io_open(path, NULL, &io, err);
    progress_begin(invocation->console, "hashing", PROGRESS_BYTES);
    if (!status)
        status = ckpt_hash(io, path, &hashes, invocation->log, &watch, err);
    progress_end(invocation->console);
    if (!status)
        status = print_hashes(&hashes, invocation->common->json, err);
    io_close(io);
    return status;
}

static const char *const list_examples[] = {"millrace ckpt list runs/a/ckpt",
                                            "millrace ckpt list runs/a/ckpt --json", NULL};
static const char *const hash_examples[] = {"millrace ckpt hash runs/a/ckpt",
                                            "millrace ckpt hash model.safetensors", NULL};

const struct verb verb_ckpt_list = {
    .name = "ckpt list",
    .arguments = "DIR",
    .arguments_least = 1,
    .arguments_most = 1,
    .summary = "List the whole checkpoints of a folder, oldest first.",
    .examples = list_examples,
    .args_bytes = sizeof(struct ckpt_args),
    .run = run_list,
};

const struct verb verb_ckpt_hash = {
    .name = "ckpt hash",
    .arguments = "PATH",
    .arguments_least = 1,
    .arguments_most = 1,
    .summary = "Print a hash of the model, of the optimizer and of the loader's state.",
    .details = "PATH is a checkpoint, a folder of checkpoints (its newest whole one) or a safetensors file. "
               "The hashes depend on "
               "names, types, shapes and bytes only: not on steps, times, paths, files or ranks. The model's "
               "line of a full file "
               "equals its checkpoint's.",
    .examples = hash_examples,
    .args_bytes = sizeof(struct ckpt_args),
    .run = run_hash,
};
