/*
 * layouts — what each of so many ranks holds of the same global arrays.
 *
 * The first array is split by rows, the second along dimension 1, the third along all of its three,
 * the fourth by rows again; the others are whole everywhere.
 */
#ifndef MILLRACE_TESTS_CKPT_LAYOUTS_H
#define MILLRACE_TESTS_CKPT_LAYOUTS_H

#include "tests/ckpt/fixture.h"

/* tensors: as many as global has, with copies of the boxes' contents; to be freed. Names are
 * global's. */
void layouts_take(struct ckpt_tensor *tensors, const struct arrays *global, int rank, int ranks);
/* The box start, extent of the global array into memory of its own, element by element. */
void layouts_take_box(struct ckpt_tensor *tensor, const struct ckpt_tensor *global);
void layouts_free(struct ckpt_tensor *tensors, uint64_t count);

#endif
