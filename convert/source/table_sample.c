/*
 * table_sample — see table_sample.h.
 */
#include "convert/source/table_sample.h"

#include "base/hash.h"
#include "convert/source/file_names.h"
#include "convert/source/sample_key.h"
#include "image/formats/pixels.h"
#include "image/pipeline/check.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void table_sampler_deinit(struct table_sampler *sampler)
{
    table_row_deinit(&sampler->row);
    str_deinit(&sampler->listed.data);
}

uint64_t table_path_hash(const char *path)
{
    char normalized[COLUMN_TEXT_BYTES_MAX];
    size_t at = 0, bytes;
    for (const char *part; (part = path_next_part(&path, &bytes));) {
        if (at + bytes + 2 > sizeof normalized)
            return 0; /* longer than the path of any file */
        memcpy(normalized + at, part, bytes);
        at += bytes;
        normalized[at++] = '/';
    }
    return hash_64(normalized, at);
}

int table_make_key(const struct column *column, const char *text, char key[SHARD_KEY_BYTES_MAX],
                   struct err *err)
{
    const char *expected = sample_key_make(text, column_is_file(column), key);
    if (!expected)
        return 0;
    err_set(err, -EBADMSG, "column \"%.100s\" gives no valid key", column->name);
    err_expected(err, "%s", expected);
    err_found(err, "\"%.150s\"", text);
    return -EBADMSG;
}

static bool has_field(const struct source_sample *sample, const char *extension)
{
    for (uint32_t i = 0; i < sample->fields_count; i++)
        if (strcmp(sample->fields[i].extension, extension) == 0)
            return true;
    return false;
}

int table_end_field(struct source_sample *sample, const struct column *column,
                    const char *extension, size_t start, const char *path, struct err *err)
{
    if (has_field(sample, extension)) {
        err_set(err, -EBADMSG, "two columns become the field %s", extension);
        err_found(err, "column \"%.100s\"", column->name);
        err_advise(err, "name the field of one of them, for example with --column '%.60s=x.:file'",
                   column->name);
        return -EBADMSG;
    }
    source_end_field(sample, extension, start, path);
    return 0;
}

/* The field of a file: that of the mapping, with the file's own extension if it has none. Empty:
 * only the image tells. */
static int file_field(const struct column *column, const char *path,
                      char field[SHARD_EXTENSION_BYTES_MAX], struct err *err)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    size_t prefix = strlen(column->field);
    char own[SHARD_EXTENSION_BYTES_MAX];
    strcpy(field, column->field);
    if (prefix > 0 && field[prefix - 1] != '.')
        return 0;
    name_write_extension(slash ? slash + 1 : path, own);
    if (column->kind == COLUMN_IMAGE && !is_image_extension(own)) {
        field[0] = '\0';
        return 0;
    }
    if (dot && dot[1] && prefix + strlen(dot + 1) < SHARD_EXTENSION_BYTES_MAX) {
        strcpy(field + prefix, own);
        return 0;
    }
    err_set(err, -EBADMSG, "column \"%.100s\" names a file whose extension cannot be a field",
            column->name);
    err_expected(err, "an extension of at most %zu bytes", SHARD_EXTENSION_BYTES_MAX - 1 - prefix);
    err_found(err, "\"%.150s\"", path);
    err_advise(err, "name the field, for example --column '%.60s=jpg:file'", column->name);
    return -EBADMSG;
}

static int find_path(const struct table_list *list, const char *text, char path[IO_PATH_BYTES_MAX],
                     struct err *err)
{
    return io_join_path(text[0] == '/' ? "" : list->folder, text, path, err);
}

static int reject_file(const struct column *column, const char *text, const char *what,
                       struct err *err)
{
    err_set(err, -ENOENT, "column \"%.100s\": %s", column->name, what);
    err_found(err, "\"%.200s\"", text);
    if (strstr(text, "://"))
        err_advise(err, "download the files first, and list their paths");
    else
        err_advise(err, "paths are relative to the list's folder");
    return -ENOENT;
}

static int list_file(const struct table_sampler *sampler, const struct table_list *list,
                     const struct column *column, const char *text, struct row_listing *listing,
                     struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    struct listed_file file;
    int status = find_path(list, text, path, err);
    if (!status)
        status = sampler->io->names->stat(sampler->io, path, &info, err);
    if (status == -ENOENT || status == -ENOTDIR)
        return reject_file(column, text, "the file does not exist", err);
    if (!status && info.kind != IO_ENTRY_FILE)
        return reject_file(column, text, "not a regular file", err);
    if (status)
        err_found(err, "\"%.200s\"", text);
    if (status)
        return status;
    listed_file_set(&file, &info);
    listing->path_hashes[listing->files_count] = table_path_hash(text);
    listing->files[listing->files_count++] = (struct row_file){file.bytes, file.identity_hash};
    return 0;
}

static int read_file(const struct table_sampler *sampler, const struct column *column,
                     const struct row_file *listed, struct io_queue *queue, const char *path,
                     struct str *out, struct err *err)
{
    struct listed_file file = {.bytes = listed->bytes, .identity_hash = listed->identity_hash};
    size_t start = out->bytes;
    int status = listed_file_read(&file, sampler->io, queue, path, 0, listed->bytes, out, err);
    if (status || column->kind != COLUMN_IMAGE ||
        image_kind_of(out->data + start, listed->bytes) != IMAGE_UNKNOWN)
        return status;
    err_set(err, -EBADMSG, "not an image");
    err_at(err, path, 0);
    err_expected(err, "JPEG, PNG, WebP or PPM");
    err_advise(err, "store other files with the kind file");
    return -EBADMSG;
}

const char *table_image_extension(const char *data, size_t bytes)
{
    static const char *const extensions[IMAGE_KIND_COUNT] = {[IMAGE_UNKNOWN] = "bin",
                                                             [IMAGE_JPEG] = "jpg",
                                                             [IMAGE_PNG] = "png",
                                                             [IMAGE_WEBP] = "webp",
                                                             [IMAGE_PPM] = "ppm"};
    return extensions[image_kind_of(data, bytes)];
}

/* Completes the field of an image by its content. */
static void complete_image_field(const struct column *column, const char *data, size_t bytes,
                                 char field[SHARD_EXTENSION_BYTES_MAX])
{
    size_t prefix = strlen(column->field);
    strcpy(field, column->field);
    snprintf(field + prefix, SHARD_EXTENSION_BYTES_MAX - prefix, "%s",
             table_image_extension(data, bytes));
}

struct row_visit {
    struct table_sampler *sampler;
    const struct table_list *list;
    const struct table_row_at *at;
    struct source_sample *sample;
    struct row_listing *listing;  /* NULL: read */
    const struct row_file *files; /* to read */
    uint32_t files_count;         /* read so far */
    struct io_queue *queue;
    struct err *err;
};

static int add_file(struct row_visit *visit, const struct column *column)
{
    char text[COLUMN_TEXT_BYTES_MAX], path[IO_PATH_BYTES_MAX], field[SHARD_EXTENSION_BYTES_MAX];
    struct source_sample *sample = visit->sample;
    size_t start = sample->data.bytes;
    int status = column_text(column, &visit->sampler->row, text, visit->err);
    if (!status)
        status = file_field(column, text, field, visit->err);
    if (!status)
        status = find_path(visit->list, text, path, visit->err);
    if (!status && visit->listing)
        status = list_file(visit->sampler, visit->list, column, text, visit->listing, visit->err);
    else if (!status)
        status = read_file(visit->sampler, column, &visit->files[visit->files_count++],
                           visit->queue, path, &sample->data, visit->err);
    if (!status && !field[0]) {
        if (visit->listing)
            return 0;
        complete_image_field(column, sample->data.data + start, sample->data.bytes - start, field);
    }
    return status ? status : table_end_field(sample, column, field, start, path, visit->err);
}

static int add_key(struct row_visit *visit, const struct column *column)
{
    char text[COLUMN_TEXT_BYTES_MAX];
    if (!visit->listing || strcmp(column->name, "#") == 0)
        return 0;
    int status = column_text(column, &visit->sampler->row, text, visit->err);
    return status ? status : table_make_key(column, text, visit->listing->key, visit->err);
}

static int add_value(struct row_visit *visit, const struct column *column, bool *ret_is_absent)
{
    struct source_sample *sample = visit->sample;
    size_t start = sample->data.bytes;
    const struct columns *columns = visit->sampler->columns;
    char path[IO_PATH_BYTES_MAX + 16] = "";
    int status = 0;
    bool has_others = true;
    if (visit->listing && strcmp(column->name, "*") == 0) { /* valid in any case */
        status = column_find_others(columns, &visit->sampler->row, &has_others, visit->err);
        *ret_is_absent = columns->count > 1 && !has_others;
    } else {
        status = column_store_value(columns, column, &visit->sampler->row, &sample->data,
                                    ret_is_absent, visit->err);
    }
    if (status || *ret_is_absent)
        return status;
    if (column->kind == COLUMN_BASE64) /* decoding an image may fail */
        snprintf(path, sizeof path, "%s:%" PRIu32, visit->list->path, visit->at->line);
    return table_end_field(sample, column, column->field, start, path, visit->err);
}

static int add_column(struct row_visit *visit, uint32_t number)
{
    const struct column *column = &visit->sampler->columns->items[number];
    struct row_listing *listing = visit->listing;
    bool is_absent = false;
    int status = 0;
    if (column_is_file(column))
        status = add_file(visit, column);
    else if (column->kind == COLUMN_KEY)
        status = add_key(visit, column);
    else if (column->kind != COLUMN_CLASS)
        status = add_value(visit, column, &is_absent);
    else if (listing)
        status = column_text(column, &visit->sampler->row, listing->class_name, visit->err);
    if (listing && !is_absent)
        listing->columns_present |= UINT64_C(1) << number;
    return status;
}

/* Without a key column, the first file gives the key. */
static int add_default_key(struct row_visit *visit)
{
    const struct columns *columns = visit->sampler->columns;
    for (uint32_t i = 0; i < columns->count; i++)
        if (column_is_file(&columns->items[i]))
            return columns_find(columns, COLUMN_KEY) ? 0 : add_key(visit, &columns->items[i]);
    return 0;
}

static bool uses_paths(const struct columns *columns)
{
    for (uint32_t i = 0; i < columns->count; i++)
        if (columns->items[i].name[0] == '$')
            return true;
    return false;
}

static int visit_row(struct row_visit *visit, const char *text)
{
    struct table_row *row = &visit->sampler->row;
    row->format = &visit->list->format;
    enum table_row_mode mode = uses_paths(visit->sampler->columns) ? TABLE_ROW_TREE
                               : visit->listing                    ? TABLE_ROW_LAZY
                                                                   : TABLE_ROW_KNOWN;
    int status = table_row_parse(row, text, visit->at->bytes, mode, visit->err);
    for (uint32_t i = 0; i < visit->sampler->columns->count && !status; i++)
        status = add_column(visit, i);
    if (!status)
        status = add_default_key(visit);
    if (row->status || (!status && str_status(&visit->sample->data)))
        return err_set(visit->err, -ENOMEM, "out of memory for a sample");
    bool is_empty = visit->sample->fields_count == 0 && visit->listing &&
                    !visit->listing->class_name[0] && visit->listing->files_count == 0;
    if (!status && is_empty) {
        status = err_set(visit->err, -EBADMSG, "a row has no value in any mapped column");
        err_advise(visit->err, "remove the row, or map other columns");
    }
    return status;
}

int table_sample_list(struct table_sampler *sampler, const struct table_list *list,
                      const struct table_row_at *at, const char *text, struct row_listing *ret_row,
                      struct err *err)
{
    struct row_visit visit = {.sampler = sampler,
                              .list = list,
                              .at = at,
                              .sample = &sampler->listed,
                              .listing = ret_row,
                              .err = err};
    str_clear(&sampler->listed.data);
    sampler->listed.fields_count = 0;
    ret_row->key[0] = ret_row->class_name[0] = '\0';
    ret_row->columns_present = 0;
    ret_row->files_count = 0;
    int status = visit_row(&visit, text);
    if (status)
        table_list_locate(list, at, err);
    return status;
}

/* Errors of files keep the file's name; others get the row's. */
int table_sample_read(struct table_sampler *sampler, const struct table_list *list,
                      const struct table_row_at *at, const char *text, const struct row_file *files,
                      struct io_queue *queue, struct source_sample *sample, struct err *err)
{
    struct row_visit visit = {.sampler = sampler,
                              .list = list,
                              .at = at,
                              .sample = sample,
                              .files = files,
                              .queue = queue,
                              .err = err};
    int status = visit_row(&visit, text);
    if (status && (!err || !err->path[0]))
        table_list_locate(list, at, err);
    return status;
}
