/*
 * selection — which samples of a dataset an epoch has (struct loader_selection).
 *
 * The order works on the numbers 0 to selection_count - 1. selection_sample maps each of them to a
 * sample of the dataset:
 *
 *     keys       the i-th selected sample in dataset order
 *     order      the sample in line i
 *     weights    a draw with replacement: Philox keyed by (seed, dataset, epoch, i) chooses the
 *                sample. Weights are scaled to integers, of which the largest is 2^32, so that
 *                draws are the same on every machine; a weight above 0 counts as at least 1.
 *     where      the i-th sample that meets the condition, in dataset order; also of those of keys
 *     balance    a draw as for weights, with weight 1 / (number of samples of the class)
 *     otherwise  sample i
 *
 * all of them modulo the number of samples, if an epoch repeats them. Immutable once open, so any
 * thread may use it.
 */
#ifndef MILLRACE_LOADER_SELECTION_H
#define MILLRACE_LOADER_SELECTION_H

#include "loader/loader.h"
#include "loader/parts/shard_cache.h"

struct selection;

bool selection_is_all(const struct loader_selection *options);
/* Whether the order is given or random, so that options.order is meaningless. */
bool selection_has_order(const struct loader_selection *options);
/* -EINVAL with advice: the options contradict each other. */
int selection_check(const struct loader_selection *options, struct err *err);

/* samples: in the dataset, or its windows. Opens all shards of the dataset, or those of the
 * samples of keys. -EINVAL names a key that no sample or several samples have, or a line of the
 * file; errors of sample_filter.h and of opening a shard. */
int selection_open(const struct loader_selection *options, struct io *io, uint64_t seed,
                   const struct dataset *dataset, struct shard_cache *cache, uint32_t number,
                   uint64_t samples, struct selection **ret_selection, struct err *err);
void selection_close(struct selection *selection); /* NULL is fine */

uint64_t selection_count(const struct selection *selection);
uint64_t selection_sample(const struct selection *selection, struct sample_ref ref);
/* Whether several numbers may be the same sample of the dataset. */
bool selection_repeats(const struct selection *selection);
/* Hash of the selected samples, in order and with their weights. */
uint64_t selection_hash(const struct selection *selection);

#endif
