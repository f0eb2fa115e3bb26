/*
 * cmd_inspect — `millrace inspect PATH`: identifies a file or folder and summarizes its contents.
 */
#include "cli/core/exit_status.h"
#include "cli/core/output.h"
#include "cli/core/path_kind.h"
#include "cli/core/storage.h"
#include "cli/inspect/inspect.h"
#include "cli/report/auto_fields.h"
#include "cli/report/page_dataset.h"
#include "cli/report/page_run.h"
#include "cli/report/read_fields.h"
#include "cli/report/run_metrics.h"
#include "cli/verbs/verbs.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct inspect_args {
    struct common_args common;
    const char *html;
    struct option_list fields;
    bool force, config;
};

#define AT(member) offsetof(struct inspect_args, member)
static const struct option option_rows[] = {
    {"html", 0, OPTION_TEXT, AT(html), "OUT",
     .help = "write a self-contained HTML page of a dataset, shard or run"},
    {"field", 0, OPTION_REPEAT, AT(fields), "NAME=SPEC", NULL,
     "with --html: show this field of samples drawn at random: text below the image, other images "
     "beside it, masks, boxes and keypoints over it; NAME=SPEC or auto: as of --field of read"},
    {"force", 0, OPTION_FLAG, AT(force), .help = "replace an existing OUT"},
    {"config", 0, OPTION_FLAG, AT(config),
     .help =
         "print only the configuration of the run that saved the checkpoint, as YAML for train"},
};

static int inspect_run(struct inspection *in, const char *path)
{
    struct jsonx_writer *json = in->json;
    struct run_metrics *metrics;
    int status = run_metrics_read(in->io, path, &metrics, in->err);
    if (status)
        return status;
    jsonx_write_string(json, "path", path);
    jsonx_write_u64(json, "step", metrics->last_step);
    jsonx_write_u64(json, "epoch", metrics->last_epoch);
    jsonx_write_u64(json, "reports_count", metrics->lines_count);
    jsonx_begin_object(json, "last");
    for (int kind = 0; kind < RUN_SERIES_COUNT; kind++)
        if (metrics->series[kind].count > 0)
            jsonx_write_f64(json, run_series_key((enum run_series_kind)kind),
                            metrics->series[kind].last_value);
    jsonx_end_object(json);
    free(metrics);
    return 0;
}

static int write_page(struct inspection *in, enum path_kind kind, const char *path,
                      const struct inspect_args *args, const struct read_fields *fields,
                      const struct log *log)
{
    const struct page_dataset_options options = {.path = path,
                                                 .is_shard = kind == PATH_SHARD,
                                                 .fields = fields->list,
                                                 .fields_count = fields->count,
                                                 .log = log};
    struct str page = {0};
    struct io *io = NULL;
    int status;
    if (kind == PATH_RUN && args->fields.count == 0) {
        status = page_run_build(in->io, path, log, &page, in->err);
    } else if (kind == PATH_DATASET || kind == PATH_SHARD) {
        status = page_dataset_build(in->io, &options, &page, in->err);
    } else {
        status = err_set(in->err, -ENOTSUP, "cannot write a page of %s%s",
                         args->fields.count > 0 ? "fields of " : "", path_kind_name(kind));
        err_at(in->err, path, ERR_NO_OFFSET);
        err_advise(in->err, args->fields.count > 0 ? "give a dataset or a shard"
                                                   : "give a dataset, a shard or a run folder");
    }
    if (!status)
        status = storage_open_target(args->html, &io, in->err);
    if (!status)
        status = io_write_file(io, args->html, page.data, page.bytes, args->force, in->err);
    if (!status) {
        jsonx_write_string(in->json, "path", path);
        jsonx_write_string(in->json, "page", args->html);
        jsonx_write_u64(in->json, "written_bytes", page.bytes);
    }
    io_close(io);
    str_deinit(&page);
    return status;
}

static int inspect_kind(struct inspection *in, enum path_kind kind, const char *path)
{
    switch (kind) {
    case PATH_DATASET:
        return inspect_dataset(in, path);
    case PATH_DATASETS:
        return inspect_datasets(in, path);
    case PATH_SHARD:
        return inspect_shard(in, path);
    case PATH_CHECKPOINT:
    case PATH_CHECKPOINTS:
        return inspect_checkpoint(in, path);
    case PATH_SAFETENSORS:
        return inspect_safetensors(in, path);
    case PATH_RUN:
        return inspect_run(in, path);
    case PATH_NPY:
        return inspect_npy(in, path);
    case PATH_JPEG:
        return inspect_jpeg(in, path);
    case PATH_PNG:
    case PATH_WEBP:
    case PATH_PPM:
        return inspect_image(in, path);
    case PATH_KIND_COUNT:
        break;
    }
    return -ENOTSUP;
}

static int print_config(struct inspection *in, const char *path, bool as_json)
{
    struct str text = {0};
    int status = inspect_config(in, path, as_json, &text);
    if (!status)
        printf("%s%s", str_text(&text), as_json ? "\n" : "");
    str_deinit(&text);
    return status;
}

static int check_usage(const struct inspect_args *args, struct err *err)
{
    if (args->fields.count == 0 || (args->html && !args->config))
        return 0;
    err_set(err, -EINVAL, "--field is for a page");
    err_advise(err, "add --html OUT, or use `millrace read --field`");
    return -EINVAL;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct common_args *common = invocation->common;
    const struct inspect_args *args = invocation->args;
    char path[IO_PATH_BYTES_MAX];
    enum path_kind kind;
    struct output output;
    struct read_fields fields = {0};
    struct option_list auto_specs = {0};
    bool is_auto = false;
    struct inspection in = {.json = &output.json,
                            .lists_shards = common->json || common->verbose,
                            .log = invocation->log,
                            .err = err};
    if (check_usage(args, err) || auto_fields_check(&args->fields, &is_auto, err) ||
        (!is_auto && read_fields_parse(&fields, &args->fields, err))) {
        read_fields_deinit(&fields);
        return EXIT_USAGE;
    }
    int status = storage_open(invocation->positional[0], NULL, &in.io, err);
    if (!status && args->config) {
        status = print_config(&in, invocation->positional[0], common->json);
        io_close(in.io);
        return status;
    }
    if (!status)
        status = path_kind_detect(in.io, invocation->positional[0], &kind, path, err);
    if (!status && is_auto && (kind == PATH_DATASET || kind == PATH_SHARD)) {
        status = auto_fields_choose(in.io, path, true, invocation->log, &auto_specs, err);
        if (!status)
            status = read_fields_parse(&fields, &auto_specs, err);
    }
    if (!status) {
        output_begin(&output);
        jsonx_write_string(&output.json, "kind", path_kind_name(kind));
        status = args->html ? write_page(&in, kind, path, args, &fields, invocation->log)
                            : inspect_kind(&in, kind, path);
        if (status)
            output_abort(&output);
        else
            status = output_end(&output, common->json, stdout, err);
    }
    read_fields_deinit(&fields);
    auto_fields_deinit(&auto_specs);
    io_close(in.io);
    return status;
}

static const char *const examples[] = {
    "millrace inspect shards",
    "millrace inspect shards/shard-000000.tar",
    "millrace inspect runs/a/ckpt --json",
    "millrace inspect runs/a --config",
    "millrace inspect model.safetensors",
    "millrace inspect photos/ring/0001.jpg",
    "millrace inspect shards --html shards.html",
    "millrace inspect captions.tar --html captions.html --field 'caption={from: txt, decode: str}'",
    "millrace inspect captions.tar --html fields.html --field auto",
    "millrace inspect runs/a --html run.html",
    NULL,
};

const struct verb verb_inspect = {
    .name = "inspect",
    .arguments = {"PATH", 1, 1},
    .summary = "Identify a dataset, shard, checkpoint, run or file and summarize its contents.",
    .details =
        "A file can be safetensors, .npy, JPEG, PNG, WebP or PPM. Only headers are read; PNG, "
        "WebP and PPM are read whole. For a checkpoint folder, the newest complete checkpoint "
        "is shown. --verbose and --json list the shards of a dataset.\n"
        "--html writes a page for a browser: for a dataset or shard, a contact sheet, sizes, "
        "classes, fields and shards (it reads the samples shown); for a run, curves over the "
        "steps, checkpoints and the configuration. A run is given as its folder or its "
        "metrics.jsonl. Texts in txt are shown without --field; masks, boxes and keypoints need "
        "it, because their numbers do not reveal what they mean.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct inspect_args),
    .run = run,
};
