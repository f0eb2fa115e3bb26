/*
 * file_list — see file_list.h.
 */
#include "convert/source/file_list.h"

#include "base/hash.h"
#include "convert/source/file_names.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum skip_reason { SKIP_DOCUMENT, SKIP_RESERVED_NAME, SKIP_REASONS_COUNT };

struct listing {
    struct io *io;
    struct file_list *list;
    struct source *source;
    struct err *err;
    struct str files; /* struct listed_file */
    uint32_t class_number;
    uint64_t skipped_count[SKIP_REASONS_COUNT];
    char skipped_name[SKIP_REASONS_COUNT][IO_PATH_BYTES_MAX]; /* the first name per reason */
};

struct listed_folder {
    struct listing *listing;
    const char *relative;
    unsigned depth;
    struct str folders; /* subfolders' names, each with its NUL */
};

static void count_skipped(struct listing *listing, enum skip_reason reason, const char *relative)
{
    if (listing->skipped_count[reason]++ == 0)
        snprintf(listing->skipped_name[reason], sizeof listing->skipped_name[reason], "%s",
                 relative);
}

/* Number of folder levels above a sample's files: split and class. */
static unsigned sample_depth(const struct listing *listing)
{
    return (unsigned)source_has_split_folders(listing->source->options) +
           (unsigned)listing->list->has_classes;
}

static bool is_stream(const struct file_list *list)
{
    return list->is_text || list->is_tokens;
}

static bool belongs_to_stream(const struct file_list *list, const char *name)
{
    return (list->is_text && (str_ends_with_nocase(name, ".txt") || name_is_json_lines(name) ||
                              str_ends_with_nocase(name, ".json"))) ||
           (list->is_tokens &&
            (str_ends_with_nocase(name, ".bin") || str_ends_with_nocase(name, ".idx")));
}

/* type: the file's type or problem, for messages; "" if it belongs to a sample. */
static void find_unmatched_type(const struct listing *listing, unsigned depth,
                                const struct io_entry *entry, char *type, size_t bytes)
{
    const struct convert_options *options = listing->source->options;
    char extension[SHARD_EXTENSION_BYTES_MAX];
    const char *name = entry->name, *text = name_find_extension(options, name);
    extension_normalize(text ? text : "", extension);
    bool is_field = belongs_to_stream(listing->list, name) ||
                    (!is_stream(listing->list) && extension_is_field(options, extension));
    *type = '\0';
    if (entry->kind != IO_ENTRY_FILE)
        snprintf(type, bytes, "not a regular file");
    else if (!text || !text[0])
        snprintf(type, bytes, "no extension");
    else if (!is_field)
        snprintf(type, bytes, ".%.59s", text);
    else if (!is_stream(listing->list) && depth < sample_depth(listing))
        snprintf(type, bytes, "next to the %s folders",
                 depth == 0 && source_has_split_folders(options) ? "split" : "class");
}

static uint64_t hash_identity(const struct io_identity *identity)
{
    return hash_64(identity->bytes, identity->bytes_count);
}

void listed_file_set(struct listed_file *file, const struct io_stat *info)
{
    file->bytes = info->size_bytes;
    file->identity_hash = hash_identity(&info->identity);
}

static int add_file(struct listing *listing, const char *relative)
{
    const struct convert_options *options = listing->source->options;
    struct file_list *list = listing->list;
    struct io_stat info;
    char path[IO_PATH_BYTES_MAX];
    int status = io_join_path(list->root, relative, path, listing->err);
    if (!status)
        status = listing->io->names->stat(listing->io, path, &info, listing->err);
    if (status)
        return status;
    const char *slash = strrchr(relative, '/'), *base = slash ? slash + 1 : relative;
    const char *extension = name_find_extension(options, base);
    struct listed_file file = {
        .name_at = list->names.bytes,
        .class_number = listing->class_number,
        .base_at = (uint16_t)(base - relative),
        .dot_at = (uint16_t)((extension ? extension - 1 : base + strlen(base)) - relative),
    };
    listed_file_set(&file, &info);
    str_add(&list->names, relative, strlen(relative) + 1);
    str_add(&listing->files, &file, sizeof file);
    listing->source->bytes += info.size_bytes;
    if (str_status(&list->names) || str_status(&listing->files))
        return err_set(listing->err, -ENOMEM, "out of memory for a list of files");
    return 0;
}

static int reject_file_name(struct listing *listing, const char *relative)
{
    err_set(listing->err, -EILSEQ, "a file name is not plain UTF-8");
    err_at(listing->err, relative, ERR_NO_OFFSET);
    err_expected(listing->err, "UTF-8 without control characters");
    err_advise(listing->err, "rename the file: tar readers decode such names differently");
    return -EILSEQ;
}

static int visit_folder(struct listed_folder *folder, const char *name, const char *relative)
{
    struct listing *listing = folder->listing;
    if (name_is_reserved(name))
        count_skipped(listing, SKIP_RESERVED_NAME, relative);
    else
        str_add(&folder->folders, name, strlen(name) + 1);
    return str_status(&folder->folders)
               ? err_set(listing->err, -ENOMEM, "out of memory for folders' names")
               : 0;
}

static int visit_file(struct listed_folder *folder, const struct io_entry *entry,
                      const char *relative)
{
    struct listing *listing = folder->listing;
    char type[SHARD_EXTENSION_BYTES_MAX + 16];
    bool is_text = listing->list->is_text;
    const char *format =
        is_text ? NULL : name_unsupported_format(listing->source->options, entry->name);
    bool is_readme = name_is_readme(entry->name, is_text);
    if (format && !is_readme)
        return reject_unsupported_format(relative, format, listing->err);
    if (is_readme || (!is_text && name_is_reserved(entry->name))) {
        count_skipped(listing, is_readme ? SKIP_DOCUMENT : SKIP_RESERVED_NAME, relative);
        return 0;
    }
    find_unmatched_type(listing, folder->depth, entry, type, sizeof type);
    return *type ? unmatched_add(listing->list, type, relative, listing->err)
                 : add_file(listing, relative);
}

static int visit_entry(void *context, const struct io_entry *entry)
{
    struct listed_folder *folder = context;
    struct listing *listing = folder->listing;
    char relative[IO_PATH_BYTES_MAX];
    if (name_is_hidden(entry->name)) {
        listing->source->hidden_count++;
        return 0;
    }
    int status = io_join_path(folder->relative, entry->name, relative, listing->err);
    if (status)
        return status;
    if (name_is_ignored(listing->source->options, relative)) {
        listing->source->ignored_count++;
        return 0;
    }
    if (!name_is_plain(entry->name))
        return reject_file_name(listing, relative);
    return entry->kind == IO_ENTRY_FOLDER ? visit_folder(folder, entry->name, relative)
                                          : visit_file(folder, entry, relative);
}

static int check_stop(const struct listing *listing)
{
    const atomic_int *stop = listing->source->options->stop;
    return stop && atomic_load(stop)
               ? err_set(listing->err, -EINTR, "stopped while files were listed")
               : 0;
}

static int add_class(struct listing *listing, const char *name)
{
    struct source *source = listing->source;
    if (source->classes_count == FILE_LIST_CLASSES_MAX)
        return err_set(listing->err, -E2BIG, "there are more than %d class folders",
                       FILE_LIST_CLASSES_MAX);
    if ((source->classes_count & (source->classes_count - 1)) == 0) { /* grow at powers of two */
        size_t capacity = source->classes_count ? 2 * source->classes_count : 1;
        char **grown = realloc(source->classes, capacity * sizeof *grown);
        if (!grown)
            return err_set(listing->err, -ENOMEM, "out of memory for class names");
        source->classes = grown;
    }
    char *copy = strdup(name);
    if (!copy)
        return err_set(listing->err, -ENOMEM, "out of memory for class names");
    listing->class_number = (uint32_t)source->classes_count;
    source->classes[source->classes_count++] = copy;
    return 0;
}

static int list_folder(struct listing *listing, const char *relative, unsigned depth)
{
    char path[IO_PATH_BYTES_MAX], child[IO_PATH_BYTES_MAX];
    struct listed_folder folder = {.listing = listing, .relative = relative, .depth = depth};
    if (depth > FILE_LIST_DEPTH_MAX) {
        err_set(listing->err, -ELOOP, "folders are nested too deeply");
        err_at(listing->err, relative, ERR_NO_OFFSET);
        err_expected(listing->err, "at most %d levels", FILE_LIST_DEPTH_MAX);
        return -ELOOP;
    }
    bool is_class = listing->list->has_classes && depth + 1 == sample_depth(listing);
    int status = check_stop(listing);
    if (!status)
        status = *relative ? io_join_path(listing->list->root, relative, path, listing->err)
                           : io_join_path("", listing->list->root, path, listing->err);
    if (!status)
        status = listing->io->names->list(listing->io, path, visit_entry, &folder, listing->err);
    for (size_t at = 0; at < folder.folders.bytes && !status;
         at += strlen(folder.folders.data + at) + 1) {
        const char *name = folder.folders.data + at;
        status = io_join_path(relative, name, child, listing->err);
        if (!status && is_class)
            status = add_class(listing, name);
        if (!status)
            status = list_folder(listing, child, depth + 1);
    }
    str_deinit(&folder.folders);
    return status;
}

static void log_skipped(const struct listing *listing)
{
    static const char *const why[SKIP_REASONS_COUNT] = {
        [SKIP_DOCUMENT] = "that describe the data",
        [SKIP_RESERVED_NAME] = "with names (such as __so__) that shard readers skip",
    };
    for (int i = 0; i < SKIP_REASONS_COUNT; i++)
        if (listing->skipped_count[i] > 0)
            log_line(listing->source->options->log, LOG_WARN,
                     "left out %" PRIu64 " files or folders %s; the first: %s",
                     listing->skipped_count[i], why[i], listing->skipped_name[i]);
}

static int compare_names(const void *a, const void *b, void *context)
{
    const struct listed_file *left = a, *right = b;
    const struct file_list *list = context;
    return strcmp(list->names.data + left->name_at, list->names.data + right->name_at);
}

struct class_name {
    char *name;
    uint32_t number; /* in listing order */
};

static int compare_class_names(const void *a, const void *b)
{
    const struct class_name *left = a, *right = b;
    return strcmp(left->name, right->name);
}

/* Merges the classes of all splits in byte order, and renumbers the files' classes. */
static int merge_classes(struct file_list *list, struct source *source, struct err *err)
{
    uint64_t count = source->classes_count, merged = 0;
    struct class_name *names = calloc(count + 1, sizeof *names);
    uint32_t *numbers = calloc(count + 1, sizeof *numbers); /* merged class of each listed class */
    if (!names || !numbers) {
        free(names);
        free(numbers);
        return err_set(err, -ENOMEM, "out of memory for class names");
    }
    for (uint32_t i = 0; i < count; i++)
        names[i] = (struct class_name){source->classes[i], i};
    qsort(names, count, sizeof *names, compare_class_names);
    for (uint64_t i = 0; i < count; i++) {
        if (merged > 0 && strcmp(source->classes[merged - 1], names[i].name) == 0)
            free(names[i].name);
        else
            source->classes[merged++] = names[i].name;
        numbers[names[i].number] = (uint32_t)(merged - 1);
    }
    source->classes_count = merged;
    for (uint64_t file = 0; file < list->count; file++)
        list->files[file].class_number = numbers[list->files[file].class_number];
    free(names);
    free(numbers);
    return 0;
}

static int list_source(struct listing *listing)
{
    struct file_list *list = listing->list;
    const char *path = listing->source->options->source;
    struct io_stat info;
    int status = listing->io->names->stat(listing->io, path, &info, listing->err);
    if (status)
        return status;
    if (info.kind == IO_ENTRY_FILE) {
        const char *slash = strrchr(path, '/');
        io_parent_path(path, list->root);
        return add_file(listing, slash ? slash + 1 : path);
    }
    status = io_join_path("", path, list->root, listing->err);
    return status ? status : list_folder(listing, "", 0);
}

int file_list_open(struct file_list *list, struct io *io, struct source *source, struct err *err)
{
    struct listing *listing = calloc(1, sizeof *listing);
    if (!listing)
        return err_set(err, -ENOMEM, "out of memory for a list of files");
    *listing = (struct listing){.io = io, .list = list, .source = source, .err = err};
    int status = list_source(listing);
    if (!status)
        log_skipped(listing);
    list->files = (struct listed_file *)(void *)listing->files.data;
    list->count = listing->files.bytes / sizeof *list->files;
    free(listing);
    if (!status && list->has_classes && source_has_split_folders(source->options))
        status = merge_classes(list, source, err);
    if (!status && list->count > 0)
        qsort_r(list->files, list->count, sizeof *list->files, compare_names, list);
    return status ? status : unmatched_reject(list, source->options, err);
}

void file_list_deinit(struct file_list *list)
{
    free(list->unmatched);
    free(list->files);
    str_deinit(&list->names);
}

int file_list_path(const struct file_list *list, uint64_t file, char *path, struct err *err)
{
    return io_join_path(list->root, file_list_name(list, file), path, err);
}

int listed_file_check(const struct listed_file *listed, struct io *io, const struct io_file *handle,
                      const char *path, struct err *err)
{
    struct io_identity identity;
    uint64_t size = io->ops->file_size(handle);
    int status = io->ops->file_identity(handle, &identity, err);
    if (status || hash_identity(&identity) == listed->identity_hash)
        return status;
    err_set(err, -ESTALE, "the file changed after it was listed");
    err_at(err, path, ERR_NO_OFFSET);
    if (size != listed->bytes) {
        err_expected(err, "%" PRIu64 " bytes", listed->bytes);
        err_found(err, "%" PRIu64, size);
    }
    err_advise(err, "convert again, or continue with --resume, when nothing changes the source");
    return -ESTALE;
}

int listed_file_read(const struct listed_file *file, struct io *io, struct io_queue *queue,
                     const char *path, uint64_t offset, uint64_t count, struct str *out,
                     struct err *err)
{
    struct io_file *handle;
    int status = io->ops->file_open(io, path, &handle, err);
    if (status)
        return status;
    status = listed_file_check(file, io, handle, path, err);
    if (!status && str_reserve(out, count))
        status = err_set(err, -ENOMEM, "out of memory for a file of %" PRIu64 " bytes", count);
    if (!status)
        status = io_read_exact(queue, io, handle, path, offset, out->data + out->bytes, count, err);
    if (!status) {
        out->bytes += count;
        out->data[out->bytes] = '\0';
    }
    io->ops->file_close(handle);
    return status;
}

int file_list_read(const struct file_list *list, struct io *io, struct io_queue *queue,
                   uint64_t file, const char *path, uint64_t offset, uint64_t count,
                   struct str *out, struct err *err)
{
    return listed_file_read(&list->files[file], io, queue, path, offset, count, out, err);
}

int file_list_identify(const struct file_list *list, uint64_t *ret_identity, struct err *err)
{
    struct hash_stream *hash = hash_stream_open();
    if (!hash)
        return err_set(err, -ENOMEM, "out of memory for the names of a source");
    for (uint64_t file = 0; file < list->count; file++) {
        const char *name = file_list_name(list, file);
        hash_stream_update(hash, name, strlen(name) + 1);
        hash_stream_update(hash, &list->files[file].bytes, sizeof list->files[file].bytes);
    }
    *ret_identity = hash_stream_64(hash);
    hash_stream_close(hash);
    return 0;
}
