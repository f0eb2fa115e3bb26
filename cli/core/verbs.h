/*
 * verbs — the tables that cmd_*.c define, in the order help shows them.
 */
#ifndef MILLRACE_CLI_CORE_VERBS_H
#define MILLRACE_CLI_CORE_VERBS_H

#include "cli/core/verb.h"

extern const struct verb verb_convert_dataset;
extern const struct verb verb_convert_checkpoint;
extern const struct verb verb_index;
extern const struct verb verb_inspect;
extern const struct verb verb_verify;
extern const struct verb verb_read;
extern const struct verb verb_train;
extern const struct verb verb_eval;
extern const struct verb verb_launch;
extern const struct verb verb_ckpt_list;
extern const struct verb verb_ckpt_hash;
extern const struct verb verb_ckpt_diff;
extern const struct verb verb_ckpt_prune;
extern const struct verb verb_ckpt_copy;
extern const struct verb verb_ckpt_sweep;
extern const struct verb verb_bench_io;
extern const struct verb verb_bench_loader;
extern const struct verb verb_bench_ckpt;
extern const struct verb verb_bench_comm;
extern const struct verb verb_bench_train;
extern const struct verb verb_doctor;
extern const struct verb verb_help;
extern const struct verb verb_manual;
extern const struct verb verb_completion;

#endif
