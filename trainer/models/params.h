/*
 * params — the logical tensors of a model, in units and groups, in one arena.
 *
 * A unit is what is computed with at a time: the embedding, each block, the head. A group is what
 * is unsharded, reduced and updated together: a unit, or neighbours that were joined. Tensors lie
 * in the arena in the order they were added, units one after another; a tensor starts at a multiple
 * of PARAMS_ALIGN elements unless it was added as a neighbour (q, k, v; gate, up), so that one
 * product serves both. Padding is zero and stays zero.
 *
 * The same offsets serve every arena (parameters, gradients, moments) until parameters are frozen:
 * arenas of gradients and moments have none of those, and are closed up. They are laid out by
 * trained_offset and trained_elements, weights by offset and elements.
 */
#ifndef MILLRACE_TRAINER_MODELS_PARAMS_H
#define MILLRACE_TRAINER_MODELS_PARAMS_H

#include "base/dtype.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { PARAMS_ALIGN = 64, PARAMS_NAME_BYTES_MAX = 96, PARAMS_COUNT_MAX = 1 << 16 };

enum param_init { PARAM_ZEROS, PARAM_ONES, PARAM_NORMAL };

/* One logical tensor. Immutable once added. Shards end at rows: a tensor is rows x cols, rows its
 * first dimension. */
struct param {
    char name
        [PARAMS_NAME_BYTES_MAX]; /* "blocks.3.attn.q.weight"; docs/reference/models.md lists them */
    uint32_t rank;               /* dimensions, 1 or 2 */
    uint64_t shape[2];
    uint32_t group;
    uint64_t offset;         /* in the arena, elements */
    uint64_t count;          /* elements */
    uint64_t trained_offset; /* in arenas of what is trained; of no meaning where it is frozen */
    bool frozen;             /* not trained */
    bool neighbor;           /* of the one before it */
    bool decay;              /* weight decay applies: matrices */
    enum param_init init;
    double deviation; /* of PARAM_NORMAL */
};

/* A unit or a group. */
struct param_group {
    char name[PARAMS_NAME_BYTES_MAX]; /* "embed", "blocks.3", "head"; "embed to blocks.3" */
    uint64_t first, count;            /* parameters */
    uint64_t offset, elements;        /* in the arena, padding included */
    uint64_t trained_offset, trained_elements;
};

/* Built by a model's description, then immutable. */
struct params {
    struct param *list;
    uint64_t count, capacity;
    struct param_group *units, *groups;
    uint64_t units_count, groups_count, units_capacity, groups_capacity;
    uint64_t elements; /* of the arena */
    uint64_t trained_elements;
};

/* A group of its own, as long as it is not joined. */
int params_begin_unit(struct params *params, const char *name, struct err *err);
/* To the unit begun last. cols 0: one dimension. neighbour: no padding before it. padding_rows: so
 * many rows of padding behind it at least, which products take as the tensor's. *ret_index is its
 * place in the list. */
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

/* Joins neighbours, from the first unit on, until a group has as many parameters; what is left at
 * the end joins the last group. Before params_lay_out_trained. */
void params_join_units(struct params *params, uint64_t group_params_min);
uint64_t params_group_of(const struct params *params, uint64_t unit);

/* Lays out the arenas of what is trained, once `frozen` is set where it shall be: neighbours agree
 * in it. */
void params_lay_out_trained(struct params *params);

/* A stretch of one group that lies in one piece in both kinds of arenas, padding included. */
struct params_span {
    uint64_t offset, trained_offset, elements;
};
/* What is trained of a group, stretch after stretch: *next is 0 at first. False at the end. */
bool params_next_span(const struct params *params, uint64_t group, uint64_t *next,
                      struct params_span *ret_span);
/* Of the parameter that lies at an offset in its unit's weights: where its gradient lies in the
 * arena of what is trained. False where it is frozen. */
bool params_gradient(const struct params *params, uint64_t unit, uint64_t offset,
                     uint64_t *ret_offset);

/* Initial values into an arena of host memory of dtype F32 or F64: Philox keyed by (seed, XXH3 of
 * the name), counter the element: independent of layout. Normal by Box-Muller. */
void params_init_values(const struct params *params, uint64_t seed, enum dtype dtype, void *arena);
/* Those of one group, which begins at memory. */
void params_init_group(const struct params *params, uint64_t group, uint64_t seed, enum dtype dtype,
                       void *memory);

#endif
