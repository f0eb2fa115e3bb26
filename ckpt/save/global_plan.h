/*
 * global_plan — merges the local plans of all ranks into the plan of the manifest.
 *
 * Layouts do not change during a run, so plans are exchanged once. A save gathers only the blocks'
 * checksums.
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

/* manifest lacks step, time, state and checksums, which change with each save. */
struct global_plan {
    struct manifest manifest;
    struct str tensors_text; /* from manifest_encode_tensors */
    char (*file_names)[GLOBAL_PLAN_NAME_BYTES_MAX];
    struct local_plan received;
    const struct consolidated *consolidated; /* borrowed; NULL: no consolidated file */
    struct local_plan_chunk *consolidated_chunks;
    uint32_t *consolidated_crc32c;
    /* Maximum over ranks of own-file blocks plus consolidated-file slices. */
    uint64_t blocks_max;
    uint32_t *gathered; /* [ranks][blocks_max] checksums */
    bool gather_failed; /* the communicator may still use gathered (comm.h) */
};

/* "rank-00003.safetensors" */
const char *global_plan_file_name(int rank, char name[GLOBAL_PLAN_NAME_BYTES_MAX]);
/* Each node lists only its own copy of a replicated array. Collective; blocks. -EINVAL on all ranks
 * if the parts of an array overlap, have gaps or disagree. */
int global_plan_init(struct global_plan *global, const struct layout *layout,
                     const struct nodes *nodes, struct err *err);
void global_plan_deinit(struct global_plan *global);
/* The checksums of a rank's blocks, in the order of its layout. */
uint32_t *global_plan_checksums(struct global_plan *global, int rank);
/* Gathers all ranks' checksums; manifest.files[] point to them. Collective; blocks. */
int global_plan_gather(struct global_plan *global, struct comm *comm, struct err *err);

#endif
