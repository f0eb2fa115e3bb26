/*
 * view — see view.h.
 */
#include "loader/view.h"

#include "base/bytes.h"
#include "base/crc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char label_extension[] = "cls";

/* The windows of one shard: all but its last member have windows_each, or the table has a running count. */
struct shard_windows {
    uint64_t first; /* number of its first window in the dataset */
    uint64_t windows_each;
    uint64_t *ends; /* [members] windows up to and including each; NULL where windows_each says it */
};

struct view {
    const struct dataset *dataset;
    struct shard_cache *cache;
    enum loader_decode decode;
    bool verify;
    char field[SHARD_EXTENSION_BYTES_MAX];
    uint64_t block, token_bytes;
    uint64_t samples;
    struct shard_windows *shards; /* LOADER_TOKENS */
};

/* ---- Windows of text. ---- */

static int bad_member(const struct shard *shard, const struct shard_field *field,
                      const struct dataset *dataset, struct err *err)
{
    err_set(err, -EBADMSG, "a token member has not the size that dataset.json says");
    err_at(err, shard->path, (int64_t)field->data_offset);
    err_expected(err, "%" PRIu32 " bytes and whole tokens of %s", dataset->text.header_bytes,
                 dataset->text.element);
    err_found(err, "%" PRIu64 " bytes", field->size_bytes);
    err_advise(err, "convert the text again");
    return -EBADMSG;
}

static int count_member(const struct view *view, const struct shard *shard, int field_number, uint64_t member,
                        uint64_t *ret_windows, struct err *err)
{
    struct shard_field field = {0};
    if (field_number >= 0)
        shard_index_field(shard->index, member, (uint32_t)field_number, &field);
    uint64_t header = view->dataset->text.header_bytes;
    if (!field.present || field.size_bytes < header || (field.size_bytes - header) % view->token_bytes != 0)
        return bad_member(shard, &field, view->dataset, err);
    uint64_t tokens = (field.size_bytes - header) / view->token_bytes;
    *ret_windows = tokens ? (tokens - 1) / view->block : 0;
    return 0;
}

/* Fills in the shard's windows; *total grows by them. */
static int count_shard(const struct view *view, const struct shard *shard, struct shard_windows *windows,
                       uint64_t *total, struct err *err)
{
    uint64_t members = shard_index_samples(shard->index), sum = 0;
    int field_number = shard_index_find(shard->index, view->field);
    bool is_regular = true;
    windows->first = *total;
    windows->ends = calloc(members ? members : 1, sizeof *windows->ends);
    if (!windows->ends)
        return err_set(err, -ENOMEM, "out of memory for a table of %" PRIu64 " members", members);
    for (uint64_t m = 0; m < members; m++) {
        uint64_t count = 0;
        int status = count_member(view, shard, field_number, m, &count, err);
        if (status)
            return status;
        if (m == 0)
            windows->windows_each = count;
        is_regular = is_regular &&
                     (count == windows->windows_each || (m == members - 1 && count < windows->windows_each));
        sum += count;
        windows->ends[m] = sum;
    }
    if (is_regular) {
        free(windows->ends);
        windows->ends = NULL;
    }
    *total += sum;
    return 0;
}

static int count_windows(struct view *view, struct err *err)
{
    uint64_t shards = view->dataset->shards_count;
    view->shards = calloc(shards + 1, sizeof view->shards[0]);
    if (!view->shards)
        return err_set(err, -ENOMEM, "out of memory for a table of %" PRIu64 " shards", shards);
    for (uint64_t i = 0; i < shards; i++) {
        struct shard *shard;
        int status = shard_cache_get(view->cache, i, &shard, err);
        if (status)
            return status;
        status = count_shard(view, shard, &view->shards[i], &view->samples, err);
        shard_cache_put(view->cache, i);
        if (status)
            return status;
    }
    view->shards[shards].first = view->samples;
    if (view->samples == 0) {
        err_set(err, -EINVAL, "no member of the dataset holds a whole block of tokens");
        err_at(err, view->dataset->path, ERR_NO_OFFSET);
        err_expected(err, "blocks of less than %" PRIu64 " tokens", view->dataset->text.member_tokens);
        err_found(err, "%" PRIu64, view->block);
        err_advise(err, "choose a shorter block");
        return -EINVAL;
    }
    return 0;
}

static struct view_place locate_window(const struct view *view, uint64_t sample)
{
    uint64_t low = 0,
             high = view->dataset->shards_count; /* the last shard whose first window is not beyond it */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (view->shards[middle].first <= sample)
            low = middle;
        else
            high = middle;
    }
    const struct shard_windows *windows = &view->shards[low];
    uint64_t rest = sample - windows->first;
    if (!windows->ends)
        return (struct view_place){.shard = low,
                                   .member = rest / windows->windows_each,
                                   .window = (int64_t)(rest % windows->windows_each)};
    uint64_t below = 0, above = view->dataset->shards[low].samples; /* the first member that ends beyond it */
    while (below < above) {
        uint64_t middle = below + (above - below) / 2;
        if (windows->ends[middle] <= rest)
            below = middle + 1;
        else
            above = middle;
    }
    uint64_t before = below ? windows->ends[below - 1] : 0;
    return (struct view_place){.shard = low, .member = below, .window = (int64_t)(rest - before)};
}

/* ---- Life cycle. ---- */

static int wrong_field(const struct dataset *dataset, const char *field, struct err *err)
{
    char list[ERR_TEXT_BYTES_MAX] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < dataset->fields_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", dataset->fields[i]);
    err_set(err, -EINVAL, "the dataset has no field of that name");
    err_at(err, dataset->path, ERR_NO_OFFSET);
    err_expected(err, "one of %s", list);
    err_found(err, "%s", field);
    err_advise(err, "name a field that the dataset has");
    return -EINVAL;
}

static int choose_field(struct view *view, const char *field, struct err *err)
{
    for (uint32_t i = 0; i < view->dataset->fields_count; i++) {
        if (strcmp(view->dataset->fields[i], field) == 0) {
            memcpy(view->field, view->dataset->fields[i], sizeof view->field);
            return 0;
        }
    }
    return wrong_field(view->dataset, field, err);
}

static int init_tokens(struct view *view, uint32_t block, struct err *err)
{
    const struct dataset_text *text = &view->dataset->text;
    if (block < 1)
        return err_set(err, -EINVAL, "a block of text has at least one token");
    view->block = block;
    view->token_bytes = strcmp(text->element, "uint16") == 0   ? 2
                        : strcmp(text->element, "uint32") == 0 ? 4
                                                               : 0;
    if (!view->token_bytes) {
        err_set(err, -EINVAL, "the dataset is not text");
        err_at(err, view->dataset->path, ERR_NO_OFFSET);
        err_expected(err, "token members of uint16 or uint32");
        err_found(err, "\"%s\"", text->element);
        err_advise(err, "make it from text by `millrace convert dataset`");
        return -EINVAL;
    }
    return count_windows(view, err);
}

int view_open(const struct loader_options *options, const struct dataset *dataset, struct shard_cache *cache,
              struct view **ret_view, struct err *err)
{
    struct view *view = calloc(1, sizeof *view);
    if (!view)
        return err_set(err, -ENOMEM, "out of memory for a view of a dataset");
    *view = (struct view){.dataset = dataset,
                          .cache = cache,
                          .decode = options->decode,
                          .verify = options->verify,
                          .samples = options->decode == LOADER_TOKENS ? 0 : dataset->samples};
    int status = 0;
    if (view->decode == LOADER_IMAGE)
        status = choose_field(view, options->image.field, err);
    if (view->decode == LOADER_TOKENS) {
        status = choose_field(view, options->text.field, err);
        if (!status)
            status = init_tokens(view, options->text.block, err);
    }
    if (status)
        view_close(view);
    else
        *ret_view = view;
    return status;
}

void view_close(struct view *view)
{
    if (!view)
        return;
    for (uint64_t i = 0; view->shards && i < view->dataset->shards_count; i++)
        free(view->shards[i].ends);
    free(view->shards);
    free(view);
}

/* ---- Questions. ---- */

uint64_t view_samples(const struct view *view)
{
    return view->samples;
}

uint64_t view_mean_bytes(const struct view *view)
{
    return view->decode == LOADER_TOKENS ? (view->block + 1) * view->token_bytes
                                         : view->dataset->mean_sample_bytes;
}

uint64_t view_read_bytes(const struct view *view)
{
    uint64_t bytes = view_mean_bytes(view);
    if (view->decode == LOADER_TOKENS && view->verify) { /* a window begins anywhere in a block */
        uint64_t member_bytes =
            view->dataset->text.header_bytes + view->dataset->text.member_tokens * view->token_bytes;
        bytes = bytes_min(bytes + SHARD_BLOCK_BYTES, member_bytes);
    }
    return bytes;
}

uint32_t view_pieces_max(const struct view *view)
{
    switch (view->decode) {
    case LOADER_IMAGE:
        return 2;
    case LOADER_TOKENS:
        return 1;
    case LOADER_BYTES:
        break;
    }
    return view->dataset->fields_count ? view->dataset->fields_count : 1;
}

struct view_place view_locate(const struct view *view, uint64_t sample)
{
    if (view->decode == LOADER_TOKENS)
        return locate_window(view, sample);
    struct view_place place = {.window = -1};
    place.shard = dataset_locate(view->dataset, sample, &place.member);
    return place;
}

/* ---- Pieces. ---- */

static struct view_piece whole_field(const char *extension, const struct shard_field *field)
{
    return (struct view_piece){.extension = extension,
                               .field = *field,
                               .want_offset = field->data_offset,
                               .want_bytes = field->size_bytes,
                               .read_offset = field->data_offset,
                               .read_bytes = field->size_bytes};
}

/* What must be read so that the wanted bytes can be verified: the field, or its blocks. */
static void widen(struct view_piece *piece)
{
    const struct shard_field *field = &piece->field;
    uint64_t begin = 0, end = field->size_bytes;
    if (field->block_crc32c) {
        uint64_t want = piece->want_offset - field->data_offset;
        begin = want / SHARD_BLOCK_BYTES * SHARD_BLOCK_BYTES;
        end = bytes_min(bytes_round_up(want + piece->want_bytes, SHARD_BLOCK_BYTES), field->size_bytes);
    }
    piece->read_offset = field->data_offset + begin;
    piece->read_bytes = end - begin;
}

static int missing(const struct shard *shard, const char *field, struct err *err)
{
    err_set(err, -EBADMSG, "the sample has no field \"%s\"", field);
    err_at(err, shard->path, ERR_NO_OFFSET);
    return -EBADMSG;
}

/* The named field as a whole; false where the sample has none. */
static bool find_field(const struct shard *shard, uint64_t member, const char *name,
                       struct view_piece *ret_piece)
{
    struct shard_field field = {0};
    int number = shard_index_find(shard->index, name);
    if (number >= 0)
        shard_index_field(shard->index, member, (uint32_t)number, &field);
    if (!field.present)
        return false;
    *ret_piece = whole_field(shard_index_extension(shard->index, (uint32_t)number), &field);
    return true;
}

static int window_piece(const struct view *view, const struct shard *shard, struct view_place place,
                        struct view_piece *piece, struct err *err)
{
    if (!find_field(shard, place.member, view->field, piece))
        return missing(shard, view->field, err);
    uint64_t begin =
        view->dataset->text.header_bytes + (uint64_t)place.window * view->block * view->token_bytes;
    uint64_t bytes = (view->block + 1) * view->token_bytes;
    if (begin > piece->field.size_bytes || bytes > piece->field.size_bytes - begin)
        return bad_member(shard, &piece->field, view->dataset, err);
    piece->want_offset = piece->read_offset = piece->field.data_offset + begin;
    piece->want_bytes = piece->read_bytes = bytes;
    if (view->verify)
        widen(piece);
    return 0;
}

static int all_fields(const struct view *view, const struct shard *shard, uint64_t member,
                      struct view_piece *pieces, uint32_t *ret_count, struct err *err)
{
    uint32_t count = 0, fields = shard_index_fields(shard->index);
    for (uint32_t f = 0; f < fields; f++) {
        struct shard_field field;
        shard_index_field(shard->index, member, f, &field);
        if (!field.present)
            continue;
        if (count == view_pieces_max(view)) {
            err_set(err, -EBADMSG, "the sample has more fields than dataset.json names");
            err_at(err, shard->path, (int64_t)field.data_offset);
            return -EBADMSG;
        }
        pieces[count++] = whole_field(shard_index_extension(shard->index, f), &field);
    }
    *ret_count = count;
    return 0;
}

int view_pieces(const struct view *view, const struct shard *shard, struct view_place place,
                struct view_piece *pieces, uint32_t *ret_count, struct err *err)
{
    if (view->decode == LOADER_BYTES)
        return all_fields(view, shard, place.member, pieces, ret_count, err);
    if (view->decode == LOADER_TOKENS) {
        *ret_count = 1;
        return window_piece(view, shard, place, &pieces[0], err);
    }
    if (!find_field(shard, place.member, view->field, &pieces[0]))
        return missing(shard, view->field, err);
    *ret_count = find_field(shard, place.member, label_extension, &pieces[1]) ? 2 : 1;
    return 0;
}

static int mismatch(const struct shard *shard, const char *extension, uint64_t offset, uint32_t expected,
                    uint32_t found, struct err *err)
{
    err_set(err, -EBADMSG, "CRC32C of field \"%s\" does not hold", extension);
    err_at(err, shard->path, (int64_t)offset);
    err_expected(err, "%08" PRIx32, expected);
    err_found(err, "%08" PRIx32, found);
    return -EBADMSG;
}

int view_verify(const struct view_piece *piece, const struct shard *shard, struct err *err)
{
    const struct shard_field *field = &piece->field;
    if (piece->read_bytes == field->size_bytes) {
        uint32_t crc = crc32c(0, piece->data, piece->read_bytes);
        return crc == field->crc32c
                   ? 0
                   : mismatch(shard, piece->extension, field->data_offset, field->crc32c, crc, err);
    }
    uint64_t first = (piece->read_offset - field->data_offset) / SHARD_BLOCK_BYTES;
    for (uint64_t at = 0; at < piece->read_bytes; at += SHARD_BLOCK_BYTES) {
        const uint8_t *stored = field->block_crc32c + 4 * (first + at / SHARD_BLOCK_BYTES);
        uint32_t crc = crc32c(0, piece->data + at, bytes_min(SHARD_BLOCK_BYTES, piece->read_bytes - at));
        if (crc != bytes_get_u32(stored))
            return mismatch(shard, piece->extension, piece->read_offset + at, bytes_get_u32(stored), crc,
                            err);
    }
    return 0;
}
