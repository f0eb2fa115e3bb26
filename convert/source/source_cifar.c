/*
 * source_cifar — the source for the binary versions of CIFAR-10 and CIFAR-100
 * (www.cs.toronto.edu/~kriz/cifar.html).
 *
 *     CIFAR-10    data_batch_N.bin, test_batch.bin: u8 label; u8 image [3, 32, 32]
 *     CIFAR-100   train.bin, test.bin: u8 coarse label; u8 fine label; u8 image [3, 32, 32]
 *
 * Class names are the lines of batches.meta.txt, fine_label_names.txt and coarse_label_names.txt.
 */
#include "convert/source/array_names.h"
#include "convert/source/array_table.h"
#include "convert/source/file_names.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 32,
    IMAGE_BYTES = 3 * SIDE * SIDE,
    LABELS_MAX = 2,
    NAMES_MAX = 100,
    NAMES_FILE_BYTES_MAX = 1 << 16
};

struct cifar {
    uint32_t labels_count;
    struct {
        const char *column, *names_file;
        uint32_t count;
    } labels[LABELS_MAX];
};
static const struct cifar CIFAR_10 = {
    .labels_count = 1,
    .labels = {{"label", "batches.meta.txt", 10}},
};
static const struct cifar CIFAR_100 = {
    .labels_count = 2,
    .labels = {{"coarse_label", "coarse_label_names.txt", 20},
               {"fine_label", "fine_label_names.txt", 100}},
};

/* ---- Class names. ---- */

struct names_file {
    char *text;
    const char *lines[NAMES_MAX];
};

static int reject_names(const char *path, uint64_t expected, uint64_t found, struct err *err)
{
    err_set(err, -EBADMSG, "a file of class names has another number of lines");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "%" PRIu64, expected);
    err_found(err, "%" PRIu64 "%s", found, found > expected ? " or more" : "");
    return -EBADMSG;
}

/* Leaves ret_names->text NULL if there is no such file. */
static int read_names(struct io *io, const struct convert_options *options, const char *name,
                      uint32_t count, struct names_file *ret_names, struct err *err)
{
    char path[IO_PATH_BYTES_MAX], *rest = NULL;
    size_t bytes;
    uint32_t lines = 0;
    struct io_stat info;
    int status = io_join_path(options->source, name, path, err);
    if (status)
        return status;
    status = name_is_ignored(options, name) ? -ENOENT : io->names->stat(io, path, &info, err);
    if (status == -ENOENT) {
        err_clear(err);
        return 0;
    }
    if (!status)
        status = io_read_file(io, path, NAMES_FILE_BYTES_MAX, &ret_names->text, &bytes, err);
    if (status)
        return status;
    for (char *line = strtok_r(ret_names->text, "\r\n", &rest); line;
         line = strtok_r(NULL, "\r\n", &rest)) {
        if (lines == count)
            return reject_names(path, count, count + 1, err);
        ret_names->lines[lines++] = line;
    }
    return lines == count ? 0 : reject_names(path, count, lines, err);
}

/* ---- Files. ---- */

static bool is_data(const char *name)
{
    return str_ends_with(name, ".bin");
}

static bool is_test(const char *name)
{
    return strncmp(name, "test", 4) == 0;
}

static int list_names(struct io *io, const struct convert_options *options, struct source *source,
                      struct str *names, const struct cifar **ret_cifar, struct err *err)
{
    bool is_10 = false, is_100 = false;
    int status = array_names_list(io, options, source, options->source, names, err);
    for (size_t at = 0; at < names->bytes && !status; at += strlen(names->data + at) + 1) {
        const char *name = names->data + at;
        bool is_of_10 = strstr(name, "batch") != NULL;
        is_10 |= is_of_10;
        is_100 |= !is_of_10;
    }
    if (!status && is_10 == is_100) {
        status = err_set(err, -EINVAL, "the folder holds files of CIFAR-10 and of CIFAR-100");
        err_at(err, options->source, ERR_NO_OFFSET);
        err_advise(err, "leave out one of them with --ignore");
    }
    *ret_cifar = is_100 ? &CIFAR_100 : &CIFAR_10;
    return status;
}

static int cifar_find_splits(struct io *io, struct convert_options *options, struct err *err)
{
    struct str names = {0};
    struct name_set splits = {0};
    const struct cifar *cifar;
    int status = list_names(io, options, NULL, &names, &cifar, err);
    for (size_t at = 0; at < names.bytes && !status; at += strlen(names.data + at) + 1) {
        const char *split = is_test(names.data + at) ? "test" : "train";
        if (is_data(names.data + at))
            status =
                name_set_add(&splits, split, strlen(split), &(uint32_t){0}, &(bool){false}, err);
    }
    if (!status)
        status = array_splits_add(options, &splits, err);
    name_set_deinit(&splits);
    str_deinit(&names);
    return status;
}

static int add_file(struct io *io, const struct convert_options *options, struct array_table *table,
                    const struct cifar *cifar, const char *name, struct array_part *part,
                    struct err *err)
{
    static const struct array_type image = {.dtype = DTYPE_U8, .rank = 3, .shape = {3, SIDE, SIDE}};
    static const struct array_type label = {.dtype = DTYPE_U8};
    char path[IO_PATH_BYTES_MAX];
    uint64_t row_bytes = cifar->labels_count + IMAGE_BYTES;
    uint32_t file, column;
    int status = io_join_path(options->source, name, path, err);
    if (!status)
        status = array_table_add_file(table, io, path, &file, err);
    if (status)
        return status;
    uint64_t bytes = array_table_file(table, file)->file.bytes;
    if (bytes % row_bytes) {
        err_set(err, -EBADMSG, "a CIFAR file has another size");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "a multiple of %" PRIu64 " bytes", row_bytes);
        err_found(err, "%" PRIu64, bytes);
        err_advise(err, "download the file again");
        return -EBADMSG;
    }
    part->rows = bytes / row_bytes;
    for (uint32_t i = 0; i <= cifar->labels_count && !status; i++) {
        bool is_label = i < cifar->labels_count;
        status = array_table_add_column(table, is_label ? cifar->labels[i].column : "image",
                                        is_label ? &label : &image, path, &column, err);
        if (!status)
            part->places[column] = (struct array_place){file, i, row_bytes};
    }
    part->split = array_split_find(options, is_test(name) ? "test" : "train");
    return status ? status : array_table_add_part(table, part, err);
}

static int add_files(struct io *io, struct source *source, struct array_table *table,
                     const struct cifar **ret_cifar, struct err *err)
{
    const struct convert_options *options = source->options;
    struct str names = {0};
    struct array_part *part = calloc(1, sizeof *part);
    int status = part ? list_names(io, options, source, &names, ret_cifar, err)
                      : err_set(err, -ENOMEM, "out of memory for a source");
    for (size_t at = 0; at < names.bytes && !status; at += strlen(names.data + at) + 1)
        if (is_data(names.data + at))
            status = add_file(io, options, table, *ret_cifar, names.data + at, part, err);
    str_deinit(&names);
    free(part);
    return status;
}

static int cifar_open(struct io *io, struct source *source, struct err *err)
{
    const struct cifar *cifar = NULL;
    struct array_table *table = NULL;
    struct array_class_names names[LABELS_MAX + 1] = {{0}};
    struct names_file *files = calloc(LABELS_MAX, sizeof *files);
    int status = files ? array_table_begin(source, &table, err)
                       : err_set(err, -ENOMEM, "out of memory for class names");
    if (!status)
        status = add_files(io, source, table, &cifar, err);
    for (uint32_t i = 0; !status && i < cifar->labels_count; i++) {
        status = read_names(io, source->options, cifar->labels[i].names_file,
                            cifar->labels[i].count, &files[i], err);
        names[i] = (struct array_class_names){
            cifar->labels[i].column, files[i].text ? files[i].lines : NULL, cifar->labels[i].count};
    }
    if (!status)
        status = array_table_finish(io, source, names, err);
    for (uint32_t i = 0; files && i < LABELS_MAX; i++)
        free(files[i].text);
    free(files);
    return status;
}

static bool is_cifar(const struct source_layout *layout)
{
    struct source_layout others = *layout;
    others.array_formats &= ~(1U << ARRAY_FORMAT_CIFAR_100_DATA);
    return array_layout_is(&others, ARRAY_FORMAT_CIFAR);
}

const struct source_ops source_cifar_ops = {
    .name = "cifar",
    .has_columns = true,
    .probe = is_cifar,
    .find_splits = cifar_find_splits,
    .open = cifar_open,
    .close = array_table_close,
    .describe = array_table_describe,
    .read = array_table_read,
    .reader_open = array_table_reader_open,
    .reader_close = array_table_reader_close,
};
