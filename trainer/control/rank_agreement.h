/*
 * rank_agreement — checks that all ranks of a run agree on everything that affects its result.
 *
 * Ranks with different learning rates, data or kernels would silently train wrong weights.
 * Before the first step, ranks therefore compare lists of their settings:
 *
 *     struct rank_record record = {0};
 *     rank_record_add(&record, "optimizer.lr", "0.0003");
 *     int status = rank_agreement_check(comm, &record, advice, &options, err);
 *     rank_record_deinit(&record);
 *
 * Comparing equal lists costs one reduction of a few integers. Ranks exchange the lists only if
 * they differ.
 */
#ifndef MILLRACE_TRAINER_CONTROL_RANK_AGREEMENT_H
#define MILLRACE_TRAINER_CONTROL_RANK_AGREEMENT_H

#include "base/str.h"
#include "comm/comm.h"
#include "trainer/config/config.h"

/* Zero initially. Owner thread. */
struct rank_record {
    struct str text; /* sequence of: key, NUL, value, NUL */
};

/* Add each key once. rank_agreement_check reports out-of-memory errors. */
void rank_record_add(struct rank_record *record, const char *key, const char *value);
/* Adds the program version, the wire version, and each field on which ranks must agree (struct
 * config_field). */
void rank_record_add_config(struct rank_record *record, const struct train_config *config);
void rank_record_deinit(struct rank_record *record);

/* Collective. -EINVAL on all ranks if records differ. Rank 0's detail names the first key that
 * differs, its values, their ranks and the advice; other ranks' detail is empty. */
int rank_agreement_check(struct comm *comm, const struct rank_record *record, const char *advice,
                         const struct comm_options *options, struct err *err);

/* Collective. Appends the same text on all ranks: the common value, or each value with its ranks,
 * such as "rank 0: A | ranks 1, 2: B". ret_differs: whether values differ. */
int rank_agreement_collect(struct comm *comm, const char *value, struct str *out, bool *ret_differs,
                           const struct comm_options *options, struct err *err);

#endif
