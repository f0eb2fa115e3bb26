/*
 * params — see params.h.
 */
#include "trainer/models/params.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/philox.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Below 2^48, so that byte counts and sums never overflow. */
#define PARAMS_ELEMENTS_MAX (UINT64_C(1) << 48)

static int grow_list(void **list, uint64_t *capacity, uint64_t count, size_t element_bytes,
                     struct err *err)
{
    if (count < *capacity)
        return 0;
    if (count >= PARAMS_COUNT_MAX) {
        err_set(err, -EINVAL, "the model has too many tensors");
        err_expected(err, "at most %d", PARAMS_COUNT_MAX);
        return -EINVAL;
    }
    uint64_t wanted = *capacity ? *capacity * 2 : 64;
    void *larger = realloc(*list, wanted * element_bytes);
    if (!larger)
        return err_errno(err, -ENOMEM, "cannot list the model's tensors");
    *list = larger;
    *capacity = wanted;
    return 0;
}

static int set_name(char target[PARAMS_NAME_BYTES_MAX], const char *name, struct err *err)
{
    size_t bytes = strlen(name);
    if (bytes >= PARAMS_NAME_BYTES_MAX) {
        err_set(err, -EINVAL, "the name of a tensor is too long: %.*s...", PARAMS_NAME_BYTES_MAX,
                name);
        return -EINVAL;
    }
    memcpy(target, name, bytes + 1);
    return 0;
}

int params_begin_unit(struct params *params, const char *name, struct err *err)
{
    int status = grow_list((void **)&params->groups, &params->groups_capacity, params->groups_count,
                           sizeof *params->groups, err);
    if (status == 0)
        status = grow_list((void **)&params->units, &params->units_capacity, params->units_count,
                           sizeof *params->units, err);
    struct param_group unit = {
        .first = params->count, .offset = params->elements, .trained_offset = params->elements};
    if (status == 0)
        status = set_name(unit.name, name, err);
    if (status < 0)
        return status;
    params->units[params->units_count++] = unit;
    params->groups[params->groups_count++] = unit;
    return 0;
}

int params_add(struct params *params, const struct param_spec *spec, uint64_t *ret_index,
               struct err *err)
{
    assert(params->units_count > 0 && params->groups_count == params->units_count &&
           spec->rows > 0);
    struct param_group *unit = &params->units[params->units_count - 1];
    int status = grow_list((void **)&params->list, &params->capacity, params->count,
                           sizeof *params->list, err);
    if (status < 0)
        return status;
    struct param param = {.rank = spec->cols ? 2 : 1,
                          .shape = {spec->rows, spec->cols},
                          .group = (uint32_t)(params->groups_count - 1),
                          .neighbor = spec->neighbor,
                          .decay = spec->decay,
                          .init = spec->init,
                          .deviation = spec->deviation};
    status = set_name(param.name, spec->name, err);
    if (status < 0)
        return status;
    assert(!params_find(params, param.name));
    uint64_t cols = spec->cols ? spec->cols : 1, padded_count;
    if (__builtin_mul_overflow(spec->rows, cols, &param.count) ||
        __builtin_mul_overflow(spec->rows + spec->padding_rows, cols, &padded_count) ||
        padded_count > PARAMS_ELEMENTS_MAX - params->elements) {
        err_set(err, -EINVAL, "the model is too large at tensor %s", spec->name);
        err_expected(err, "at most %" PRIu64 " elements in total", PARAMS_ELEMENTS_MAX);
        return -EINVAL;
    }
    param.offset = params->elements;
    if (spec->neighbor) {
        assert(unit->count > 0);
        const struct param *last = &params->list[params->count - 1];
        param.offset = last->offset + last->count;
    }
    param.trained_offset = param.offset;
    params->elements = params->trained_elements =
        bytes_round_up(param.offset + padded_count, PARAMS_ALIGN);
    unit->elements = unit->trained_elements = params->elements - unit->offset;
    unit->count++;
    params->groups[params->groups_count - 1] = *unit;
    *ret_index = params->count;
    params->list[params->count++] = param;
    return 0;
}

void params_deinit(struct params *params)
{
    free(params->list);
    free(params->units);
    free(params->groups);
    *params = (struct params){0};
}

const struct param *params_find(const struct params *params, const char *name)
{
    for (uint64_t i = 0; i < params->count; i++) {
        if (strcmp(params->list[i].name, name) == 0)
            return &params->list[i];
    }
    return NULL;
}

/* End of the parameter in the arena, including padding. */
static uint64_t param_end(const struct params *params, uint64_t index)
{
    return index + 1 < params->count ? params->list[index + 1].offset : params->elements;
}

uint64_t params_group_of(const struct params *params, uint64_t unit)
{
    return params->list[params->units[unit].first].group;
}

static uint64_t count_params(const struct params *params, uint64_t first, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = first; i < first + count; i++)
        sum += params->list[i].count;
    return sum;
}

static void join_unit(struct param_group *group, const char *first_name,
                      const struct param_group *unit)
{
    group->count += unit->count;
    group->elements += unit->elements;
    group->trained_elements += unit->trained_elements;
    snprintf(group->name, sizeof group->name, "%.40s to %.40s", first_name, unit->name);
}

void params_join_units(struct params *params, uint64_t group_params_min)
{
    uint64_t left = count_params(params, 0, params->count), had = 0;
    const char *first_name = NULL;
    params->groups_count = 0;
    for (uint64_t u = 0; u < params->units_count; u++) {
        const struct param_group *unit = &params->units[u];
        uint64_t count = count_params(params, unit->first, unit->count);
        if (u == 0 || (had >= group_params_min && left >= group_params_min)) {
            params->groups[params->groups_count++] = *unit;
            first_name = unit->name;
            had = 0;
        } else {
            join_unit(&params->groups[params->groups_count - 1], first_name, unit);
        }
        had += count;
        left -= count;
        for (uint64_t i = unit->first; i < unit->first + unit->count; i++)
            params->list[i].group = (uint32_t)(params->groups_count - 1);
    }
}

static void lay_out_groups(const struct params *params, struct param_group *list, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t next = list[i].first + list[i].count;
        uint64_t end =
            next < params->count ? params->list[next].trained_offset : params->trained_elements;
        list[i].trained_offset = params->list[list[i].first].trained_offset;
        list[i].trained_elements = end - list[i].trained_offset;
    }
}

void params_lay_out_trained(struct params *params)
{
    params->trained_elements = 0;
    for (uint64_t i = 0; i < params->count; i++) {
        struct param *param = &params->list[i];
        assert(!param->neighbor || param->frozen == param[-1].frozen);
        param->trained_offset = params->trained_elements;
        if (!param->frozen)
            params->trained_elements += param_end(params, i) - param->offset;
    }
    lay_out_groups(params, params->units, params->units_count);
    lay_out_groups(params, params->groups, params->groups_count);
}

bool params_next_span(const struct params *params, uint64_t group, uint64_t *next,
                      struct params_span *ret_span)
{
    const struct param_group *g = &params->groups[group];
    const struct param *list = params->list + g->first;
    uint64_t i = *next;
    while (i < g->count && list[i].frozen)
        i++;
    if (i == g->count)
        return false;
    struct params_span span = {.offset = list[i].offset, .trained_offset = list[i].trained_offset};
    for (; i < g->count && !list[i].frozen; i++)
        span.elements = param_end(params, g->first + i) - span.offset;
    *next = i;
    *ret_span = span;
    return true;
}

bool params_trained_offset(const struct params *params, uint64_t unit, uint64_t offset,
                           uint64_t *ret_offset)
{
    const struct param_group *u = &params->units[unit];
    const struct param *param = &params->list[u->first];
    while (param->offset != u->offset + offset)
        param++;
    assert(param < &params->list[u->first + u->count]);
    *ret_offset = param->trained_offset;
    return !param->frozen;
}

static void store_value(void *arena, enum dtype dtype, uint64_t element, double value)
{
    if (dtype == DTYPE_F64)
        ((double *)arena)[element] = value;
    else
        ((float *)arena)[element] = (float)value;
}

/* Element i uses word i % 4 of Philox block i / 4; two words give two normal numbers. */
static void fill_normal(const struct param *param, uint64_t start, uint64_t seed, enum dtype dtype,
                        void *arena)
{
    const uint64_t parts[3] = {seed, PHILOX_INIT, hash_64(param->name, strlen(param->name))};
    uint64_t key = hash_64(parts, sizeof parts);
    for (uint64_t i = 0; i < param->count; i += 2) {
        struct philox_block random = philox(key, 0, i / 4);
        const uint32_t *word = &random.word[i % 4];
        double radius = sqrt(-2.0 * log(((double)word[0] + 1.0) * 0x1p-32)) * param->deviation;
        double angle = 2.0 * M_PI * ((double)word[1] * 0x1p-32);
        store_value(arena, dtype, start + i, radius * cos(angle));
        if (i + 1 < param->count)
            store_value(arena, dtype, start + i + 1, radius * sin(angle));
    }
}

void params_init_group(const struct params *params, uint64_t group, uint64_t seed, enum dtype dtype,
                       void *memory)
{
    const struct param_group *g = &params->groups[group];
    assert(dtype == DTYPE_F32 || dtype == DTYPE_F64);
    memset(memory, 0, g->elements * dtype_bytes(dtype));
    for (uint64_t p = g->first; p < g->first + g->count; p++) {
        const struct param *param = &params->list[p];
        uint64_t start = param->offset - g->offset;
        if (param->init == PARAM_NORMAL)
            fill_normal(param, start, seed, dtype, memory);
        for (uint64_t i = 0; param->init == PARAM_ONES && i < param->count; i++)
            store_value(memory, dtype, start + i, 1.0);
    }
}

void params_init_values(const struct params *params, uint64_t seed, enum dtype dtype, void *arena)
{
    for (uint64_t g = 0; g < params->groups_count; g++)
        params_init_group(params, g, seed, dtype,
                          (char *)arena + params->groups[g].offset * dtype_bytes(dtype));
}
