/*
 * cmd_verify — `millrace verify PATH`: checks every checksum and count, and reports what is bad.
 */
#include "base/str.h"
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

static const struct option rows[] = {
    {"decode", 0, OPTION_FLAG, offsetof(struct verify_args, decode),
     .help = "decode each image completely, on all CPUs; default: read only the headers of images"},
};

struct checking {
    struct io *io;
    const struct invocation *invocation;
    struct output *output; /* with --json: inside the array "bad" */
    struct image_checker *checker;
    struct verify_decode *decode;  /* NULL: images are not decoded */
    const struct dataset *dataset; /* of the members; NULL: a single shard */
    struct verify_result totals;   /* of datasets and shards */
    uint64_t checkpoints_count, tensors_count;
    uint64_t bad_count;
    struct err *err;
};

static void show_bad(void *context, const struct err *detail)
{
    struct checking *v = context;
    char line[ERR_LINE_BYTES_MAX];
    err_format(detail, line, sizeof line);
    if (v->invocation->common->json) {
        jsonx_write_string(&v->output->json, NULL, line);
    } else {
        progress_hide(v->invocation->console);
        printf("bad: %s\n", line);
    }
}

static void show_problem(void *context, const struct verify_problem *problem)
{
    struct err detail = *problem->err;
    if (problem->key[0] && !strstr(detail.what, problem->key)) {
        char what[ERR_TEXT_BYTES_MAX];
        memcpy(what, detail.what, sizeof what);
        snprintf(detail.what, sizeof detail.what, "sample %.80s: %.160s", problem->key, what);
    }
    if (!detail.path[0])
        err_at(&detail, problem->path, detail.offset);
    show_bad(context, &detail);
}

static void show_note(void *context, const struct verify_problem *note)
{
    struct checking *v = context;
    char line[ERR_LINE_BYTES_MAX];
    console_line(v->invocation->console, "note: %s", err_format(note->err, line, sizeof line));
}

static int check_member(void *context, const struct verify_member *member,
                        enum verify_kind *ret_kind, struct err *err)
{
    struct checking *v = context;
    if (!image_is_expected(member->extension))
        return verify_member_content(v->dataset, member, ret_kind, err);
    *ret_kind = VERIFY_IMAGE;
    return v->decode ? verify_decode_add(v->decode, member, err)
                     : verify_member_image(v->checker, member, false, err);
}

/* Reports and counts a bad image that was decoded outside the pass. */
static void note_undecodable(void *context, const struct verify_problem *problem)
{
    struct checking *v = context;
    v->totals.problems_count++;
    v->totals.kinds_count[problem->kind]++;
    show_problem(v, problem);
}

static void show_progress(void *context, uint64_t bytes_done, uint64_t bytes)
{
    struct checking *v = context;
    progress_update(v->invocation->console, bytes_done, bytes);
}

/* Each dataset, shard or checkpoint has its own bar. */
static void begin_progress(struct checking *v)
{
    progress_begin(v->invocation->console, "verifying", PROGRESS_BYTES);
}

static struct verify_options options_of(struct checking *v)
{
    return (struct verify_options){.problem = show_problem,
                                   .note = show_note,
                                   .member = check_member,
                                   .same_fields = true,
                                   .is_alternative = verify_member_is_alternative,
                                   .progress = show_progress,
                                   .context = v,
                                   .stop = signals_install()};
}

static int check_dataset(void *context, const char *path)
{
    struct checking *v = context;
    struct verify_options options = options_of(v);
    struct dataset *dataset;
    /* salvaging: one damaged tar must not hide the next */
    int status = dataset_open_salvaging(v->io, path, NULL, &dataset, v->err);
    if (status)
        return status;
    v->dataset = dataset;
    begin_progress(v);
    status = verify_dataset(v->io, dataset, &options, &v->totals, v->err);
    if (v->decode)
        verify_decode_flush(v->decode);
    v->dataset = NULL;
    dataset_close(dataset);
    return status;
}

static int check_shard(struct checking *v, const char *path)
{
    struct verify_options options = options_of(v);
    begin_progress(v);
    int status = verify_shard(v->io, path, NULL, &options, &v->totals, v->err);
    if (v->decode)
        verify_decode_flush(v->decode);
    return status;
}

static int check_checkpoint(struct checking *v, const char *path)
{
    struct ckpt_progress watch = {show_progress, v};
    begin_progress(v);
    int bad = ckpt_verify(v->io, path, show_bad, v, &watch, v->err);
    v->checkpoints_count++;
    if (bad < 0)
        return bad;
    v->bad_count += (uint64_t)bad;
    return 0;
}

/* An unreadable manifest does not end the check of the other steps. */
static int check_step(void *context, uint64_t step, const char *path)
{
    struct checking *v = context;
    (void)step;
    int status = check_checkpoint(v, path);
    if (status == 0 || status == -ENOMEM)
        return status;
    show_bad(v, v->err);
    err_clear(v->err);
    v->bad_count++;
    return 0;
}

static int check_safetensors(struct checking *v, const char *path)
{
    struct safetensors file;
    int status = safetensors_read(v->io, path, &file, v->err);
    if (status)
        return status;
    v->tensors_count = file.count;
    safetensors_deinit(&file);
    return 0;
}

static int check_kind(struct checking *v, enum path_kind kind, const char *path)
{
    switch (kind) {
    case PATH_DATASET:
        return check_dataset(v, path);
    case PATH_DATASETS:
        return path_each_dataset(v->io, path, check_dataset, v, v->err);
    case PATH_SHARD:
        return check_shard(v, path);
    case PATH_CHECKPOINT:
        return check_checkpoint(v, path);
    case PATH_CHECKPOINTS:
        return ckpt_each_step(v->io, path, check_step, v, v->err);
    case PATH_SAFETENSORS:
        return check_safetensors(v, path);
    case PATH_RUN:
        err_set(v->err, -ENOTSUP, "a metrics file has no checksums");
        err_at(v->err, path, ERR_NO_OFFSET);
        err_advise(v->err, "verify the checkpoint folder of the run");
        return -ENOTSUP;
    default:
        err_set(v->err, -ENOTSUP, "a single file has no checksums");
        err_at(v->err, path, ERR_NO_OFFSET);
        err_advise(v->err, "use `millrace inspect` to read its headers, or convert it to a dataset "
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

static void write_totals(const struct checking *v, enum path_kind kind)
{
    struct jsonx_writer *json = &v->output->json;
    if (kind == PATH_DATASET || kind == PATH_DATASETS || kind == PATH_SHARD) {
        jsonx_write_u64(json, "shards_count", v->totals.shards_count);
        jsonx_write_u64(json, "samples_count", v->totals.samples_count);
        jsonx_write_u64(json, "members_count", v->totals.members_count);
        jsonx_write_u64(json, "checked_bytes", v->totals.bytes);
        if (v->totals.notes_count)
            jsonx_write_u64(json, "notes_count", v->totals.notes_count);
        if (v->totals.problems_count)
            write_kinds(json, &v->totals);
    } else if (kind == PATH_SAFETENSORS) {
        jsonx_write_u64(json, "tensors_count", v->tensors_count);
        jsonx_write_string(json, "checked", "header and sizes: the format holds no checksums");
    } else {
        jsonx_write_u64(json, "checkpoints_count", v->checkpoints_count);
    }
    jsonx_write_u64(json, "bad_count", v->bad_count + v->totals.problems_count);
}

static int verdict(const struct checking *v, const char *path)
{
    uint64_t bad = v->bad_count + v->totals.problems_count;
    if (bad == 0)
        return 0;
    err_set(v->err, -EBADMSG, "%" PRIu64 " %s bad", bad, bad == 1 ? "item is" : "items are");
    err_at(v->err, path, ERR_NO_OFFSET);
    err_advise(v->err, "restore the files from a copy, or create them again");
    return -EBADMSG;
}

static int check(struct checking *v, enum path_kind kind, const char *path)
{
    bool as_json = v->invocation->common->json;
    jsonx_write_string(&v->output->json, "kind", path_kind_name(kind));
    jsonx_write_string(&v->output->json, "path", path);
    if (as_json)
        jsonx_begin_array(&v->output->json, "bad");
    int status = check_kind(v, kind, path);
    progress_end(v->invocation->console);
    if (as_json)
        jsonx_end_array(&v->output->json);
    if (!status)
        write_totals(v, kind);
    return status;
}

static int run(const struct invocation *invocation, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    enum path_kind kind;
    struct output output;
    const struct verify_args *args = invocation->args;
    struct checking v = {.invocation = invocation, .output = &output, .err = err};
    output_begin(&output);
    int status = storage_open(invocation->positional[0], NULL, &v.io, err);
    if (!status)
        status = path_kind_of(v.io, invocation->positional[0], &kind, path, err);
    if (!status)
        status = image_checker_open(&v.checker, err);
    if (!status && args->decode)
        status = verify_decode_open(note_undecodable, &v, &v.decode, err);
    if (!status)
        status = check(&v, kind, path);
    if (!status)
        status = output_end(&output, invocation->common->json, stdout, err);
    if (!status)
        status = verdict(&v, path);
    output_abort(&output);
    verify_decode_close(v.decode);
    image_checker_close(v.checker);
    io_close(v.io);
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
    .arguments = "PATH",
    .arguments_least = 1,
    .arguments_most = 1,
    .summary = "Check every checksum and count of a dataset, shard or checkpoint, and the fields "
               "that training needs.",
    .details =
        "In a dataset, each sample must have the same fields, a label that is the number of a "
        "class, and images with valid headers; with --decode, images are decoded completely. Each "
        "bad sample or tensor is named on stdout, and the status is 1 if there are any. For a "
        "safetensors file, only the header is checked: the format has no checksums.",
    .options = {rows, sizeof rows / sizeof rows[0]},
    .examples = examples,
    .args_bytes = sizeof(struct verify_args),
    .run = run,
};
