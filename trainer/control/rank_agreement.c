/*
 * rank_agreement — see rank_agreement.h.
 */
#include "trainer/control/rank_agreement.h"

#include "base/hash.h"
#include "ckpt/ckpt.h"
#include "comm/wire_version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIST_BYTES_MAX = 200, /* for the keys or ranks in a message */
    COMMON_BYTES_MAX = 80 /* longer values omit their common prefix */
};

/* The records of all ranks, by rank; each ends with an extra NUL. */
struct records {
    char *text;
    size_t bytes; /* per rank, including that NUL */
    int ranks;
};

void rank_record_add(struct rank_record *record, const char *key, const char *value)
{
    str_add(&record->text, key, strlen(key) + 1);
    str_add(&record->text, value, strlen(value) + 1);
}

void rank_record_deinit(struct rank_record *record)
{
    str_deinit(&record->text);
}

static void add_field(void *context, const struct config_field *field, const char *value)
{
    if (!field->may_differ_by_rank)
        rank_record_add(context, field->key, value);
}

void rank_record_add_config(struct rank_record *record, const struct train_config *config)
{
    char version[16], folder[IO_PATH_BYTES_MAX + 16];
    snprintf(version, sizeof version, "%d", COMM_WIRE_VERSION);
    rank_record_add(record, "version", MILLRACE_VERSION);
    rank_record_add(record, "wire version", version);
    int status = config_each_field(config, add_field, record);
    if (status)
        record->text.status = status;
    /* Paths may differ, except a shared checkpoint folder; ranks must agree on whether to
     * evaluate. */
    rank_record_add(record, "data.val", config->data.val[0] ? "given" : "empty");
    if (config->checkpoint.dir[0])
        snprintf(folder, sizeof folder, "%s", config->checkpoint.dir);
    else
        snprintf(folder, sizeof folder, "%s/%s", config->run.dir, CKPT_FOLDER_NAME);
    if (config->checkpoint.shared)
        rank_record_add(record, "checkpoint.dir", folder);
}

/* ---- Exchange. ---- */

static int reduce(struct comm *comm, int64_t *values, size_t count,
                  const struct comm_options *options, struct err *err)
{
    struct comm_work work;
    int status = comm->ops->all_reduce_i64(comm, values, count, COMM_MAX, options, &work, err);
    return status ? status : comm_wait(comm, &work, err);
}

/* Ranks agree on a value if its maximum equals the complement of the maximum of its complement. */
static int compare_hashes(struct comm *comm, const struct rank_record *record, bool *ret_differ,
                          size_t *ret_bytes, const struct comm_options *options, struct err *err)
{
    struct hash128 hash = hash_128(str_text(&record->text), record->text.bytes);
    int own = str_status(&record->text);
    int64_t words[] = {(int64_t)hash.high, ~(int64_t)hash.high,         (int64_t)hash.low,
                       ~(int64_t)hash.low, (int64_t)record->text.bytes, own != 0};
    int status = reduce(comm, words, sizeof words / sizeof words[0], options, err);
    if (status)
        return status;
    if (words[5])
        return own ? err_set(err, -ENOMEM, "not enough memory to compare ranks")
                   : err_set(err, -EREMOTEIO, "another rank is not enough memory to compare ranks");
    *ret_differ = words[0] != ~words[1] || words[2] != ~words[3];
    *ret_bytes = (size_t)words[4] + 1;
    return 0;
}

static int exchange(struct comm *comm, const struct rank_record *record, size_t bytes,
                    struct records *ret_records, const struct comm_options *options,
                    struct err *err)
{
    struct comm_work work;
    struct records records = {calloc((size_t)comm->ranks, bytes), bytes, comm->ranks};
    int status = records.text
                     ? 0
                     : err_set(err, -ENOMEM, "not enough memory to compare %d ranks", comm->ranks);
    status = comm_agree(comm, status, options, err);
    if (status) {
        free(records.text);
        return status;
    }
    char *own = records.text + (size_t)comm->rank * bytes;
    if (record->text.bytes > 0)
        memcpy(own, record->text.data, record->text.bytes);
    status = comm->ops->all_gather(comm, own, records.text, bytes, options, &work, err);
    if (!status)
        status = comm_wait(comm, &work, err);
    if (status) {
        comm_retain(records.text);
        return status;
    }
    *ret_records = records;
    return 0;
}

/* ---- Differences. ---- */

static const char *record_of(const struct records *records, int rank)
{
    return records->text + (size_t)rank * records->bytes;
}

static const char *value_of(const char *key)
{
    return key + strlen(key) + 1;
}

static const char *next_key(const char *key)
{
    const char *value = value_of(key);
    return value + strlen(value) + 1;
}

/* Returns "absent" if the rank lacks the key, as a different program version may. */
static const char *find(const struct records *records, int rank, const char *key)
{
    for (const char *at = record_of(records, rank); *at; at = next_key(at))
        if (strcmp(at, key) == 0)
            return value_of(at);
    return "absent";
}

/* Returns 0 if all agree. */
static int first_other(const struct records *records, const char *key)
{
    const char *value = find(records, 0, key);
    for (int r = 1; r < records->ranks; r++)
        if (strcmp(find(records, r, key), value) != 0)
            return r;
    return 0;
}

/* Appends "rank 1" or "ranks 1, 2": the ranks with that value. */
static void list_ranks(const struct records *records, const char *key, const char *value,
                       struct str *out)
{
    struct str list = {0};
    int count = 0;
    for (int r = 0; r < records->ranks; r++) {
        if (strcmp(find(records, r, key), value) != 0)
            continue;
        if (list.bytes < LIST_BYTES_MAX)
            str_add_format(&list, "%s%d", count ? ", " : "", r);
        count++;
    }
    str_add_format(out, "rank%s %s%s", count > 1 ? "s" : "", str_text(&list),
                   list.bytes < LIST_BYTES_MAX ? "" : "...");
    str_merge_status(out, &list);
    str_deinit(&list);
}

/* Returns the length of the equal leading entries of two semicolon-separated lists; 0 if both are
 * short. */
static size_t common_bytes(const char *a, const char *b)
{
    size_t part = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == ';')
            part = i + 1;
    return strlen(a) > COMMON_BYTES_MAX || strlen(b) > COMMON_BYTES_MAX ? part : 0;
}

struct differences {
    const char *first;
    int rank; /* the first whose value differs from rank 0's */
    int count;
    struct str others; /* other keys */
};

static void note_difference(struct differences *differences, const char *key, int rank)
{
    if (differences->count++ == 0) {
        differences->first = key;
        differences->rank = rank;
    } else if (differences->others.bytes + strlen(key) < LIST_BYTES_MAX / 2) {
        str_add_format(&differences->others, "%s%s", differences->count > 2 ? ", " : "", key);
    }
}

static void find_differences(const struct records *records, struct differences *differences)
{
    for (const char *key = record_of(records, 0); *key; key = next_key(key)) {
        int rank = first_other(records, key);
        if (rank > 0)
            note_difference(differences, key, rank);
    }
    for (int r = 1; r < records->ranks && differences->count == 0; r++) /* keys that rank 0 lacks */
        for (const char *key = record_of(records, r); *key; key = next_key(key))
            if (first_other(records, key) > 0)
                note_difference(differences, key, first_other(records, key));
}

static int name_differences(const struct records *records, const char *advice, struct err *err)
{
    struct differences differences = {0};
    struct str expected_ranks = {0}, found_ranks = {0};
    find_differences(records, &differences);
    const char *key = differences.first;
    const char *expected = find(records, 0, key), *found = find(records, differences.rank, key);
    size_t skipped = common_bytes(expected, found);
    list_ranks(records, key, expected, &expected_ranks);
    list_ranks(records, key, found, &found_ranks);
    if (differences.count > 1)
        err_set(err, -EINVAL, "ranks do not agree on %.60s and %d more: %.100s", key,
                differences.count - 1, str_text(&differences.others));
    else
        err_set(err, -EINVAL, "ranks do not agree on %.100s", key);
    err_expected(err, "%s%.150s on %.60s", skipped ? "..." : "", expected + skipped,
                 str_text(&expected_ranks));
    err_found(err, "%s%.150s on %.60s", skipped ? "..." : "", found + skipped,
              str_text(&found_ranks));
    err_advise(err, "%s", advice);
    str_deinit(&differences.others);
    str_deinit(&expected_ranks);
    str_deinit(&found_ranks);
    return -EINVAL;
}

int rank_agreement_check(struct comm *comm, const struct rank_record *record, const char *advice,
                         const struct comm_options *options, struct err *err)
{
    struct records records;
    bool differ = false;
    size_t bytes = 0;
    if (comm->ranks == 1)
        return 0;
    int status = compare_hashes(comm, record, &differ, &bytes, options, err);
    if (status || !differ)
        return status;
    status = exchange(comm, record, bytes, &records, options, err);
    if (status)
        return status;
    status = name_differences(&records, advice, err);
    free(records.text);
    /* every rank has the same detail: only one prints it */
    return comm_agree(comm, status, options, err);
}

int rank_agreement_collect(struct comm *comm, const char *value, struct str *out, bool *ret_differs,
                           const struct comm_options *options, struct err *err)
{
    static const char key[] = "value";
    struct rank_record record = {0};
    struct records records = {0};
    size_t bytes = 0;
    *ret_differs = false;
    rank_record_add(&record, key, value);
    int status =
        comm->ranks == 1 ? 0 : compare_hashes(comm, &record, ret_differs, &bytes, options, err);
    if (!status && *ret_differs)
        status = exchange(comm, &record, bytes, &records, options, err);
    if (!status && !*ret_differs)
        str_add_text(out, value);
    for (int r = 0; r < records.ranks; r++) {
        const char *own = find(&records, r, key);
        bool is_first = true;
        for (int before = 0; before < r; before++)
            is_first = is_first && strcmp(find(&records, before, key), own) != 0;
        if (!is_first)
            continue;
        str_add_text(out, r > 0 ? " | " : "");
        list_ranks(&records, key, own, out);
        str_add_format(out, ": %s", own);
    }
    free(records.text);
    rank_record_deinit(&record);
    return status;
}
