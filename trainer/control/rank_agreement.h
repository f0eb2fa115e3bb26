/*
 * rank_agreement — checks that all ranks of a run agree on everything that affects its result,
 * and names what differs.
 *
 * Ranks with different learning rates, data or kernels would silently train wrong weights.
 * Before the first step, each rank therefore lists its settings as keys and values, and the
 * ranks compare their lists:
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

/* Keys and values. Owner thread. Zero initially, which is empty. */
struct rank_record {
    struct str text; /* sequence of: key, NUL, value, NUL */
};

/* Add each key once. rank_agreement_check reports out-of-memory errors. */
void rank_record_add(struct rank_record *record, const char *key, const char *value);
/* Adds the program version, the wire version, and each configuration field on which ranks must
 * agree (struct config_field). */
void rank_record_add_config(struct rank_record *record, const struct train_config *config);
void rank_record_deinit(struct rank_record *record);

/* Collective. -EINVAL on all ranks if records differ. Rank 0's detail names the first key that
 * differs, its values, their ranks and the advice; the other ranks' detail is empty, since rank
 * 0 prints it. A single rank always agrees. */
int rank_agreement_check(struct comm *comm, const struct rank_record *record, const char *advice,
                         const struct comm_options *options, struct err *err);

/* Collective. Appends the value if it is the same on all ranks, else each value with its ranks,
 * as "rank 0: A | ranks 1, 2: B". The text is the same on all ranks. ret_differs: whether values
 * differ. */
int rank_agreement_collect(struct comm *comm, const char *value, struct str *out, bool *ret_differs,
                           const struct comm_options *options, struct err *err);

#endif
