/*
 * layouts — the parts of global arrays that each rank holds. The first array is split by rows, the
 * second along dimension 1, the third along all three dimensions, the fourth again by rows; the
 * others are replicated.
 */
#ifndef MILLRACE_TESTS_CKPT_LAYOUTS_H
#define MILLRACE_TESTS_CKPT_LAYOUTS_H

#include "tests/ckpt/fixture.h"

/* tensors: one per array in global, each a copy of the rank's box; free them with layouts_free.
 * Names are borrowed from global. */
void layouts_take(struct ckpt_tensor *tensors, const struct arrays *global, int rank, int ranks);
/* Copies the box (start, extent) of the global array into new memory, element by element. */
void layouts_take_box(struct ckpt_tensor *tensor, const struct ckpt_tensor *global);
void layouts_free(struct ckpt_tensor *tensors, uint64_t count);

#endif
