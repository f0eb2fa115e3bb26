/*
 * steps — a folder with checkpoints of the same three arrays. Step n has the contents that
 * arrays_fill gives for n.
 *
 *     cmocka_unit_test_setup_teardown(a_behavior, steps_set_up, steps_tear_down)
 *
 * Uses the folder and the fault-free backend from scratch.h.
 */
#ifndef MILLRACE_TESTS_CKPT_STEPS_H
#define MILLRACE_TESTS_CKPT_STEPS_H

#include "tests/ckpt/fixture.h"
#include "tests/support/scratch.h"

enum { STEPS_ARRAYS = 3 };
extern const struct array_spec steps_specs[STEPS_ARRAYS];
extern struct arrays arrays; /* valid from setup to teardown */

int steps_set_up(void **state);
int steps_tear_down(void **state);

/* A backend for the folder, with the faults that the rules describe (io/faults/fault_rules.h);
 * close it with io_close. */
struct io *steps_open_faulty(const char *rules);
/* Replaces the rules of a faulty backend. */
void steps_set_faults(struct io *faulty, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Opens a saver for the arrays in the folder. */
struct ckpt_saver *steps_open(struct io *backend, uint32_t keep_last);
struct ckpt_saver *steps_open_keeping(struct io *backend, const struct ckpt_keep_rules *keep);

int steps_temporaries_count(void);
/* Asserts that at least count_min steps are listed, and that each holds the arrays filled with its
 * number. */
void steps_check_listed(int count_min);

#endif
