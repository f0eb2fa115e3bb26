/*
 * read_samples — the samples that a loader delivers, by position, for datasets with keys "k%06d".
 */
#ifndef MILLRACE_TESTS_LOADER_READ_SAMPLES_H
#define MILLRACE_TESTS_LOADER_READ_SAMPLES_H

#include "loader/loader.h"

/* Stores the samples of an epoch by position, from `first` on, of all ranks. Returns their number.
 */
uint64_t read_samples(const struct loader_options *options, uint32_t ranks, uint64_t first,
                      uint32_t *ret_samples);
/* Checks that ranks and restarts do not change what is read. */
void check_invariance(const struct loader_options *options, const uint32_t *samples,
                      uint64_t count);

#endif
