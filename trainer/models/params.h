/*
 * params — the tensors of a model in one arena, divided into units and groups.
 *
 * A unit is the embedding, a block or the head. A group is one or more adjacent units, gathered,
 * reduced and updated together. Tensors are stored in params_add order. A tensor starts at a
 * multiple of PARAMS_ALIGN elements unless it is a neighbor: q, k and v, or gate and up, are
 * contiguous so that one product computes them. Padding is always zero.
 *
 * Arenas of gradients and moments omit frozen parameters: they have trained_elements elements, and
 * a parameter is at its trained_offset.
 */
#ifndef MILLRACE_TRAINER_MODELS_PARAMS_H
#define MILLRACE_TRAINER_MODELS_PARAMS_H

#include "base/dtype.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { PARAMS_ALIGN = 64, PARAMS_NAME_BYTES_MAX = 96, PARAMS_COUNT_MAX = 1 << 16 };

enum param_init { PARAM_ZEROS, PARAM_ONES, PARAM_NORMAL };

/* Immutable once added. The first dimension is the rows; shards end at row boundaries. */
struct param {
    char name[PARAMS_NAME_BYTES_MAX];
    uint32_t rank; /* 1 or 2 */
    uint64_t shape[2];
    uint32_t group;
    uint64_t offset; /* in the arena, in elements */
    uint64_t count;
    uint64_t trained_offset; /* in arenas of trained parameters; undefined if frozen */
    bool frozen;
    bool neighbor; /* contiguous with the previous tensor */
    bool decay;    /* subject to weight decay, as matrices are */
    enum param_init init;
    double deviation; /* of PARAM_NORMAL */
};

struct param_group {
    char name[PARAMS_NAME_BYTES_MAX]; /* "embed", "blocks.3", "head"; "embed to blocks.3" */
    uint64_t first, count;
    uint64_t offset, elements; /* in the arena, in elements, with padding */
    uint64_t trained_offset, trained_elements;
};

/* Immutable once the model is described. */
struct params {
    struct param *list;
    uint64_t count, capacity;
    struct param_group *units, *groups;
    uint64_t units_count, groups_count, units_capacity, groups_capacity;
    uint64_t elements;
    uint64_t trained_elements;
};

/* Begins a unit, which is its own group until joined. */
int params_begin_unit(struct params *params, const char *name, struct err *err);
/* cols 0: one dimension. padding_rows: minimum padding after the tensor; products treat it as
 * rows. */
struct param_spec {
    const char *name;
    uint64_t rows, cols, padding_rows;
    bool neighbor, decay;
    enum param_init init;
    double deviation;
};
int params_add(struct params *params, const struct param_spec *spec, uint64_t *ret_index,
               struct err *err);
void params_deinit(struct params *params);
const struct param *params_find(const struct params *params, const char *name);

/* Joins adjacent units, from the first, into groups of at least group_params_min parameters. Call
 * before params_lay_out_trained. */
void params_join_units(struct params *params, uint64_t group_params_min);
uint64_t params_group_of(const struct params *params, uint64_t unit);

/* Lays out the arenas of trained parameters. Call after setting `frozen`, which must be equal for
 * neighbors. */
void params_lay_out_trained(struct params *params);

/* A range of a group that is contiguous in both kinds of arenas, including padding. */
struct params_span {
    uint64_t offset, trained_offset, elements;
};
/* Iterates over the trained ranges of a group. *next starts at 0. Returns false at the end. */
bool params_next_span(const struct params *params, uint64_t group, uint64_t *next,
                      struct params_span *ret_span);
/* Converts a parameter's offset in the unit to its trained_offset. False if it is frozen. */
bool params_trained_offset(const struct params *params, uint64_t unit, uint64_t offset,
                           uint64_t *ret_offset);

/* Writes initial values, F32 or F64, to host memory. Normal values are Box-Muller transforms of
 * Philox, keyed by (seed, XXH3 of the name), with the element index as its counter. Values do not
 * depend on the layout. */
void params_init_values(const struct params *params, uint64_t seed, enum dtype dtype, void *arena);
/* Same for one group. memory: the start of the group. */
void params_init_group(const struct params *params, uint64_t group, uint64_t seed, enum dtype dtype,
                       void *memory);

#endif
