/*
 * dataset_case — what the tests of convert_dataset share: a source, a target, a log, and looking at
 * the result.
 */
#ifndef MILLRACE_TESTS_CONVERT_DATASET_CASE_H
#define MILLRACE_TESTS_CONVERT_DATASET_CASE_H

#include "convert/dataset.h"
#include "shards/dataset.h"
#include "tests/support/test.h"

enum { LISTING_BYTES = 1 << 16 };

struct fixture {
    struct io *io;
    char folder[TEST_PATH_BYTES_MAX];
    char source[TEST_PATH_BYTES_MAX + 32], target[TEST_PATH_BYTES_MAX + 32];
    char log[8192]; /* all lines */
    struct log sink;
    struct convert_options options;
    struct convert_result result;
    struct err err;
};

int setup(void **state);
int teardown(void **state);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Runs the conversion that options describe; result and err are then the fixture's. */
int convert(struct fixture *fixture);
#define assert_converts(fixture) assert_ok(convert(fixture), &(fixture)->err)

/* Files below the source, with the folders they need. */
void write_source(struct fixture *fixture, const char *relative, const void *data, size_t bytes);
void write_jpeg(struct fixture *fixture, const char *relative,
                unsigned number); /* small, differing by number */
void write_classes(struct fixture *fixture,
                   unsigned count);                         /* a, b, "c d" of count pictures each */
void copy_clothing(struct fixture *fixture, unsigned each); /* of each class of the real photos */

/* The dataset at target + below, verified. */
struct dataset *open_dataset(struct fixture *fixture, const char *below);
/* The names of its members as GNU tar lists them, one a line. Lives until the next call. */
const char *list_members(struct fixture *fixture, const char *below);
bool has_line(const char *text, const char *line);
void assert_nothing_left(struct fixture *fixture);

#endif
