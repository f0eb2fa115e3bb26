/*
 * fixture — datasets for the loader tests, and records of what a loader delivered from them.
 */
#ifndef MILLRACE_TESTS_LOADER_FIXTURE_H
#define MILLRACE_TESTS_LOADER_FIXTURE_H

#include "loader/loader.h"
#include "shards/dataset/dataset.h"
#include "tests/support/test.h"

enum { FIXTURE_CLASSES = 7, FIXTURE_BLOCK_TOKENS = 1 << 16 };

struct fixture {
    char folder[TEST_PATH_BYTES_MAX];
    struct io *io;
    uint64_t samples; /* members */
    uint64_t tokens;  /* length of the text; see fixture_token */
    uint64_t member_tokens;
};

struct fixture_options {
    uint64_t samples, samples_per_shard;
    uint32_t width, height;   /* size of each image; 0: many small sizes */
    uint64_t pad_bytes;       /* size of a third field "bin" per sample; 0: none */
    int64_t oversized_sample; /* a sample whose "jpg" has a comment of oversized_bytes; -1: none */
    uint64_t oversized_bytes;
    int64_t without_jpg, without_cls, empty_jpg, cut_jpg,
        bad_label;                           /* the sample with that defect; -1: none */
    uint64_t broken_jpg_stride;              /* every n-th image is not a JPEG; 0: none */
    bool with_numbers;                       /* index fields: fixture_score, and label, the class */
    int64_t without_label;                   /* the sample without it; -1: none */
    bool with_record;                        /* adds txt, fixture_caption, and npy, fixture_array */
    int64_t without_txt, bad_txt, other_npy; /* samples with that defect; -1: none */
};

struct fixture_options fixture_options_default(uint64_t samples);

/* Small JPEGs of noise with fields jpg and cls (sample s has class s mod 7) and keys "k%06d". */
void fixture_make_images(struct fixture *fixture, const struct fixture_options *options);
/* The same with default options. */
void fixture_make_default_images(struct fixture *fixture, uint64_t samples);
/* Text of uint16 tokens in members of member_tokens tokens that overlap by one; the last member is
 * shorter. */
void fixture_make_text(struct fixture *fixture, uint64_t tokens, uint64_t member_tokens,
                       uint64_t members_a_shard);
struct fixture_raw_options {
    uint64_t samples;
    bool with_rows;  /* the index records where the image rows are */
    bool with_class; /* adds a field cls */
};
/* Uncompressed noise images of many sizes; every seventh is small. Some have a comment in their
 * header. */
void fixture_make_raw_images(struct fixture *fixture, const struct fixture_raw_options *options);
/* Stores the size of such an image. Returns the size of its header, which is copied to `header`
 * unless NULL. */
size_t fixture_raw_header(uint64_t sample, uint32_t *ret_width, uint32_t *ret_height, char *header);

/* For other samples: opens the tar a.tar of a dataset, to which the caller adds them. */
struct shard_writer *fixture_begin_tar(struct fixture *fixture, uint64_t samples);
void fixture_end_tar(struct shard_writer *writer);

/* Sets the mean sample size in dataset.json, true or not. */
void fixture_set_listed_mean_bytes(const struct fixture *fixture, uint64_t bytes);
void fixture_remove(struct fixture *fixture);

/* For cmocka: sets *state to a new fixture made with the options, or to a plain one. Returns 0. */
int fixture_set_up_with_options(void **state, const struct fixture_options *options);
int fixture_set_up(void **state, uint64_t samples);
int fixture_tear_down(void **state);

double fixture_score(uint64_t sample);  /* -0.5 to 0.5; NaN for every ninth */
uint32_t fixture_token(uint64_t index); /* below 5000 */
enum { FIXTURE_CAPTION_BYTES_MAX = 6000, FIXTURE_ARRAY_ROWS_MAX = 3, FIXTURE_ARRAY_COLUMNS = 3 };
/* UTF-8 of 0 to FIXTURE_CAPTION_BYTES_MAX bytes. Returns its size. */
size_t fixture_caption(uint64_t sample, char text[FIXTURE_CAPTION_BYTES_MAX]);
/* F32 [rows, FIXTURE_ARRAY_COLUMNS]. Returns the rows, 0 to FIXTURE_ARRAY_ROWS_MAX. */
uint32_t fixture_array(uint64_t sample,
                       float values[FIXTURE_ARRAY_ROWS_MAX * FIXTURE_ARRAY_COLUMNS]);

/* Loader options for the fixture: small batches (global 24, micro 4), two workers, 32 MiB. */
struct loader_options fixture_loader_options(const struct fixture *fixture,
                                             enum loader_decode decode);

/* Returns the least memory_bytes, up to 4 KiB more, at which the loader reads parts of so many
 * quarters of a run at once; 0: at which it opens. It must be below 128 MiB. */
uint64_t fixture_memory_for_long_reads(const struct loader_options *options, uint32_t quarters);

/* Finds a sample's field and stores the path of its shard. */
void fixture_find_field(const struct fixture *fixture, uint64_t sample, const char *extension,
                        char *path, struct shard_field *ret_field);
/* Inverts a bit of a file. */
void fixture_flip_bit(const char *path, uint64_t offset);
/* Inverts a bit in a field of a sample. */
void fixture_flip_in_field(const struct fixture *fixture, uint64_t sample, const char *extension,
                           uint64_t offset);

/* What a loader delivered: one line per item ("epoch step micro position sample key window
 * substituted") and a hash of all bytes in batches, in delivery order. */
struct delivery {
    char *text;
    size_t bytes, capacity;
    uint64_t hash; /* of all contents, chained */
    uint64_t items, batches;
};

void delivery_add(struct delivery *delivered, const struct batch *batch);
void delivery_free(struct delivery *delivered);
/* Takes batches until the end, or batches_max of them. */
void consume(struct loader *loader, struct delivery *delivered, uint64_t batches_max);
/* Opens a loader, takes all batches, and closes it. */
void consume_all(const struct loader_options *options, struct delivery *ret_delivered,
                 struct loader_stats *ret_stats, struct cursor *ret_cursor);
/* Opens a loader, takes batches until an error, which must be persistent, and closes it. Returns
 * the error. */
int consume_until_error(const struct loader_options *options, struct err *err);

#endif
