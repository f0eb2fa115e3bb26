/*
 * sample_filter — see sample_filter.h.
 */
#include "loader/parts/sample_filter.h"

#include "loader/parts/where.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- The numbers of samples. ---- */

enum { FROM_ROWS = -1 }; /* the column of a size that comes from an image's rows */

struct walk {
    const struct sample_filter *filter;
    const char *names[SHARD_NUMBERS_MAX];
    uint32_t names_count;
    /* Takes the numbers of a candidate, by name. */
    int (*visit)(struct walk *walk, const struct shard *shard, uint64_t number, uint32_t sample,
                 const double *values);
    const struct where *where;
    uint64_t missing[SHARD_NUMBERS_MAX]; /* samples that lack a number */
    struct str *out;                     /* uint32_t */
    struct err *err;
};

static int no_index_field(const struct walk *walk, const struct shard *shard, const char *name)
{
    char list[ERR_TEXT_BYTES_MAX] = "";
    size_t used = 0;
    uint32_t count = shard_index_numbers(shard->index);
    for (uint32_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 shard_index_number_name(shard->index, i));
    err_set(walk->err, -EINVAL, "the shard has no index field \"%s\"", name);
    err_at(walk->err, shard->path, ERR_NO_OFFSET);
    err_expected(walk->err, count > 0 ? "one of %s" : "%snumbers of samples in its index", list);
    err_found(walk->err, count > 0 ? "%s" : "none", name);
    err_advise(walk->err, "convert the dataset again with --index-field FIELD:PATH=%s", name);
    return -EINVAL;
}

/* Sets the column of each name, or FROM_ROWS. */
static int find_columns(const struct walk *walk, const struct shard *shard,
                        int columns[SHARD_NUMBERS_MAX])
{
    for (uint32_t i = 0; i < walk->names_count; i++) {
        const char *name = walk->names[i];
        bool is_size = strcmp(name, "width") == 0 || strcmp(name, "height") == 0;
        columns[i] = shard_index_find_number(shard->index, name);
        if (columns[i] < 0 && !(is_size && shard->trailer.flags & SHARD_FLAG_RAW_IMAGES))
            return no_index_field(walk, shard, name);
        if (columns[i] < 0)
            columns[i] = FROM_ROWS;
    }
    return 0;
}

static const char *key_of(const struct shard *shard, uint64_t number, int *ret_bytes)
{
    uint32_t bytes;
    const char *key = shard_index_key(shard->index, number, &bytes);
    *ret_bytes = (int)(bytes < 80 ? bytes : 80);
    return key;
}

static int read_rows(const struct walk *walk, const struct shard *shard, uint64_t number,
                     const char *name, double *ret_value)
{
    uint32_t images = 0;
    int key_bytes;
    for (uint32_t i = 0; i < shard_index_fields(shard->index); i++) {
        struct shard_field field;
        shard_index_field(shard->index, number, i, &field);
        struct shard_raw_image rows = field.picture;
        if (rows.width == 0)
            continue;
        images++;
        *ret_value =
            strcmp(name, "width") == 0
                ? (double)rows.width
                : (double)((field.size_bytes - rows.pixels_offset) / (3 * (uint64_t)rows.width));
    }
    if (images == 1)
        return 0;
    const char *key = key_of(shard, number, &key_bytes);
    err_set(walk->err, -EINVAL, "the index does not have the %s of sample \"%.*s\"", name,
            key_bytes, key);
    err_at(walk->err, shard->path, ERR_NO_OFFSET);
    err_expected(walk->err, "one image whose rows are in the index");
    err_found(walk->err, "%" PRIu32, images);
    err_advise(walk->err, "convert the dataset again with --index-field 'jpg;png;webp;ppm:%s=%s'",
               name, name);
    return -EINVAL;
}

static int visit_sample(struct walk *walk, const struct shard *shard,
                        const int columns[SHARD_NUMBERS_MAX], uint64_t number, uint32_t sample)
{
    double values[SHARD_NUMBERS_MAX];
    int status = 0;
    for (uint32_t i = 0; i < walk->names_count && !status; i++) {
        if (columns[i] == FROM_ROWS)
            status = read_rows(walk, shard, number, walk->names[i], &values[i]);
        else
            values[i] = shard_index_number(shard->index, number, (uint32_t)columns[i]);
    }
    return status ? status : walk->visit(walk, shard, number, sample, values);
}

/* Visits the candidates in a shard; *next is the next candidate. */
static int visit_shard(struct walk *walk, const struct shard *shard, uint64_t first, uint64_t *next)
{
    const struct sample_filter *filter = walk->filter;
    uint64_t end = first + shard_index_samples(shard->index);
    int columns[SHARD_NUMBERS_MAX];
    int status = find_columns(walk, shard, columns);
    for (; *next < filter->candidates_count && !status; (*next)++) {
        uint64_t sample = filter->candidates ? filter->candidates[*next] : *next;
        if (sample >= end)
            break;
        status = visit_sample(walk, shard, columns, sample - first, (uint32_t)sample);
    }
    return status;
}

static int visit_candidates(struct walk *walk)
{
    const struct sample_filter *filter = walk->filter;
    uint64_t next = 0;
    int status = 0;
    for (uint64_t i = 0; i < filter->dataset->shards_count && !status; i++) {
        const struct dataset_shard *listed = &filter->dataset->shards[i];
        uint64_t sample =
            filter->candidates && next < filter->candidates_count ? filter->candidates[next] : next;
        struct shard *shard;
        if (next == filter->candidates_count || sample >= listed->first_sample + listed->samples)
            continue;
        status = shard_cache_get(filter->cache, filter->first_shard + i, OPEN_FILES_HALF, &shard,
                                 walk->err);
        if (status)
            break;
        status = visit_shard(walk, shard, listed->first_sample, &next);
        shard_cache_put(filter->cache, filter->first_shard + i);
    }
    if (!status && str_status(walk->out))
        status = err_set(walk->err, -ENOMEM, "out of memory for %" PRIu64 " samples",
                         filter->candidates_count);
    return status;
}

/* ---- Conditions. ---- */

static int add_match(struct walk *walk, const struct shard *shard, uint64_t number, uint32_t sample,
                     const double *values)
{
    (void)shard;
    (void)number;
    for (uint32_t i = 0; i < walk->names_count; i++)
        walk->missing[i] += isnan(values[i]);
    if (where_matches(walk->where, values))
        str_add(walk->out, &sample, sizeof sample);
    return 0;
}

static int check_matches(const struct walk *walk, const char *condition)
{
    const struct sample_filter *filter = walk->filter;
    char list[ERR_TEXT_BYTES_MAX] = "";
    size_t used = 0;
    bool is_absent = false;
    for (uint32_t i = 0; i < walk->names_count; i++) {
        is_absent = is_absent || walk->missing[i] == filter->candidates_count;
        if (walk->missing[i] > 0 && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, ", %" PRIu64 " without %s",
                                     walk->missing[i], walk->names[i]);
    }
    if (walk->out->bytes > 0 && !is_absent)
        return 0;
    err_set(walk->err, -EINVAL,
            is_absent ? "no sample has a number that the condition %.120s names"
                      : "no sample meets the condition %.120s",
            condition);
    err_at(walk->err, filter->dataset->path, ERR_NO_OFFSET);
    err_found(walk->err, "%" PRIu64 " samples%s", filter->candidates_count, list);
    err_advise(walk->err,
               "compare with the range of each index field: `millrace inspect SHARD.tar`");
    return -EINVAL;
}

int sample_filter_where(const struct sample_filter *filter, const char *condition,
                        struct str *matches, struct err *err)
{
    struct where *where;
    struct walk walk = {.filter = filter, .visit = add_match, .out = matches, .err = err};
    int status = where_parse(condition, filter->dataset->classes, filter->dataset->classes_count,
                             &where, err);
    if (status)
        return status;
    walk.where = where;
    walk.names_count = where_fields(where);
    for (uint32_t i = 0; i < walk.names_count; i++)
        walk.names[i] = where_field(where, i);
    status = visit_candidates(&walk);
    if (!status)
        status = check_matches(&walk, condition);
    where_free(where);
    return status;
}

/* ---- Classes. ---- */

static int add_class(struct walk *walk, const struct shard *shard, uint64_t number, uint32_t sample,
                     const double *values)
{
    double value = values[0];
    uint32_t class_number;
    int key_bytes;
    (void)sample;
    if (value >= 0 && value < SAMPLE_CLASSES_MAX && value == floor(value)) {
        class_number = (uint32_t)value;
        str_add(walk->out, &class_number, sizeof class_number);
        return 0;
    }
    const char *key = key_of(shard, number, &key_bytes);
    err_set(walk->err, -EINVAL, "the sample \"%.*s\" has no class", key_bytes, key);
    err_at(walk->err, shard->path, ERR_NO_OFFSET);
    err_expected(walk->err, "an integer from 0 to %d as index field \"%s\"", SAMPLE_CLASSES_MAX - 1,
                 walk->names[0]);
    if (isnan(value))
        err_found(walk->err, "none");
    else
        err_found(walk->err, "%g", value);
    err_advise(walk->err, "leave such samples out with a condition (where): %s >= 0",
               walk->names[0]);
    return -EINVAL;
}

int sample_filter_classes(const struct sample_filter *filter, const char *name, struct str *classes,
                          struct err *err)
{
    struct walk walk = {.filter = filter, .names_count = 1, .visit = add_class, .out = classes};
    walk.names[0] = strcmp(name, "class") == 0 ? WHERE_LABEL : name;
    walk.err = err;
    return visit_candidates(&walk);
}
