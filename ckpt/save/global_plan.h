/*
 * global_plan — merges what all ranks store into one plan of the manifest.
 *
 * Layouts do not change during a run, so the ranks exchange what they store only once. A save then
 * only gathers the blocks' checksums.
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

/* manifest lacks only the step's own data: step, time, state, checksums. */
struct global_plan {
    struct manifest manifest;
    struct str tensors_text; /* from manifest_encode_tensors */
    char (*file_names)[GLOBAL_PLAN_NAME_BYTES_MAX];
    struct local_plan received;              /* holds the names */
    const struct consolidated *consolidated; /* borrowed; NULL: no common file */
    struct local_plan_chunk *common;         /* the common file's arrays */
    uint32_t *common_crc32c;                 /* of the common file's blocks */
    /* The most that any rank has: blocks of its own file and pieces of the common one. */
    uint64_t blocks_max;
    uint32_t *gathered; /* [ranks][blocks_max] checksums */
    bool gather_failed; /* the communicator may still use gathered (comm.h) */
};

/* "rank-00003.safetensors" */
const char *global_plan_file_name(int rank, char name[GLOBAL_PLAN_NAME_BYTES_MAX]);
/* Of replicated arrays, each node lists only its own copy. Collective, blocks. -EINVAL on all ranks
 * if arrays overlap, leave something out, or disagree. */
int global_plan_init(struct global_plan *global, const struct layout *layout,
                     const struct nodes *nodes, struct err *err);
void global_plan_deinit(struct global_plan *global);
/* Where the checksums of a rank's blocks go, in the order of its layout. */
uint32_t *global_plan_checksums(struct global_plan *global, int rank);
/* Sends this rank's checksums to all; manifest.files[] point to those of all ranks. Collective,
 * blocks. */
int global_plan_gather(struct global_plan *global, struct comm *comm, struct err *err);

#endif
