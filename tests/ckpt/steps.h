/*
 * steps — a folder of checkpoints of the same three arrays, of which step n holds what arrays_fill
 * gives for n.
 *
 *     cmocka_unit_test_setup_teardown(a_behaviour, steps_set_up, steps_tear_down)
 *
 * Stands on scratch: its folder is the checkpoints', its backend the sound one.
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

/* A backend for the folder that does what the rules say (io/fault_rules.h); to be closed by
 * io_close. */
struct io *steps_open_faulty(const char *rules);
/* Other rules for it. */
void steps_set_faults(struct io *faulty, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A saver of the arrays into the folder. */
struct ckpt_saver *steps_open(struct io *with, uint32_t keep_last);
struct ckpt_saver *steps_open_keeping(struct io *with, const struct ckpt_keep *keep);

int steps_temporaries_count(void);
/* That every listed step has the arrays that were filled with its number, and that there are so
 * many. */
void steps_check_listed(int least);

#endif
