/*
 * speed — how fast a state is saved and loaded: what `millrace bench ckpt` measures.
 *
 *     ckpt_speed_make(&options, &state, err);                  // the arrays
 *     ckpt_speed_save(&state, step, &speed, err);              // a new step of the folder, durable
 *     // into the same arrays, the page cache cold
 *     ckpt_speed_load(&state, step, true, &speed, err);
 *     ckpt_speed_free(&state);
 *
 * CPU time is that of the whole process, as in io/speed.h.
 *
 * Threads: one.
 */
#ifndef MILLRACE_CKPT_SPEED_H
#define MILLRACE_CKPT_SPEED_H

#include "ckpt/ckpt.h"
#include "io/speed.h"

/* Immutable. */
struct ckpt_speed_options {
    struct io *io;
    const char *folder; /* of the steps */
    uint64_t arrays_count;
    uint64_t array_bytes; /* a multiple of 4; each is a vector of F32 */
    uint64_t staging_bytes;
};

/* Owns its memory. Each array is a group of its own. */
struct ckpt_speed_state {
    struct ckpt_speed_options options;
    struct ckpt_tensor *tensors;
    char (*names)[16];
    struct device *device;
    void *memory; /* of the arrays: in huge pages where the kernel offers them */
};

/* The first save of a saver, and a later one, which finds staging touched. */
enum { CKPT_SPEED_FIRST, CKPT_SPEED_LATER, CKPT_SPEED_SAVES_COUNT };

/* What a save costs the one who computes meanwhile. */
struct ckpt_speed_blocked {
    uint64_t call_ns;    /* ckpt_saver_save */
    uint64_t updates_ns; /* ckpt_saver_before_update, of all groups */
    uint64_t copied_bytes;
    uint64_t save_ns; /* from the call to durable */
};

/* -ENOMEM. */
int ckpt_speed_make(const struct ckpt_speed_options *options, struct ckpt_speed_state *ret_state,
                    struct err *err);
void ckpt_speed_free(struct ckpt_speed_state *state);
/* Opening the saver does not count: a run does it once. */
int ckpt_speed_save(const struct ckpt_speed_state *state, uint64_t step, struct io_speed *speed,
                    struct err *err);
/* Two saves, from that step on, each so much after what was before; after each the arrays are
 * updated once, the first of them so much later. */
int ckpt_speed_block(const struct ckpt_speed_state *state, uint64_t step, uint64_t updates_after_ns,
                     struct ckpt_speed_blocked ret_blocked[CKPT_SPEED_SAVES_COUNT],
                     struct err *err);
/* Opening the checkpoint counts. is_cold: its files leave the page cache first. */
int ckpt_speed_load(const struct ckpt_speed_state *state, uint64_t step, bool is_cold,
                    struct io_speed *speed, struct err *err);
/* The files of a step leave the page cache. */
int ckpt_speed_drop(struct io *io, const char *step_path, struct err *err);
/* The checksums alone of all arrays' bytes, block by block; their exclusive or. */
uint32_t ckpt_speed_checksum(const struct ckpt_speed_state *state, struct io_speed *speed);

#endif
