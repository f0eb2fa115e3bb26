/*
 * field_choice — which fields of indexed samples are converted (--fields, --ignore).
 */
#ifndef MILLRACE_CONVERT_SOURCE_FIELD_CHOICE_H
#define MILLRACE_CONVERT_SOURCE_FIELD_CHOICE_H

#include "convert/options.h"
#include "shards/format/index.h"

struct hash_stream;

/* By the field's number in its index. */
struct field_choice {
    bool takes[SHARD_FIELDS_MAX];
};

/* The globs of --ignore are compared with ".EXT", as in '*.json'. */
void field_choice_make(const struct convert_options *options, const struct shard_index *index,
                       struct field_choice *ret_choice);
/* Adds the options that determine the choice. */
void field_choice_hash(const struct convert_options *options, struct hash_stream *hash);

/* The fields that a sample has and that are taken, in the order of their data. */
struct chosen_fields {
    uint32_t count;
    uint32_t numbers[SHARD_FIELDS_MAX];
    struct shard_field fields[SHARD_FIELDS_MAX];
    uint64_t begin, end, bytes; /* the range of their data, and its size without gaps */
};

void field_choice_find(const struct field_choice *choice, const struct shard_index *index,
                       uint64_t sample, struct chosen_fields *ret_chosen);
uint64_t field_choice_sample_bytes(const struct field_choice *choice,
                                   const struct shard_index *index, uint64_t sample);

/* The extensions that are taken from any index. Zero-initialize. */
struct chosen_extensions {
    uint32_t count;
    char names[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX];
};
/* -E2BIG: more than SHARD_FIELDS_MAX extensions. path: the source's, for the error. */
int chosen_extensions_add(struct chosen_extensions *extensions, const struct field_choice *choice,
                          const struct shard_index *index, const char *path, struct err *err);

/* -EBADMSG: a sample has none of the chosen fields. path: the archive's. */
int chosen_fields_check(const struct chosen_fields *chosen, const char *path, const char *key,
                        struct err *err);

#endif
