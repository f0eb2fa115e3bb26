/*
 * cmd_ckpt_prune — `millrace ckpt prune DIR`.
 */
#include "ckpt/ckpt.h"
#include "cli/core/output.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

struct prune_args {
    struct common_args common;
    uint64_t last, every, best_count;
    const char *best_metric;
    uint32_t best_mode;
    bool dry_run;
};

enum best_mode { MODE_AUTO, MODE_MIN, MODE_MAX };
static const char *const mode_choices[] = {"auto", "min", "max", NULL};

enum { COUNT_MAX = 1 << 30 };
#define AT(member) offsetof(struct prune_args, member)
static const struct option option_rows[] = {
    {"keep-last", 0, OPTION_COUNT, AT(last), "N", NULL, "keep the newest N", .min = 1,
     .max = COUNT_MAX, .required = true},
    {"keep-every", 0, OPTION_COUNT, AT(every), "M", NULL,
     "also keep every step that is a multiple of M", .min = 1, .max = COUNT_MAX},
    {"keep-best", 0, OPTION_TEXT, AT(best_metric), "METRIC", NULL,
     "also keep the best by METRIC, for example val_loss (ckpt list shows the metrics)"},
    {"best-mode", 0, OPTION_CHOICE, AT(best_mode), NULL, "auto",
     "whether the smallest or the largest metric is best; auto: smallest for a loss, largest for "
     "an accuracy, by the name of METRIC",
     mode_choices},
    {"best-count", 0, OPTION_COUNT, AT(best_count), "K", NULL,
     "number of best checkpoints to keep (default 1)", .min = 1, .max = COUNT_MAX},
    {"dry-run", 0, OPTION_FLAG, AT(dry_run), .help = "only print what would be kept and removed"},
};

struct prune_job {
    struct jsonx_writer *json;
    bool dry_run;
    uint64_t kept_count, removed_count, removed_bytes;
};

static const char *describe_verdict(const struct prune_job *job, const struct ckpt_verdict *verdict,
                                    char text[96])
{
    static const char *const reasons[] = {"last",  "every",   "best",
                                          "saved", "is read", "is not whole"};
    if (verdict->status)
        return "could not be removed";
    if (verdict->reasons == 0)
        return job->dry_run ? "would be removed" : "removed";
    size_t used = (size_t)snprintf(text, 96, "kept:");
    for (unsigned i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (verdict->reasons >> i & 1)
            used += (size_t)snprintf(text + used, 96 - used, "%s %s",
                                     text[used - 1] == ':' ? "" : ",", reasons[i]);
    return text;
}

static void write_verdict(void *context, const struct ckpt_verdict *verdict)
{
    struct prune_job *job = context;
    char text[96];
    bool is_removed = verdict->reasons == 0 && verdict->status == 0;
    jsonx_begin_object(job->json, NULL);
    jsonx_write_u64(job->json, "step", verdict->step);
    jsonx_write_string(job->json, "verdict", describe_verdict(job, verdict, text));
    jsonx_write_u64(job->json, "size_bytes", verdict->size_bytes);
    jsonx_write_string(job->json, "path", verdict->path);
    jsonx_end_object(job->json);
    job->kept_count += !is_removed;
    job->removed_count += is_removed;
    job->removed_bytes += is_removed ? verdict->size_bytes : 0;
}

/* A metric that no checkpoint has is probably a typo: pruning would delete the best ones. */
struct metric_search {
    const char *name;
    bool has_steps, found;
};

static int match_metric(void *context, const struct ckpt_entry *entry)
{
    struct metric_search *search = context;
    double metric;
    search->has_steps = true;
    search->found = ckpt_get_metric(entry->state, search->name, entry->step, &metric);
    return search->found;
}

static int check_metric(const struct prune_args *args, const char *folder, struct io *io,
                        struct err *err)
{
    struct metric_search search = {.name = args->best_metric};
    if (!args->best_metric)
        return 0;
    int status = ckpt_list(io, folder, match_metric, &search, NULL, err);
    /* the caller reports a folder without steps */
    if (status < 0 || search.found || !search.has_steps)
        return status < 0 ? status : 0;
    err_set(err, -ENOENT, "no checkpoint has the metric %s", args->best_metric);
    err_at(err, folder, ERR_NO_OFFSET);
    err_advise(err, "run `millrace ckpt list` to see the metrics");
    return -ENOENT;
}

static int choose_mode(const struct prune_args *args, enum ckpt_metric_mode *ret_mode,
                       struct err *err)
{
    enum ckpt_metric_mode natural_mode,
        requested_mode = args->best_mode == MODE_MAX ? CKPT_MODE_MAX : CKPT_MODE_MIN;
    bool has_natural_mode = ckpt_guess_metric_mode(args->best_metric, &natural_mode),
         is_requested = args->best_mode != MODE_AUTO;
    *ret_mode = is_requested ? requested_mode : natural_mode;
    if (is_requested ? !has_natural_mode || requested_mode == natural_mode : has_natural_mode)
        return 0;
    if (is_requested) {
        err_set(err, -EINVAL, "the best %s is the %s one", args->best_metric,
                natural_mode == CKPT_MODE_MAX ? "largest" : "smallest");
        err_advise(err, "remove --best-mode or set it to %s",
                   mode_choices[natural_mode == CKPT_MODE_MAX ? MODE_MAX : MODE_MIN]);
    } else {
        err_set(err, -EINVAL, "the best mode of %s is unknown", args->best_metric);
        err_advise(err, "add --best-mode min or --best-mode max");
    }
    return -EINVAL;
}

static int choose_best(const struct prune_args *args, struct ckpt_keep_rules *keep, struct err *err)
{
    if (args->best_metric) {
        keep->best.metric = args->best_metric;
        keep->best.count = args->best_count > 0 ? (uint32_t)args->best_count : 1;
        return choose_mode(args, &keep->best.mode, err);
    }
    if (args->best_mode == MODE_AUTO && args->best_count == 0)
        return 0;
    err_set(err, -EINVAL, "%s is used without --keep-best",
            args->best_count > 0 ? "--best-count" : "--best-mode");
    err_advise(err, "add --keep-best METRIC, for example val_loss");
    return -EINVAL;
}

static int prune(const struct invocation *invocation, struct io *io, struct prune_job *job,
                 struct err *err)
{
    const struct prune_args *args = invocation->args;
    char folder[IO_PATH_BYTES_MAX];
    struct ckpt_prune_options options = {
        .keep = {.last = (uint32_t)args->last, .every = args->every},
        .dry_run = args->dry_run,
        .verdict = write_verdict,
        .context = job,
        .log = invocation->log};
    int status = ckpt_resolve_folder(io, invocation->positional[0], folder, err);
    if (!status)
        status = check_metric(args, folder, io, err);
    if (!status)
        status = choose_best(args, &options.keep, err);
    if (!status)
        status = ckpt_prune(io, folder, &options, err);
    if (status || job->kept_count + job->removed_count > 0)
        return status;
    err_set(err, -ENOENT, "there is no checkpoint");
    err_at(err, folder, ERR_NO_OFFSET);
    err_expected(err, "a folder of folders step-00000000");
    return -ENOENT;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct prune_args *args = invocation->args;
    struct output output;
    struct prune_job job = {.json = &output.json, .dry_run = args->dry_run};
    struct io *io = NULL;
    int status = storage_open_target(invocation->positional[0], &io, err);
    if (status)
        return status;
    output_begin(&output);
    jsonx_begin_array(&output.json, "checkpoints");
    status = prune(invocation, io, &job, err);
    jsonx_end_array(&output.json);
    jsonx_write_u64(&output.json, "kept_count", job.kept_count);
    jsonx_write_u64(&output.json, "removed_count", job.removed_count);
    jsonx_write_u64(&output.json, "freed_bytes", job.removed_bytes);
    /* reports even if a removal failed */
    if (job.kept_count + job.removed_count > 0) {
        /* a dry run exists to list what would be removed */
        bool is_requested = args->dry_run || !args->common.quiet;
        int printed =
            output_end_report(&output, args->common.json, !is_requested, status ? NULL : err);
        status = status ? status : printed;
    } else {
        output_abort(&output);
    }
    io_close(io);
    return status;
}

static const char *const examples[] = {
    "millrace ckpt prune runs/a/ckpt --keep-last 3 --dry-run",
    "millrace ckpt prune runs/a/ckpt --keep-last 1 --keep-every 1000 --keep-best val_loss",
    NULL,
};

const struct verb verb_ckpt_prune = {
    .name = "ckpt prune",
    .arguments = {"DIR", 1, 1},
    .summary = "Remove the checkpoints of a folder except the newest and those that a rule keeps.",
    .details =

        "A checkpoint is kept if any rule selects it, if it is the newest complete one, if it "
        "is being read, or if it is incomplete. A checkpoint without the metric is never a "
        "best one. The verb fails while a run writes to the folder; the error names the host "
        "and process. A run prunes its own folder, by checkpoint.keep in its configuration.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct prune_args),
    .run = run,
};
