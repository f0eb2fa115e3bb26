/*
 * sample_reader — reads single samples of a dataset, by number or key.
 *
 *     struct loader_options options = loader_options_default();
 *     options.dataset = "shards";
 *     sample_reader_open(&options, &reader, err);
 *     if (sample_reader_find(reader, "cats/0001", 9, &number, err) == 1)
 *         sample_reader_read(reader, 0, number, &batch, err);
 *     ... batch->items[0].fields ...
 *     sample_reader_release(reader, batch);
 *     sample_reader_close(reader);
 *
 * Samples are numbered from 0 in the order of the shards. A sample is a batch of one, with the same
 * bits as in a loader's batch with these options (loader.h). The calling thread reads and decodes
 * it; fields that are close to each other take one read. Shards stay open, and only their indexes
 * stay in memory.
 *
 * Thread-safe. It has no threads of its own, except those of storage without asynchronous reads. A
 * child after fork must open its own.
 */
#ifndef MILLRACE_LOADER_SAMPLE_READER_H
#define MILLRACE_LOADER_SAMPLE_READER_H

#include "loader/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sample_reader;

enum { SAMPLE_KEY_BYTES_MAX = 1024 }; /* with the NUL */

/* Of the options, only dataset, io, decode, image, text, fields, seed, verify, workers (how many
 * threads can read at a time; 0: one per CPU, at most 16) and memory_bytes (a limit on tokens that
 * exceed their text) matter. A damaged tar is an error, as under LOADER_BAD_STOP. -EINVAL: a mix,
 * a selection or mixup is requested; errors of loader_open. */
int sample_reader_open(const struct loader_options *options, struct sample_reader **ret_reader,
                       struct err *err);
/* Requires that all batches are released. Retained fields (batch_field_retain) stay valid. NULL is
 * fine. */
void sample_reader_close(struct sample_reader *reader);

/* Lives as long as the reader. */
struct sample_reader_info {
    uint64_t samples; /* members, or windows of text */
    uint64_t fingerprint;
    const char *path;                   /* of dataset.json, the tar or the pattern */
    const struct loader_schema *schema; /* class names, tokenizer */
    const char *const *fields;          /* extensions that samples have */
    uint32_t fields_count;
};
struct sample_reader_info sample_reader_info(const struct sample_reader *reader);

/* Copies the key of a sample, with a NUL, to key, which has SAMPLE_KEY_BYTES_MAX bytes; for a
 * window, the key of its member. Opens the sample's shard. -ERANGE: there is no such sample. */
int sample_reader_key(struct sample_reader *reader, uint64_t sample, char *key, struct err *err);
/* Finds the sample with a key of so many bytes. Returns 1 and sets *ret_sample, 0 if no sample has
 * the key, or -errno. The first call opens all shards; the reader keeps all keys in memory.
 * -EINVAL: several samples have the key, or they are windows; errors of opening a shard. */
int sample_reader_find(struct sample_reader *reader, const char *key, size_t bytes,
                       uint64_t *ret_sample, struct err *err);

/* Reads a sample and decodes it with the random choices of this epoch. Release *ret_batch. -ERANGE:
 * there is no such sample; -EBADMSG with file and offset: it is damaged or cannot be decoded; an
 * I/O error; -ENOMEM. */
int sample_reader_read(struct sample_reader *reader, uint32_t epoch, uint64_t sample,
                       const struct batch **ret_batch, struct err *err);
/* From any thread. Fields may be kept longer: batch_field_retain. */
void sample_reader_release(struct sample_reader *reader, const struct batch *batch);

#ifdef __cplusplus
}
#endif

#endif
