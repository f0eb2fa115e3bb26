/*
 * record_source — see record_source.h.
 */
#include "convert/record/record_source.h"

#include "base/hash.h"
#include "convert/record/record_columns.h"
#include "convert/record/record_sample.h"
#include "convert/source/class_numbers.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Records that may be read to find all mapped columns. */
enum { PROBED_RECORDS_MAX = 1000 };

struct record_source {
    const struct record_format *format;
    void *format_state;
    struct record_file *files;
    size_t files_count;
    struct columns columns;
    bool stores_numbers;         /* the class column holds integers */
    struct name_set keys;        /* per record, if a column gives them */
    struct name_set class_names; /* classes number these */
    struct str classes;          /* uint32_t per record, if they have names */
};

struct record_reader {
    const struct record_source *records;
    const struct record_file *open; /* that of handle */
    struct io_file *handle;
    struct str encoded;
    struct record record;
    struct record_sampler sampler;
};

void record_files_free(struct record_file *files, size_t count)
{
    for (size_t i = 0; files && i < count; i++) {
        free(files[i].path);
        free(files[i].offsets);
    }
    free(files);
}

static const struct record_file *find_file(const struct record_source *records, uint64_t number)
{
    size_t low = 0, high = records->files_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (records->files[middle].first_record <= number)
            low = middle;
        else
            high = middle;
    }
    return &records->files[low];
}

static uint64_t record_bytes(const struct record_file *file, uint64_t number)
{
    const uint64_t *offset = &file->offsets[number - file->first_record];
    return offset[1] - offset[0];
}

/* ---- Reading. ---- */

static int open_file(struct source_reader *reader, const struct record_file *file, struct err *err)
{
    struct record_reader *state = reader->state;
    if (state->open == file)
        return 0;
    if (state->handle)
        reader->io->ops->file_close(state->handle);
    state->open = NULL;
    state->handle = NULL;
    int status = reader->io->ops->file_open(reader->io, file->path, &state->handle, err);
    if (!status)
        state->open = file;
    return status;
}

/* Reads and decodes a record into the reader's. */
static int read_record(struct source_reader *reader, uint64_t number, struct err *err)
{
    struct record_reader *state = reader->state;
    const struct record_file *file = find_file(state->records, number);
    uint64_t offset = file->offsets[number - file->first_record],
             bytes = record_bytes(file, number);
    if (bytes > SOURCE_ITEM_BYTES_MAX) {
        err_set(err, -EFBIG, "a record is too large");
        err_at(err, file->path, (int64_t)offset);
        err_expected(err, "at most %d bytes", SOURCE_ITEM_BYTES_MAX);
        err_found(err, "%" PRIu64, bytes);
        return -EFBIG;
    }
    str_clear(&state->encoded);
    int status = open_file(reader, file, err);
    if (!status && str_reserve(&state->encoded, bytes))
        status = err_set(err, -ENOMEM, "out of memory for a record of %" PRIu64 " bytes", bytes);
    if (!status)
        status = io_read_exact(reader->queue, reader->io, state->handle, file->path, offset,
                               state->encoded.data, bytes, err);
    if (!status)
        status = listed_file_check(&file->file, reader->io, state->handle, file->path, err);
    if (status)
        return status;
    record_clear(&state->record, file->path, offset);
    return state->records->format->decode(file, (const uint8_t *)state->encoded.data, bytes,
                                          &state->record, err);
}

/* Adds an integer class as field cls. */
static int add_class(struct record_reader *state, const char *name, struct source_sample *sample,
                     struct err *err)
{
    const struct column *column = columns_find(&state->records->columns, COLUMN_CLASS);
    char text[COLUMN_TEXT_BYTES_MAX], *end;
    size_t start = sample->data.bytes;
    int status = record_sample_text(&state->sampler, column, &state->record, text, err);
    if (status)
        return status;
    errno = 0;
    int64_t number = strtoll(text, &end, 10);
    if (errno || *end || number < 0 || number > INT32_MAX) {
        err_set(err, -EBADMSG, "column \"%.100s\" is not a class number", column->name);
        err_at(err, state->record.path, (int64_t)state->record.offset);
        err_expected(err, "0 to %d, as in the first record", INT32_MAX);
        err_found(err, "\"%.100s\"", text);
        err_advise(err, "store it with --column '%.60s=label:json'", column->name);
        return -EBADMSG;
    }
    str_add_format(&sample->data, "%" PRId64, number);
    return table_end_field(sample, column, "cls", start, name, err);
}

int record_source_read(struct source_reader *reader, const struct source_item *item,
                       struct source_sample *sample, struct err *err)
{
    struct record_reader *state = reader->state;
    struct err detail = {0};
    char name[IO_PATH_BYTES_MAX + 64];
    int status = read_record(reader, item->number, &detail);
    if (!status) {
        snprintf(name, sizeof name, "%s: record %" PRIu64, state->open->path,
                 item->number - state->open->first_record);
        status = record_sample_read(&state->sampler, &state->records->columns, &state->record, name,
                                    sample, &detail);
    }
    if (!status && state->records->stores_numbers)
        status = add_class(state, name, sample, &detail);
    if (!status && sample->fields_count == 0 && item->class_number == SOURCE_NO_CLASS) {
        status = err_set(&detail, -EBADMSG, "a record has no value in any mapped column");
        err_at(&detail, state->record.path, (int64_t)state->record.offset);
    }
    if (status && err)
        *err = detail;
    return status;
}

int record_source_reader_open(struct source_reader *reader, struct err *err)
{
    struct record_reader *state = reader->state = calloc(1, sizeof *state);
    if (!state)
        return err_set(err, -ENOMEM, "out of memory for a reader");
    state->records = reader->source->state;
    return 0;
}

void record_source_reader_close(struct source_reader *reader)
{
    struct record_reader *state = reader->state;
    if (!state)
        return;
    if (state->handle)
        reader->io->ops->file_close(state->handle);
    str_deinit(&state->encoded);
    record_deinit(&state->record);
    record_sampler_deinit(&state->sampler);
    free(state);
}

/* ---- Opening. ---- */

static int reject_missing(const struct source_reader *reader, const struct column *missing,
                          struct err *err)
{
    const struct record_reader *state = reader->state;
    struct str names = {0};
    record_list_names(&state->record, &names);
    err_set(err, -EINVAL, "the records have no column \"%.150s\"", missing->name);
    err_at(err, reader->source->options->source, ERR_NO_OFFSET);
    err_expected(err, "%s", str_text(&names));
    str_deinit(&names);
    return -EINVAL;
}

/* Chooses the columns by the first record, or checks that one of the first records has each. */
static int choose_columns(struct source_reader *reader, struct err *err)
{
    struct record_reader *state = reader->state;
    const struct source *source = reader->source;
    struct record_source *records = source->state;
    const struct column *missing = NULL;
    struct str text = {0};
    int status = read_record(reader, 0, err);
    if (!status && records->columns.count == 0)
        status = record_columns_choose(&state->record, &records->columns, err);
    const struct column *class = columns_find(&records->columns, COLUMN_CLASS);
    if (!status)
        status = record_columns_describe(&records->columns, &state->record, &text, err);
    for (uint64_t i = 1; !status; i++) {
        missing = record_columns_missing(&records->columns, &state->record);
        const struct record_value *value = class ? record_find(&state->record, class->name) : NULL;
        if (value && value->count > 0)
            records->stores_numbers = value->kind == RECORD_NUMBERS;
        if (!missing || i >= source->items_count || i >= PROBED_RECORDS_MAX)
            break;
        status = read_record(reader, i, err);
    }
    if (!status && missing)
        status = reject_missing(reader, missing, err);
    if (!status)
        log_line(source->options->log, LOG_INFO, "%s: %s", records->files[0].path, str_text(&text));
    str_deinit(&text);
    return status;
}

static int reject_key(const struct record_source *records, uint64_t number, uint32_t earlier,
                      const char *key, struct err *err)
{
    const struct record_file *file = find_file(records, number),
                             *other = find_file(records, earlier);
    err_set(err, -EEXIST, "two records have the same key: \"%.150s\"", key);
    err_at(err, file->path, (int64_t)file->offsets[number - file->first_record]);
    err_found(err, "also record %" PRIu64 " of %.150s", earlier - other->first_record, other->path);
    err_advise(err, "name a column with distinct values, --column NAME=:key, or use the records' "
                    "numbers, --column '#=:key'");
    return -EEXIST;
}

static int add_key(struct record_source *records, const char *key, uint64_t number, struct err *err)
{
    uint32_t earlier;
    bool is_new;
    int status = name_set_add(&records->keys, key, strlen(key), &earlier, &is_new, err);
    return status || is_new ? status : reject_key(records, number, earlier, key, err);
}

static int add_class_name(struct record_source *records, const char *name, const char *path,
                          struct err *err)
{
    uint32_t number = SOURCE_NO_CLASS;
    bool is_new;
    int status =
        *name ? name_set_add(&records->class_names, name, strlen(name), &number, &is_new, err) : 0;
    str_add(&records->classes, &number, sizeof number);
    if (!status && str_status(&records->classes))
        status = err_set(err, -ENOMEM, "out of memory for classes");
    if (status || name_set_count(&records->class_names) <= FILE_LIST_CLASSES_MAX)
        return status;
    err_set(err, -E2BIG, "there are more than %d classes", FILE_LIST_CLASSES_MAX);
    err_at(err, path, ERR_NO_OFFSET);
    err_advise(err, "store the column as text instead, with --column NAME=txt");
    return -E2BIG;
}

/* Adds the key and class of a record. A bad one, which is skipped later, has a key unlike any
 * other. */
static int list_record(struct source_reader *reader, const struct column *key_column,
                       const struct column *class_column, uint64_t number, struct err *err)
{
    struct record_reader *state = reader->state;
    struct record_source *records = reader->source->state;
    char key[COLUMN_TEXT_BYTES_MAX] = "", name[COLUMN_TEXT_BYTES_MAX] = "";
    int status = read_record(reader, number, err);
    if (!status && key_column)
        status = record_sample_text(&state->sampler, key_column, &state->record, name, err);
    if (!status && key_column) {
        status = table_make_key(key_column, name, key, err);
        name[0] = '\0';
    }
    if (!status && class_column)
        status = record_sample_text(&state->sampler, class_column, &state->record, name, err);
    if (status) {
        if (!reader->source->options->skip_errors || status == -ENOMEM || status == -EMFILE ||
            status == -ENFILE || status == -ESTALE)
            return status;
        snprintf(key, sizeof key, "\n%" PRIu64, number);
        name[0] = '\0';
    }
    status = key_column ? add_key(records, key, number, err) : 0;
    return status || !class_column ? status
                                   : add_class_name(records, name, state->record.path, err);
}

/* Reads all records for their keys and class names, if there are any. */
static int list_records(struct source_reader *reader, struct err *err)
{
    struct source *source = (struct source *)(uintptr_t)reader->source;
    struct record_source *records = source->state;
    const struct column *key = columns_find(&records->columns, COLUMN_KEY),
                        *class = columns_find(&records->columns, COLUMN_CLASS);
    const atomic_int *stop = source->options->stop;
    int status = 0;
    if (key && strcmp(key->name, "#") == 0)
        key = NULL;
    if (records->stores_numbers)
        class = NULL;
    for (uint64_t i = 0; (key || class) && i < source->items_count && !status; i++)
        status = stop && atomic_load(stop)
                     ? err_set(err, -EINTR, "stopped while records were listed")
                     : list_record(reader, key, class, i, err);
    if (!status && class)
        status =
            class_numbers_set(source, &records->class_names,
                              (uint32_t *)(void *)records->classes.data, source->items_count, err);
    return status;
}

static int identify(struct source *source, struct err *err)
{
    const struct record_source *records = source->state;
    struct hash_stream *hash = hash_stream_open();
    if (!hash)
        return err_set(err, -ENOMEM, "out of memory for the identity of a source");
    for (size_t i = 0; i < records->files_count; i++) {
        const struct record_file *file = &records->files[i];
        const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
        hash_stream_update(hash, name, strlen(name) + 1);
        hash_stream_update(hash, &file->file.bytes, sizeof file->file.bytes);
        hash_stream_update(hash, file->offsets, file->records_count * sizeof file->offsets[0]);
    }
    columns_hash(&records->columns, hash);
    source->identity = hash_stream_64(hash);
    hash_stream_close(hash);
    return 0;
}

static int read_columns(struct io *io, struct source *source, struct err *err)
{
    struct source_reader reader;
    int status = source_reader_open(source, io, &reader, err);
    if (status)
        return status;
    status = choose_columns(&reader, err);
    if (!status)
        status = list_records(&reader, err);
    source_reader_close(&reader);
    return status;
}

int record_source_open(struct io *io, struct source *source, const struct record_format *format,
                       struct err *err)
{
    struct record_source *records = source->state = calloc(1, sizeof *records);
    const struct convert_options *options = source->options;
    if (!records)
        return err_set(err, -ENOMEM, "out of memory for a source");
    records->format = format;
    int status = columns_parse(&options->columns, &records->columns, err);
    if (!status)
        status = format->list(io, options, &records->files, &records->files_count,
                              &records->format_state, err);
    for (size_t i = 0; i < records->files_count && !status; i++) {
        struct record_file *file = &records->files[i];
        file->first_record = source->items_count;
        source->items_count += file->records_count;
        source->bytes +=
            file->records_count ? file->offsets[file->records_count] - file->offsets[0] : 0;
    }
    if (status || source->items_count == 0)
        return status;
    status = read_columns(io, source, err);
    if (!status)
        status = identify(source, err);
    if (!status)
        log_line(options->log, LOG_INFO, "%s has %" PRIu64 " records in %zu %s; their order is %s",
                 options->source, source->items_count, records->files_count, format->name,
                 options->keep_order ? "kept" : "shuffled");
    return status;
}

void record_source_close(struct source *source)
{
    struct record_source *records = source->state;
    if (!records)
        return;
    record_files_free(records->files, records->files_count);
    if (records->format->free_state)
        records->format->free_state(records->format_state);
    name_set_deinit(&records->keys);
    name_set_deinit(&records->class_names);
    str_deinit(&records->classes);
    free(records);
}

void record_source_describe(const struct source *source, uint64_t number, struct source_item *item)
{
    const struct record_source *records = source->state;
    const char *key = name_set_count(&records->keys) > 0 ? name_set_at(&records->keys, number) : "";
    if (*key && *key != '\n')
        snprintf(item->key, sizeof item->key, "%s", key);
    else
        snprintf(item->key, sizeof item->key, "%08" PRIu64, number);
    item->split = source_choose_split(source->options, item->key);
    if (records->classes.bytes > 0)
        item->class_number = ((const uint32_t *)(const void *)records->classes.data)[number];
    item->bytes = record_bytes(find_file(records, number), number);
}
