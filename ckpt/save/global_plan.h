/*
 * global plan — what all ranks store, put together into one plan of the manifest.
 *
 * Layouts do not change during a run, so this is done once: every rank tells what it stores, and
 * all learn it. A save then only gathers the blocks' checksums.
 */
#ifndef MILLRACE_CKPT_SAVE_GLOBAL_PLAN_H
#define MILLRACE_CKPT_SAVE_GLOBAL_PLAN_H

#include "base/err.h"
#include "base/str.h"
#include "ckpt/format/manifest.h"
#include "ckpt/save/consolidated.h"
#include "ckpt/save/layout.h"
#include "ckpt/save/nodes.h"
#include "comm/comm.h"

enum { GLOBAL_PLAN_NAME_BYTES_MAX = 32 };

/* manifest has all but the step's own: step, time, state, checksums. */
struct global_plan {
    struct manifest manifest;
    struct str tensors_text; /* manifest_encode_tensors */
    char (*file_names)[GLOBAL_PLAN_NAME_BYTES_MAX];
    struct local_plan told;                  /* holds the names */
    const struct consolidated *consolidated; /* borrowed; NULL: there is no common file */
    struct local_plan_chunk *common;         /* its arrays */
    uint32_t *common_crc32c;                 /* of its blocks */
    uint64_t blocks_max; /* of any rank: of its own file, and its pieces of the common one */
    uint32_t *gathered;  /* [ranks][blocks_max] checksums */
    bool gather_failed;  /* gathered is borrowed for ever: comm.h */
};

/* "rank-00003.safetensors" */
const char *global_plan_file_name(int rank, char name[GLOBAL_PLAN_NAME_BYTES_MAX]);
/* Of replicated arrays each node knows its own copy only. Collective, blocks. -EINVAL on all ranks
 * where arrays overlap, leave something out, or disagree. */
int global_plan_init(struct global_plan *global, const struct layout *layout,
                     const struct nodes *nodes, struct err *err);
void global_plan_deinit(struct global_plan *global);
/* Where a rank puts the checksums of its own blocks, in the layout's order. */
uint32_t *global_plan_checksums(struct global_plan *global, int rank);
/* This rank's checksums to everybody; manifest.files[] point to those of all. Collective,
 * blocks. */
int global_plan_gather(struct global_plan *global, struct comm *comm, struct err *err);

#endif
