/*
 * coco_layout — see coco_layout.h.
 */
#include "convert/source/coco_layout.h"

#include "convert/source/file_names.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct layout_listing {
    struct io *io;
    struct coco_layout *layout;
    const struct convert_options *options;
    struct err *err;
};

/* file: its path below the source. */
static int reject(const struct layout_listing *listing, int code, const char *what,
                  const char *file, const char *expected, struct err *err)
{
    char path[IO_PATH_BYTES_MAX] = "";
    io_join_path(listing->options->source, file, path, NULL);
    err_set(err, code, "%s", what);
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "%s", expected);
    err_advise(err, "leave out files with --ignore, for example --ignore '%.100s'", file);
    return code;
}

/* The split of a file; its kind by the first part of its name, objects by default. */
static const char *parse_name(const char *stem, enum coco_kind *ret_kind)
{
    static const struct {
        const char *prefix;
        enum coco_kind kind;
    } kinds[] = {{"instances", COCO_OBJECTS},
                 {"person_keypoints", COCO_KEYPOINTS},
                 {"captions", COCO_CAPTIONS},
                 {"image_info", COCO_IMAGES}};
    *ret_kind = COCO_OBJECTS;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t bytes = strlen(kinds[i].prefix);
        if (strncmp(stem, kinds[i].prefix, bytes) != 0 || (stem[bytes] != '_' && stem[bytes]))
            continue;
        *ret_kind = kinds[i].kind;
        return stem + bytes + (stem[bytes] == '_');
    }
    return stem;
}

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static int add_file(struct layout_listing *listing, const char *name, const char *split,
                    enum coco_kind kind)
{
    struct coco_layout *layout = listing->layout;
    if (layout->files_count == COCO_FILES_MAX || strlen(name) >= COCO_NAME_BYTES_MAX)
        return reject(listing, -EINVAL, "the annotation files cannot be used", name,
                      "at most 64 files, with paths of at most 319 bytes", listing->err);
    struct coco_layout_file *file = &layout->files[layout->files_count];
    file->kind = kind;
    strcpy(file->name, name);
    while (file->split < layout->splits_count && strcmp(layout->splits[file->split], split) != 0)
        file->split++;
    if (file->split == CONVERT_SPLITS_MAX || strlen(split) >= CONVERT_SPLIT_NAME_BYTES_MAX)
        return reject(listing, -EINVAL, "the splits of the annotation files cannot be used", name,
                      "at most 16 splits, with names of at most 63 bytes", listing->err);
    if (file->split == layout->splits_count)
        strcpy(layout->splits[layout->splits_count++], split);
    layout->files_count++;
    return 0;
}

/* An entry of the folder annotations. */
static int visit_annotations(void *context, const struct io_entry *entry)
{
    struct layout_listing *listing = context;
    char relative[IO_PATH_BYTES_MAX], stem[IO_PATH_BYTES_MAX];
    const char *name = entry->name;
    enum coco_kind kind;
    int status = io_join_path("annotations", name, relative, listing->err);
    if (status || entry->kind != IO_ENTRY_FILE || name_is_hidden(name) ||
        name_is_ignored(listing->options, relative) || !str_ends_with(name, ".json"))
        return status;
    if (has_prefix(name, "panoptic") || has_prefix(name, "stuff"))
        return reject(listing, -ENOTSUP, "this kind of COCO annotations is not supported", relative,
                      "instances, person_keypoints, captions or image_info", listing->err);
    snprintf(stem, sizeof stem, "%.*s", (int)(strlen(name) - strlen(".json")), name);
    const char *split = parse_name(stem, &kind);
    return add_file(listing, relative, split, kind);
}

/* An entry of the source: a file of annotations, or the folder of a split. */
static int visit_export(void *context, const struct io_entry *entry)
{
    struct layout_listing *listing = context;
    const struct convert_options *options = listing->options;
    char relative[IO_PATH_BYTES_MAX], path[IO_PATH_BYTES_MAX];
    const char *name = entry->name;
    struct io_stat info;
    if (name_is_hidden(name) || name_is_ignored(options, name))
        return 0;
    if (entry->kind == IO_ENTRY_FILE)
        return strcmp(name, COCO_EXPORT_NAME) == 0 ? add_file(listing, name, "", COCO_OBJECTS) : 0;
    int status = io_join_path(name, COCO_EXPORT_NAME, relative, listing->err);
    if (!status)
        status = io_join_path(options->source, relative, path, listing->err);
    if (status || name_is_ignored(options, relative) ||
        listing->io->names->stat(listing->io, path, &info, NULL))
        return status;
    return add_file(listing, relative, name, COCO_OBJECTS);
}

static int compare_files(const void *a, const void *b)
{
    const struct coco_layout_file *left = a, *right = b;
    if (left->split != right->split)
        return left->split < right->split ? -1 : 1;
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    return strcmp(left->name, right->name);
}

static int check_files(const struct layout_listing *listing, struct err *err)
{
    const struct coco_layout *layout = listing->layout;
    if (layout->files_count == 0) {
        reject(listing, -ENOTSUP, "the folder has no annotation files of COCO", "",
               "files such as instances_train2017.json", err);
        err_advise(err, "add --split-folders no if the folders are classes");
        return -ENOTSUP;
    }
    for (uint32_t i = 0; i < layout->files_count; i++) {
        const struct coco_layout_file *file = &layout->files[i];
        if (i > 0 && file[-1].split == file->split && file[-1].kind == file->kind) {
            reject(listing, -EINVAL, "two annotation files have the same split and kind",
                   file->name, "one file of each kind for each split", err);
            err_found(err, "%.100s and %.100s", file[-1].name, file->name);
            return -EINVAL;
        }
        if (layout->splits_count > 1 && !layout->splits[file->split][0])
            return reject(listing, -EINVAL, "an annotation file names no split, but others do",
                          file->name, "KIND_SPLIT.json", err);
    }
    return 0;
}

int coco_layout_find(struct coco_layout *layout, struct io *io,
                     const struct convert_options *options, struct err *err)
{
    struct layout_listing listing = {io, layout, options, err};
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    *layout = (struct coco_layout){0};
    int status = io_join_path(options->source, "annotations", path, err);
    if (status)
        return status;
    if (io->names->stat(io, path, &info, NULL) == 0)
        status = io->names->list(io, path, visit_annotations, &listing, err);
    else if (io_join_path("", options->source, path, err) == 0)
        status = io->names->list(io, path, visit_export, &listing, err);
    if (status)
        return status;
    qsort(layout->files, layout->files_count, sizeof *layout->files, compare_files);
    return check_files(&listing, err);
}

/* Whether the image is in this folder below the source. */
static bool has_image(const struct convert_options *options, struct io *io, const char *folder,
                      const char *name)
{
    char relative[IO_PATH_BYTES_MAX], path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    return io_join_path(folder, name, relative, NULL) == 0 &&
           io_join_path(options->source, relative, path, NULL) == 0 &&
           io->names->stat(io, path, &info, NULL) == 0;
}

int coco_layout_find_images(const struct convert_options *options, struct io *io, const char *split,
                            const char *first_name, const char *listed_in, uint64_t offset,
                            char folder[IO_PATH_BYTES_MAX], struct err *err)
{
    char below_images[IO_PATH_BYTES_MAX], before[IO_PATH_BYTES_MAX] = "";
    int status = io_join_path("images", split, below_images, err);
    if (status)
        return status;
    const char *const folders[] = {split, below_images, "images", ""};
    size_t found = 0;
    for (size_t i = *split ? 0 : 2; i < sizeof folders / sizeof folders[0]; i++) {
        if (!has_image(options, io, folders[i], first_name))
            continue;
        strcpy(before, folder);
        strcpy(folder, folders[i]);
        found++;
    }
    if (found == 1)
        return 0;
    status = found > 1 ? -EINVAL : -ENOENT;
    err_set(err, status, "%s",
            found > 1 ? "the images of the annotations are in two folders"
                      : "the images of the annotations are in no folder of the source");
    err_at(err, listed_in, (int64_t)offset);
    if (*split)
        err_expected(err, "the first one in %.60s, images/%.60s, images or the source itself",
                     split, split);
    else
        err_expected(err, "the first one in images or the source itself");
    err_found(err, "\"%.100s\"%s%.60s%s%.60s", first_name, found > 1 ? " in " : "",
              found > 1 ? before : "", found > 1 ? " and " : "", found > 1 ? folder : "");
    err_advise(err, "%s",
               found > 1 ? "move one of the folders away"
                         : "move the images there, or leave out the annotations with --ignore");
    return status;
}
