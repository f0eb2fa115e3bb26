/*
 * windows — see windows.h.
 */
#include "loader/parts/windows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The windows of one shard. All members but the last have `per_member` windows, unless
 * `member_ends` is set. */
struct shard_windows {
    uint64_t first; /* index of its first window in the dataset */
    uint64_t per_member;
    /* [members] number of windows up to the end of each member; or NULL */
    uint64_t *member_ends;
};

struct windows {
    const struct dataset *dataset;
    uint64_t block, token_bytes, count;
    struct shard_windows shards[]; /* one per shard, and an end marker */
};

static int bad_member(const struct windows *windows, const struct shard *shard,
                      const struct shard_field *field, struct err *err)
{
    const struct dataset_text *text = &windows->dataset->text;
    err_set(err, -EBADMSG, "the size of a token member does not match dataset.json");
    err_at(err, shard->path, (int64_t)field->data_offset);
    err_expected(err, "%" PRIu32 " bytes and whole tokens of %s", text->header_bytes,
                 text->element);
    err_found(err, "%" PRIu64 " bytes", field->size_bytes);
    err_advise(err, "convert the text again");
    return -EBADMSG;
}

static int count_member(const struct windows *windows, const struct shard *shard, int field_number,
                        uint64_t member, uint64_t *ret_count, struct err *err)
{
    struct shard_field field = {0};
    if (field_number >= 0)
        shard_index_field(shard->index, member, (uint32_t)field_number, &field);
    uint64_t header = windows->dataset->text.header_bytes;
    if (!field.present || field.size_bytes < header ||
        (field.size_bytes - header) % windows->token_bytes != 0)
        return bad_member(windows, shard, &field, err);
    uint64_t tokens = (field.size_bytes - header) / windows->token_bytes;
    *ret_count = tokens ? (tokens - 1) / windows->block : 0;
    return 0;
}

static int count_shard(struct windows *windows, const struct shard *shard, const char *field,
                       struct shard_windows *shard_windows, struct err *err)
{
    uint64_t members = shard_index_samples(shard->index), sum = 0;
    int field_number = shard_index_find(shard->index, field);
    bool is_regular = true;
    shard_windows->first = windows->count;
    shard_windows->member_ends = calloc(members ? members : 1, sizeof *shard_windows->member_ends);
    if (!shard_windows->member_ends)
        return err_set(err, -ENOMEM, "out of memory for a table of %" PRIu64 " members", members);
    for (uint64_t m = 0; m < members; m++) {
        uint64_t count = 0;
        int status = count_member(windows, shard, field_number, m, &count, err);
        if (status)
            return status;
        if (m == 0)
            shard_windows->per_member = count;
        is_regular = is_regular && (count == shard_windows->per_member ||
                                    (m == members - 1 && count < shard_windows->per_member));
        sum += count;
        shard_windows->member_ends[m] = sum;
    }
    if (is_regular) {
        free(shard_windows->member_ends);
        shard_windows->member_ends = NULL;
    }
    windows->count += sum;
    return 0;
}

/* Counts windows from the member lengths in dataset.json. False: missing or impossible lengths. */
static bool count_from_list(struct windows *windows, uint64_t number)
{
    const struct dataset_shard *shard = &windows->dataset->shards[number];
    struct shard_windows *shard_windows = &windows->shards[number];
    uint64_t whole_tokens = windows->dataset->text.member_tokens, full_members = shard->samples - 1;
    shard_windows->first = windows->count;
    if (shard->samples == 0)
        return true;
    if (shard->last_tokens == 0 || shard->last_tokens > whole_tokens)
        return false;
    uint64_t windows_per_member = (whole_tokens - 1) / windows->block,
             last = (shard->last_tokens - 1) / windows->block;
    uint64_t count;
    if (__builtin_mul_overflow(full_members, windows_per_member, &count) ||
        __builtin_add_overflow(count, last, &count) ||
        __builtin_add_overflow(count, windows->count, &count) || count > INT64_MAX)
        return false;
    shard_windows->per_member = full_members > 0 ? windows_per_member : last;
    windows->count = count;
    return true;
}

static int count_shards(struct windows *windows, struct shard_cache *cache, uint64_t first_shard,
                        const char *field, struct err *err)
{
    int status = 0;
    for (uint64_t i = 0; !status && i < windows->dataset->shards_count; i++) {
        struct shard *shard;
        if (count_from_list(windows, i))
            continue;
        status = shard_cache_get(cache, first_shard + i, OPEN_FILES_SEVEN_EIGHTHS, &shard, err);
        if (status)
            return status;
        status = count_shard(windows, shard, field, &windows->shards[i], err);
        shard_cache_put(cache, first_shard + i);
    }
    return status;
}

static int no_window(const struct windows *windows, struct err *err)
{
    err_set(err, -EINVAL, "no member of the dataset has a full block of tokens");
    err_at(err, windows->dataset->path, ERR_NO_OFFSET);
    err_expected(err, "blocks of fewer than %" PRIu64 " tokens",
                 windows->dataset->text.member_tokens);
    err_found(err, "%" PRIu64, windows->block);
    err_advise(err, "use a shorter block");
    return -EINVAL;
}

static int check_text(const struct dataset *dataset, uint32_t block, uint64_t *ret_token_bytes,
                      struct err *err)
{
    const char *element = dataset->text.element;
    if (block < 1) {
        err_set(err, -EINVAL, "the block of text is empty");
        err_advise(err, "use a block of at least one token");
        return -EINVAL;
    }
    *ret_token_bytes = strcmp(element, "uint16") == 0 ? 2 : strcmp(element, "uint32") == 0 ? 4 : 0;
    if (*ret_token_bytes)
        return 0;
    err_set(err, -EINVAL, "the dataset is not text");
    err_at(err, dataset->path, ERR_NO_OFFSET);
    err_expected(err, "token members of uint16 or uint32");
    err_found(err, "\"%s\"", element);
    err_advise(err, "convert text with `millrace convert dataset`");
    return -EINVAL;
}

int windows_open(const struct dataset *dataset, struct shard_cache *cache, uint64_t first_shard,
                 const char *field, uint32_t block, struct windows **ret_windows, struct err *err)
{
    uint64_t token_bytes = 0, shards = dataset->shards_count;
    int status = check_text(dataset, block, &token_bytes, err);
    if (status)
        return status;
    struct windows *windows = calloc(1, sizeof *windows + (shards + 1) * sizeof windows->shards[0]);
    if (!windows)
        return err_set(err, -ENOMEM, "out of memory for a table of %" PRIu64 " shards", shards);
    windows->dataset = dataset;
    windows->block = block;
    windows->token_bytes = token_bytes;
    status = count_shards(windows, cache, first_shard, field, err);
    windows->shards[shards].first = windows->count;
    if (!status && windows->count == 0)
        status = no_window(windows, err);
    if (status)
        windows_close(windows);
    else
        *ret_windows = windows;
    return status;
}

void windows_close(struct windows *windows)
{
    if (!windows)
        return;
    for (uint64_t i = 0; i < windows->dataset->shards_count; i++)
        free(windows->shards[i].member_ends);
    free(windows);
}

uint64_t windows_count(const struct windows *windows)
{
    return windows->count;
}

uint64_t windows_sample_bytes(const struct windows *windows)
{
    return (windows->block + 1) * windows->token_bytes;
}

/* Returns the last shard that starts at or before the sample. */
static uint64_t find_shard(const struct windows *windows, uint64_t sample)
{
    uint64_t low = 0, high = windows->dataset->shards_count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (windows->shards[middle].first <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the first member that ends after the shard's window. */
static uint64_t find_member(const uint64_t *member_ends, uint64_t members, uint64_t window)
{
    uint64_t below = 0, above = members;
    while (below < above) {
        uint64_t middle = below + (above - below) / 2;
        if (member_ends[middle] <= window)
            below = middle + 1;
        else
            above = middle;
    }
    return below;
}

struct sample_location windows_locate(const struct windows *windows, uint64_t sample)
{
    struct sample_location location = {.shard = find_shard(windows, sample)};
    const struct shard_windows *shard_windows = &windows->shards[location.shard];
    uint64_t window = sample - shard_windows->first;
    if (shard_windows->member_ends) {
        location.member = find_member(shard_windows->member_ends,
                                      windows->dataset->shards[location.shard].samples, window);
        location.window =
            (int64_t)(window -
                      (location.member ? shard_windows->member_ends[location.member - 1] : 0));
    } else {
        location.member = window / shard_windows->per_member;
        location.window = (int64_t)(window % shard_windows->per_member);
    }
    return location;
}

int windows_offset(const struct windows *windows, const struct shard *shard,
                   const struct shard_field *field, int64_t window, uint64_t *ret_offset,
                   struct err *err)
{
    uint64_t begin = windows->dataset->text.header_bytes +
                     (uint64_t)window * windows->block * windows->token_bytes;
    if (begin > field->size_bytes || windows_sample_bytes(windows) > field->size_bytes - begin)
        return bad_member(windows, shard, field, err);
    *ret_offset = begin;
    return 0;
}
