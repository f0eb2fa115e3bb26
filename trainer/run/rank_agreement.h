/*
 * rank_agreement — checks that all ranks of a run agree on what decides its result, and names what
 * differs.
 *
 * Ranks with different learning rates, data or kernels would train to wrong weights without an
 * error. So before the first step each rank lists what it uses as keys and values, and all ranks
 * compare their lists:
 *
 *     struct rank_record record = {0};
 *     rank_record_add(&record, "optimizer.lr", "0.0003");
 *     int status = rank_agreement_check(comm, &record, advice, &options, err);
 *     rank_record_deinit(&record);
 *
 * Equal lists cost one reduction of a few integers. Only ranks that differ exchange the lists.
 */
#ifndef MILLRACE_TRAINER_RUN_RANK_AGREEMENT_H
#define MILLRACE_TRAINER_RUN_RANK_AGREEMENT_H

#include "base/str.h"
#include "comm/comm.h"
#include "trainer/config/config.h"

/* Keys with values. Owner thread. A zeroed one is empty. */
struct rank_record {
    struct str text; /* key NUL value NUL, again and again */
};

/* A key is added once. Running out of memory shows in rank_agreement_check. */
void rank_record_add(struct rank_record *record, const char *key, const char *value);
/* Versions of the program and of the messages between ranks, and each field of the configuration on
 * which ranks must agree (struct config_field). */
void rank_record_add_config(struct rank_record *record, const struct train_config *config);
void rank_record_deinit(struct rank_record *record);

/* Collective. -EINVAL on all ranks where records differ: on rank 0 the detail names the first key
 * that differs, its values, their ranks and the advice; on the others it is empty, since rank 0
 * prints it. A single rank always agrees. */
int rank_agreement_check(struct comm *comm, const struct rank_record *record, const char *advice,
                         const struct comm_options *options, struct err *err);

/* Collective. Adds the value itself where all ranks have the same, else every value with its ranks,
 * as "rank 0: A | ranks 1, 2: B". ret_differs: whether they differ. The same text on all ranks. */
int rank_agreement_collect(struct comm *comm, const char *value, struct str *out, bool *ret_differs,
                           const struct comm_options *options, struct err *err);

#endif
