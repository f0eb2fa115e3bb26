/*
 * dataset — `dataset.json` and its shards, or tars alone, as one sequence of samples.
 *
 * The file is a wids shard list ("wids_version": 1) with additional keys, listed in
 * docs/reference/shards.md. The fingerprint is a hash of (samples, index CRC) of each shard,
 * without paths or times.
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
    /* 2^20 shards of about 250 bytes each, and as many class names of 60 bytes. Each shard's entry
     * is parsed separately. */
    DATASET_JSON_BYTES_MAX = 320 << 20,
    /* A path of IO_PATH_BYTES_MAX, escaped, and another tool's keys. */
    DATASET_SHARD_JSON_BYTES_MAX = 64 << 10,
};
/* Of one shard's file and of one sample. Member offsets in a shard end at 2 TiB, but its last field
 * may be longer. All shards of a dataset together stay below 2^63. */
#define DATASET_SHARD_BYTES_MAX (UINT64_C(1) << 43)
/* the most an order can number (sampler.h) */
#define DATASET_SAMPLES_MAX ((UINT64_C(1) << 48) - 1)
#define DATASET_TOKENS_MAX  (UINT64_C(1) << 60)
#define DATASET_FILE_NAME   "dataset.json"

/* One entry of the shard list. */
struct dataset_shard {
    char *url; /* as written: relative to dataset.json's folder, or a URL */
    uint64_t samples, file_bytes;
    uint64_t xxh3;         /* of the file */
    bool lacks_xxh3;       /* unknown: the list is another tool's, or there is none */
    uint32_t index_crc32c; /* identity_crc32c of struct shard */
    /* A damaged tar: only its intact samples count (shard_open_salvaging). */
    bool is_partial;
    uint64_t first_sample; /* dataset-wide number of its first sample */
    uint64_t last_tokens;  /* text: of its last member, if the others are full; 0: unknown */
};

/* Text datasets: the layout of token members. element: "" if the dataset is not text. */
struct dataset_text {
    char element[8];         /* "uint16" or "uint32": the dtype of the .npy members */
    char tokenizer[32];      /* "bytes", "gpt2" */
    uint64_t tokenizer_xxh3; /* of the files that define it; 0: none, or unknown */
    uint32_t vocabulary;     /* token ids are below it */
    uint32_t document_end;   /* the token that marks the end of a document */
    uint64_t tokens;         /* in total; overlaps are counted once */
    uint64_t member_tokens;  /* of a full member, overlap included: 64 Ki + 1 */
    uint32_t header_bytes;   /* of each .npy member, before its tokens */
};

/* Immutable once open; any thread. */
struct dataset {
    char path[IO_PATH_BYTES_MAX]; /* of dataset.json */
    char folder[IO_PATH_BYTES_MAX];
    struct dataset_shard *shards;
    uint64_t shards_count;
    uint64_t samples; /* members grouped by key; the loader handles windows of text */
    /* Of damaged tars: members left out; the rest of a tar counts as one. */
    uint64_t left_out_count;
    char **classes; /* names by class number */
    uint64_t classes_count;
    uint64_t mean_sample_bytes; /* of all fields, without headers */
    uint64_t fingerprint;
    char fields[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX];
    uint32_t fields_count;
    struct dataset_text text;
    struct str options_json; /* the converter's options, as JSON */
};

/* path: dataset.json or its folder, another tool's wids shard list, one tar, or a pattern of tars
 * (url_list.h). Opens every shard, except for millrace's dataset.json. -EBADMSG with detail. */
int dataset_open(struct io *io, const char *path, struct dataset **ret_dataset, struct err *err);
/* The same, but salvages the intact samples of other tools' damaged tars (foreign.h). Logs a
 * warning for each thing left out, but only a few per tar. log may be NULL. -EBADMSG if no sample
 * is left. */
int dataset_open_salvaging(struct io *io, const char *path, const struct log *log,
                           struct dataset **ret_dataset, struct err *err);
void dataset_close(struct dataset *dataset); /* NULL is fine */

/* Returns the shard that holds the sample; *ret_in_shard: the sample's number in it. sample <
 * dataset->samples. */
uint64_t dataset_locate(const struct dataset *dataset, uint64_t sample, uint64_t *ret_in_shard);
/* Writes a shard's path to path, of IO_PATH_BYTES_MAX. */
int dataset_shard_path(const struct dataset *dataset, uint64_t shard, char *path, struct err *err);

/* Evicts a dataset's files from the page cache, so that a measurement reads the disk. Blocks until
 * data written to them is on disk. -EINVAL if they are not local; otherwise errors of dataset_open,
 * or of page_cache_drop on the first file that fails. */
int dataset_drop_cache(struct io *io, const char *path, struct err *err);

/* name: of name_bytes, not terminated. */
bool dataset_has_field(const struct dataset *dataset, const char *name, size_t name_bytes);

/* Sets last_tokens, assuming that the tokens were cut into members in one pass: all members are
 * full except the dataset's last. */
void dataset_note_last_tokens(struct dataset *dataset);

/* Hashes samples and index CRC of each shard, in order. -ENOMEM. */
int dataset_fingerprint(const struct dataset_shard *shards, uint64_t count,
                        uint64_t *ret_fingerprint, struct err *err);
/* Appends dataset.json's text for a dataset whose fields, except path and folder, are set. */
int dataset_encode(const struct dataset *dataset, struct str *out, struct err *err);

#endif
