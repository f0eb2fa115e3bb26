/*
 * ops_case — helpers for the tests of compute ops: they open ops, fill arrays with values that are
 * exact in both element types, and run every op so that its outputs can be compared.
 */
#ifndef MILLRACE_TESTS_TRAINER_OPS_CASE_H
#define MILLRACE_TESTS_TRAINER_OPS_CASE_H

#include "tests/support/test.h"
#include "trainer/ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ops *ops_case_open(enum dtype compute, unsigned threads); /* close with ops_close */

/* count float values in [-scale, scale), determined by seed; malloc'ed. */
double *ops_case_values(uint64_t seed, size_t count, double scale);
/* The values in the element type of ops; malloc'ed. */
void *ops_case_from_doubles(const struct ops *ops, const double *values, size_t count);
void *ops_case_random(const struct ops *ops, uint64_t seed, size_t count, double scale);
/* All NaN, to detect elements that an op does not write. */
void *ops_case_blank(const struct ops *ops, size_t count);
double *ops_case_to_doubles(const struct ops *ops, const void *real, size_t count);
/* count ids below bound. */
int32_t *ops_case_ids(uint64_t seed, size_t count, uint32_t bound);

/* Fails unless |found - expected| <= tolerance * (1 + |expected|) everywhere. */
void ops_case_assert_near(const char *what, const double *found, const double *expected,
                          size_t count, double tolerance);

enum { OPS_CASE_OUTPUTS_MAX = 64 };

struct ops_case_output {
    const char *name;
    void *data;
    size_t count, element_bytes;
    bool is_real; /* in the ops' element type; otherwise integers or double */
};

struct ops_case_run {
    struct ops_case_output outputs[OPS_CASE_OUTPUTS_MAX];
    size_t count;
};

/* Runs every op in the table, at sizes with several tiles and odd remainders. */
void ops_case_run_all(struct ops *ops, struct ops_case_run *run);
void ops_case_run_deinit(struct ops_case_run *run);

#endif
