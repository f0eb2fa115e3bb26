/*
 * steps — a folder of checkpoints of the same three arrays; step n has the contents that
 * arrays_fill gives for n.
 *
 *     cmocka_unit_test_setup_teardown(a_behavior, steps_set_up, steps_tear_down)
 *
 * Based on scratch: uses its folder for the checkpoints, and its sound backend.
 */
#ifndef MILLRACE_TESTS_CKPT_STEPS_H
#define MILLRACE_TESTS_CKPT_STEPS_H

#include "tests/ckpt/fixture.h"
#include "tests/support/scratch.h"

enum { STEPS_ARRAYS = 3 };
extern const struct array_spec steps_specs[STEPS_ARRAYS];
extern struct arrays arrays; /* valid from set-up to tear-down */

int steps_set_up(void **state);
int steps_tear_down(void **state);

/* A backend for the folder with the faults of the rules (io/faults/fault_rules.h); close it with
 * io_close. */
struct io *steps_open_faulty(const char *rules);
/* Replaces its rules. */
void steps_set_faults(struct io *faulty, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A saver of the arrays to the folder. */
struct ckpt_saver *steps_open(struct io *with, uint32_t keep_last);
struct ckpt_saver *steps_open_keeping(struct io *with, const struct ckpt_keep *keep);

int steps_temporaries_count(void);
/* Asserts that every listed step has the arrays filled with its number, and that there are at least
 * that many. */
void steps_check_listed(int least);

#endif
