/*
 * dataset_case — shared by the tests of convert_dataset: a source, a target, a log, checks of the
 * result.
 */
#ifndef MILLRACE_TESTS_CONVERT_DATASET_CASE_H
#define MILLRACE_TESTS_CONVERT_DATASET_CASE_H

#include "convert/dataset/dataset.h"
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

/* Runs the conversion that the options describe; stores result and err in the fixture. */
int convert(struct fixture *fixture);
#define assert_converts(fixture) assert_ok(convert(fixture), &(fixture)->err)

/* Writes a file below the source and creates its folders. */
void write_source(struct fixture *fixture, const char *relative, const void *data, size_t bytes);
/* Writes a small picture whose content depends on number. */
void write_jpeg(struct fixture *fixture, const char *relative, unsigned number);
/* Writes classes a, b and "c d" with count pictures each. */
void write_classes(struct fixture *fixture, unsigned count);
/* Copies `each` of the real photos of every class. */
void copy_clothing(struct fixture *fixture, unsigned each);

/* Opens and verifies the dataset at target + below. */
struct dataset *open_dataset(struct fixture *fixture, const char *below);
/* The member names of the dataset at target + below as listed by GNU tar, one per line. Valid until
 * the next call. */
const char *list_members(struct fixture *fixture, const char *below);
bool has_line(const char *text, const char *line);
void assert_nothing_left(struct fixture *fixture);
/* Copies the target to folder/copy. */
void copy_target(const struct fixture *fixture, const char *copy);
/* Checks that the target equals its copy and that there are no temporary files. */
void assert_target_equals(const struct fixture *fixture, const char *copy);
/* Sets options to the splits train (0.8) and val (0.2). */
void split_in_two(struct fixture *fixture);

#endif
