/*
 * dataset_case — the fixture, inputs and checks of tests of convert_dataset.
 */
#ifndef MILLRACE_TESTS_CONVERT_DATASET_CASE_H
#define MILLRACE_TESTS_CONVERT_DATASET_CASE_H

#include "convert/dataset/dataset.h"
#include "convert/source/source.h"
#include "shards/dataset/dataset.h"
#include "tests/support/test.h"

enum { LISTING_BYTES = 1 << 16 };

struct fixture {
    struct io *io;
    char folder[TEST_PATH_BYTES_MAX];
    char source[TEST_PATH_BYTES_MAX + 32], target[TEST_PATH_BYTES_MAX + 32];
    char log[8192]; /* all logged lines */
    struct log sink;
    struct convert_options options;
    struct convert_result result;
    struct err err;
};

int setup(void **state);
int teardown(void **state);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Runs the conversion, and stores result and err in the fixture. */
int convert(struct fixture *fixture);
#define assert_converts(fixture) assert_ok(convert(fixture), &(fixture)->err)

/* Writes a file below the source, and creates its folders. */
void write_source(struct fixture *fixture, const char *relative, const void *data, size_t bytes);
/* Writes a small picture. Its content depends on number. */
void write_jpeg(struct fixture *fixture, const char *relative, unsigned number);
/* Writes classes a, b and "c d" with count pictures each. */
void write_classes(struct fixture *fixture, unsigned count);
/* Copies this many real photos of each class. */
void copy_clothing_photos(struct fixture *fixture, unsigned count_per_class);

/* Opens and verifies the dataset at target + subfolder. */
struct dataset *open_dataset(struct fixture *fixture, const char *subfolder);
/* Lists the members of the dataset at target + subfolder with GNU tar, one name per line. The
 * result is valid until the next call. */
const char *list_members(struct fixture *fixture, const char *subfolder);
bool has_line(const char *text, const char *line);
void assert_no_target(struct fixture *fixture);
/* Copies the target to folder/copy. */
void copy_target(const struct fixture *fixture, const char *copy);
/* Checks that the target equals its copy, without temporary files. */
void assert_target_equals(const struct fixture *fixture, const char *copy);
/* Sets options to the splits train (0.8) and val (0.2). */
void set_train_val_splits(struct fixture *fixture);
/* Reads the item at a position of an open source; returns the status. */
int read_source_item(struct fixture *fixture, uint64_t position, struct err *err,
                     struct source *source);

#endif
