/*
 * cmd_convert_checkpoint — `millrace convert checkpoint SRC DST --to full|hf`.
 */
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/pieces.h"

#include <errno.h>
#include <string.h>

struct convert_checkpoint_args {
    struct common_args common;
    uint32_t to;
    const char *only;
    uint32_t dtype;
    uint64_t max_file_bytes;
    uint64_t workers;
    bool verify, resume, force;
};

enum { TO_FULL, TO_HF };
static const char *const to_choices[] = {"full", "hf", NULL};

static const char *const dtype_choices[] = {"keep", "f64",     "f32",     "bf16",
                                            "f16",  "f8_e4m3", "f8_e5m2", NULL};
static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64,     DTYPE_F32,    DTYPE_BF16,
                                    DTYPE_F16, DTYPE_F8_E4M3, DTYPE_F8_E5M2};

#define AT(member) offsetof(struct convert_checkpoint_args, member)
static const struct option option_rows[] = {
    {"to", 0, OPTION_CHOICE, AT(to), NULL, NULL,
     "full: DST is one safetensors file; hf: DST is a folder that transformers loads", to_choices,
     .required = true},
    {"only", 0, OPTION_TEXT, AT(only), "model|optimizer|all|GLOB", "model",
     "tensors to write: the model's, the optimizer's, both, or those with matching names"},
    {"dtype", 0, OPTION_CHOICE, AT(dtype), NULL, "keep",
     "cast floating-point tensors to this type, rounding to nearest even; integers and bools are "
     "never cast",
     dtype_choices},
    {"max-file", 0, OPTION_SIZE, AT(max_file_bytes), "SIZE", "5GB",
     "hf: maximum size of the tensors in a file; a larger model is written as several files and an "
     "index"},
    {"verify", 0, OPTION_FLAG, AT(verify),
     .help = "read the output back and compare it with the checkpoint before it becomes DST"},
    {"workers", 'j', OPTION_COUNT, AT(workers), "N", NULL,
     "threads that read, cast and write; 0: one per CPU, at most 4", .max = PIECES_WORKERS_MAX},
    {"resume", 0, OPTION_FLAG, AT(resume),
     .help = "resume an interrupted conversion, keeping what it wrote if the checksums match"},
    {"force", 0, OPTION_FLAG, AT(force), .help = "replace an existing DST"},
};

static struct tensor_cast make_cast(const struct convert_checkpoint_args *args)
{
    return (struct tensor_cast){.is_wanted = args->dtype != 0, .dtype = dtypes[args->dtype]};
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct convert_checkpoint_args *args = invocation->args;
    if (args->to == TO_HF && strcmp(args->only, "model") != 0) {
        err_set(err, -EINVAL, "--only is for --to full only");
        return EXIT_USAGE;
    }
    struct convert_checkpoint_options options = {
        .source = invocation->positional[0],
        .target = invocation->positional[1],
        .selection = args->only,
        .max_file_bytes = args->max_file_bytes,
        .cast = make_cast(args),
        .workers_count = (unsigned)args->workers,
        .resume = args->resume,
        .force = args->force,
        .verify = args->verify,
        .log = invocation->log,
        .progress = progress_update,
        .progress_context = invocation->console,
    };
    struct convert_checkpoint_result result = {0};
    struct io *io;
    int status = storage_open_two(options.source, options.target, &options.source_io, &io, err);
    if (status)
        return status;
    options.stop = signals_install();
    signals_ignore_sigpipe();
    progress_begin(invocation->console, "converting", PROGRESS_BYTES);
    status = args->to == TO_HF ? convert_checkpoint_hf(io, &options, &result, err)
                               : convert_checkpoint_full(io, &options, &result, err);
    progress_end(invocation->console);
    if (status == -EINTR && result.is_resumable) {
        err_at(err, options.target, ERR_NO_OFFSET);
        err_advise(err, "what was written is kept: run the same command again%s",
                   options.resume ? "" : " with --resume");
        status = EXIT_STOPPED;
    }
    if (!status) {
        struct output output;
        output_begin(&output);
        jsonx_write_string(&output.json, args->to == TO_HF ? "folder" : "file", options.target);
        jsonx_write_u64(&output.json, "tensors_count", result.tensors_count);
        if (args->dtype) {
            jsonx_write_string(&output.json, "dtype", dtype_name(options.cast.dtype));
            jsonx_write_u64(&output.json, "cast_tensors_count", result.cast_count);
        }
        jsonx_write_u64(&output.json, "written_bytes", result.written_bytes);
        if (args->resume)
            jsonx_write_u64(&output.json, "kept_bytes", result.kept_bytes);
        jsonx_write_f64(&output.json, "elapsed_seconds", result.seconds);
        status = output_end_report(&output, args->common.json, args->common.quiet, err);
    }
    storage_close_two(options.source_io, io);
    return status;
}

static const char *const examples[] = {
    "millrace convert checkpoint runs/a/ckpt model.safetensors --to full",
    "millrace convert checkpoint runs/a/ckpt everything.safetensors --to full --only all --verify "
    "-j 2",
    "millrace convert checkpoint runs/a/ckpt small.safetensors --to full --dtype bf16 --resume",
    NULL,
};

const struct verb verb_convert_checkpoint = {
    .name = "convert checkpoint",
    .arguments = {"SRC DST", 2, 2},
    .summary = "Convert a checkpoint into a file or folder for other programs.",
    .details =
        "SRC is a checkpoint (step-00001000); a checkpoint or run folder means its newest "
        "complete checkpoint. Every block is verified as it is read, and memory use does not "
        "depend on the size of the model.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct convert_checkpoint_args),
    .run = run,
};
