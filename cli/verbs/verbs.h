/*
 * verbs — the tables that cmd_*.c define, in the order help shows them.
 */
#ifndef MILLRACE_CLI_VERBS_VERBS_H
#define MILLRACE_CLI_VERBS_VERBS_H

#include "cli/verbs/verb.h"

extern const struct verb verb_convert_dataset, verb_convert_checkpoint, verb_index, verb_inspect,
    verb_verify, verb_read, verb_train, verb_eval, verb_launch, verb_ckpt_list, verb_ckpt_hash,
    verb_ckpt_diff, verb_ckpt_prune, verb_ckpt_copy, verb_ckpt_sweep, verb_bench_io,
    verb_bench_loader, verb_bench_ckpt, verb_bench_comm, verb_bench_train, verb_doctor, verb_help,
    verb_manual, verb_completion;

#endif
