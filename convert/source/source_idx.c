/*
 * source_idx — the source for MNIST and its relatives (Fashion-MNIST, KMNIST, EMNIST): a folder of
 * idx files with names such as train-images-idx3-ubyte and t10k-labels-idx1-ubyte.
 */
#include "convert/source/array_names.h"
#include "convert/source/array_table.h"
#include "convert/source/idx.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum idx_split { IDX_TRAIN, IDX_TEST, IDX_SPLITS_COUNT };
enum idx_kind { IDX_IMAGES, IDX_LABELS, IDX_KINDS_COUNT };
static const char *const split_names[] = {[IDX_TRAIN] = "train", [IDX_TEST] = "test"};
static const char *const column_names[] = {[IDX_IMAGES] = "image", [IDX_LABELS] = "label"};

struct idx_listing {
    struct str names;                                     /* of the folder, each with its NUL */
    const char *files[IDX_SPLITS_COUNT][IDX_KINDS_COUNT]; /* in names; NULL: none */
    const char *group; /* the first of files, whose first group_bytes all have in common */
    size_t group_bytes;
};

static int reject_name(const struct convert_options *options, const char *name, int code,
                       const char *what, const char *expected, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    err_set(err, code, "%s", what);
    err_at(err, io_join_path(options->source, name, path, NULL) ? name : path, ERR_NO_OFFSET);
    err_expected(err, "%s", expected);
    return code;
}

/* Parses PREFIX-images-idx3-ubyte. *ret_group_bytes: length of "emnist-letters-". */
static bool parse_name(const char *name, enum idx_split *ret_split, enum idx_kind *ret_kind,
                       size_t *ret_group_bytes)
{
    static const char *const ends[][2] = {{"-images-idx3-ubyte", "-images.idx3-ubyte"},
                                          {"-labels-idx1-ubyte", "-labels.idx1-ubyte"}};
    static const struct {
        const char *name;
        enum idx_split split;
    } splits[] = {{"train", IDX_TRAIN}, {"t10k", IDX_TEST}, {"test", IDX_TEST}};
    for (int kind = 0; kind < IDX_KINDS_COUNT; kind++) {
        if (!str_ends_with(name, ends[kind][0]) && !str_ends_with(name, ends[kind][1]))
            continue;
        size_t end = strlen(name) - strlen(ends[kind][0]);
        for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
            size_t bytes = strlen(splits[i].name);
            if (end < bytes || memcmp(name + end - bytes, splits[i].name, bytes) != 0 ||
                (end > bytes && name[end - bytes - 1] != '-'))
                continue;
            *ret_split = splits[i].split;
            *ret_kind = (enum idx_kind)kind;
            *ret_group_bytes = end - bytes;
            return true;
        }
    }
    return false;
}

static int add_name(struct idx_listing *listing, const struct convert_options *options,
                    const char *name, struct err *err)
{
    enum idx_split split;
    enum idx_kind kind;
    size_t group_bytes;
    if (str_ends_with(name, ".gz"))
        return 0; /* the decompressed file is there too */
    if (!parse_name(name, &split, &kind, &group_bytes))
        return reject_name(options, name, -ENOTSUP, "an idx file has another name",
                           "names such as train-images-idx3-ubyte and t10k-labels-idx1-ubyte", err);
    bool is_of_group = !listing->group || (group_bytes == listing->group_bytes &&
                                           memcmp(listing->group, name, group_bytes) == 0);
    if (!is_of_group || listing->files[split][kind]) {
        reject_name(options, name, -EINVAL, "the folder holds several datasets of idx files",
                    "one of them", err);
        err_found(err, "also %.150s", listing->group);
        err_advise(err, "leave out the others with --ignore, for example '%.100s'", name);
        return -EINVAL;
    }
    listing->group = listing->group ? listing->group : name;
    listing->group_bytes = group_bytes;
    listing->files[split][kind] = name;
    return 0;
}

static int list_names(struct io *io, const struct convert_options *options, struct source *source,
                      struct idx_listing *listing, struct err *err)
{
    int status = array_names_list(io, options, source, options->source, &listing->names, err);
    for (size_t at = 0; at < listing->names.bytes && !status;
         at += strlen(listing->names.data + at) + 1)
        status = add_name(listing, options, listing->names.data + at, err);
    return status;
}

static int idx_find_splits(struct io *io, struct convert_options *options, struct err *err)
{
    struct idx_listing listing = {0};
    struct name_set splits = {0};
    int status = list_names(io, options, NULL, &listing, err);
    for (int split = 0; split < IDX_SPLITS_COUNT && !status; split++)
        if (listing.files[split][IDX_IMAGES] || listing.files[split][IDX_LABELS])
            status = name_set_add(&splits, split_names[split], strlen(split_names[split]),
                                  &(uint32_t){0}, &(bool){false}, err);
    if (!status)
        status = array_splits_add(options, &splits, err);
    name_set_deinit(&splits);
    str_deinit(&listing.names);
    return status;
}

static int add_file(struct io *io, const struct convert_options *options, struct array_table *table,
                    const char *name, enum idx_kind kind, struct array_part *part, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_head head = {0};
    struct idx idx;
    uint32_t file, column;
    int status = io_join_path(options->source, name, path, err);
    if (!status)
        status = array_table_add_file(table, io, path, &file, err);
    if (!status)
        status = io_read_head(io, path, IDX_HEADER_BYTES_MAX, &head, err);
    if (!status)
        status = idx_read_header((const uint8_t *)head.data, head.bytes, head.file_bytes, path,
                                 &idx, err);
    free(head.data);
    if (status)
        return status;
    uint32_t rank = kind == IDX_IMAGES ? 3 : 1;
    if (idx.rank != rank || (kind == IDX_LABELS && idx.shape[0] != part->rows)) {
        reject_name(options, name, -EBADMSG, "an idx file has another shape", "", err);
        err_expected(err, "%" PRIu32 " dimensions, and as many labels as images", rank);
        err_found(err, "%" PRIu32 " dimensions; %" PRIu64 " rows", idx.rank, idx.shape[0]);
        return -EBADMSG;
    }
    struct array_type type = {.dtype = DTYPE_U8, .rank = rank - 1};
    memcpy(type.shape, idx.shape + 1, type.rank * sizeof type.shape[0]);
    status = array_table_add_column(table, column_names[kind], &type, path, &column, err);
    if (status)
        return status;
    part->rows = idx.shape[0];
    part->places[column] =
        (struct array_place){file, idx.header_bytes, table->columns[column].row_bytes};
    return 0;
}

static int add_split(struct io *io, const struct convert_options *options,
                     struct array_table *table, const char *const *files, enum idx_split split,
                     bool needs_labels, struct err *err)
{
    struct array_part *part = calloc(1, sizeof *part);
    int status = part ? 0 : err_set(err, -ENOMEM, "out of memory for a source");
    if (!status && (!files[IDX_IMAGES] || (needs_labels && !files[IDX_LABELS]))) {
        status = reject_name(options, "", -ENODATA, "idx files are missing", "", err);
        err_expected(err, "%s of split %s", files[IDX_IMAGES] ? "labels" : "images",
                     split_names[split]);
        err_advise(err, "add the file, or leave out the split with --ignore '%s-*'",
                   split == IDX_TRAIN ? "train" : "t10k");
    }
    for (int kind = 0; kind < IDX_KINDS_COUNT && !status; kind++)
        if (files[kind])
            status = add_file(io, options, table, files[kind], (enum idx_kind)kind, part, err);
    if (!status) {
        part->split = array_split_find(options, split_names[split]);
        status = array_table_add_part(table, part, err);
    }
    free(part);
    return status;
}

static int idx_open(struct io *io, struct source *source, struct err *err)
{
    const struct convert_options *options = source->options;
    struct idx_listing listing = {0};
    struct array_table *table = NULL;
    int status = array_table_begin(source, &table, err);
    if (!status)
        status = list_names(io, options, source, &listing, err);
    bool has_labels = listing.files[IDX_TRAIN][IDX_LABELS] || listing.files[IDX_TEST][IDX_LABELS];
    for (int split = 0; split < IDX_SPLITS_COUNT && !status; split++)
        if (listing.files[split][IDX_IMAGES] || listing.files[split][IDX_LABELS])
            status = add_split(io, options, table, listing.files[split], (enum idx_split)split,
                               has_labels, err);
    str_deinit(&listing.names);
    return status ? status : array_table_finish(io, source, &(struct array_class_names){0}, err);
}

static bool is_idx(const struct source_layout *layout)
{
    return array_layout_is(layout, ARRAY_FORMAT_IDX);
}

const struct source_ops source_idx_ops = {
    .name = "idx",
    .has_columns = true,
    .probe = is_idx,
    .find_splits = idx_find_splits,
    .open = idx_open,
    .close = array_table_close,
    .describe = array_table_describe,
    .read = array_table_read,
    .reader_open = array_table_reader_open,
    .reader_close = array_table_reader_close,
};
