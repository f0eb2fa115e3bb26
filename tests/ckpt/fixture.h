/*
 * fixture — arrays with contents determined by a seed, and savers for these arrays, for the
 * checkpoint tests.
 */
#ifndef MILLRACE_TESTS_CKPT_FIXTURE_H
#define MILLRACE_TESTS_CKPT_FIXTURE_H

#include "ckpt/ckpt.h"
#include "io/io.h"
#include "tests/support/test.h"

enum { FIXTURE_PATH_BYTES = 4 * TEST_PATH_BYTES_MAX }; /* a path below a test's folder */

#define FIXTURE_STATE "{\"loader\":{\"seed\":7,\"position\":4096},\"note\":\"test\"}"

/* Owns names and data. */
struct arrays {
    struct ckpt_tensor *tensors;
    uint64_t count;
    uint32_t groups_count;
};

/* One array: "name dtype 2x3x4 group"; shape "-" is a scalar. */
struct array_spec {
    const char *name;
    enum dtype dtype;
    const char *shape;
    uint32_t group;
};

struct arrays arrays_make(const struct array_spec *specs, uint64_t count);
/* Unusual shapes: scalars, empty arrays, odd sizes, all dtypes, and one array larger than several
 * blocks. */
struct arrays arrays_odd(void);
/* Returns zeroed arrays of the same shapes. */
struct arrays arrays_like(const struct arrays *other);
void arrays_free(struct arrays *arrays);
uint64_t array_bytes(const struct ckpt_tensor *tensor);
void arrays_fill(struct arrays *arrays, uint64_t seed);
/* Fills one group as arrays_fill would for that seed. */
void arrays_fill_group(struct arrays *arrays, uint32_t group, uint64_t seed);
bool arrays_equal(const struct arrays *a, const struct arrays *b);

/* Opens a single-rank saver in the folder, with default memory options. */
struct ckpt_saver *fixture_open(struct io *io, const char *folder, const struct arrays *arrays);
/* Saves and waits. */
void fixture_save(struct ckpt_saver *saver, uint64_t step);
/* Opens a saver, saves the current arrays and closes it. path (FIXTURE_PATH_BYTES): receives the
 * step's path. */
void fixture_save_step(struct io *io, const char *folder, const struct arrays *arrays,
                       uint64_t step, char *path);
/* Loads the step into arrays of the same shapes; true if they equal the given ones. */
bool fixture_step_equals(struct io *io, const char *step_path, const struct arrays *arrays);
/* Returns the number of complete steps, and the newest of them. */
int fixture_list(struct io *io, const char *folder, uint64_t *ret_newest);

#endif
