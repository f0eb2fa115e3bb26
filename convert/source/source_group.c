/*
 * source_group — groups listed files into items by key. See source.h.
 *
 * Keys are compared in place, byte by byte, so that the names are stored only once.
 */
#include "convert/source/source.h"
#include "image/pipeline/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void source_file_extension(const struct source *source, uint64_t file,
                           char extension[SHARD_EXTENSION_BYTES_MAX])
{
    source_write_extension(source_file_name(source, file), extension);
}

/* The i-th byte of a file's key. */
static int key_byte(const struct source *source, const struct source_file *file, size_t i)
{
    if (i >= file->dot_at)
        return -1; /* a key sorts before longer keys that start with it */
    unsigned char byte = (unsigned char)source->names.data[file->name_at + i];
    return i >= file->base_at && (byte == '.' || byte == ' ') ? '_' : byte;
}

static int compare_keys(const struct source *source, const struct source_file *left,
                        const struct source_file *right)
{
    for (size_t i = 0;; i++) {
        int a = key_byte(source, left, i), b = key_byte(source, right, i);
        if (a != b)
            return a < b ? -1 : 1;
        if (a < 0)
            return 0;
    }
}

/* Files with the same key and extension, which are an error, are ordered by name. */
static int compare_files(const void *a, const void *b, void *context)
{
    const struct source *source = context;
    const struct source_file *left = a, *right = b;
    char left_extension[SHARD_EXTENSION_BYTES_MAX], right_extension[SHARD_EXTENSION_BYTES_MAX];
    int order = compare_keys(source, left, right);
    if (order)
        return order;
    source_write_extension(source->names.data + left->name_at, left_extension);
    source_write_extension(source->names.data + right->name_at, right_extension);
    order = strcmp(left_extension, right_extension);
    return order ? order
                 : strcmp(source->names.data + left->name_at, source->names.data + right->name_at);
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

/* Rejects two files that have the same key but can't be fields of one sample. Either they have
 * the same extension, or they are two images in a class folder, where each image is its own
 * sample. */
static int check_pair(const struct source *source, uint64_t earlier, uint64_t file, struct err *err)
{
    char before[SHARD_EXTENSION_BYTES_MAX], extension[SHARD_EXTENSION_BYTES_MAX];
    source_file_extension(source, earlier, before);
    source_file_extension(source, file, extension);
    bool pictures = source->kind == SOURCE_CLASSES && is_image(before) && is_image(extension);
    if (strcmp(before, extension) != 0 && !pictures)
        return 0;
    err_set(err, -EEXIST, "two files have the same key: %s", source_file_name(source, earlier));
    err_at(err, source_file_name(source, file), ERR_NO_OFFSET);
    err_expected(
        err,
        "names that differ before the last extension, with other dots and spaces replaced by _");
    err_advise(err, "rename one of them");
    return -EEXIST;
}

static int check_extension(const struct source *source, uint64_t file,
                           char seen[][SHARD_EXTENSION_BYTES_MAX], uint32_t *seen_count,
                           struct err *err)
{
    char extension[SHARD_EXTENSION_BYTES_MAX];
    const char *name = source_file_name(source, file);
    source_file_extension(source, file, extension);
    if (strlen(name + source->files[file].dot_at + 1) >= SHARD_EXTENSION_BYTES_MAX ||
        (source->kind == SOURCE_CLASSES && strcmp(extension, "cls") == 0)) {
        err_set(err, -EBADMSG, "the extension of a file cannot be a field name");
        err_at(err, name, ERR_NO_OFFSET);
        err_expected(err, "at most %d bytes, and not \"cls\" in class folders",
                     SHARD_EXTENSION_BYTES_MAX - 1);
        return -EBADMSG;
    }
    for (uint32_t i = 0; i < *seen_count; i++)
        if (strcmp(seen[i], extension) == 0)
            return 0;
    if (*seen_count == SHARD_FIELDS_MAX - 1) {
        err_set(err, -E2BIG, "there are more than %d different extensions", SHARD_FIELDS_MAX - 1);
        err_at(err, name, ERR_NO_OFFSET);
        return -E2BIG;
    }
    strcpy(seen[(*seen_count)++], extension);
    return 0;
}

/* Unless the user named the fields, a sample is a photo and its companion files of the same
 * name. */
static int check_photo(struct source *source, uint64_t item, struct err *err)
{
    uint64_t first = source->first_files[item], end = source->first_files[item + 1];
    char extension[SHARD_EXTENSION_BYTES_MAX];
    int status = 0;
    for (uint64_t file = first; file < end; file++) {
        source_file_extension(source, file, extension);
        if (image_is_expected(extension))
            return 0;
    }
    for (uint64_t file = first; file < end && !status; file++) {
        const char *name = source_file_name(source, file);
        status = source_add_unmatched(source, name + source->files[file].dot_at, name, err);
    }
    return status;
}

int source_group_files(struct source *source, struct err *err)
{
    char seen[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX];
    uint32_t seen_count = 0;
    if (source->files_count == 0)
        return 0;
    qsort_r(source->files, source->files_count, sizeof *source->files, compare_files, source);
    source->first_files = calloc(source->files_count + 1, sizeof *source->first_files);
    if (!source->first_files)
        return err_set(err, -ENOMEM, "out of memory for a list of samples");
    for (uint64_t file = 0; file < source->files_count; file++) {
        int status = check_extension(source, file, seen, &seen_count, err);
        bool begins =
            file == 0 || compare_keys(source, &source->files[file - 1], &source->files[file]) != 0;
        if (begins)
            source->first_files[source->items++] = file;
        for (uint64_t earlier = source->first_files[source->items - 1]; earlier < file && !status;
             earlier++)
            status = check_pair(source, earlier, file, err);
        if (status)
            return status;
    }
    source->first_files[source->items] = source->files_count;
    int status = 0;
    for (uint64_t item = 0; item < source->items && !status && source->options->fields.count == 0;
         item++)
        status = check_photo(source, item, err);
    return status ? status : source_reject_unmatched(source, err);
}
