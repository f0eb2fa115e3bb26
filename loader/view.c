/*
 * view — see view.h.
 */
#include "loader/view.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/hash.h"
#include "loader/selection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALTERNATIVES_MAX = 8 };

/* The requested alternatives that the dataset has; a sample uses the first one that it has. */
struct alternatives {
    char extensions[ALTERNATIVES_MAX][SHARD_EXTENSION_BYTES_MAX];
    uint32_t count;
};

/* One of options.fields. */
struct view_field {
    struct alternatives from;
    bool has_default;
    uint64_t mean_bytes; /* estimate */
};

struct view {
    const struct dataset *dataset;
    uint64_t first_shard; /* in the cache */
    enum loader_decode decode;
    bool verify, requires_label;
    struct alternatives from;  /* LOADER_IMAGE, LOADER_TOKENS */
    struct alternatives label; /* LOADER_IMAGE */
    struct view_field *fields; /* options.fields */
    uint32_t fields_count;
    struct windows *windows;     /* LOADER_TOKENS */
    struct selection *selection; /* NULL: all samples */
    struct image_options image;  /* LOADER_IMAGE */
    uint64_t seed;
};

/* ---- Open and close. ---- */

static int wrong_field(const struct dataset *dataset, const char *field, struct err *err)
{
    char list[ERR_TEXT_BYTES_MAX] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < dataset->fields_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 dataset->fields[i]);
    err_set(err, -EINVAL, "the dataset has no field of %s",
            strchr(field, ';') ? "these names" : "that name");
    err_at(err, dataset->path, ERR_NO_OFFSET);
    err_expected(err, "one of %s", list);
    err_found(err, "%s", field);
    err_advise(err, "use a field of the dataset, or a dataset of the other kind: a vit trains on "
                    "images, a gpt2 or llama on tokens, or with data.text.tokenizer on texts");
    return -EINVAL;
}

static int too_many_alternatives(const struct dataset *dataset, const char *names, struct err *err)
{
    err_set(err, -EINVAL, "too many alternative fields");
    err_at(err, dataset->path, ERR_NO_OFFSET);
    err_expected(err, "at most %d fields of the dataset", ALTERNATIVES_MAX);
    err_found(err, "%s", names);
    err_advise(err, "use fewer fields");
    return -EINVAL;
}

/* names: separated by `;`. */
static int choose_alternatives(const struct dataset *dataset, const char *names,
                               struct alternatives *from, struct err *err)
{
    for (const char *name = names; *name;) {
        size_t name_bytes = strcspn(name, ";");
        if (name_bytes && dataset_has_field(dataset, name, name_bytes)) {
            if (from->count == ALTERNATIVES_MAX)
                return too_many_alternatives(dataset, names, err);
            memcpy(from->extensions[from->count++], name, name_bytes);
        }
        name += name_bytes;
        name += *name == ';';
    }
    return from->count ? 0 : wrong_field(dataset, names, err);
}

/* The default may be missing from the dataset, a requested field may not. */
static int choose_label(const struct dataset *dataset, const char *names, struct alternatives *from,
                        struct err *err)
{
    if (names)
        return choose_alternatives(dataset, names, from, err);
    strcpy(from->extensions[0], "cls");
    from->count = 1;
    return 0;
}

struct image_options image_options_from_loader(const struct loader_options *options)
{
    return (struct image_options){.width = options->image.width,
                                  .height = options->image.height,
                                  .crop = options->image.crop,
                                  .augment = options->image.augment,
                                  .pixels_max = options->image.pixels_max,
                                  .is_read_next = normalize_is_on(&options->image.normalize),
                                  .libjpeg_only = options->image.libjpeg_only};
}

static bool find_field(const struct shard *shard, uint64_t member, const struct alternatives *from,
                       struct view_piece *ret_piece);

static void measure_fields(struct view *view, const struct shard *shard)
{
    uint64_t samples = shard_index_samples(shard->index);
    for (uint32_t i = 0; i < view->fields_count && samples > 0; i++) {
        struct view_field *field = &view->fields[i];
        struct view_piece piece;
        uint64_t bytes = 0;
        for (uint64_t member = 0; member < samples; member++)
            if (find_field(shard, member, &field->from, &piece))
                bytes += piece.want_bytes;
        field->mean_bytes = bytes / samples + 1;
    }
}

/* Estimates the sizes of options.fields from the first shard, or from those of whole samples. */
static int estimate_sizes(struct view *view, struct shard_cache *cache, struct err *err)
{
    struct shard *shard;
    for (uint32_t i = 0; i < view->fields_count; i++)
        view->fields[i].mean_bytes = view->dataset->mean_sample_bytes;
    int status = shard_cache_get(cache, view->first_shard, OPEN_FILES_HALF, &shard, err);
    if (status)
        return status == -EBADMSG ? 0 : status;
    measure_fields(view, shard);
    shard_cache_put(cache, view->first_shard);
    return 0;
}

static int open_fields(struct view *view, const struct loader_options *options,
                       struct shard_cache *cache, struct err *err)
{
    int status = 0;
    if (options->fields_count == 0)
        return 0;
    view->fields = calloc(options->fields_count, sizeof *view->fields);
    if (!view->fields)
        return err_set(err, -ENOMEM, "out of memory for a view of a dataset");
    view->fields_count = options->fields_count;
    for (uint32_t i = 0; !status && i < view->fields_count; i++) {
        view->fields[i].has_default = options->fields[i].default_value;
        status =
            choose_alternatives(view->dataset, options->fields[i].from, &view->fields[i].from, err);
    }
    return status ? status : estimate_sizes(view, cache, err);
}

static uint64_t count_samples(const struct view *view)
{
    return view->windows ? windows_count(view->windows) : view->dataset->samples;
}

int view_open(const struct loader_options *options, struct io *io, const struct dataset *dataset,
              struct shard_cache *cache, uint32_t number, struct view **ret_view, struct err *err)
{
    struct view *view = calloc(1, sizeof *view);
    if (!view)
        return err_set(err, -ENOMEM, "out of memory for a view of a dataset");
    *view = (struct view){.dataset = dataset,
                          .first_shard = shard_cache_first(cache, number),
                          .decode = options->decode,
                          .verify = options->verify,
                          .requires_label = options->image.requires_label,
                          .image = image_options_from_loader(options),
                          .seed = options->seed};
    int status = 0;
    if (view->decode == LOADER_IMAGE)
        status = choose_alternatives(dataset, options->image.field, &view->from, err);
    if (!status && view->decode == LOADER_IMAGE)
        status = choose_label(dataset, options->image.label.from, &view->label, err);
    if (view->decode == LOADER_TOKENS)
        status = choose_alternatives(dataset, options->text.field, &view->from, err);
    if (!status && view->decode == LOADER_TOKENS)
        status = windows_open(dataset, cache, view->first_shard, view->from.extensions[0],
                              options->text.block, &view->windows, err);
    if (!status)
        status = open_fields(view, options, cache, err);
    if (!status && !selection_is_all(&options->selection) && count_samples(view) > 0)
        status = selection_open(&options->selection, io, options->seed, dataset, cache, number,
                                count_samples(view), &view->selection, err);
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
    windows_close(view->windows);
    selection_close(view->selection);
    free(view->fields);
    free(view);
}

/* ---- Queries. ---- */

uint64_t view_samples(const struct view *view)
{
    return view->selection ? selection_count(view->selection) : count_samples(view);
}

bool view_repeats(const struct view *view)
{
    return view->selection && selection_repeats(view->selection);
}

uint64_t view_fingerprint(const struct view *view)
{
    if (!view->selection)
        return view->dataset->fingerprint;
    const uint64_t parts[] = {view->dataset->fingerprint, selection_hash(view->selection)};
    return hash_64(parts, sizeof parts);
}

uint64_t view_mean_bytes(const struct view *view)
{
    return view->windows ? windows_sample_bytes(view->windows) : view->dataset->mean_sample_bytes;
}

uint64_t view_read_bytes(const struct view *view)
{
    uint64_t bytes = 0;
    if (view->decode != LOADER_RECORD)
        return view_mean_bytes(view);
    for (uint32_t i = 0; i < view->fields_count; i++)
        bytes += view->fields[i].mean_bytes;
    return bytes;
}

uint64_t view_block_bytes(const struct view *view)
{
    return view->windows && view->verify ? SHARD_BLOCK_BYTES : 0;
}

uint64_t view_field_bytes(const struct view *view, uint32_t field)
{
    return view->fields[field].mean_bytes;
}

uint32_t view_pieces_max(const struct view *view)
{
    switch (view->decode) {
    case LOADER_IMAGE:
        return 2 + view->fields_count;
    case LOADER_TOKENS:
        return 1;
    case LOADER_RECORD:
        return view->fields_count;
    case LOADER_BYTES:
        break;
    }
    return view->dataset->fields_count ? view->dataset->fields_count : 1;
}

struct sample_location view_locate(const struct view *view, struct sample_ref ref)
{
    uint64_t sample = view->selection ? selection_sample(view->selection, ref) : ref.sample;
    struct sample_location location = {.window = -1};
    if (view->windows)
        location = windows_locate(view->windows, sample);
    else
        location.shard = dataset_locate(view->dataset, sample, &location.member);
    location.shard += view->first_shard;
    return location;
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

/* Extends the range to read to what verification needs: the whole field, or whole blocks. */
static void widen(struct view_piece *piece)
{
    const struct shard_field *field = &piece->field;
    uint64_t begin = 0, end = field->size_bytes;
    if (field->block_crc32c) {
        uint64_t want = piece->want_offset - field->data_offset;
        begin = want / SHARD_BLOCK_BYTES * SHARD_BLOCK_BYTES;
        end = bytes_min(bytes_round_up(want + piece->want_bytes, SHARD_BLOCK_BYTES),
                        field->size_bytes);
    }
    piece->read_offset = field->data_offset + begin;
    piece->read_bytes = end - begin;
}

/* what: "" or the purpose of the field. */
static int missing_error(const struct shard *shard, const struct alternatives *from,
                         const char *what, int64_t offset, struct err *err)
{
    char list[ALTERNATIVES_MAX * (SHARD_EXTENSION_BYTES_MAX + 4)] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < from->count; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s\"%s\"", i ? ", " : "",
                                 from->extensions[i]);
    err_set(err, -EBADMSG, "the sample has %s%s %.120s", what,
            from->count > 1 ? "none of the fields" : "no field", list);
    err_at(err, shard->path, offset);
    return -EBADMSG;
}

/* Finds the whole named field. False if the sample has none. */
static bool find_named(const struct shard *shard, uint64_t member, const char *name,
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

/* Finds the first of the alternatives. False if the sample has none. */
static bool find_field(const struct shard *shard, uint64_t member, const struct alternatives *from,
                       struct view_piece *ret_piece)
{
    for (uint32_t i = 0; i < from->count; i++)
        if (find_named(shard, member, from->extensions[i], ret_piece))
            return true;
    return false;
}

static void narrow_to_rows(const struct view *view, struct sample_ref ref, struct view_piece *piece)
{
    const struct shard_field *field = &piece->field;
    uint64_t row_bytes = 3 * (uint64_t)field->picture.width;
    if (row_bytes == 0)
        return;
    uint64_t height = (field->size_bytes - field->picture.pixels_offset) / row_bytes;
    struct image_rows rows = {.width = field->picture.width,
                              .height = (uint32_t)bytes_min(height, UINT32_MAX)};
    struct image_key key = {
        .seed = view->seed, .dataset = ref.dataset, .epoch = ref.epoch, .sample = ref.sample};
    if (!image_find_rows(&view->image, key, &rows))
        return;
    piece->rows = rows;
    piece->want_offset = field->data_offset + field->picture.pixels_offset + rows.first * row_bytes;
    piece->want_bytes = rows.count * row_bytes;
    piece->read_offset = piece->want_offset;
    piece->read_bytes = piece->want_bytes;
    if (view->verify && field->has_crc)
        widen(piece);
}

void view_widen_rows(struct view_piece *piece)
{
    if (piece->rows.count == 0)
        return;
    piece->read_offset = piece->field.data_offset;
    piece->read_bytes = piece->field.size_bytes;
}

static int window_piece(const struct view *view, const struct shard *shard,
                        struct sample_location location, struct view_piece *piece, struct err *err)
{
    if (!find_field(shard, location.member, &view->from, piece))
        return missing_error(shard, &view->from, "", ERR_NO_OFFSET, err);
    uint64_t begin;
    int status = windows_offset(view->windows, shard, &piece->field, location.window, &begin, err);
    if (status)
        return status;
    piece->want_offset = piece->read_offset = piece->field.data_offset + begin;
    piece->want_bytes = piece->read_bytes = windows_sample_bytes(view->windows);
    if (view->verify && piece->field.has_crc)
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
            err_set(err, -EBADMSG, "the sample has more fields than dataset.json lists");
            err_at(err, shard->path, (int64_t)field.data_offset);
            return -EBADMSG;
        }
        pieces[count++] = whole_field(shard_index_extension(shard->index, f), &field);
    }
    *ret_count = count;
    return 0;
}

static int image_pieces(const struct view *view, const struct shard *shard, uint64_t member,
                        struct sample_ref ref, struct view_piece *pieces, uint32_t *ret_count,
                        struct err *err)
{
    if (!find_field(shard, member, &view->from, &pieces[0]))
        return missing_error(shard, &view->from, "", ERR_NO_OFFSET, err);
    narrow_to_rows(view, ref, &pieces[0]);
    bool has_label = find_field(shard, member, &view->label, &pieces[1]);
    *ret_count = has_label ? 2 : 1;
    return has_label || !view->requires_label
               ? 0
               : missing_error(shard, &view->label,
                               "no label: ", (int64_t)pieces[0].field.data_offset, err);
}

/* Adds the pieces of options.fields; an absent one, which has a default, is all zeros. */
static int add_fields(const struct view *view, const struct shard *shard, uint64_t member,
                      struct view_piece *pieces, uint32_t *count, struct err *err)
{
    for (uint32_t i = 0; i < view->fields_count; i++) {
        const struct view_field *field = &view->fields[i];
        struct view_piece *piece = &pieces[(*count)++];
        if (find_field(shard, member, &field->from, piece))
            continue;
        if (!field->has_default)
            return missing_error(shard, &field->from, "", ERR_NO_OFFSET, err);
        *piece = (struct view_piece){0};
    }
    return 0;
}

int view_pieces(const struct view *view, const struct shard *shard, struct sample_location location,
                struct sample_ref ref, struct view_piece *pieces, uint32_t *ret_count,
                struct err *err)
{
    int status = 0;
    *ret_count = 0;
    switch (view->decode) {
    case LOADER_BYTES:
        return all_fields(view, shard, location.member, pieces, ret_count, err);
    case LOADER_TOKENS:
        *ret_count = 1;
        return window_piece(view, shard, location, &pieces[0], err);
    case LOADER_IMAGE:
        status = image_pieces(view, shard, location.member, ref, pieces, ret_count, err);
        break;
    case LOADER_RECORD:
        break;
    }
    return status ? status : add_fields(view, shard, location.member, pieces, ret_count, err);
}

static int crc_mismatch(const struct shard *shard, const char *extension, uint64_t offset,
                        uint32_t expected, uint32_t found, struct err *err)
{
    err_set(err, -EBADMSG, "CRC32C of field \"%s\" does not match", extension);
    err_at(err, shard->path, (int64_t)offset);
    err_expected(err, "%08" PRIx32, expected);
    err_found(err, "%08" PRIx32, found);
    return -EBADMSG;
}

int view_verify(const struct view_piece *piece, const struct shard *shard, struct err *err)
{
    const struct shard_field *field = &piece->field;
    if (!field->has_crc)
        return 0; /* plain tars have no CRCs */
    if (piece->read_bytes == field->size_bytes) {
        uint32_t crc = crc32c(0, piece->data, piece->read_bytes);
        return crc == field->crc32c ? 0
                                    : crc_mismatch(shard, piece->extension, field->data_offset,
                                                   field->crc32c, crc, err);
    }
    uint64_t first = (piece->read_offset - field->data_offset) / SHARD_BLOCK_BYTES;
    for (uint64_t at = 0; at < piece->read_bytes; at += SHARD_BLOCK_BYTES) {
        const uint8_t *stored = field->block_crc32c + 4 * (first + at / SHARD_BLOCK_BYTES);
        uint32_t crc =
            crc32c(0, piece->data + at, bytes_min(SHARD_BLOCK_BYTES, piece->read_bytes - at));
        if (crc != bytes_get_u32(stored))
            return crc_mismatch(shard, piece->extension, piece->read_offset + at,
                                bytes_get_u32(stored), crc, err);
    }
    return 0;
}
