/*
 * bench_ckpt — measures saving and loading a state of equal-sized arrays.
 *
 *     bench_ckpt_open(&options, &state, err);
 *     bench_ckpt_save(&state, step, &totals, err);       // a new step, durably
 *     bench_ckpt_load(&state, step, &totals, err);       // from a cold page cache
 *     bench_ckpt_close(&state);
 *
 * Not thread-safe.
 */
#ifndef MILLRACE_CLI_BENCH_BENCH_CKPT_H
#define MILLRACE_CLI_BENCH_BENCH_CKPT_H

#include "ckpt/ckpt.h"
#include "cli/bench/io_benchmark.h"

struct bench_ckpt_options {
    struct io *io;
    const char *folder; /* for checkpoints */
    uint64_t arrays_count;
    uint64_t array_bytes; /* a multiple of 4: each array is an F32 vector */
    uint64_t staging_bytes;
};

/* Each array is one group. */
struct bench_ckpt_state {
    struct bench_ckpt_options options;
    struct ckpt_tensor *tensors;
    char (*names)[16];
    struct device *device;
    void *memory; /* the arrays, in huge pages if the kernel offers them */
};

/* Later saves of a saver reuse its staging memory. */
enum { BENCH_CKPT_FIRST_SAVE, BENCH_CKPT_LATER_SAVE, BENCH_CKPT_SAVES_COUNT };

struct bench_ckpt_async_cost {
    uint64_t call_ns;    /* ckpt_saver_save */
    uint64_t updates_ns; /* ckpt_saver_before_update of all groups */
    uint64_t copied_bytes;
    uint64_t save_ns; /* from the call until the save is durable */
};

int bench_ckpt_open(const struct bench_ckpt_options *options, struct bench_ckpt_state *ret_state,
                    struct err *err);
void bench_ckpt_close(struct bench_ckpt_state *state);
/* Excludes opening the saver, because a run opens it once. */
int bench_ckpt_save(const struct bench_ckpt_state *state, uint64_t step,
                    struct io_benchmark *totals, struct err *err);
/* Saves `step` and the next one with one saver. Sleeps update_delay_ns before and after each save,
 * then calls before_update for every array. */
int bench_ckpt_save_async(const struct bench_ckpt_state *state, uint64_t step,
                          uint64_t update_delay_ns,
                          struct bench_ckpt_async_cost ret_costs[BENCH_CKPT_SAVES_COUNT],
                          struct err *err);
/* Drops the step from the page cache, then measures opening and loading it. */
int bench_ckpt_load(const struct bench_ckpt_state *state, uint64_t step,
                    struct io_benchmark *totals, struct err *err);
int bench_ckpt_drop_cache(struct io *io, const char *step_path, struct err *err);
/* Measures checksumming the arrays' blocks. Returns the XOR of the checksums, so that the
 * compiler keeps the loop. */
uint32_t bench_ckpt_checksum(const struct bench_ckpt_state *state, struct io_benchmark *totals);

#endif
