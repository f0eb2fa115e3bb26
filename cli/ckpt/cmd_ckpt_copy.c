/*
 * cmd_ckpt_copy — `millrace ckpt copy SRC DST`.
 */
#include "base/clock.h"
#include "ckpt/ckpt.h"
#include "cli/core/output.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"

#include <stddef.h>

struct copy_args {
    struct common_args common;
    bool force;
};

static const struct option option_rows[] = {
    {"force", 0, OPTION_FLAG, offsetof(struct copy_args, force),
     .help = "replace a checkpoint of the same step in DST, unless it is being read"},
};

static int print_copied(const struct ckpt_copy_result *copied, double seconds,
                        const struct common_args *common, struct err *err)
{
    struct output output;
    output_begin(&output);
    jsonx_write_u64(&output.json, "step", copied->step);
    jsonx_write_string(&output.json, "checkpoint", copied->path);
    jsonx_write_u64(&output.json, "files_count", copied->files_count);
    jsonx_write_u64(&output.json, "written_bytes", copied->written_bytes);
    jsonx_write_f64(&output.json, "elapsed_seconds", seconds);
    return output_end_report(&output, common->json, common->quiet, err);
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct copy_args *args = invocation->args;
    struct ckpt_progress progress = {progress_update, invocation->console};
    struct ckpt_copy_options options = {.source_path = invocation->positional[0],
                                        .target_folder = invocation->positional[1],
                                        .force = args->force,
                                        .log = invocation->log,
                                        .progress = &progress};
    struct ckpt_copy_result copied;
    char source[IO_PATH_BYTES_MAX], folder[IO_PATH_BYTES_MAX];
    uint64_t began_ns = clock_now_ns();
    int status = storage_open(options.source_path, NULL, &options.source_io, err);
    if (!status)
        status = storage_open_target(options.target_folder, &options.target_io, err);
    if (!status)
        status = ckpt_resolve_folder(options.source_io, options.source_path, source, err);
    if (!status)
        status = ckpt_resolve_folder(options.target_io, options.target_folder, folder, err);
    options.source_path = source;
    options.target_folder = folder;
    progress_begin(invocation->console, "copying", PROGRESS_BYTES);
    if (!status)
        status = ckpt_copy(&options, &copied, err);
    progress_end(invocation->console);
    if (!status)
        status =
            print_copied(&copied, clock_seconds(clock_now_ns() - began_ns), &args->common, err);
    io_close(options.target_io);
    io_close(options.source_io);
    return status;
}

static const char *const examples[] = {"millrace ckpt copy runs/a/ckpt backup",
                                       "millrace ckpt copy runs/a/ckpt backup --force --json",
                                       NULL};

const struct verb verb_ckpt_copy = {
    .name = "ckpt copy",
    .arguments = {"SRC DST", 2, 2},
    .summary = "Verify a checkpoint and copy it atomically into another checkpoint folder.",
    .details =

        "SRC is a checkpoint (step-00001000); a checkpoint or run folder means its newest "
        "complete checkpoint. The copy has the same name in DST; DST is created if it does "
        "not exist. The checksum of every block is verified before the block is written, so a "
        "damaged checkpoint is reported and not copied. A run in SRC can continue during the "
        "copy; it does not remove the checkpoint being copied. DST must not belong to another "
        "run.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct copy_args),
    .run = run,
};
