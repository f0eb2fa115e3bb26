/*
 * dataset — `dataset.json` and the shards beside it, or tars alone, as one line of samples.
 *
 * The file is a wids shard list ("wids_version": 1) with our keys beside it;
 * docs/reference/shards.md lists them. The fingerprint is a hash of (samples, index CRC) a shard:
 * no paths, no times.
 */
#ifndef MILLRACE_SHARDS_DATASET_H
#define MILLRACE_SHARDS_DATASET_H

#include "base/log.h"
#include "io/io.h"
#include "shards/index.h"
#include "shards/shard.h"

enum {
    DATASET_VERSION = 1,
    DATASET_SHARDS_MAX = 1 << 20,
    DATASET_CLASSES_MAX = 1 << 20,
    /* 2^20 shards of about 250 bytes each, and as many class names of 60 bytes. Each shard's entry
     * is parsed by itself. */
    DATASET_JSON_BYTES_MAX = 320 << 20,
    DATASET_SHARD_JSON_BYTES_MAX =
        64 << 10, /* a path of IO_PATH_BYTES_MAX, escaped, and another tool's keys */
};
/* Of one shard's file and of one sample. A shard's offsets end at 2 TiB, but its last field may be
 * longer. All shards of a dataset together stay below 2^63. */
#define DATASET_SHARD_BYTES_MAX (UINT64_C(1) << 43)
#define DATASET_SAMPLES_MAX     ((UINT64_C(1) << 48) - 1) /* what an order can number (sampler.h) */
#define DATASET_TOKENS_MAX      (UINT64_C(1) << 60)
#define DATASET_FILE_NAME       "dataset.json"

/* One line of the shard list. */
struct dataset_shard {
    char *url; /* as written: relative to dataset.json's folder, or a URL */
    uint64_t samples, file_bytes;
    uint64_t xxh3;         /* of the file */
    bool lacks_xxh3;       /* the list of another tool, or none, did not tell it */
    uint32_t index_crc32c; /* identity_crc32c of struct shard */
    bool
        is_partial; /* a damaged tar: its samples are those that are whole (shard_open_salvaging) */
    uint64_t first_sample; /* global number of its first sample */
    uint64_t last_tokens;  /* text: of its last member, while the others are whole; 0: not told */
};

/* Text datasets: how token members are laid out. element "" where the dataset is not text. */
struct dataset_text {
    char element[8];         /* "uint16" or "uint32": the dtype of the .npy members */
    char tokenizer[32];      /* "bytes", "gpt2" */
    uint64_t tokenizer_xxh3; /* of the files that define it; 0: it has none, or they are unknown */
    uint32_t vocabulary;     /* token ids are below it */
    uint32_t document_end;   /* the token that marks the end of a document */
    uint64_t tokens;         /* all of them, overlaps counted once */
    uint64_t member_tokens;  /* of a whole member, overlap included: 64 Ki + 1 */
    uint32_t header_bytes;   /* of each .npy member, before its tokens */
};

/* Immutable once open; any thread. */
struct dataset {
    char path[IO_PATH_BYTES_MAX]; /* of dataset.json */
    char folder[IO_PATH_BYTES_MAX];
    struct dataset_shard *shards;
    uint64_t shards_count;
    uint64_t samples; /* members grouped by key; windows of text are the loader's matter */
    /* Of damaged tars: members, or all from some place on, each of which counts once. */
    uint64_t left_out_count;
    char **classes; /* names in order of their number */
    uint64_t classes_count;
    uint64_t mean_sample_bytes; /* of all fields, headers not counted */
    uint64_t fingerprint;
    char fields[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX];
    uint32_t fields_count;
    struct dataset_text text;
    struct str options_json; /* the converter's options, as JSON */
};

/* path: dataset.json or the folder that holds it, a wids shard list of another tool, one tar, or a
 * pattern of tars (url_list.h). But for our dataset.json every shard is opened. -EBADMSG with
 * detail. */
int dataset_open(struct io *io, const char *path, struct dataset **ret_dataset, struct err *err);
/* The same, but of tars of other tools that are damaged the samples that are whole are taken
 * (foreign.h); what is left out is told by log, a warning a thing, a few a tar. log may be NULL.
 * -EBADMSG where no sample is left. */
int dataset_open_salvaging(struct io *io, const char *path, const struct log *log,
                           struct dataset **ret_dataset, struct err *err);
void dataset_close(struct dataset *dataset); /* NULL is fine */

/* The shard that holds the sample, and the sample's number within it. sample < dataset->samples. */
uint64_t dataset_locate(const struct dataset *dataset, uint64_t sample, uint64_t *ret_in_shard);
/* The path of a shard, into path of IO_PATH_BYTES_MAX. */
int dataset_shard_path(const struct dataset *dataset, uint64_t shard, char *path, struct err *err);

/* name: name_bytes of it. */
bool dataset_has_field(const struct dataset *dataset, const char *name, size_t name_bytes);

/* Fills in last_tokens where the tokens were cut into members in one go: all are whole but the
 * dataset's last. */
void dataset_note_last_tokens(struct dataset *dataset);

/* Over samples and index CRC of each, in order. -ENOMEM. */
int dataset_fingerprint(const struct dataset_shard *shards, uint64_t count,
                        uint64_t *ret_fingerprint, struct err *err);
/* dataset.json's text for a dataset whose fields are filled in (path, folder apart). */
int dataset_encode(const struct dataset *dataset, struct str *out, struct err *err);

#endif
