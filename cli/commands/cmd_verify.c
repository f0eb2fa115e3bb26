/*
 * cmd_verify — `millrace verify PATH`: checks every checksum and count.
 */
#include "ckpt/ckpt.h"
#include "ckpt/format/safetensors.h"
#include "cli/commands/verify_decode.h"
#include "cli/commands/verify_member.h"
#include "cli/core/output.h"
#include "cli/core/path_kind.h"
#include "cli/core/signals.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct verify_args {
    struct common_args common;
    bool decode;
};

static const struct option option_rows[] = {
    {"decode", 0, OPTION_FLAG, offsetof(struct verify_args, decode),
     .help = "decode each image completely, on all CPUs; default: read only image headers"},
};

struct verify_job {
    struct io *io;
    const struct invocation *invocation;
    struct output *output; /* with --json: inside the array "bad" */
    struct image_checker *checker;
    struct verify_decode *decode;  /* NULL: images are not decoded */
    const struct dataset *dataset; /* being verified; NULL: a single shard */
    struct verify_result totals;   /* of datasets and shards */
    uint64_t checkpoints_count, tensors_count;
    uint64_t bad_count;
    struct err *err;
};

static void print_bad_item(void *context, const struct err *detail)
{
    struct verify_job *job = context;
    char line[ERR_LINE_BYTES_MAX];
    err_format(detail, line, sizeof line);
    if (job->invocation->common->json) {
        jsonx_write_string(&job->output->json, NULL, line);
    } else {
        progress_hide(job->invocation->console);
        printf("bad: %s\n", line);
    }
}

static void print_problem(void *context, const struct verify_problem *problem)
{
    struct err detail = *problem->err;
    if (problem->key[0] && !strstr(detail.what, problem->key)) {
        char what[ERR_TEXT_BYTES_MAX];
        memcpy(what, detail.what, sizeof what);
        snprintf(detail.what, sizeof detail.what, "sample %.80s: %.160s", problem->key, what);
    }
    if (!detail.path[0])
        err_at(&detail, problem->path, detail.offset);
    print_bad_item(context, &detail);
}

static void print_note(void *context, const struct verify_problem *note)
{
    struct verify_job *job = context;
    char line[ERR_LINE_BYTES_MAX];
    console_line(job->invocation->console, "note: %s", err_format(note->err, line, sizeof line));
}

static int check_member(void *context, const struct verify_member *member,
                        enum verify_kind *ret_kind, struct err *err)
{
    struct verify_job *job = context;
    if (!is_image_extension(member->extension))
        return verify_member_content(job->dataset, member, ret_kind, err);
    *ret_kind = VERIFY_IMAGE;
    return job->decode ? verify_decode_add(job->decode, member, err)
                       : verify_member_image(job->checker, member, false, err);
}

/* Called for images that were decoded outside the pass. */
static void report_undecodable(void *context, const struct verify_problem *problem)
{
    struct verify_job *job = context;
    job->totals.problems_count++;
    job->totals.kinds_count[problem->kind]++;
    print_problem(job, problem);
}

static void show_progress(void *context, uint64_t bytes_done, uint64_t bytes)
{
    struct verify_job *job = context;
    progress_update(job->invocation->console, bytes_done, bytes);
}

static void begin_progress(struct verify_job *job)
{
    progress_begin(job->invocation->console, "verifying", PROGRESS_BYTES);
}

static struct verify_options make_options(struct verify_job *job)
{
    return (struct verify_options){.on_problem = print_problem,
                                   .on_note = print_note,
                                   .check_member = check_member,
                                   .requires_fields = true,
                                   .is_alternative = verify_member_is_alternative,
                                   .progress = show_progress,
                                   .context = job,
                                   .stop = signals_install()};
}

static int check_dataset(void *context, const char *path)
{
    struct verify_job *job = context;
    struct verify_options options = make_options(job);
    struct dataset *dataset;
    /* continues after a damaged tar */
    int status = dataset_open_salvaging(job->io, path, NULL, &dataset, job->err);
    if (status)
        return status;
    job->dataset = dataset;
    begin_progress(job);
    status = verify_dataset(job->io, dataset, &options, &job->totals, job->err);
    if (job->decode)
        verify_decode_flush(job->decode);
    job->dataset = NULL;
    dataset_close(dataset);
    return status;
}

static int check_shard(struct verify_job *job, const char *path)
{
    struct verify_options options = make_options(job);
    begin_progress(job);
    int status = verify_shard(job->io, path, NULL, &options, &job->totals, job->err);
    if (job->decode)
        verify_decode_flush(job->decode);
    return status;
}

static int check_checkpoint(struct verify_job *job, const char *path)
{
    struct ckpt_progress progress = {show_progress, job};
    begin_progress(job);
    int bad_count = ckpt_verify(job->io, path, print_bad_item, job, &progress, job->err);
    job->checkpoints_count++;
    if (bad_count < 0)
        return bad_count;
    job->bad_count += (uint64_t)bad_count;
    return 0;
}

/* Continues with the other steps after an unreadable manifest. */
static int check_step(void *context, uint64_t step, const char *path)
{
    struct verify_job *job = context;
    (void)step;
    int status = check_checkpoint(job, path);
    if (status == 0 || status == -ENOMEM)
        return status;
    print_bad_item(job, job->err);
    err_clear(job->err);
    job->bad_count++;
    return 0;
}

static int check_safetensors(struct verify_job *job, const char *path)
{
    struct safetensors file;
    int status = safetensors_read(job->io, path, &file, job->err);
    if (status)
        return status;
    job->tensors_count = file.count;
    safetensors_deinit(&file);
    return 0;
}

static int check_kind(struct verify_job *job, enum path_kind kind, const char *path)
{
    switch (kind) {
    case PATH_DATASET:
        return check_dataset(job, path);
    case PATH_DATASETS:
        return path_each_dataset(job->io, path, check_dataset, job, job->err);
    case PATH_SHARD:
        return check_shard(job, path);
    case PATH_CHECKPOINT:
        return check_checkpoint(job, path);
    case PATH_CHECKPOINTS:
        return ckpt_for_each_step(job->io, path, check_step, job, job->err);
    case PATH_SAFETENSORS:
        return check_safetensors(job, path);
    case PATH_RUN:
        err_set(job->err, -ENOTSUP, "a metrics file has no checksums");
        err_at(job->err, path, ERR_NO_OFFSET);
        err_advise(job->err, "verify the checkpoint folder of the run");
        return -ENOTSUP;
    default:
        err_set(job->err, -ENOTSUP, "a single file has no checksums");
        err_at(job->err, path, ERR_NO_OFFSET);
        err_advise(job->err,
                   "use `millrace inspect` to read its headers, or convert it to a dataset "
                   "to get checksums");
        return -ENOTSUP;
    }
}

static void write_kinds(struct jsonx_writer *json, const struct verify_result *totals)
{
    jsonx_begin_object(json, "bad_by_kind");
    for (int i = 0; i < VERIFY_KIND_COUNT; i++)
        if (totals->kinds_count[i])
            jsonx_write_u64(json, verify_kind_name((enum verify_kind)i), totals->kinds_count[i]);
    jsonx_end_object(json);
}

static void write_totals(const struct verify_job *job, enum path_kind kind)
{
    struct jsonx_writer *json = &job->output->json;
    if (kind == PATH_DATASET || kind == PATH_DATASETS || kind == PATH_SHARD) {
        jsonx_write_u64(json, "shards_count", job->totals.shards_count);
        jsonx_write_u64(json, "samples_count", job->totals.samples_count);
        jsonx_write_u64(json, "members_count", job->totals.members_count);
        jsonx_write_u64(json, "checked_bytes", job->totals.bytes);
        if (job->totals.notes_count)
            jsonx_write_u64(json, "notes_count", job->totals.notes_count);
        if (job->totals.problems_count)
            write_kinds(json, &job->totals);
    } else if (kind == PATH_SAFETENSORS) {
        jsonx_write_u64(json, "tensors_count", job->tensors_count);
        jsonx_write_string(json, "checked", "header and sizes: the format holds no checksums");
    } else {
        jsonx_write_u64(json, "checkpoints_count", job->checkpoints_count);
    }
    jsonx_write_u64(json, "bad_count", job->bad_count + job->totals.problems_count);
}

static int fail_if_bad(const struct verify_job *job, const char *path)
{
    uint64_t bad = job->bad_count + job->totals.problems_count;
    if (bad == 0)
        return 0;
    err_set(job->err, -EBADMSG, "%" PRIu64 " %s bad", bad, bad == 1 ? "item is" : "items are");
    err_at(job->err, path, ERR_NO_OFFSET);
    err_advise(job->err, "restore the files from a copy, or create them again");
    return -EBADMSG;
}

static int verify_path(struct verify_job *job, enum path_kind kind, const char *path)
{
    bool as_json = job->invocation->common->json;
    jsonx_write_string(&job->output->json, "kind", path_kind_name(kind));
    jsonx_write_string(&job->output->json, "path", path);
    if (as_json)
        jsonx_begin_array(&job->output->json, "bad");
    int status = check_kind(job, kind, path);
    progress_end(job->invocation->console);
    if (as_json)
        jsonx_end_array(&job->output->json);
    if (!status)
        write_totals(job, kind);
    return status;
}

static int run(const struct invocation *invocation, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    enum path_kind kind;
    struct output output;
    const struct verify_args *args = invocation->args;
    struct verify_job job = {.invocation = invocation, .output = &output, .err = err};
    output_begin(&output);
    int status = storage_open(invocation->positional[0], NULL, &job.io, err);
    if (!status)
        status = path_kind_detect(job.io, invocation->positional[0], &kind, path, err);
    if (!status)
        status = image_checker_open(&job.checker, err);
    if (!status && args->decode)
        status = verify_decode_open(report_undecodable, &job, &job.decode, err);
    if (!status)
        status = verify_path(&job, kind, path);
    if (!status)
        status = output_end(&output, invocation->common->json, stdout, err);
    if (!status)
        status = fail_if_bad(&job, path);
    output_abort(&output);
    verify_decode_close(job.decode);
    image_checker_close(job.checker);
    io_close(job.io);
    return status;
}

static const char *const examples[] = {
    "millrace verify shards",
    "millrace verify shards --decode",
    "millrace verify shards/shard-000000.tar --json",
    "millrace verify runs/a/ckpt",
    NULL,
};

const struct verb verb_verify = {
    .name = "verify",
    .arguments = {"PATH", 1, 1},
    .summary = "Check every checksum and count of a dataset, shard or checkpoint, and the fields "
               "that training needs.",
    .details =
        "In a dataset, each sample must have the same fields, a label that is the number of a "
        "class, and images with valid headers; with --decode, images are decoded completely. Each "
        "bad sample or tensor is named on stdout, and the status is 1 if there are any. For a "
        "safetensors file, only the header is checked: the format has no checksums.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct verify_args),
    .run = run,
};
