/*
 * source_numpy — the source for columns in NumPy files: a folder of .npy files, an .npz file, or
 * one .npy file. Row i of each array belongs to item i.
 *
 * If the names of all arrays begin or end with that of a split, as x_train, y_train, x_test and
 * y_test, the rest is the column's name.
 */
#include "convert/source/array_names.h"
#include "convert/source/array_table.h"
#include "convert/source/file_names.h"
#include "convert/source/npz.h"
#include "io/file_util.h"
#include "shards/format/npy.h"
#include "shards/format/npy_header.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct numpy_array {
    uint32_t file;
    bool is_member;           /* of an .npz file */
    bool is_column;           /* is converted */
    struct npz_member member; /* of a .npy file: all of it, without a checksum */
    char column[NPZ_NAME_BYTES_MAX];
    char split[NPZ_NAME_BYTES_MAX]; /* "": none */
};

struct numpy_list {
    struct io *io;
    struct io_queue *queue;
    struct array_table *table;
    struct str arrays; /* struct numpy_array */
    struct name_set splits;
    const atomic_int *stop;
    struct err *err;
};

static struct numpy_array *array_at(const struct numpy_list *list, size_t i)
{
    return (struct numpy_array *)(void *)list->arrays.data + i;
}

static size_t arrays_count(const struct numpy_list *list)
{
    return list->arrays.bytes / sizeof(struct numpy_array);
}

/* ---- Listing. ---- */

static int add_npy(struct numpy_list *list, const char *path, const char *name)
{
    struct numpy_array array = {0};
    size_t bytes = strlen(name) - strlen(".npy");
    int status = array_table_add_file(list->table, list->io, path, &array.file, list->err);
    if (status)
        return status;
    array.member.bytes = array_table_file(list->table, array.file)->file.bytes;
    snprintf(array.member.name, sizeof array.member.name, "%.*s", (int)bytes, name);
    str_add(&list->arrays, &array, sizeof array);
    return 0;
}

static int add_npz(struct numpy_list *list, const char *path)
{
    struct str members = {0};
    struct numpy_array array = {.is_member = true};
    int status = array_table_add_file(list->table, list->io, path, &array.file, list->err);
    if (!status)
        status = npz_list(list->io, list->queue, &array_table_file(list->table, array.file)->file,
                          path, &members, list->err);
    for (size_t i = 0; i < members.bytes / sizeof(struct npz_member) && !status; i++) {
        const struct npz_member *member = (const struct npz_member *)(void *)members.data + i;
        array.member = *member;
        str_add(&list->arrays, &array, sizeof array);
    }
    str_deinit(&members);
    return status;
}

static int add_folder(struct numpy_list *list, const struct convert_options *options,
                      struct source *source)
{
    char path[IO_PATH_BYTES_MAX];
    struct str names = {0};
    int status = array_names_list(list->io, options, source, options->source, &names, list->err);
    for (size_t at = 0; at < names.bytes && !status; at += strlen(names.data + at) + 1) {
        status = io_join_path(options->source, names.data + at, path, list->err);
        if (!status)
            status = add_npy(list, path, names.data + at);
    }
    str_deinit(&names);
    return status;
}

/* Takes a split's name from the begin or end of an array's name. */
static void split_name(struct numpy_array *array)
{
    const char *name = array->member.name, *first = strpbrk(name, "_-."), *last = first;
    for (const char *at = first; at; at = strpbrk(at + 1, "_-."))
        last = at;
    strcpy(array->column, name);
    if (!first || first == name || !last[1])
        return;
    snprintf(array->split, sizeof array->split, "%.*s", (int)(first - name), name);
    if (name_is_split(array->split)) {
        strcpy(array->column, first + 1);
        return;
    }
    strcpy(array->split, last + 1);
    if (name_is_split(array->split))
        array->column[last - name] = '\0';
    else
        array->split[0] = '\0';
}

static int find_splits(struct numpy_list *list)
{
    uint32_t number;
    bool is_new, have_all = true;
    int status = 0;
    for (size_t i = 0; i < arrays_count(list); i++) {
        split_name(array_at(list, i));
        have_all = have_all && array_at(list, i)->split[0];
    }
    for (size_t i = 0; i < arrays_count(list) && !status; i++) {
        struct numpy_array *array = array_at(list, i);
        if (have_all)
            status = name_set_add(&list->splits, array->split, strlen(array->split), &number,
                                  &is_new, list->err);
        else
            strcpy(array->column, array->member.name);
    }
    return status;
}

/* source: NULL is fine. */
static int list_arrays(struct numpy_list *list, const struct convert_options *options,
                       struct source *source)
{
    struct io_stat info;
    const char *path = options->source, *slash = strrchr(path, '/');
    int status = list->io->ops->queue_open(list->io, 1, &list->queue, list->err);
    if (!status)
        status = list->io->names->stat(list->io, path, &info, list->err);
    if (!status)
        status = info.kind == IO_ENTRY_FOLDER ? add_folder(list, options, source)
                 : str_ends_with_nocase(path, ".npz")
                     ? add_npz(list, path)
                     : add_npy(list, path, slash ? slash + 1 : path);
    if (!status && str_status(&list->arrays))
        status = err_set(list->err, -ENOMEM, "out of memory for a list of arrays");
    return status ? status : find_splits(list);
}

static void list_deinit(struct numpy_list *list)
{
    if (list->queue)
        list->io->ops->queue_close(list->queue);
    str_deinit(&list->arrays);
    name_set_deinit(&list->splits);
}

static int numpy_find_splits(struct io *io, struct convert_options *options, struct err *err)
{
    struct array_table *table = calloc(1, sizeof *table);
    struct numpy_list list = {.io = io, .table = table, .err = err};
    int status = table ? list_arrays(&list, options, NULL)
                       : err_set(err, -ENOMEM, "out of memory for a source");
    if (!status)
        status = array_splits_add(options, &list.splits, err);
    list_deinit(&list);
    if (table)
        str_deinit(&table->files);
    free(table);
    return status;
}

/* ---- Headers. ---- */

struct numpy_rows {
    struct array_type type; /* of a row */
    uint64_t rows, data_at;
};

static int reject_array(const struct numpy_list *list, const struct numpy_array *array,
                        const char *what, const char *expected, const char *advice)
{
    err_set(list->err, -ENOTSUP, "array \"%.100s\" %s", array->member.name, what);
    err_at(list->err, array_table_file(list->table, array->file)->path,
           (int64_t)array->member.offset);
    err_expected(list->err, "%s", expected);
    err_advise(list->err, "%s", advice);
    return -ENOTSUP;
}

static int check_header(const struct numpy_list *list, const struct numpy_array *array,
                        const struct npy_header *header, struct numpy_rows *ret_rows)
{
    static const char leave_out[] =
        "leave it out: choose the other columns with --column NAME=FIELD";
    struct numpy_rows rows = {.data_at = array->member.offset + header->header_bytes};
    if (!npy_find_dtype(header, &rows.type.dtype, &rows.type.is_big_endian)) {
        reject_array(list, array, "has elements of another type", "numbers or truth values",
                     leave_out);
        err_found(list->err, "%.*s", header->dtype_bytes < 100 ? (int)header->dtype_bytes : 100,
                  header->dtype);
        return -ENOTSUP;
    }
    if (header->rank == 0 || header->rank > DTYPE_RANK_MAX + 1)
        return reject_array(list, array, "is not a column of rows", "1 to 9 dimensions", leave_out);
    if (header->is_fortran && header->rank > 1)
        return reject_array(list, array, "is in Fortran order, which scatters its rows", "C order",
                            "save it with numpy.save(FILE, numpy.ascontiguousarray(ARRAY))");
    rows.rows = header->shape[0];
    rows.type.rank = header->rank - 1;
    memcpy(rows.type.shape, header->shape + 1, rows.type.rank * sizeof header->shape[0]);
    if (header->header_bytes > array->member.bytes ||
        header->data_bytes != array->member.bytes - header->header_bytes) {
        reject_array(list, array, "has another size than its header says", "a complete file",
                     "write or copy it again");
        err_expected(list->err, "%" PRIu64 " bytes", header->header_bytes + header->data_bytes);
        err_found(list->err, "%" PRIu64, array->member.bytes);
        list->err->code = -EBADMSG;
        return -EBADMSG;
    }
    *ret_rows = rows;
    return 0;
}

static int read_header(const struct numpy_list *list, const struct numpy_array *array,
                       struct numpy_rows *ret_rows)
{
    const struct array_file *file = array_table_file(list->table, array->file);
    struct npy_header header;
    struct str head = {0};
    uint64_t bytes =
        array->member.bytes < NPY_HEADER_BYTES_MAX ? array->member.bytes : NPY_HEADER_BYTES_MAX;
    int status = listed_file_read(&file->file, list->io, list->queue, file->path,
                                  array->member.offset, bytes, &head, list->err);
    if (!status) {
        status = npy_read_header((const uint8_t *)str_text(&head), head.bytes, file->path, &header,
                                 list->err);
        if (status && array->is_member)
            err_at(list->err, file->path, list->err->offset + (int64_t)array->member.offset);
    }
    if (!status)
        status = check_header(list, array, &header, ret_rows);
    str_deinit(&head);
    return status;
}

/* ---- Tables. ---- */

static int reject_rows(const struct numpy_list *list, const struct numpy_array *array,
                       const struct numpy_array *first, uint64_t expected, uint64_t found)
{
    err_set(list->err, -EINVAL, "the arrays have different numbers of rows");
    err_at(list->err, array_table_file(list->table, array->file)->path, ERR_NO_OFFSET);
    err_expected(list->err, "%" PRIu64 " as in \"%.80s\"", expected, first->member.name);
    err_found(list->err, "%" PRIu64 " in \"%.80s\"", found, array->member.name);
    err_advise(list->err, "choose columns of the same length with --column NAME=FIELD");
    return -EINVAL;
}

/* Adds the arrays of a split. names: the chosen columns; none: all. */
static int add_split(struct numpy_list *list, uint32_t split, const char *split_name,
                     const struct columns *chosen)
{
    struct array_part *part = calloc(1, sizeof *part);
    const struct numpy_array *first = NULL;
    uint32_t column;
    int status = part ? 0 : err_set(list->err, -ENOMEM, "out of memory for a source");
    for (size_t i = 0; i < arrays_count(list) && !status; i++) {
        struct numpy_array *array = array_at(list, i);
        struct numpy_rows rows;
        if (strcmp(split_name, array->split) != 0 ||
            (chosen->count > 0 && !columns_have(chosen, array->column) &&
             !columns_have(chosen, "*"))) {
            if (split == 0 && strcmp(split_name, array->split) == 0)
                array_table_leave_out(list->table, array->column);
            continue;
        }
        status = read_header(list, array, &rows);
        if (!status && first && rows.rows != part->rows)
            status = reject_rows(list, array, first, part->rows, rows.rows);
        if (!status)
            status = array_table_add_column(list->table, array->column, &rows.type,
                                            array_table_file(list->table, array->file)->path,
                                            &column, list->err);
        if (status)
            break;
        array->is_column = true;
        first = first ? first : array;
        part->rows = rows.rows;
        part->places[column] =
            (struct array_place){array->file, rows.data_at, list->table->columns[column].row_bytes};
    }
    part->split = split;
    if (!status)
        status = array_table_add_part(list->table, part, list->err);
    free(part);
    return status;
}

/* Files that are columns look like files that are samples, unless they are named as columns. */
static int check_are_columns(const struct array_table *table, const struct convert_options *options,
                             struct err *err)
{
    bool is_file = strcmp(array_table_file(table, 0)->path, options->source) == 0;
    for (uint32_t i = 0; i < table->columns_count; i++)
        if (is_file || options->columns.count > 0 || table->columns[i].use == ARRAY_IMAGE ||
            table->columns[i].use == ARRAY_CLASS)
            return 0;
    err_set(err, -EINVAL, "the .npy files may be columns or samples");
    err_at(err, options->source, ERR_NO_OFFSET);
    err_expected(err, "u8 pixels named images, or integers named labels, if they are columns");
    err_found(err, "%.150s.npy", table->columns[0].name);
    err_advise(err,
               "name the columns with --column '%.60s=npy', or, if each file is a sample, "
               "add --fields npy",
               table->columns[0].name);
    return -EINVAL;
}

/* Rows are read in any order, and not all of them by one thread, so checksums are checked before.
 * A .npy file has none. */
static int check_data(const struct numpy_list *list)
{
    int status = 0;
    for (size_t i = 0; i < arrays_count(list) && !status; i++) {
        const struct numpy_array *array = array_at(list, i);
        const struct array_file *file = array_table_file(list->table, array->file);
        if (array->is_member && array->is_column)
            status = npz_check(list->io, list->queue, &file->file, file->path, &array->member,
                               list->stop, list->err);
    }
    return status;
}

static int numpy_open(struct io *io, struct source *source, struct err *err)
{
    const struct convert_options *options = source->options;
    struct numpy_list list = {.io = io, .stop = options->stop, .err = err};
    struct columns *chosen = calloc(1, sizeof *chosen);
    int status = chosen ? columns_parse(&options->columns, chosen, err)
                        : err_set(err, -ENOMEM, "out of memory for columns");
    if (!status)
        status = array_table_begin(source, &list.table, err);
    if (!status)
        status = list_arrays(&list, options, source);
    bool has_splits = source_has_split_folders(options);
    if (!status && !has_splits && name_set_count(&list.splits) > 1)
        for (size_t i = 0; i < arrays_count(&list); i++) { /* --split-folders no */
            strcpy(array_at(&list, i)->column, array_at(&list, i)->member.name);
            array_at(&list, i)->split[0] = '\0';
        }
    uint32_t splits = has_splits ? options->splits_count : 1;
    for (uint32_t split = 0; split < splits && !status; split++)
        status = add_split(&list, split,
                           has_splits                ? options->splits[split].name
                           : arrays_count(&list) > 0 ? array_at(&list, 0)->split
                                                     : "",
                           chosen);
    free(chosen);
    if (!status)
        status = array_table_finish(io, source, &(struct array_class_names){0}, err);
    if (!status && source->items_count > 0)
        status = check_are_columns(list.table, options, err);
    if (!status)
        status = check_data(&list);
    list_deinit(&list);
    return status;
}

static bool is_numpy(const struct source_layout *layout)
{
    return layout->file ? str_ends_with_nocase(layout->file, ".npy") ||
                              str_ends_with_nocase(layout->file, ".npz")
                        : array_layout_is(layout, ARRAY_FORMAT_NUMPY);
}

const struct source_ops source_numpy_ops = {
    .name = "numpy",
    .has_columns = true,
    .probe = is_numpy,
    .find_splits = numpy_find_splits,
    .open = numpy_open,
    .close = array_table_close,
    .describe = array_table_describe,
    .read = array_table_read,
    .reader_open = array_table_reader_open,
    .reader_close = array_table_reader_close,
};
