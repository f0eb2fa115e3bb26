/*
 * cmd_ckpt_hash — `millrace ckpt hash PATH`.
 */
#include "ckpt/ckpt.h"
#include "cli/core/output.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"

#include <stdio.h>

static int print_hashes(const struct ckpt_hashes *hashes, bool as_json, struct err *err)
{
    struct output output;
    char hex[HASH128_HEX_BYTES];
    output_begin(&output);
    for (int i = 0; i < CKPT_SECTION_COUNT; i++) {
        const char *name = ckpt_section_name((enum ckpt_section)i);
        if (!hashes->present[i])
            continue;
        jsonx_write_string(&output.json, name, hash128_format(hashes->hash[i], hex));
        if (!as_json)
            printf("%s\t%s\n", name, hex);
    }
    if (as_json)
        return output_end(&output, true, stdout, err);
    output_abort(&output);
    return 0;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const char *path = invocation->positional[0];
    struct ckpt_hashes hashes;
    struct ckpt_progress progress = {progress_update, invocation->console};
    struct io *io = NULL;
    int status = storage_open(path, NULL, &io, err);
    progress_begin(invocation->console, "hashing", PROGRESS_BYTES);
    if (!status)
        status = ckpt_hash(io, path, &hashes, invocation->log, &progress, err);
    progress_end(invocation->console);
    if (!status)
        status = print_hashes(&hashes, invocation->common->json, err);
    io_close(io);
    return status;
}

static const char *const examples[] = {"millrace ckpt hash runs/a/ckpt",
                                       "millrace ckpt hash model.safetensors", NULL};

const struct verb verb_ckpt_hash = {
    .name = "ckpt hash",
    .arguments = {"PATH", 1, 1},
    .summary = "Print hashes of the model, the optimizer and the state of the loader.",
    .details =
        "PATH is a checkpoint or a safetensors file; a checkpoint or run folder means its "
        "newest complete checkpoint. The hashes depend only on names, types, shapes and "
        "bytes, not on steps, times, paths, files or ranks. The model line of a consolidated "
        "file equals that of its checkpoint.",
    .examples = examples,
    .args_bytes = sizeof(struct common_args),
    .run = run,
};
