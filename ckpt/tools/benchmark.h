/*
 * benchmark — measures how fast a state is saved and loaded, for `millrace bench ckpt`.
 *
 *     ckpt_benchmark_make(&options, &state, err);           // the arrays
 *     ckpt_benchmark_save(&state, step, &speed, err);       // a new step of the folder, durable
 *     ckpt_benchmark_load(&state, step, true, &speed, err); // into the same arrays, cache cold
 *     ckpt_benchmark_free(&state);
 *
 * CPU time is that of the whole process, as in io/benchmark.h.
 *
 * Threads: one.
 */
#ifndef MILLRACE_CKPT_TOOLS_BENCHMARK_H
#define MILLRACE_CKPT_TOOLS_BENCHMARK_H

#include "ckpt/ckpt.h"
#include "io/benchmark.h"

/* Immutable. */
struct ckpt_benchmark_options {
    struct io *io;
    const char *folder; /* of the steps */
    uint64_t arrays_count;
    uint64_t array_bytes; /* a multiple of 4: each array is an F32 vector */
    uint64_t staging_bytes;
};

/* Owns its memory. Each array is one group. */
struct ckpt_benchmark_state {
    struct ckpt_benchmark_options options;
    struct ckpt_tensor *tensors;
    char (*names)[16];
    struct device *device;
    void *memory; /* of the arrays, in huge pages if the kernel offers them */
};

/* The first save of a saver, and a later one, whose staging memory is already touched. */
enum { CKPT_BENCHMARK_FIRST, CKPT_BENCHMARK_LATER, CKPT_BENCHMARK_SAVES_COUNT };

/* What a save costs a caller that computes meanwhile. */
struct ckpt_benchmark_blocked {
    uint64_t call_ns;    /* ckpt_saver_save */
    uint64_t updates_ns; /* ckpt_saver_before_update of all groups */
    uint64_t copied_bytes;
    uint64_t save_ns; /* from the call to durable */
};

/* -ENOMEM. */
int ckpt_benchmark_make(const struct ckpt_benchmark_options *options,
                        struct ckpt_benchmark_state *ret_state, struct err *err);
void ckpt_benchmark_free(struct ckpt_benchmark_state *state);
/* Opening the saver is not measured: a run does it once. */
int ckpt_benchmark_save(const struct ckpt_benchmark_state *state, uint64_t step,
                        struct io_benchmark *speed, struct err *err);
/* Makes two saves, of `step` and the next one. Sleeps updates_after_ns before each call, and again
 * after it, then calls before_update for every array. */
int ckpt_benchmark_block(const struct ckpt_benchmark_state *state, uint64_t step,
                         uint64_t updates_after_ns,
                         struct ckpt_benchmark_blocked ret_blocked[CKPT_BENCHMARK_SAVES_COUNT],
                         struct err *err);
/* Opening the checkpoint is measured. is_cold: drops its files from the page cache first. */
int ckpt_benchmark_load(const struct ckpt_benchmark_state *state, uint64_t step, bool is_cold,
                        struct io_benchmark *speed, struct err *err);
/* Drops the files of a step from the page cache. */
int ckpt_benchmark_drop(struct io *io, const char *step_path, struct err *err);
/* Computes only the checksums of the arrays, block by block; returns their exclusive or. */
uint32_t ckpt_benchmark_checksum(const struct ckpt_benchmark_state *state,
                                 struct io_benchmark *speed);

#endif
