/*
 * dataset_output — one split being written: its open shard, and a record of its complete shards.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_OUTPUT_H
#define MILLRACE_CONVERT_DATASET_DATASET_OUTPUT_H

#include "convert/dataset/dataset_pipeline.h"
#include "convert/jpeg_counts.h"
#include "shards/dataset/dataset.h"

#define OUTPUT_OWNER "convert" /* owner_id of its transactions, for sweeps */

/* A complete shard and the state of its split after it: one line of the journal. */
struct output_shard {
    uint32_t split;
    struct shard_summary summary;
    uint64_t next_item;                   /* position of the first item after this split's shards */
    uint64_t skipped_count, source_bytes; /* totals of the split so far */
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
    /* Set while it is to replace another folder; folder is then its staging path. Else NULL. */
    struct io_transaction *transaction;
    struct shard_writer *writer; /* NULL between shards */
    struct str shards;           /* struct output_shard */
    uint32_t fields_count;
    char fields[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX]; /* in byte order */
    uint64_t next_item, skipped_count, source_bytes;
    struct convert_jpegs jpegs;
};

/* folder becomes target, or the split's folder below it. Creates nothing. */
int output_init(struct output *output, struct io *io, const struct source *source,
                uint64_t identity, uint32_t split, struct err *err);
/* Removes an open shard, and an uncommitted replacement. */
void output_deinit(struct output *output);

/* From now on folder is the temporary sibling of the folder to replace. */
int output_begin_replacement(struct output *output, struct err *err);
/* After output_commit: replaces the other folder. */
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

/* Records a shard of an earlier run. */
int output_restore(struct output *output, const struct output_shard *shard, struct err *err);
/* Whether the split already exists, complete, from the same files with the same options; if so,
 * records its shards. */
int output_find_complete(struct output *output, bool *ret_whole, struct err *err);
void output_add_field_name(struct output *output, const char *extension);

/* Whether the item must begin a new shard. */
bool output_is_full(const struct output *output, const struct pipeline_item *item);
int output_add(struct output *output, const struct pipeline_item *item, struct err *err);
/* Ends the open shard, if any; next_item as in output_shard. *ret_ended: whether there was one. */
int output_end_shard(struct output *output, uint64_t next_item, bool *ret_ended, struct err *err);
/* Writes dataset.json, which completes the split. */
int output_commit(struct output *output, struct err *err);

#endif
