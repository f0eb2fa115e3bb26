/*
 * dataset_output — one split being written: its open shard, and what is known of those before it.
 */
#ifndef MILLRACE_CONVERT_DATASET_OUTPUT_H
#define MILLRACE_CONVERT_DATASET_OUTPUT_H

#include "convert/dataset_pipeline.h"
#include "convert/jpeg_counts.h"
#include "shards/dataset.h"

#define OUTPUT_OWNER "convert" /* owner_id of its transactions, for sweeps */

/* A whole shard, and how far its split had come with it: one line of the journal. */
struct output_shard {
    uint32_t split;
    struct shard_summary summary;
    uint64_t next_item; /* position of the first item that is not yet in a shard of this split */
    uint64_t skipped_count, source_bytes; /* of the split so far */
    struct convert_jpegs jpegs;           /* the same */
};

/* Owner thread. */
struct output {
    struct io *io;
    const struct source *source;
    uint64_t identity; /* of the conversion */
    uint32_t split;
    bool replace;
    char folder[IO_PATH_BYTES_MAX];
    struct io_transaction
        *transaction; /* whose place folder is, while it is to replace another; else NULL */
    struct shard_writer *writer; /* NULL between shards */
    struct str shards;           /* struct output_shard */
    uint32_t fields_count;
    char fields[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX]; /* in byte order */
    uint64_t next_item, skipped_count, source_bytes;
    struct convert_jpegs jpegs;
};

/* Folder: target, or the split's below it. Nothing is made yet. */
int output_init(struct output *output, struct io *io, const struct source *source,
                uint64_t identity, uint32_t split, struct err *err);
/* Removes an open shard, and a replacement that was not committed. */
void output_deinit(struct output *output);

/* From here on folder is a temporary one beside what it will replace. */
int output_begin_replacement(struct output *output, struct err *err);
/* After output_commit: it replaces the other. */
int output_replace_old(struct output *output, struct err *err);

static inline uint64_t output_shards_count(const struct output *output)
{
    return output->shards.bytes / sizeof(struct output_shard);
}

static inline const struct output_shard *output_shard_at(const struct output *output,
                                                         uint64_t shard)
{
    return (const struct output_shard *)(const void *)output->shards.data + shard;
}

/* Remembers a shard of an earlier run. */
int output_restore(struct output *output, const struct output_shard *shard, struct err *err);
/* Whether the split stands whole already, made of the same files with the same options; then its
 * shards are remembered. */
int output_find_whole(struct output *output, bool *ret_whole, struct err *err);
void output_add_field_name(struct output *output, const char *extension);

/* Whether the item must begin a new shard. */
bool output_is_full(const struct output *output, const struct pipeline_item *item);
int output_add(struct output *output, const struct pipeline_item *item, struct err *err);
/* Ends the open shard, if there is one; next_item as in output_shard. *ret_ended: whether there was
 * one. */
int output_end_shard(struct output *output, uint64_t next_item, bool *ret_ended, struct err *err);
/* Writes dataset.json: the split is whole then. */
int output_commit(struct output *output, struct err *err);

#endif
