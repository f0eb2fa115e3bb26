/*
 * cmd_verify — `millrace verify PATH`: every checksum, every count; names what is bad.
 */
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "ckpt/safetensors.h"
#include "cli/output.h"
#include "cli/path_kind.h"
#include "cli/verbs.h"
#include "cli/verify_shards.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct verify_args {
    struct common_args common;
    uint64_t workers;
};

#define AT(member) offsetof(struct verify_args, member)
static const struct option rows[] = {
    {"workers", 'j', OPTION_COUNT, AT(workers), "N", NULL, "threads; 0: one a CPU", .most = 256},
};

/* What the functions below share. */
struct verification {
    struct io *io;
    const struct invocation *invocation;
    struct output *output;       /* with --json: within the array "bad" */
    struct verify_result totals; /* of datasets and shards */
    uint64_t checkpoints_count, tensors_count;
    struct err *err;
};

static void show_bad(void *context, const struct err *detail)
{
    struct verification *v = context;
    char line[ERR_LINE_BYTES_MAX];
    err_format(detail, line, sizeof line);
    if (v->invocation->common->json)
        json_write_string(&v->output->json, NULL, line);
    else
        printf("bad: %s\n", line);
}

static void show_progress(void *context, uint64_t bytes_done, uint64_t bytes)
{
    struct verification *v = context;
    progress_update(v->invocation->console, bytes_done, bytes);
}

static void add_totals(struct verify_result *totals, const struct verify_result *more)
{
    totals->shards_count += more->shards_count;
    totals->samples_count += more->samples_count;
    totals->members_count += more->members_count;
    totals->checked_bytes += more->checked_bytes;
    totals->bad_count += more->bad_count;
}

static int check_shards(struct verification *v, const char *path,
                        int (*check)(struct io *, const char *, const struct verify_options *,
                                     struct verify_result *, struct err *))
{
    const struct verify_args *args = v->invocation->args;
    struct verify_options options = {
        .workers = (unsigned)args->workers, .bad = show_bad, .progress = show_progress, .context = v};
    struct verify_result result;
    int status = check(v->io, path, &options, &result, v->err);
    if (!status)
        add_totals(&v->totals, &result);
    return status;
}

static int check_one_dataset(void *context, const char *path)
{
    return check_shards(context, path, verify_dataset);
}

static int check_checkpoint(struct verification *v, const char *path)
{
    int bad = ckpt_verify(v->io, path, show_bad, v, v->err);
    v->checkpoints_count++;
    if (bad < 0)
        return bad;
    v->totals.bad_count += (uint64_t)bad;
    return 0;
}

static int check_step(void *context, const struct ckpt_entry *entry)
{
    return check_checkpoint(context, entry->path);
}

static int check_safetensors(struct verification *v, const char *path)
{
    struct safetensors file;
    int status = safetensors_read(v->io, path, &file, v->err);
    if (status)
        return status;
    v->tensors_count = file.count;
    safetensors_deinit(&file);
    return 0;
}

static int check_kind(struct verification *v, enum path_kind kind, const char *path)
{
    switch (kind) {
    case PATH_DATASET:
        return check_one_dataset(v, path);
    case PATH_DATASETS:
        return path_each_dataset(v->io, path, check_one_dataset, v, v->err);
    case PATH_SHARD:
        return check_shards(v, path, verify_shard);
    case PATH_CHECKPOINT:
        return check_checkpoint(v, path);
    case PATH_CHECKPOINTS:
        return ckpt_list(v->io, path, check_step, v, v->invocation->log, v->err);
    case PATH_SAFETENSORS:
        return check_safetensors(v, path);
    case PATH_KIND_COUNT:
        break;
    }
    return -ENOTSUP;
}

static void write_totals(const struct verification *v, enum path_kind kind)
{
    struct json_writer *json = &v->output->json;
    if (kind == PATH_DATASET || kind == PATH_DATASETS || kind == PATH_SHARD) {
        json_write_u64(json, "shards_count", v->totals.shards_count);
        json_write_u64(json, "samples_count", v->totals.samples_count);
        json_write_u64(json, "members_count", v->totals.members_count);
        json_write_u64(json, "checked_bytes", v->totals.checked_bytes);
    } else if (kind == PATH_SAFETENSORS) {
        json_write_u64(json, "tensors_count", v->tensors_count);
        json_write_string(json, "checked", "header and sizes: the format holds no checksums");
    } else {
        json_write_u64(json, "checkpoints_count", v->checkpoints_count);
    }
    json_write_u64(json, "bad_count", v->totals.bad_count);
}

static int verdict(const struct verification *v, const char *path)
{
    if (v->totals.bad_count == 0)
        return 0;
    err_set(v->err, -EBADMSG, "%" PRIu64 " %s bad", v->totals.bad_count,
            v->totals.bad_count == 1 ? "thing is" : "things are");
    err_at(v->err, path, ERR_NO_OFFSET);
    err_advise(v->err, "restore the files from a copy, or make them again");
    return -EBADMSG;
}

static int run(const struct invocation *invocation, struct err *err)
{
    bool as_json = invocation->common->json;
    char path[IO_PATH_BYTES_MAX];
    enum path_kind kind;
    struct output output;
    struct verification v = {.invocation = invocation, .output = &output, .err = err};
    int status = io_open(invocation->positional[0], NULL, &v.io, err);
    if (!status)
        status = path_kind_of(v.io, invocation->positional[0], &kind, path, err);
    if (status) {
        io_close(v.io);
        return status;
    }
    output_begin(&output);
    json_write_string(&output.json, "kind", path_kind_name(kind));
    json_write_string(&output.json, "path", path);
    if (as_json)
        json_begin_array(&output.json, "bad");
    progress_begin(invocation->console, "verifying", PROGRESS_BYTES);
    status = check_kind(&v, kind, path);
    progress_end(invocation->console);
    if (as_json)
        json_end_array(&output.json);
    if (status) {
        output_abort(&output);
    } else {
        write_totals(&v, kind);
        status = output_end(&output, as_json, stdout, err);
        if (!status)
            status = verdict(&v, path);
    }
    io_close(v.io);
    return status;
}

static const char *const examples[] = {
    "millrace verify shards",
    "millrace verify shards/shard-000000.tar --json",
    "millrace verify runs/a/ckpt",
    NULL,
};

const struct verb verb_verify = {
    .name = "verify",
    .arguments = "PATH",
    .arguments_least = 1,
    .arguments_most = 1,
    .summary =
        "Check every checksum and every count of a dataset, shard or checkpoint, and decode every JPEG.",
    .details = "Names each bad sample or tensor on stdout and ends with status 1 if there are any. Of a "
               "safetensors file the "
               "header is checked: the format has no checksums.",
    .options = {rows, sizeof rows / sizeof rows[0]},
    .examples = examples,
    .args_bytes = sizeof(struct verify_args),
    .run = run,
};
