/*
 * dataset_output — writes the shards and dataset.json of one split.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_OUTPUT_H
#define MILLRACE_CONVERT_DATASET_DATASET_OUTPUT_H

#include "base/name_set.h"
#include "convert/dataset/dataset_pipeline.h"
#include "convert/jpeg_counts.h"
#include "shards/dataset/dataset.h"

#define OUTPUT_OWNER "convert" /* owner_id of transactions, for sweeps */

/* A line of the journal: a complete shard and its split's state. */
struct output_shard {
    uint32_t split;
    struct shard_summary summary;
    uint64_t next_item;                   /* position of the first item after this shard */
    uint64_t skipped_count, source_bytes; /* split totals up to here */
    struct convert_jpeg_counts jpegs;
};

/* Use from one thread only. */
struct output {
    struct io *io;
    const struct source *source;
    uint64_t identity;
    uint32_t split;
    bool replace;
    char folder[IO_PATH_BYTES_MAX];
    struct io_transaction *transaction; /* while replacing another folder; else NULL */
    struct shard_writer *writer;        /* NULL between shards */
    struct str shards;                  /* struct output_shard */
    uint32_t fields_count;
    char fields[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX]; /* in byte order */
    struct name_set keys; /* of an ordered source's open shard */
    uint64_t next_item, skipped_count, source_bytes;
    struct convert_jpeg_counts jpegs;
};

enum { OUTPUT_SHARD_NAME_BYTES_MAX = 40 };

/* name: OUTPUT_SHARD_NAME_BYTES_MAX. */
void output_shard_name(const struct output *output, uint64_t shard, char *name);
/* Whether a conversion, with or without compression, gives a shard this name. */
bool output_is_shard_name(const char *name);

/* Sets folder to the target, or to the split's folder below it. Creates nothing. */
int output_init(struct output *output, struct io *io, const struct source *source,
                uint64_t identity, uint32_t split, struct err *err);
/* Removes an open shard and an uncommitted replacement. */
void output_deinit(struct output *output);

/* Shards and dataset.json then become files of one transaction. */
int output_begin_replacement(struct output *output, struct err *err);
/* Call after output_commit. */
int output_commit_replacement(struct output *output, struct err *err);

static inline uint64_t output_shards_count(const struct output *output)
{
    return output->shards.bytes / sizeof(struct output_shard);
}

static inline const struct output_shard *output_shard_at(const struct output *output,
                                                         uint64_t shard)
{
    return (const struct output_shard *)(const void *)output->shards.data + shard;
}

int output_restore(struct output *output, const struct output_shard *shard, struct err *err);
/* *ret_is_complete: the split is complete, with the same files and options. If so, records its
 * shards. */
int output_find_complete(struct output *output, bool *ret_is_complete, struct err *err);
void output_add_field_name(struct output *output, const char *extension);

/* Whether the open shard of an ordered source has a sample with this key. Readers take neighbors
 * with the same key for one sample, and find only one of two others. */
bool output_has_key(const struct output *output, const char *key);
/* Also true if the open shard has the item's key. */
bool output_is_full(const struct output *output, const struct pipeline_item *item);
int output_add(struct output *output, const struct pipeline_item *item, struct err *err);
/* Ends the open shard, if any. next_item: see output_shard. *ret_ended: a shard was open. */
int output_end_shard(struct output *output, uint64_t next_item, bool *ret_ended, struct err *err);
/* Writes dataset.json, which completes the split. */
int output_commit(struct output *output, struct err *err);

#endif
