/*
 * export_folder — see export_folder.h.
 *
 * The target is created empty and locked, so that leftovers of killed exports can be removed. A
 * transaction then replaces it by the complete folder.
 */
#include "convert/dataset/export_folder.h"

#include "base/clock.h"
#include "base/json/jsonx_writer.h"
#include "convert/dataset/dataset_options.h"
#include "convert/dataset/dataset_output.h"
#include "convert/dataset/dataset_pipeline.h"
#include "convert/dataset/dataset_target.h"
#include "convert/dataset/decompressed_io.h"
#include "image/pipeline/check.h"
#include "io/file_util.h"
#include "io/path_within.h"
#include "shards/dataset/class_number.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PROGRESS_INTERVAL_MS = 100 };

struct export
{
    struct io *io;
    struct io *source_io; /* reads the source: io, or that of compressed (decompressed_io.h) */
    struct compressed_files compressed;
    const struct convert_options *options;
    struct source *source;
    struct io_lock *lock;
    struct io_transaction *transaction;
    struct io_queue *queue;
    bool has_class_folders, is_new;
    uint64_t next_progress_ns;
    struct convert_result *result;
};

/* ---- The target. ---- */

struct contents {
    bool has_record;
    char other[256]; /* an entry besides the lock's files; "": none */
};

static int look_at_entry(void *context, const struct io_entry *entry)
{
    struct contents *contents = context;
    if (strcmp(entry->name, EXPORT_RECORD) == 0)
        contents->has_record = true;
    else if (!io_is_owner_record(entry->name))
        snprintf(contents->other, sizeof contents->other, "%s", entry->name);
    return 0;
}

static int check_target(const struct export *export, struct err *err)
{
    const char *target = export->options->target;
    struct contents contents = {0};
    struct io_stat info;
    int status = export->io->names->stat(export->io, target, &info, err);
    if (status)
        return status == -ENOENT ? 0 : status;
    if (info.kind != IO_ENTRY_FOLDER) {
        err_set(err, -ENOTDIR, "the target is not a folder");
        err_at(err, target, ERR_NO_OFFSET);
        return -ENOTDIR;
    }
    status = export->io->names->list(export->io, target, look_at_entry, &contents, err);
    if (status || !contents.other[0] || (contents.has_record && export->options->force))
        return status;
    err_set(err, -EEXIST, "the target is a folder with %s",
            contents.has_record ? "an exported dataset" : "other files");
    err_at(err, target, ERR_NO_OFFSET);
    err_found(err, "%s", contents.other);
    err_advise(err, "%s",
               contents.has_record ? "give another target or replace it with --force"
                                   : "give an empty or new folder");
    return -EEXIST;
}

static int begin(struct export *export, struct err *err)
{
    struct io *io = export->io;
    const char *target = export->options->target;
    struct io_stat info;
    struct io_transaction_options options = {.path = target,
                                             .replace = true,
                                             .commit_record = EXPORT_RECORD,
                                             .syncs_at_commit = true,
                                             .owner_id = OUTPUT_OWNER};
    export->is_new = io->names->stat(io, target, &info, NULL) == -ENOENT;
    int status = io->names->make_folder(io, target, err);
    if (!status)
        status = io->locks->acquire(io, target, NULL, &export->lock, err);
    if (!status)
        status = check_target(export, err);
    if (!status)
        status = target_sweep_siblings(io, target, err);
    if (!status)
        status = io->ops->queue_open(io, 1, &export->queue, err);
    return status ? status : io->transactions->begin(io, &options, &export->transaction, err);
}

/* ---- Names of files. ---- */

/* Whether the name of each class can be a folder's. */
static bool are_folder_names(const struct source *source)
{
    for (uint64_t i = 0; i < source->classes_count; i++) {
        const char *name = source->classes[i];
        if (!*name || *name == '.' || strchr(name, '/') || strlen(name) >= IO_NAME_BYTES_MAX)
            return false;
    }
    return source->classes_count > 0;
}

static const struct encoded_field *find_field(const struct encoded_item *item, const char *name)
{
    for (uint32_t i = 0; i < item->fields_count; i++)
        if (strcmp(item->fields[i].extension, name) == 0)
            return &item->fields[i];
    return NULL;
}

static bool has_image(const struct encoded_item *item)
{
    for (uint32_t i = 0; i < item->fields_count; i++)
        if (is_image_extension(item->fields[i].extension))
            return true;
    return false;
}

static int reject_without_class(const struct pipeline_item *item, const char *found,
                                struct err *err)
{
    err_set(err, -EBADMSG, "a sample of an image folder has no class");
    err_at(err, item->item.key, ERR_NO_OFFSET);
    err_expected(err, "an image and a class number in cls, as the first sample has");
    err_found(err, "%s", found);
    err_advise(err, "--format tar writes any samples; --on-error skip leaves this one out");
    return -EBADMSG;
}

/* Readers of image folders number the folders in byte order. */
static void warn_of_order(const struct export *export)
{
    const struct source *source = export->source;
    for (uint64_t i = 1; i < source->classes_count; i++)
        if (strcmp(source->classes[i - 1], source->classes[i]) >= 0) {
            log_line(export->options->log, LOG_WARN,
                     "the classes are not in byte order of their names: readers of image folders "
                     "will number them otherwise; --format tar keeps the numbers");
            return;
        }
}

/* Classes without samples, too, so that all readers find the same ones. */
static int make_class_folders(const struct export *export, struct err *err)
{
    const struct convert_options *options = export->options;
    const char *staging = export->io->transactions->staging_path(export->transaction);
    char split[IO_PATH_BYTES_MAX], path[IO_PATH_BYTES_MAX];
    uint32_t splits = options->splits_count ? options->splits_count : 1;
    int status = 0;
    warn_of_order(export);
    for (uint32_t s = 0; s < splits && !status; s++) {
        status = io_join_path(staging, options->splits_count ? options->splits[s].name : ".", split,
                              err);
        for (uint64_t i = 0; i < export->source->classes_count && !status; i++) {
            status = io_join_path(split, export->source->classes[i], path, err);
            if (!status)
                status = export->io->names->make_folder(export->io, path, err);
        }
    }
    return status;
}

/* Sets folder (IO_PATH_BYTES_MAX) to the sample's split and class, each with a slash. */
static int find_folder(const struct export *export, const struct pipeline_item *item, char *folder,
                       struct err *err)
{
    const struct convert_options *options = export->options;
    const struct encoded_field *cls = find_field(&item->encoded, "cls");
    const char *class = "";
    int32_t number = 0;
    if (export->has_class_folders) {
        if (!cls || !has_image(&item->encoded))
            return reject_without_class(item, cls ? "no image" : "no cls", err);
        if (class_number_parse(item->encoded.data.data + cls->at, cls->bytes,
                               export->source->classes_count, &number))
            return reject_without_class(item, "a cls that is not the number of a class", err);
        class = export->source->classes[number];
        size_t bytes = strlen(class);
        if (strncmp(item->item.key, class, bytes) == 0 && item->item.key[bytes] == '/')
            class = "";
    }
    int count = snprintf(folder, IO_PATH_BYTES_MAX, "%s%s%s%s",
                         options->splits_count ? options->splits[item->item.split].name : "",
                         options->splits_count ? "/" : "", class, *class ? "/" : "");
    return count < IO_PATH_BYTES_MAX ? 0 : io_long_path_error("", class, err);
}

/* ---- Writing. ---- */

static int write_field(struct export *export, const char *name, const void *data, size_t bytes,
                       struct err *err)
{
    struct io *io = export->io;
    struct io_file *file;
    int status = io->transactions->create(export->transaction, name, 0, &file, err);
    if (!status && bytes > 0)
        status = io_write_exact(export->queue, io, file, name, 0, data, bytes, err);
    if (!status)
        status = io->transactions->finalize(export->transaction, file, bytes, err);
    return status;
}

/* Errors name the sample rather than the temporary file. */
static int explain(int status, const char *name, struct err *err)
{
    if (status == -EINVAL || status == -ENAMETOOLONG) {
        err_set(err, -EBADMSG, "the key of a sample cannot be the name of a file");
        err_at(err, name, ERR_NO_OFFSET);
        err_expected(err, "a relative path of plain names, shorter than %d bytes each",
                     IO_NAME_BYTES_MAX);
        return -EBADMSG;
    }
    if (status != -EEXIST && status != -ENOTDIR && status != -EISDIR)
        return status;
    err_set(err, status, "a sample's file has the name of another sample's file or folder");
    err_at(err, name, ERR_NO_OFFSET);
    err_advise(err, "--format tar writes samples with such keys");
    return status;
}

static int write_item(struct export *export, const struct pipeline_item *item, struct err *err)
{
    const char *key = item->item.key;
    while (strncmp(key, "./", 2) == 0) /* as `tar -C folder .` writes */
        key += 2;
    char folder[IO_PATH_BYTES_MAX],
        name[IO_PATH_BYTES_MAX + SHARD_KEY_BYTES_MAX + SHARD_EXTENSION_BYTES_MAX];
    int status = find_folder(export, item, folder, err);
    for (uint32_t i = 0; i < item->encoded.fields_count && !status; i++) {
        const struct encoded_field *field = &item->encoded.fields[i];
        if (export->has_class_folders && strcmp(field->extension, "cls") == 0)
            continue;
        snprintf(name, sizeof name, "%s%s.%s", folder, key, field->extension);
        status =
            strlen(name) < IO_PATH_BYTES_MAX
                ? write_field(export, name, item->encoded.data.data + field->at, field->bytes, err)
                : -ENAMETOOLONG;
        status = explain(status, name, err);
        export->result->written_bytes += field->bytes;
    }
    export->result->samples_count += !status;
    export->result->source_bytes += item->item.bytes;
    if (!status && export->options->splits_count)
        export->result->splits[item->item.split].samples_count++;
    return status;
}

static int skip_item(struct export *export, struct pipeline_item *item, struct err *err)
{
    const struct convert_options *options = export->options;
    struct convert_result *result = export->result;
    uint64_t count = ++result->skipped_count;
    if (err)
        *err = item->err;
    if (!options->skip_errors || item->status == -ENOMEM || item->status == -ESTALE)
        return item->status;
    if ((options->errors_max >= 0 && count > (uint64_t)options->errors_max) ||
        (options->errors_max_fraction > 0 &&
         (double)count > options->errors_max_fraction * (double)export->source->items_count)) {
        err_advise(err, "%" PRIu64 " bad items exceed --max-errors", count);
        return item->status;
    }
    compressed_files_name(&export->compressed, &item->err);
    log_err(options->log, LOG_WARN, &item->err, "skipped %s", item->item.key);
    if (options->splits_count)
        result->splits[item->item.split].skipped_count++;
    return 0;
}

static void report_progress(struct export *export, uint64_t done)
{
    const struct convert_options *options = export->options;
    uint64_t now = clock_now_ns();
    if (!options->progress || now < export->next_progress_ns)
        return;
    export->next_progress_ns = now + (uint64_t)PROGRESS_INTERVAL_MS * 1000000;
    options->progress(options->progress_context, done, export->source->items_count,
                      export->result->source_bytes, export->source->bytes);
}

static int check_stop(const struct export *export, struct err *err)
{
    if (!export->options->stop || !atomic_load(export->options->stop))
        return 0;
    err_set(err, -EINTR, "the export was stopped");
    err_at(err, export->options->target, ERR_NO_OFFSET);
    err_advise(err, "nothing was saved: run the same command again to start over");
    return -EINTR;
}

static int write_items(struct export *export, struct err *err)
{
    uint64_t next_items[CONVERT_SPLITS_MAX] = {0}, count = export->source->items_count;
    struct pipeline *pipeline = NULL;
    bool is_first = true;
    int status = pipeline_open(export->source_io, export->source, 0, next_items, &pipeline, err);
    for (uint64_t position = 0; position < count && !status;) {
        struct pipeline_item *item;
        status = check_stop(export, err);
        report_progress(export, position);
        if (status || !pipeline_next(pipeline, PROGRESS_INTERVAL_MS, &item))
            continue;
        if (is_first && !item->status) {
            export->has_class_folders = are_folder_names(export->source) &&
                                        find_field(&item->encoded, "cls") &&
                                        has_image(&item->encoded);
            is_first = false;
            if (export->has_class_folders)
                status = make_class_folders(export, err);
        }
        if (status)
            break;
        status = item->status ? skip_item(export, item, err) : write_item(export, item, err);
        pipeline_release(pipeline);
        position++;
    }
    pipeline_close(pipeline);
    return status;
}

static int write_record(struct export *export, struct err *err)
{
    struct str text = {0};
    struct jsonx_writer json = {.out = &text};
    jsonx_begin_object(&json, NULL);
    jsonx_write_u64(&json, "millrace_export", 1);
    jsonx_write_u64(&json, "samples", export->result->samples_count);
    jsonx_begin_array(&json, "classes");
    for (uint64_t i = 0; i < export->source->classes_count; i++)
        jsonx_write_string(&json, NULL, export->source->classes[i]);
    jsonx_end_array(&json);
    jsonx_end_object(&json);
    str_add(&text, "\n", 1);
    int status =
        str_status(&text)
            ? err_set(err, -ENOMEM, "out of memory for class names")
            : io_write_transaction_file(export->io, export->transaction, EXPORT_RECORD,
                                        export->options->target, text.data, text.bytes, err);
    str_deinit(&text);
    return status;
}

static int commit(struct export *export, struct err *err)
{
    struct io_transaction *transaction = export->transaction;
    int status = write_record(export, err);
    if (!status)
        status = export->io->locks->check(export->lock, err);
    if (status)
        return status;
    export->transaction = NULL;
    return export->io->transactions->commit(transaction, err);
}

/* After a failure, a new target is still empty. */
static void release(struct export *export, bool has_failed)
{
    struct io *io = export->io;
    if (export->transaction)
        io->transactions->abort(export->transaction);
    if (export->queue)
        io->ops->queue_close(export->queue);
    if (export->lock && has_failed && io->locks->check(export->lock, NULL) == 0) {
        target_remove_owner_records(io, export->options->target);
        if (export->is_new)
            io->names->remove(io, export->options->target, NULL);
    }
    io->locks->release(export->lock);
    source_close(export->source);
    if (export->source_io != export->options->source_io && export->source_io != io)
        io_close(export->source_io);
    compressed_files_deinit(&export->compressed);
}

int export_folder(struct io *io, const struct convert_options *options,
                  struct convert_result *ret_result, struct err *err)
{
    uint64_t start_ns = clock_now_ns();
    struct convert_options probed = *options;
    struct io *source_io = options->source_io ? options->source_io : io;
    struct export export = {
        .io = io, .source_io = source_io, .options = &probed, .result = ret_result};
    const struct source_ops *ops;
    *ret_result = (struct convert_result){0};
    int status = options_check(options, err);
    if (!status)
        status = io_check_disjoint(options->source, "SRC", options->target, "DST", err);
    if (!status)
        status = check_target(&export, err);
    if (!status)
        status = compressed_files_find(source_io, &probed, &export.compressed, err);
    if (!status && export.compressed.count > 0)
        status = decompressed_io_open(io, &probed, &export.compressed, &export.source_io, err);
    if (!status)
        status = source_probe(export.source_io, &probed, &ops, err);
    if (!status)
        status = options_check_source(&probed, ops, err);
    if (!status)
        status = source_open(export.source_io, &probed, ops, &export.source, err);
    if (status) {
        compressed_files_name(&export.compressed, err);
        release(&export, true);
        return status;
    }
    ret_result->classes_count = export.source->classes_count;
    ret_result->hidden_count = export.source->hidden_count;
    ret_result->ignored_count = export.source->ignored_count;
    ret_result->splits_count = probed.splits_count;
    for (uint32_t i = 0; i < probed.splits_count; i++)
        strcpy(ret_result->splits[i].name, probed.splits[i].name);
    status = begin(&export, err);
    if (!status)
        status = write_items(&export, err);
    if (!status)
        status = commit(&export, err);
    if (status)
        compressed_files_name(&export.compressed, err);
    release(&export, status != 0);
    ret_result->seconds = clock_seconds(clock_now_ns() - start_ns);
    return status;
}
