/*
 * dataset — see dataset.h. Runs a conversion.
 *
 * Each shard is committed, then recorded in the journal. Once all shards are complete,
 * dataset.json of each split is written and the journal removed. A replacement for an existing
 * dataset is built in a staging folder next to it, without a journal.
 */
#include "convert/dataset/dataset.h"

#include "base/clock.h"
#include "convert/dataset/conversion.h"
#include "convert/dataset/dataset_journal.h"
#include "convert/dataset/dataset_options.h"
#include "convert/dataset/dataset_target.h"
#include "convert/dataset/decompressed_io.h"
#include "convert/source/sample_stream.h"
#include "image/pipeline/check.h"
#include "io/file_util.h"
#include "io/path_within.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRESS_INTERVAL_MS = 100 };

static void report_progress(struct conversion *conversion, uint64_t items_done, bool is_last)
{
    const struct convert_options *options = conversion->options;
    uint64_t now = clock_now_ns();
    if (!options->progress || (!is_last && now < conversion->next_progress_ns))
        return;
    conversion->next_progress_ns = now + (uint64_t)PROGRESS_INTERVAL_MS * 1000000;
    uint64_t count = conversion->source->items_count;
    options->progress(options->progress_context, items_done,
                      count == SOURCE_COUNT_UNKNOWN ? 0 : count, conversion->bytes_done,
                      conversion->source->bytes);
}

static uint64_t count_skipped(const struct conversion *conversion)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < conversion->outputs_count; i++)
        count += conversion->outputs[i].skipped_count;
    return count;
}

static uint64_t count_shards(const struct conversion *conversion)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < conversion->outputs_count; i++)
        count += output_shards_count(&conversion->outputs[i]);
    return count;
}

/* Whether the error has a cause other than the item. */
static bool is_fatal(int status)
{
    return status == -ENOMEM || status == -EINTR || status == -EMFILE || status == -ENFILE ||
           status == -ESTALE; /* the source is being changed */
}

/* Logs and counts a bad item, or fails. Streams cannot skip items. */
static int skip_item(struct conversion *conversion, struct pipeline_item *item, struct err *err)
{
    const struct convert_options *options = conversion->options;
    if (!options->skip_errors || item->is_last || is_fatal(item->status) ||
        conversion->source->ops->is_stream) {
        if (err)
            *err = item->err;
        return item->status;
    }
    compressed_files_name(&conversion->compressed, &item->err);
    log_err(options->log, LOG_WARN, &item->err, "skipped %s", item->item.key);
    conversion->outputs[item->item.split].skipped_count++;
    uint64_t skipped = count_skipped(conversion);
    bool too_many = options->errors_max >= 0 && skipped > (uint64_t)options->errors_max;
    if (options->errors_max_fraction > 0 &&
        (double)skipped > options->errors_max_fraction * (double)conversion->source->items_count)
        too_many = true;
    if (!too_many)
        return 0;
    if (err)
        *err = item->err;
    err_advise(err, "%" PRIu64 " bad items exceed --max-errors", skipped);
    return item->status;
}

static int end_shard(struct conversion *conversion, struct output *output, uint64_t next_item,
                     struct err *err)
{
    bool ended = false;
    int status = conversion_check_ownership(conversion, err);
    if (!status)
        status = output_end_shard(output, next_item, &ended, err);
    if (!status && ended && !conversion->is_replacement)
        status = journal_write(conversion->io, conversion->options->target, conversion->identity,
                               conversion->outputs, conversion->outputs_count, err);
    return status;
}

/* Other sources continue in the next shard; a sender's mistake would make it one shard per
 * sample. */
static void reject_repeated_key(const struct output *output, struct pipeline_item *item)
{
    if (item->status || !output->source->ops->next || !output_has_key(output, item->item.key))
        return;
    item->status = err_set(&item->err, -EEXIST, "two samples of the stream have the same key");
    err_at(&item->err, item->item.key, ERR_NO_OFFSET);
}

static int store_item(struct conversion *conversion, struct pipeline_item *item, uint64_t position,
                      struct err *err)
{
    struct output *output = &conversion->outputs[item->item.split];
    conversion->bytes_done += item->item.bytes;
    if (item->is_stored)
        return 0;
    reject_repeated_key(output, item);
    if (item->status)
        return skip_item(conversion, item, err);
    int status = output_is_full(output, item) ? end_shard(conversion, output, position, err) : 0;
    return status ? status : output_add(output, item, err);
}

static int check_stop(const struct conversion *conversion, struct err *err)
{
    if (!conversion->options->stop || !atomic_load(conversion->options->stop))
        return 0;
    err_set(err, -EINTR, "the conversion was stopped");
    err_at(err, conversion->options->target, ERR_NO_OFFSET);
    return -EINTR;
}

static int convert_items(struct conversion *conversion, struct err *err)
{
    uint64_t next_items[CONVERT_SPLITS_MAX] = {0}, first = UINT64_MAX;
    struct pipeline *pipeline = NULL;
    for (uint32_t i = 0; i < conversion->outputs_count; i++) {
        next_items[i] = conversion->outputs[i].next_item;
        first = next_items[i] < first ? next_items[i] : first;
    }
    uint64_t position = first;
    int status = conversion->options->stream
                     ? sample_stream_reply(conversion->options->stream, first, err)
                     : 0;
    if (!status)
        status = pipeline_open(conversion->source_io, conversion->source, first, next_items,
                               &pipeline, err);
    while (!status && !pipeline_is_at_end(pipeline)) {
        struct pipeline_item *item;
        status = check_stop(conversion, err);
        if (status || !pipeline_next(pipeline, PROGRESS_INTERVAL_MS, &item)) {
            report_progress(conversion, position, false);
            continue;
        }
        status = store_item(conversion, item, position, err);
        if (!status) {
            pipeline_release(pipeline);
            report_progress(conversion, ++position, false);
        }
    }
    pipeline_close(pipeline);
    if (!status && position == 0)
        status = err_set(err, -ENODATA, "the stream has no samples");
    if (!status)
        conversion->source->items_count = position;
    for (uint32_t i = 0; i < conversion->outputs_count && !status; i++)
        status =
            end_shard(conversion, &conversion->outputs[i], conversion->source->items_count, err);
    return status;
}

static int remove_journal(const struct conversion *conversion, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    int status = io_join_path(conversion->options->target, JOURNAL_FILE_NAME, path, err);
    return status ? status : conversion->io->names->remove(conversion->io, path, err);
}

/* With splits, also removes a dataset at the target itself. */
static int commit_replacements(struct conversion *conversion, struct err *err)
{
    int status = 0;
    for (uint32_t i = 0; i < conversion->outputs_count && !status; i++)
        status = output_commit_replacement(&conversion->outputs[i], err);
    if (!status && conversion->options->splits_count)
        status = target_clear_folder(conversion->io, conversion->options->target, err);
    return status;
}

static int commit(struct conversion *conversion, struct err *err)
{
    int status = conversion_check_ownership(conversion, err);
    for (uint32_t i = 0; i < conversion->outputs_count && !status; i++)
        status = output_commit(&conversion->outputs[i], err);
    if (!status)
        status = conversion->is_replacement ? commit_replacements(conversion, err)
                                            : remove_journal(conversion, err);
    if (!status)
        report_progress(conversion, conversion->source->items_count, true);
    return status;
}

/* Keeps complete shards for --resume; without any, removes everything that this conversion wrote.
 * Keeps a target that another conversion has taken over. */
static void clean_up(struct conversion *conversion)
{
    uint64_t shards = count_shards(conversion);
    for (uint32_t i = 0; i < conversion->outputs_count; i++) {
        shard_writer_abort(conversion->outputs[i].writer);
        conversion->outputs[i].writer = NULL;
    }
    if (conversion_check_ownership(conversion, NULL))
        return;
    if (!conversion->is_replacement && shards == 0)
        target_clear(conversion->io, conversion->options->target, NULL);
    else if (!conversion->is_replacement)
        conversion->will_resume = true;
}

static uint64_t count_missing_bytes(const struct conversion *conversion)
{
    uint64_t bytes = conversion->source ? conversion->source->bytes : 0;
    for (uint32_t i = 0;
         conversion->outputs && i < conversion->outputs_count && !conversion->is_replacement; i++) {
        const struct output *output = &conversion->outputs[i];
        uint64_t shards = output_shards_count(output);
        uint64_t done = shards > 0 ? output_shard_at(output, shards - 1)->source_bytes : 0;
        bytes -= done < bytes ? done : bytes;
    }
    return bytes;
}

/* Adds advice to an error that has none. */
static void add_advice(const struct conversion *conversion, int status, struct err *err)
{
    enum { MIB_BYTES = 1 << 20 };
    const char *resume = conversion->options->resume ? "" : " with --resume";
    bool is_full = conversion->source && (status == -ENOSPC || status == -EDQUOT);
    if (!err || (err->advice[0] && !is_full))
        return;
    if (is_full)
        err_advise(err,
                   "free at least %" PRIu64
                   " MiB on the file system of %.100s, or give another DST; then "
                   "run the same command again%s",
                   count_missing_bytes(conversion) / MIB_BYTES + 1, conversion->options->target,
                   conversion->will_resume ? resume : "");
    else if (conversion->will_resume)
        err_advise(err, "%" PRIu64 " complete shards are kept: run the same command again%s",
                   count_shards(conversion), resume);
    else if (conversion->is_replacement)
        err_advise(err, "the old dataset is kept");
    else if (status == -EINTR)
        err_advise(err, "nothing was saved: run the same command again to start over");
}

static void fill_result(const struct conversion *conversion, uint64_t start_ns,
                        struct convert_result *result)
{
    const struct source *source = conversion->source;
    *result = (struct convert_result){.seconds = clock_seconds(clock_now_ns() - start_ns),
                                      .classes_count = source->classes_count,
                                      .hidden_count = source->hidden_count,
                                      .ignored_count = source->ignored_count,
                                      .splits_count = conversion->options->splits_count};
    for (uint32_t i = 0; i < conversion->outputs_count; i++) {
        const struct output *output = &conversion->outputs[i];
        struct convert_split_result *split = &result->splits[i];
        strcpy(split->name, conversion->options->splits[i].name);
        split->skipped_count = output->skipped_count;
        split->shards_count = output_shards_count(output);
        result->skipped_count += output->skipped_count;
        result->source_bytes += output->source_bytes;
        convert_jpeg_counts_add(&result->jpegs, &output->jpegs);
        result->shards_count += output_shards_count(output);
        for (uint64_t shard = 0; shard < output_shards_count(output); shard++) {
            split->samples_count += output_shard_at(output, shard)->summary.samples;
            result->written_bytes += output_shard_at(output, shard)->summary.file_bytes;
        }
        result->samples_count += split->samples_count;
    }
}

/* Boxes and masks next to an image do not follow it. */
static void warn_of_scaled_images(const struct conversion *conversion)
{
    const struct convert_options *options = conversion->options;
    bool are_scaled = options->max_side > 0 && (options->jpeg == CONVERT_JPEG_REENCODE ||
                                                options->store == CONVERT_STORE_RAW);
    for (uint32_t i = 0; are_scaled && i < conversion->outputs_count; i++) {
        const struct output *output = &conversion->outputs[i];
        for (uint32_t field = 0; field < output->fields_count; field++) {
            const char *name = output->fields[field];
            if (strcmp(name, "cls") == 0 || strcmp(name, "txt") == 0 ||
                (is_image_extension(name) && !strchr(name, '.')))
                continue;
            log_line(options->log, LOG_WARN,
                     "--max-side has scaled images, but not field %s: masks, boxes and keypoints "
                     "in it do not match the images any more",
                     name);
            return;
        }
    }
}

static void log_splits(const struct conversion *conversion)
{
    const struct convert_options *options = conversion->options;
    struct str names = {0};
    if (!source_has_split_folders(options))
        return;
    for (uint32_t i = 0; i < options->splits_count; i++)
        str_add_format(&names, "%s%s", i > 0 ? ", " : "", options->splits[i].name);
    log_line(options->log, LOG_INFO,
             "%s has the splits %s: converting each to a dataset, with %" PRIu64 " common classes",
             options->source, str_text(&names), conversion->source->classes_count);
    str_deinit(&names);
}

/* Decompresses the source's compressed files, unless the target will be refused. */
static int decompress_source(struct conversion *conversion, struct convert_options *options,
                             struct err *err)
{
    enum target_state state;
    if (options->resume && target_examine(conversion->io, options, &state, NULL) == 0)
        conversion->will_resume = state == TARGET_INTERRUPTED; /* should it be stopped here */
    int status =
        compressed_files_find(conversion->source_io, options, &conversion->compressed, err);
    if (status || conversion->compressed.count == 0)
        return status;
    if (!options->resume && !options->force)
        status = conversion_check_target(conversion, err);
    return status ? status
                  : decompressed_io_open(conversion->io, options, &conversion->compressed,
                                         &conversion->source_io, err);
}

static int open_conversion(struct conversion *conversion, struct err *err)
{
    int status = conversion_check_target(conversion, err);
    if (!status)
        status = source_open(conversion->source_io, conversion->options, conversion->ops,
                             &conversion->source, err);
    if (!status)
        log_splits(conversion);
    if (!status)
        status = journal_identity(conversion->source, &conversion->identity, err);
    if (status)
        return status;
    conversion->outputs_count =
        conversion->options->splits_count ? conversion->options->splits_count : 1;
    conversion->outputs = calloc(conversion->outputs_count, sizeof *conversion->outputs);
    if (!conversion->outputs)
        return err_set(err, -ENOMEM, "out of memory for a conversion");
    for (uint32_t i = 0; i < conversion->outputs_count && !status; i++)
        status = output_init(&conversion->outputs[i], conversion->io, conversion->source,
                             conversion->identity, i, err);
    return status;
}

int convert_dataset(struct io *io, const struct convert_options *options,
                    struct convert_result *ret_result, struct err *err)
{
    uint64_t start_ns = clock_now_ns();
    struct convert_options probed = *options;
    struct io *source_io = options->source_io ? options->source_io : io;
    struct conversion conversion = {.io = io, .source_io = source_io, .options = &probed};
    bool is_prepared = false, is_complete = false;
    int status = options_check(options, err);
    if (!status && !options->stream)
        status = io_check_disjoint(options->source, "SRC", options->target, "DST", err);
    if (!status && !options->stream)
        status = decompress_source(&conversion, &probed, err);
    if (!status)
        status = source_probe(conversion.source_io, &probed, &conversion.ops, err);
    if (!status)
        status = options_check_source(&probed, conversion.ops, err);
    if (!status)
        status = open_conversion(&conversion, err);
    if (!status)
        status = conversion_prepare_target(&conversion, &is_complete, err);
    if (!status && !is_complete) {
        is_prepared = true;
        status = convert_items(&conversion, err);
    }
    if (!status && is_complete && options->stream)
        status = sample_stream_reply(options->stream, UINT64_MAX, err);
    if (!status && !is_complete)
        status = commit(&conversion, err);
    if (!status)
        fill_result(&conversion, start_ns, ret_result);
    if (!status)
        warn_of_scaled_images(&conversion);
    else if (is_prepared)
        clean_up(&conversion);
    if (status)
        add_advice(&conversion, status, err);
    if (status == -EINTR)
        *ret_result = (struct convert_result){.is_resumable = conversion.will_resume};
    for (uint32_t i = 0; conversion.outputs && i < conversion.outputs_count; i++)
        output_deinit(&conversion.outputs[i]);
    conversion_release_target(&conversion);
    free(conversion.outputs);
    source_close(conversion.source);
    compressed_files_name(&conversion.compressed, status ? err : NULL);
    if (conversion.source_io != source_io)
        io_close(conversion.source_io);
    compressed_files_deinit(&conversion.compressed);
    return status;
}
