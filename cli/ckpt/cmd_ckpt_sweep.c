/*
 * cmd_ckpt_sweep — `millrace ckpt sweep DIR`.
 */
#include "ckpt/ckpt.h"
#include "cli/core/output.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"

static void write_leftover(void *context, const char *name)
{
    struct jsonx_writer *json = context;
    jsonx_write_string(json, NULL, name);
}

static int run(const struct invocation *invocation, struct err *err)
{
    char folder[IO_PATH_BYTES_MAX];
    struct output output;
    struct io *io = NULL;
    int status = storage_open_target(invocation->positional[0], &io, err);
    if (!status)
        status = ckpt_resolve_folder(io, invocation->positional[0], folder, err);
    if (status) {
        io_close(io);
        return status;
    }
    output_begin(&output);
    jsonx_begin_array(&output.json, "leftovers");
    int removed_count = ckpt_sweep(io, folder, write_leftover, &output.json, err);
    jsonx_end_array(&output.json);
    if (removed_count < 0) {
        output_abort(&output);
        status = removed_count;
    } else {
        jsonx_write_u64(&output.json, "removed_count", (uint64_t)removed_count);
        status =
            output_end_report(&output, invocation->common->json, invocation->common->quiet, err);
    }
    io_close(io);
    return status;
}

static const char *const examples[] = {"millrace ckpt sweep runs/a/ckpt", NULL};

const struct verb verb_ckpt_sweep = {
    .name = "ckpt sweep",
    .arguments = {"DIR", 1, 1},
    .summary =
        "Remove leftovers of interrupted saves, copies and removals from a checkpoint folder.",
    .details =

        "A run does this itself when it starts. The verb fails while another process writes "
        "to the folder; the error names its host and process. Listed checkpoints are never "
        "removed, and `.tmp-*` entries only if their name is that of a save, a copy or a "
        "removal.",
    .examples = examples,
    .args_bytes = sizeof(struct common_args),
    .run = run,
};
