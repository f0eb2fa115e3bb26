/*
 * cmd_index — `millrace index SHARD...`: indexes tars written by other tools.
 */
#include "cli/core/output.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"
#include "io/file_util.h"
#include "io/zstd/seekable_io.h"
#include "shards/dataset/dali.h"
#include "shards/dataset/url_list.h"
#include "shards/format/index_cache.h"

#include <errno.h>

struct index_args {
    struct common_args common;
    const char *dali;
    bool check, force;
};

struct index_job {
    const struct invocation *invocation;
    const struct index_args *args;
    struct jsonx_writer *json;
    uint64_t samples_count, members_count;
    struct err *err;
};

static void show_progress(void *context, uint64_t bytes_done, uint64_t bytes)
{
    struct index_job *job = context;
    progress_update(job->invocation->console, bytes_done, bytes);
}

static uint64_t count_members(const struct shard_index *index)
{
    uint64_t count = 0;
    for (uint32_t f = 0; f < shard_index_fields(index); f++) {
        for (uint64_t s = 0; s < shard_index_samples(index); s++) {
            struct shard_field field;
            shard_index_field(index, s, f, &field);
            count += field.present;
        }
    }
    return count;
}

static int write_shard(struct index_job *job, struct io *io, const struct shard *shard)
{
    char index_path[IO_PATH_BYTES_MAX];
    uint64_t members = count_members(shard->index);
    int status = shard->is_plain_tar ? index_cache_path(io, shard->path, index_path, job->err) : 0;
    if (status)
        return status;
    jsonx_begin_object(job->json, NULL);
    jsonx_write_string(job->json, "path", shard->path);
    jsonx_write_u64(job->json, "samples_count", shard->trailer.samples);
    jsonx_write_u64(job->json, "members_count", members);
    jsonx_write_bool(job->json, "has_checksums", !(shard->trailer.flags & SHARD_FLAG_NO_CRCS));
    jsonx_write_u64(job->json, "index_bytes", shard->trailer.index_bytes);
    jsonx_write_string(job->json, "kept_in", shard->is_plain_tar ? index_path : shard->path);
    jsonx_end_object(job->json);
    job->samples_count += shard->trailer.samples;
    job->members_count += members;
    return 0;
}

static int write_dali(struct index_job *job, const struct shard *shard)
{
    struct str text = {0};
    struct io *io = NULL;
    if (seekable_io_is_name(shard->path)) {
        err_set(job->err, -ENOTSUP, "DALI cannot read a compressed shard");
        err_at(job->err, shard->path, ERR_NO_OFFSET);
        err_advise(job->err, "convert the dataset without --zstd");
        return -ENOTSUP;
    }
    int status = dali_index_encode(shard, &text, job->err);
    if (!status)
        status = storage_open_target(job->args->dali, &io, job->err);
    if (!status)
        status =
            io_write_file(io, job->args->dali, text.data, text.bytes, job->args->force, job->err);
    io_close(io);
    str_deinit(&text);
    return status;
}

/* Scans a tar without an embedded index, even if its index is cached. */
static int index_shard(struct index_job *job, const char *path)
{
    struct io *stored_io = NULL, *io = NULL;
    struct shard *shard = NULL;
    struct plain_tar_options options = {.with_crcs = job->args->check,
                                        .accept_lost_index = true,
                                        .progress = show_progress,
                                        .context = job};
    bool has_trailer = false;
    int status = storage_open(path, NULL, &stored_io, job->err);
    if (!status)
        status = seekable_io_open(stored_io, 1, &io, job->err);
    if (!status)
        status = shard_has_trailer(io, path, &has_trailer, job->err);
    if (!status && has_trailer)
        status = shard_open(io, path, &shard, job->err);
    bool must_scan = status ? status == -EBADMSG && has_trailer : !shard || shard->is_plain_tar;
    if (must_scan) {
        shard_close(shard);
        shard = NULL;
        status = shard_reindex(io, path, &options, job->err);
        if (!status)
            status = shard_open(io, path, &shard, job->err);
    }
    if (!status)
        status = write_shard(job, io, shard);
    if (!status && job->args->dali)
        status = write_dali(job, shard);
    shard_close(shard);
    io_close(io);
    io_close(stored_io);
    return status;
}

/* A pattern is not expanded if a file has that name. */
static int expand_paths(const struct invocation *invocation, struct url_list *list, struct err *err)
{
    for (size_t i = 0; i < invocation->positional_count; i++) {
        const char *path = invocation->positional[i];
        struct io *io;
        struct io_stat stat;
        int status = storage_open(path, NULL, &io, err);
        if (status)
            return status;
        bool exists = io->names->stat(io, path, &stat, NULL) == 0;
        io_close(io);
        if (exists && stat.kind == IO_ENTRY_FOLDER) {
            err_set(err, -EISDIR, "the path is a folder, not a shard");
            err_at(err, path, ERR_NO_OFFSET);
            err_advise(err, "give the tars in it, for example %.100s/*.tar", path);
            return -EISDIR;
        }
        status = exists ? url_list_add(list, path, err) : url_list_expand(list, path, err);
        if (status)
            return status;
    }
    return 0;
}

static int run(const struct invocation *invocation, struct err *err)
{
    struct output output;
    struct url_list list = {0};
    struct index_job job = {
        .invocation = invocation, .args = invocation->args, .json = &output.json, .err = err};
    int status = expand_paths(invocation, &list, err);
    if (status) {
        url_list_deinit(&list);
        return status;
    }
    if (job.args->dali && list.count > 1) {
        err_set(err, -EINVAL, "--dali takes one shard only");
        err_found(err, "%zu shards", list.count);
        err_advise(err, "run millrace once per shard");
        url_list_deinit(&list);
        return EXIT_USAGE;
    }
    output_begin(&output);
    jsonx_begin_array(&output.json, "shards");
    for (size_t i = 0; i < list.count && !status; i++) {
        char label[CONSOLE_LABEL_BYTES_MAX];
        snprintf(label, sizeof label, "indexing shard %zu of %zu", i + 1, list.count);
        progress_begin(invocation->console, label, PROGRESS_BYTES);
        status = index_shard(&job, list.urls[i]);
    }
    progress_end(invocation->console);
    jsonx_end_array(&output.json);
    jsonx_write_u64(&output.json, "shards_count", list.count);
    jsonx_write_u64(&output.json, "samples_count", job.samples_count);
    jsonx_write_u64(&output.json, "members_count", job.members_count);
    if (status)
        output_abort(&output);
    else
        status =
            output_end_report(&output, invocation->common->json, invocation->common->quiet, err);
    url_list_deinit(&list);
    return status;
}

#define AT(member) offsetof(struct index_args, member)
static const struct option option_rows[] = {
    {"dali", 0, OPTION_TEXT, AT(dali), "OUT", NULL,
     "write an index of one shard for DALI's webdataset reader (wds2idx 1.2)"},
    {"check", 0, OPTION_FLAG, AT(check),
     .help = "read all data and store its CRC32C, so that later reads are verified"},
    {"force", 0, OPTION_FLAG, AT(force), .help = "replace an existing OUT"},
};

static const char *const examples[] = {
    "millrace index shards/shard-000000.tar",
    "millrace index shards/shard-{000000..000000}.tar --check",
    "millrace index shards/shard-000000.tar --dali shard-000000.idx",
    NULL,
};

const struct verb verb_index = {
    .name = "index",
    .arguments = {"SHARD...", 1, SIZE_MAX},
    .summary = "Build the index of shards from other tools.",
    .details =
        "Tars from GNU tar, bsdtar, Python and WebDataset are read like millrace shards. Their "
        "index is built from the headers on first use and kept in $XDG_CACHE_HOME/millrace/index "
        "(~/.cache) until the tar changes. This verb rebuilds it, also for a millrace shard that "
        "lost its own index. A shard with an intact index is left unchanged.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct index_args),
    .run = run,
};
