/*
 * table_listing — see table_listing.h.
 *
 * One thread finds the rows of a block; tasks list a part of them each; then their results are
 * appended in order.
 */
#include "convert/source/table_listing.h"

#include "base/os/thread_pool.h"
#include "io/file_util.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS_MAX = 64, TASK_ROWS_MIN = 16 };

static_assert(TABLE_ROW_BYTES_MAX <= INT32_MAX, "fits into listed_row.bytes");

/* The results of a task, in the order of its rows. */
struct listing_task {
    struct row_listing row;
    struct str keys, classes;                /* NUL-terminated */
    struct str files, path_hashes, bad_rows; /* bad_rows: bool */
    uint64_t columns_present;
    struct str extensions; /* distinct, NUL-terminated */
    int status;
    struct err err;
};

struct listing_job {
    struct table_listing *listing;
    struct io *io;
    const struct convert_options *options;
    struct listed_rows *rows;
    struct hash_stream *hash;
    uint64_t *bytes;
    struct err *err;
    struct thread_pool *pool;
    struct table_sampler *samplers; /* one per worker */
    struct listing_task *tasks;     /* TASKS_MAX */
    size_t tasks_count;
    struct table_block block;
    uint64_t columns_present;
    struct str extensions; /* distinct, NUL-terminated */
    uint32_t extensions_count;
};

void table_listing_deinit(struct table_listing *listing)
{
    for (uint32_t i = 0; i < listing->lists_count; i++) {
        table_list_deinit(&listing->lists[i].list);
        str_deinit(&listing->lists[i].rows);
        name_set_deinit(&listing->lists[i].keys);
    }
    free(listing->lists);
    str_deinit(&listing->files);
    str_deinit(&listing->classes);
    name_set_deinit(&listing->class_names);
    str_deinit(&listing->path_hashes);
}

/* Adds a string to a short list of distinct ones. Returns whether it is new. */
static bool add_distinct(struct str *names, const char *name)
{
    for (size_t at = 0; at < names->bytes; at += strlen(names->data + at) + 1)
        if (strcmp(names->data + at, name) == 0)
            return false;
    str_add(names, name, strlen(name) + 1);
    return true;
}

static bool has_keys(const struct table_listing *listing)
{
    const struct column *key = columns_find(&listing->columns, COLUMN_KEY);
    return key ? strcmp(key->name, "#") != 0 : listing->files_per_row > 0;
}

static void add_result(struct listing_task *task, const struct table_listing *listing, bool is_bad,
                       const struct source_sample *sample)
{
    struct row_listing *row = &task->row;
    if (is_bad) {
        memset(row->files, 0, sizeof row->files);
        row->key[0] = row->class_name[0] = '\0';
    } else {
        task->columns_present |= row->columns_present;
        for (uint32_t i = 0; i < sample->fields_count; i++)
            add_distinct(&task->extensions, sample->fields[i].extension);
    }
    str_add(&task->bad_rows, &is_bad, sizeof is_bad);
    str_add(&task->keys, row->key, strlen(row->key) + 1);
    str_add(&task->classes, row->class_name, strlen(row->class_name) + 1);
    str_add(&task->files, row->files, listing->files_per_row * sizeof row->files[0]);
    if (listing->keeps_paths && !is_bad)
        str_add(&task->path_hashes, row->path_hashes,
                listing->files_per_row * sizeof row->path_hashes[0]);
}

static bool can_skip(const struct convert_options *options, int status)
{
    return options->skip_errors && status != -ENOMEM && status != -EMFILE && status != -ENFILE;
}

static void run_task(void *context, size_t number, unsigned worker)
{
    struct listing_job *job = context;
    struct listing_task *task = &job->tasks[number];
    const struct table_block *block = &job->block;
    size_t first = block->rows_count * number / job->tasks_count,
           end = block->rows_count * (number + 1) / job->tasks_count;
    struct str *outputs[] = {&task->keys,     &task->classes,     &task->files,
                             &task->bad_rows, &task->path_hashes, &task->extensions};
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        str_clear(outputs[i]);
    task->columns_present = 0;
    task->status = 0;
    for (size_t i = first; i < end && !task->status; i++) {
        const struct table_row_at *at = &block->rows[i];
        int status =
            table_sample_list(&job->samplers[worker], &job->rows->list, at,
                              block->text + (at->offset - block->offset), &task->row, &task->err);
        if (!status || can_skip(job->options, status))
            add_result(task, job->listing, status != 0, &job->samplers[worker].listed);
        else
            task->status = status;
    }
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0] && !task->status; i++)
        if (str_status(outputs[i]))
            task->status = err_set(&task->err, -ENOMEM, "out of memory for a list");
}

static int reject_key(const struct listing_job *job, const char *key, uint32_t earlier,
                      const struct table_row_at *at)
{
    const struct listed_row *row =
        (const struct listed_row *)(const void *)job->rows->rows.data + earlier;
    err_set(job->err, -EEXIST, "two rows have the same key: \"%.150s\"", key);
    err_found(job->err, "it in lines %" PRIu32 " and %" PRIu32, row->line, at->line);
    err_advise(job->err, "name a column with distinct values, --column NAME=:key, or use the rows' "
                         "numbers, --column '#=:key'");
    table_list_locate(&job->rows->list, at, job->err);
    return -EEXIST;
}

static int add_key(struct listing_job *job, const char *key, bool is_bad,
                   const struct table_row_at *at)
{
    uint32_t number;
    bool is_new;
    struct str name = {0};
    if (is_bad) /* unlike any key */
        str_add_format(&name, "\n%" PRIu64, listed_rows_count(job->rows));
    const char *added = is_bad ? str_text(&name) : key;
    int status = str_status(&name) ? err_set(job->err, -ENOMEM, "out of memory for a list")
                                   : name_set_add(&job->rows->keys, added, strlen(added), &number,
                                                  &is_new, job->err);
    str_deinit(&name);
    return status || is_new ? status : reject_key(job, key, number, at);
}

static int add_class(struct listing_job *job, const char *name, const struct table_row_at *at)
{
    uint32_t number = SOURCE_NO_CLASS;
    bool is_new;
    int status = *name ? name_set_add(&job->listing->class_names, name, strlen(name), &number,
                                      &is_new, job->err)
                       : 0;
    str_add(&job->listing->classes, &number, sizeof number);
    if (status || name_set_count(&job->listing->class_names) <= FILE_LIST_CLASSES_MAX)
        return status;
    err_set(job->err, -E2BIG, "there are more than %d classes", FILE_LIST_CLASSES_MAX);
    table_list_locate(&job->rows->list, at, job->err);
    err_advise(job->err, "store the column as text instead, with --column NAME=txt");
    return -E2BIG;
}

static int add_extensions(struct listing_job *job, const struct str *extensions)
{
    for (size_t at = 0; at < extensions->bytes; at += strlen(extensions->data + at) + 1)
        job->extensions_count += add_distinct(&job->extensions, extensions->data + at);
    if (job->extensions_count <= SHARD_FIELDS_MAX - 8) /* a class, and images named by content */
        return 0;
    err_set(job->err, -E2BIG, "the rows have more than %d different fields", SHARD_FIELDS_MAX - 8);
    err_at(job->err, job->rows->list.path, ERR_NO_OFFSET);
    err_advise(job->err, "name the field of files, for example --column NAME=bin:file");
    return -E2BIG;
}

/* Appends the results of a task. */
static int merge_task(struct listing_job *job, size_t number)
{
    struct listing_task *task = &job->tasks[number];
    struct table_listing *listing = job->listing;
    const struct table_block *block = &job->block;
    const bool *bad_rows = (const bool *)(const void *)task->bad_rows.data;
    size_t first = block->rows_count * number / job->tasks_count, key_at = 0, class_at = 0;
    bool keys = has_keys(listing), classes = columns_find(&listing->columns, COLUMN_CLASS);
    int status = 0;
    for (size_t i = 0; i < task->bad_rows.bytes / sizeof(bool) && !status; i++) {
        const struct table_row_at *at = &block->rows[first + i];
        struct listed_row row = {
            .offset = at->offset, .line = at->line, .bytes = at->bytes, .is_bad = bad_rows[i]};
        if (keys)
            status = add_key(job, task->keys.data + key_at, bad_rows[i], at);
        if (classes && !status)
            status = add_class(job, task->classes.data + class_at, at);
        key_at += strlen(task->keys.data + key_at) + 1;
        class_at += strlen(task->classes.data + class_at) + 1;
        str_add(&job->rows->rows, &row, sizeof row);
        *job->bytes += at->bytes;
    }
    const struct row_file *files = (const struct row_file *)(const void *)task->files.data;
    for (size_t i = 0; i < task->files.bytes / sizeof *files; i++) {
        *job->bytes += files[i].bytes;
        hash_stream_update(job->hash, &files[i].bytes, sizeof files[i].bytes);
    }
    str_add(&listing->files, task->files.data, task->files.bytes);
    str_add(&listing->path_hashes, task->path_hashes.data, task->path_hashes.bytes);
    job->columns_present |= task->columns_present;
    if (!status)
        status = add_extensions(job, &task->extensions);
    if (!status && task->status && job->err)
        *job->err = task->err;
    return status ? status : task->status;
}

static int list_block(struct listing_job *job)
{
    const atomic_int *stop = job->options->stop;
    size_t tasks = job->block.rows_count / TASK_ROWS_MIN + 1;
    int status = 0;
    if (stop && atomic_load(stop))
        return err_set(job->err, -EINTR, "stopped while rows were listed");
    job->tasks_count = tasks < TASKS_MAX ? tasks : TASKS_MAX;
    thread_pool_run(job->pool, job->tasks_count, run_task, job);
    for (size_t i = 0; i < job->tasks_count && !status; i++)
        status = merge_task(job, i);
    if (!status && (str_status(&job->rows->rows) || str_status(&job->listing->files) ||
                    str_status(&job->listing->classes) || str_status(&job->listing->path_hashes) ||
                    str_status(&job->extensions)))
        status = err_set(job->err, -ENOMEM, "out of memory for a list");
    return status;
}

struct file_probe {
    struct io *io;
    const struct table_list *list;
};

static bool is_file(void *context, const char *text)
{
    const struct file_probe *probe = context;
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    return text[0] &&
           io_join_path(text[0] == '/' ? "" : probe->list->folder, text, path, NULL) == 0 &&
           probe->io->names->stat(probe->io, path, &info, NULL) == 0 && info.kind == IO_ENTRY_FILE;
}

/* A header that names a file is a row. */
static int check_header(const struct listing_job *job, struct file_probe *probe)
{
    const struct csv_row *header = job->rows->list.format.header;
    size_t bytes;
    for (size_t i = 0; header && i < csv_cells_count(header); i++) {
        const char *name = csv_cell_text(header, i, &bytes);
        if (!is_file(probe, name))
            continue;
        err_set(job->err, -EBADMSG, "the list has no header line: its first line names a file");
        err_at(job->err, job->rows->list.path, ERR_NO_OFFSET);
        err_found(job->err, "\"%.150s\"", name);
        err_advise(job->err, "add a first line with the columns' names, for example `image,label`");
        return -EBADMSG;
    }
    return 0;
}

/* Chooses the columns of the first list, or checks those of another one. */
static int choose_columns(struct listing_job *job, bool has_file_names)
{
    struct table_listing *listing = job->listing;
    struct table_list *list = &job->rows->list;
    const struct table_row_at *at = &job->block.rows[0];
    struct table_row row = {.format = &list->format};
    struct file_probe files = {job->io, list};
    const struct column_probe probe = {is_file, &files, has_file_names};
    struct str text = {0};
    bool is_first = job->rows->first_row == 0;
    int status = check_header(job, &files);
    if (!status) {
        status = table_row_parse(&row, job->block.text + (at->offset - job->block.offset),
                                 at->bytes, TABLE_ROW_TREE, job->err);
        if (!status && listing->columns.count == 0)
            status = columns_choose(&row, &probe, &listing->columns, job->err);
        if (status)
            table_list_locate(list, at, job->err);
        if (!status) {
            status = columns_check(&listing->columns, &row, job->err);
            if (status)
                err_at(job->err, list->path, ERR_NO_OFFSET);
        }
    }
    if (!status && is_first) {
        columns_describe(&listing->columns, &row, &text);
        log_line(job->options->log, LOG_INFO, "%s: %s", list->path, str_text(&text));
    }
    str_deinit(&text);
    table_row_deinit(&row);
    listing->files_per_row = 0;
    for (uint32_t i = 0; i < listing->columns.count; i++)
        listing->files_per_row += column_is_file(&listing->columns.items[i]);
    return status;
}

/* A column that is always absent is likely misspelled. */
static int check_present(const struct listing_job *job)
{
    const struct columns *columns = &job->listing->columns;
    for (uint32_t i = 0; i < columns->count && !job->rows->list.format.delimiter; i++) {
        const struct column *column = &columns->items[i];
        if (strcmp(column->name, "*") == 0 || (job->columns_present >> i & 1))
            continue;
        err_set(job->err, -EINVAL, "no row has the column \"%.150s\"", column->name);
        err_at(job->err, job->rows->list.path, ERR_NO_OFFSET);
        err_advise(job->err, "check its name: it is case-sensitive");
        return -EINVAL;
    }
    return 0;
}

static int list_rows(struct listing_job *job, struct table_pass *pass, bool has_file_names)
{
    int result = table_pass_next(pass, &job->block, job->err);
    if (result == TABLE_END) {
        err_set(job->err, -ENODATA, "the list has no rows");
        err_at(job->err, job->rows->list.path, ERR_NO_OFFSET);
        return -ENODATA;
    }
    int status = result < 0 ? result : choose_columns(job, has_file_names);
    for (unsigned i = 0; i < thread_pool_count(job->pool); i++)
        job->samplers[i] = (struct table_sampler){.columns = &job->listing->columns, .io = job->io};
    while (!status && result == TABLE_ROWS) {
        status = list_block(job);
        if (!status)
            result = table_pass_next(pass, &job->block, job->err);
        if (result < 0)
            status = result;
    }
    uint64_t hash = table_pass_hash(pass);
    hash_stream_update(job->hash, &hash, sizeof hash);
    return status ? status : check_present(job);
}

static void free_job(struct listing_job *job)
{
    for (unsigned i = 0; job->samplers && i < thread_pool_count(job->pool); i++)
        table_sampler_deinit(&job->samplers[i]);
    for (size_t i = 0; job->tasks && i < TASKS_MAX; i++) {
        str_deinit(&job->tasks[i].keys);
        str_deinit(&job->tasks[i].classes);
        str_deinit(&job->tasks[i].files);
        str_deinit(&job->tasks[i].path_hashes);
        str_deinit(&job->tasks[i].bad_rows);
        str_deinit(&job->tasks[i].extensions);
    }
    str_deinit(&job->extensions);
    free(job->samplers);
    free(job->tasks);
    thread_pool_close(job->pool);
}

int table_listing_add(struct table_listing *listing, struct io *io,
                      const struct convert_options *options, struct listed_rows *rows,
                      bool has_file_names, struct hash_stream *hash, uint64_t *bytes,
                      struct err *err)
{
    struct listing_job job = {.listing = listing,
                              .io = io,
                              .options = options,
                              .rows = rows,
                              .hash = hash,
                              .bytes = bytes,
                              .err = err};
    struct table_pass *pass = NULL;
    int status = thread_pool_open(options->workers, &job.pool, err);
    if (status)
        return status;
    str_clear(&listing->path_hashes);
    job.samplers = calloc(thread_pool_count(job.pool), sizeof *job.samplers);
    job.tasks = calloc(TASKS_MAX, sizeof *job.tasks);
    if (!job.samplers || !job.tasks)
        status = err_set(err, -ENOMEM, "out of memory for a list");
    if (!status)
        status = table_pass_open(io, &rows->list, &pass, err);
    if (!status)
        status = list_rows(&job, pass, has_file_names);
    table_pass_close(pass);
    free_job(&job);
    return status;
}
