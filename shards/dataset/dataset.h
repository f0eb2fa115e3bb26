/*
 * dataset — a sequence of samples in shards, with or without a dataset.json.
 *
 * dataset.json is a wids shard list ("wids_version": 1) with additional keys
 * (docs/reference/shards.md). The fingerprint hashes each shard's sample count and index CRC, but
 * no paths or times.
 */
#ifndef MILLRACE_SHARDS_DATASET_DATASET_H
#define MILLRACE_SHARDS_DATASET_DATASET_H

#include "base/log.h"
#include "io/io.h"
#include "shards/format/index.h"
#include "shards/format/shard.h"

enum {
    DATASET_VERSION = 1,
    DATASET_SHARDS_MAX = 1 << 20,
    DATASET_CLASSES_MAX = 1 << 20,
    /* Enough for 2^20 shards of about 250 bytes and 2^20 class names of 60 bytes. Shard entries are
     * parsed one at a time. */
    DATASET_JSON_BYTES_MAX = 320 << 20,
    /* Enough for an escaped path of IO_PATH_BYTES_MAX bytes and another tool's keys. */
    DATASET_SHARD_JSON_BYTES_MAX = 64 << 10,
};
/* Limit on the size of a shard file and of a sample. A field starts below 2 TiB, but the last one
 * may end beyond. The total size of a dataset's shards stays below 2^63. */
#define DATASET_SHARD_BYTES_MAX (UINT64_C(1) << 43)
/* limit set by sampler.h */
#define DATASET_SAMPLES_MAX ((UINT64_C(1) << 48) - 1)
#define DATASET_TOKENS_MAX  (UINT64_C(1) << 60)
#define DATASET_FILE_NAME   "dataset.json"

struct url_list;

struct dataset_shard {
    char *url; /* as listed: relative to dataset.json's folder, or a URL */
    uint64_t samples;
    uint64_t file_bytes, xxh3;   /* of the file as it is stored */
    uint64_t uncompressed_bytes; /* file_bytes unless it is compressed */
    bool lacks_xxh3;             /* true for other tools' lists, and without a list */
    /* Only the intact samples of a damaged tar count (struct shard_open_options). */
    bool is_partial;
    uint32_t index_crc32c; /* identity_crc32c of struct shard */
    /* where its index begins, before compression; 0: unknown, or a plain tar */
    uint64_t index_offset;
    uint64_t first_sample; /* number of its first sample in the dataset */
    uint64_t last_tokens;  /* text: tokens of its last member; all others are full; 0: unknown */
};

/* Layout of token members. element is "" unless the dataset is text. */
struct dataset_text {
    char element[8];         /* dtype of the .npy members: "uint16" or "uint32" */
    char tokenizer[32];      /* "bytes", "gpt2", "tokenizer.json" */
    uint64_t tokenizer_xxh3; /* hash of the tokenizer's files; 0: none, or unknown */
    uint32_t vocabulary;     /* exclusive upper bound of token ids */
    uint32_t document_end;
    uint64_t tokens;        /* total, without overlaps */
    uint64_t member_tokens; /* tokens in a full member, including the overlap: 64 Ki + 1 */
    uint32_t header_bytes;  /* header size of each .npy member */
};

/* Immutable; usable from any thread. */
struct dataset {
    char path[IO_PATH_BYTES_MAX]; /* of dataset.json */
    char folder[IO_PATH_BYTES_MAX];
    struct dataset_shard *shards;
    uint64_t shards_count;
    uint64_t samples; /* members grouped by key; the loader forms windows of text */
    /* Skipped members of damaged tars; the unreadable rest of a tar counts as one. */
    uint64_t left_out_count;
    char **classes; /* by class number */
    uint64_t classes_count;
    uint64_t mean_sample_bytes; /* size of all fields, without headers */
    uint64_t fingerprint;
    char fields[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX];
    uint32_t fields_count;
    bool is_shuffled; /* `convert dataset` shuffled the samples, now or before a reshard */
    struct dataset_text text;
    struct str options_json;
};

/* path: dataset.json or its folder, another tool's wids shard list, a tar, or a pattern of tars
 * (url_list.h). If millrace wrote the list, reads only dataset.json; otherwise opens every shard.
 * -EBADMSG with detail. */
int dataset_open(struct io *io, const char *path, struct dataset **ret_dataset, struct err *err);
/* Also opens damaged plain tars, and salvages their intact samples (plain_tar.h). Logs the first
 * few skipped parts of each tar as warnings; log may be NULL. -EBADMSG if no sample is intact. */
int dataset_open_salvaging(struct io *io, const char *path, const struct log *log,
                           struct dataset **ret_dataset, struct err *err);
/* Opens the tars at these paths, in this order, as one dataset. name: its path in messages.
 * Errors of dataset_open. */
int dataset_open_tars(struct io *io, const char *name, const struct url_list *paths,
                      struct dataset **ret_dataset, struct err *err);
void dataset_close(struct dataset *dataset); /* NULL is fine */

/* Returns the shard that holds the sample, which must be below dataset->samples.
 * *ret_number_in_shard: its number within that shard. */
uint64_t dataset_locate(const struct dataset *dataset, uint64_t sample,
                        uint64_t *ret_number_in_shard);
/* path: holds IO_PATH_BYTES_MAX bytes. */
int dataset_shard_path(const struct dataset *dataset, uint64_t shard, char *path, struct err *err);
/* Opens a shard, with one exact read if its index_offset is listed, and checks that its samples,
 * index CRC and index_offset are those of the list. If it is_partial, opens the intact samples
 * again, without reports. io: a seekable_io.h if dataset_is_compressed. Blocks. -EBADMSG: shard and
 * list differ; also returns errors of shard_open. */
int dataset_open_shard(struct io *io, const struct dataset *dataset, uint64_t shard,
                       struct shard **ret_shard, struct err *err);

/* Evicts the dataset's files from the page cache, so that a benchmark reads from disk. Blocks until
 * their written data is on disk. -EINVAL: not local files; errors of dataset_open and
 * page_cache_drop. */
int dataset_drop_cache(struct io *io, const char *path, struct err *err);

/* Of all shards, as they are stored and before compression; below 2^63. */
uint64_t dataset_file_bytes(const struct dataset *dataset);
uint64_t dataset_uncompressed_bytes(const struct dataset *dataset);
/* Whether a shard may be compressed: its shards are then opened through seekable_io.h. */
bool dataset_is_compressed(const struct dataset *dataset);

/* name: not NUL-terminated. */
bool dataset_has_field(const struct dataset *dataset, const char *name, size_t name_bytes);

/* Sets last_tokens of every shard, assuming that only the dataset's last member is not full. */
void dataset_set_last_tokens(struct dataset *dataset);

int dataset_fingerprint(const struct dataset_shard *shards, uint64_t count,
                        uint64_t *ret_fingerprint, struct err *err);
/* Appends dataset.json; uses all members except path and folder. */
int dataset_encode(const struct dataset *dataset, struct str *out, struct err *err);

#endif
