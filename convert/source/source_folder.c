/*
 * source_folder — the source for a folder of files or of class folders. Files with the same key
 * form an item.
 *
 * Keys are compared within the stored names, to save memory.
 */
#include "convert/source/file_list.h"
#include "convert/source/file_names.h"
#include "image/pipeline/check.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct folder_source {
    struct file_list list; /* in byte order of (key, extension) */
    uint64_t *first_files; /* per item, then list.count */
};

static void write_extension(const struct file_list *list, uint64_t file,
                            char extension[SHARD_EXTENSION_BYTES_MAX])
{
    extension_normalize(file_list_name(list, file) + list->files[file].dot_at + 1, extension);
}

/* Returns the i-th byte of a file's key. */
static int key_byte(const struct file_list *list, const struct listed_file *file, size_t i)
{
    if (i >= file->dot_at)
        return -1; /* a key sorts before its extensions */
    unsigned char byte = (unsigned char)list->names.data[file->name_at + i];
    return i >= file->base_at && (byte == '.' || byte == ' ') ? '_' : byte;
}

static int compare_keys(const struct file_list *list, const struct listed_file *left,
                        const struct listed_file *right)
{
    for (size_t i = 0;; i++) {
        int a = key_byte(list, left, i), b = key_byte(list, right, i);
        if (a != b)
            return a < b ? -1 : 1;
        if (a < 0)
            return 0;
    }
}

/* Two files with the same key and extension are an error; their order makes its message the same
 * each time. */
static int compare_files(const void *a, const void *b, void *context)
{
    const struct file_list *list = context;
    const struct listed_file *left = a, *right = b;
    char left_extension[SHARD_EXTENSION_BYTES_MAX], right_extension[SHARD_EXTENSION_BYTES_MAX];
    int order = compare_keys(list, left, right);
    if (order)
        return order;
    extension_normalize(list->names.data + left->name_at + left->dot_at + 1, left_extension);
    extension_normalize(list->names.data + right->name_at + right->dot_at + 1, right_extension);
    order = strcmp(left_extension, right_extension);
    return order ? order
                 : strcmp(list->names.data + left->name_at, list->names.data + right->name_at);
}

static bool is_image(const char *extension)
{
    static const char *const images[] = {"jpg", "png",  "webp", "bmp", "gif",
                                         "tif", "tiff", "ppm",  "pgm", "jp2"};
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
        if (strcmp(extension, images[i]) == 0)
            return true;
    return false;
}

/* Rejects two files with the same key and extension. In class folders, where each image is a
 * sample, also rejects two images with the same key. */
static int check_duplicate_key(const struct file_list *list, uint64_t earlier, uint64_t file,
                               struct err *err)
{
    char before[SHARD_EXTENSION_BYTES_MAX], extension[SHARD_EXTENSION_BYTES_MAX];
    write_extension(list, earlier, before);
    write_extension(list, file, extension);
    bool are_images = list->has_classes && is_image(before) && is_image(extension);
    if (strcmp(before, extension) != 0 && !are_images)
        return 0;
    err_set(err, -EEXIST, "two files have the same key: %s", file_list_name(list, earlier));
    err_at(err, file_list_name(list, file), ERR_NO_OFFSET);
    err_expected(err,
                 "names that differ before the last extension; other dots and spaces count as _");
    err_advise(err, "rename one of them");
    return -EEXIST;
}

static int check_extension(const struct file_list *list, uint64_t file,
                           char extensions[][SHARD_EXTENSION_BYTES_MAX], uint32_t *extensions_count,
                           struct err *err)
{
    char extension[SHARD_EXTENSION_BYTES_MAX];
    const char *name = file_list_name(list, file);
    write_extension(list, file, extension);
    if (strlen(name + list->files[file].dot_at + 1) >= SHARD_EXTENSION_BYTES_MAX ||
        (list->has_classes && strcmp(extension, "cls") == 0)) {
        err_set(err, -EBADMSG, "the extension of a file cannot be a field name");
        err_at(err, name, ERR_NO_OFFSET);
        err_expected(err, "at most %d bytes, and not \"cls\" in class folders",
                     SHARD_EXTENSION_BYTES_MAX - 1);
        return -EBADMSG;
    }
    for (uint32_t i = 0; i < *extensions_count; i++)
        if (strcmp(extensions[i], extension) == 0)
            return 0;
    if (*extensions_count == SHARD_FIELDS_MAX - 1) {
        err_set(err, -E2BIG, "there are more than %d different extensions", SHARD_FIELDS_MAX - 1);
        err_at(err, name, ERR_NO_OFFSET);
        return -E2BIG;
    }
    strcpy(extensions[(*extensions_count)++], extension);
    return 0;
}

/* Unless the user lists the fields, a sample needs a photo. */
static int check_has_photo(struct folder_source *folder, uint64_t item, struct err *err)
{
    struct file_list *list = &folder->list;
    uint64_t first = folder->first_files[item], end = folder->first_files[item + 1];
    char extension[SHARD_EXTENSION_BYTES_MAX];
    int status = 0;
    for (uint64_t file = first; file < end; file++) {
        write_extension(list, file, extension);
        if (is_image_extension(extension))
            return 0;
    }
    for (uint64_t file = first; file < end && !status; file++) {
        const char *name = file_list_name(list, file);
        status = unmatched_add(list, name + list->files[file].dot_at, name, err);
    }
    return status;
}

/* Whether an item has this key. */
static bool has_item(const struct folder_source *folder, uint64_t items,
                     const struct listed_file *key)
{
    uint64_t low = 0, high = items;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order =
            compare_keys(&folder->list, &folder->list.files[folder->first_files[middle]], key);
        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* Rejects a.seg.png next to a.jpg, unless the user lists the fields: it may be a's mask, or a photo
 * of its own. */
static int check_apart(const struct folder_source *folder, uint64_t items, uint64_t file,
                       struct err *err)
{
    const struct file_list *list = &folder->list;
    struct listed_file key = list->files[file];
    const char *name = file_list_name(list, file), *end = name + key.dot_at;
    char extension[SHARD_EXTENSION_BYTES_MAX];
    write_extension(list, file, extension);
    bool is_png = strcmp(extension, "png") == 0;
    for (const char *dot = strchr(name + key.base_at, '.'); is_png && dot && dot < end;
         dot = strchr(dot + 1, '.')) {
        key.dot_at = (uint16_t)(dot - name);
        if (!has_item(folder, items, &key))
            continue;
        extension_normalize(dot + 1, extension);
        err_set(err, -EINVAL, "an image may be a mask of the sample next to it, or another sample");
        err_at(err, name, ERR_NO_OFFSET);
        err_found(err, "also a sample \"%.*s\"", (int)key.dot_at, name);
        err_advise(err,
                   "list the fields: --fields jpg,%.60s makes it a field of that sample, --fields "
                   "jpg,png another sample",
                   extension);
        return -EINVAL;
    }
    return 0;
}

static int group_files(struct folder_source *folder, uint64_t *ret_items, struct err *err)
{
    struct file_list *list = &folder->list;
    char extensions[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX];
    uint32_t extensions_count = 0;
    uint64_t items = 0;
    qsort_r(list->files, list->count, sizeof *list->files, compare_files, list);
    folder->first_files = calloc(list->count + 1, sizeof *folder->first_files);
    if (!folder->first_files)
        return err_set(err, -ENOMEM, "out of memory for a list of samples");
    for (uint64_t file = 0; file < list->count; file++) {
        int status = check_extension(list, file, extensions, &extensions_count, err);
        if (file == 0 || compare_keys(list, &list->files[file - 1], &list->files[file]) != 0)
            folder->first_files[items++] = file;
        for (uint64_t earlier = folder->first_files[items - 1]; earlier < file && !status;
             earlier++)
            status = check_duplicate_key(list, earlier, file, err);
        if (status)
            return status;
    }
    folder->first_files[items] = list->count;
    *ret_items = items;
    return 0;
}

/* *ret_at: offset in the name after the split folder. */
static uint32_t find_split(const struct source *source, uint64_t file, size_t *ret_at)
{
    const struct folder_source *folder = source->state;
    const struct convert_options *options = source->options;
    const char *name = file_list_name(&folder->list, file);
    uint32_t split = 0;
    size_t bytes;
    do
        bytes = strlen(options->splits[split].name);
    while ((strncmp(name, options->splits[split].name, bytes) != 0 || name[bytes] != '/') &&
           ++split < options->splits_count);
    assert(split < options->splits_count);
    *ret_at = bytes + 1;
    return split;
}

static int check_splits(const struct source *source, struct err *err)
{
    const struct folder_source *folder = source->state;
    const struct convert_options *options = source->options;
    bool has_files[CONVERT_SPLITS_MAX] = {false};
    size_t at;
    for (uint64_t file = 0; file < folder->list.count; file++)
        has_files[find_split(source, file, &at)] = true;
    for (uint32_t split = 0; split < options->splits_count; split++)
        if (!has_files[split]) {
            err_set(err, -ENODATA, "a split folder has no samples");
            err_at(err, options->splits[split].name, ERR_NO_OFFSET);
            err_advise(err, "skip it with --ignore %s", options->splits[split].name);
            return -ENODATA;
        }
    return 0;
}

static int folder_open(struct io *io, struct source *source, struct err *err)
{
    struct folder_source *folder = source->state = calloc(1, sizeof *folder);
    if (!folder)
        return err_set(err, -ENOMEM, "out of memory for a source");
    folder->list.has_classes = source->ops == &source_classes_ops;
    int status = file_list_open(&folder->list, io, source, err);
    if (status || folder->list.count == 0)
        return status;
    status = group_files(folder, &source->items_count, err);
    for (uint64_t item = 0;
         item < source->items_count && !status && source->options->fields.count == 0; item++)
        status = check_has_photo(folder, item, err);
    for (uint64_t file = 0;
         file < folder->list.count && !status && source->options->fields.count == 0; file++)
        status = check_apart(folder, source->items_count, file, err);
    if (!status)
        status = unmatched_reject(&folder->list, source->options, err);
    if (!status && source_has_split_folders(source->options))
        status = check_splits(source, err);
    return status ? status : file_list_identify(&folder->list, &source->identity, err);
}

static void folder_close(struct source *source)
{
    struct folder_source *folder = source->state;
    if (!folder)
        return;
    file_list_deinit(&folder->list);
    free(folder->first_files);
    free(folder);
}

/* at: offset of the key in the file's name. */
static void write_key(const struct file_list *list, uint64_t file, size_t at,
                      char key[SHARD_KEY_BYTES_MAX])
{
    const struct listed_file *listed = &list->files[file];
    size_t bytes = listed->dot_at - at;
    memcpy(key, file_list_name(list, file) + at, bytes);
    key[bytes] = '\0';
    for (size_t i = listed->base_at - at; i < bytes; i++)
        if (key[i] == '.' || key[i] == ' ')
            key[i] = '_';
}

static void folder_describe(const struct source *source, uint64_t number, struct source_item *item)
{
    const struct folder_source *folder = source->state;
    bool is_split = source_has_split_folders(source->options);
    uint64_t first = folder->first_files[number];
    size_t at = 0;
    if (is_split)
        item->split = find_split(source, first, &at);
    write_key(&folder->list, first, at, item->key);
    if (!is_split)
        item->split = source_choose_split(source->options, item->key);
    if (folder->list.has_classes)
        item->class_number = folder->list.files[first].class_number;
    item->bytes = 0;
    for (uint64_t file = first; file < folder->first_files[number + 1]; file++)
        item->bytes += folder->list.files[file].bytes;
}

static int folder_read(struct source_reader *reader, const struct source_item *item,
                       struct source_sample *sample, struct err *err)
{
    const struct folder_source *folder = reader->source->state;
    const struct file_list *list = &folder->list;
    char path[IO_PATH_BYTES_MAX], extension[SHARD_EXTENSION_BYTES_MAX];
    for (uint64_t file = folder->first_files[item->number];
         file < folder->first_files[item->number + 1]; file++) {
        size_t start = sample->data.bytes;
        int status = file_list_path(list, file, path, err);
        if (!status)
            status = file_list_read(list, reader->io, reader->queue, file, path, 0,
                                    list->files[file].bytes, &sample->data, err);
        if (status)
            return status;
        write_extension(list, file, extension);
        source_end_field(sample, extension, start, path);
    }
    return 0;
}

static bool has_class_folders(const struct source_layout *layout)
{
    return !layout->file && layout->has_folders;
}

static bool is_folder(const struct source_layout *layout)
{
    return !layout->file;
}

const struct source_ops source_classes_ops = {
    .name = "class_folders",
    .probe = has_class_folders,
    .open = folder_open,
    .close = folder_close,
    .describe = folder_describe,
    .read = folder_read,
};

const struct source_ops source_files_ops = {
    .name = "files",
    .probe = is_folder,
    .open = folder_open,
    .close = folder_close,
    .describe = folder_describe,
    .read = folder_read,
};
