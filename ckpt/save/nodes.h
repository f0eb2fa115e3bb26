/*
 * nodes — groups the ranks that share a folder: all ranks, or each node's ranks.
 *
 *     all    0 1 2 3 4 5      every rank of the run
 *     node   0 1|0 1|0 1      ranks that share a folder; the first one owns it
 *
 * Threads: same rules as comm.h.
 */
#ifndef MILLRACE_CKPT_SAVE_NODES_H
#define MILLRACE_CKPT_SAVE_NODES_H

#include "base/err.h"
#include "ckpt/ckpt.h"
#include "comm/comm.h"

#include <stdbool.h>

/* Immutable after init. */
struct nodes {
    struct comm *all;  /* owned */
    struct comm *node; /* owned; `all` itself if there is one node */
    int *first_rank;   /* [ranks of all] the first rank on the same node */
    int count;
};

/* Uses options->comm, per_node and node. Collective; blocks. */
int nodes_init(struct nodes *nodes, const struct ckpt_saver_options *options, struct err *err);
void nodes_deinit(struct nodes *nodes); /* a zeroed struct is fine */
bool nodes_is_first_rank(const struct nodes *nodes);
bool nodes_rank_shares_folder(const struct nodes *nodes, int rank);

#endif
