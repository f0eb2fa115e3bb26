/*
 * yolo_layout — see yolo_layout.h.
 */
#include "convert/source/yolo_layout.h"

#include "base/yaml/yaml.h"
#include "convert/source/file_names.h"
#include "image/pipeline/check.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 16 << 20 };

struct finding {
    struct yolo_layout *layout;
    struct io *io;
    const struct convert_options *options;
    char path[IO_PATH_BYTES_MAX]; /* of data.yaml */
    struct err *err;
    char yaml[IO_PATH_BYTES_MAX]; /* its name; "" if there is none */
    uint32_t yamls_count;
    struct str folders; /* names in the listed folder, each with its NUL */
    uint64_t images_count;
    const char *listed;
};

void yolo_layout_deinit(struct yolo_layout *layout)
{
    name_set_deinit(&layout->classes);
}

bool yolo_labels_path(const char *path, char labels[IO_PATH_BYTES_MAX])
{
    static const char name[] = "images";
    enum { BYTES = sizeof name - 1 };
    const char *last = NULL;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, name, BYTES) == 0 && (part[BYTES] == '/' || !part[BYTES]))
            last = part;
    }
    strcpy(labels, path);
    if (last)
        memcpy(labels + (last - path), "labels", BYTES);
    return last;
}

static int reject(const struct finding *finding, int code, const char *what, const char *expected,
                  const char *found, const char *advice)
{
    err_set(finding->err, code, "%s", what);
    err_at(finding->err, finding->path[0] ? finding->path : finding->options->source,
           ERR_NO_OFFSET);
    err_expected(finding->err, "%s", expected);
    err_found(finding->err, "\"%.150s\"", found);
    err_advise(finding->err, "%s", advice);
    return code;
}

/* ---- Folders. ---- */

static int visit_entry(void *context, const struct io_entry *entry)
{
    struct finding *finding = context;
    char relative[IO_PATH_BYTES_MAX], extension[SHARD_EXTENSION_BYTES_MAX];
    int status = io_join_path(finding->listed, entry->name, relative, finding->err);
    if (status || name_is_hidden(entry->name) || name_is_ignored(finding->options, relative))
        return status;
    name_write_extension(entry->name, extension);
    if (entry->kind == IO_ENTRY_FOLDER)
        str_add(&finding->folders, entry->name, strlen(entry->name) + 1);
    else if (is_image_extension(extension))
        finding->images_count++;
    else if (strcmp(extension, "yaml") == 0 || strcmp(extension, "yml") == 0) {
        if (strcmp(finding->yaml, "data.yaml") != 0)
            strcpy(finding->yaml, entry->name);
        finding->yamls_count++;
    }
    return str_status(&finding->folders)
               ? err_set(finding->err, -ENOMEM, "out of memory for folders' names")
               : 0;
}

/* folder: below the source. */
static int list(struct finding *finding, const char *folder)
{
    char path[IO_PATH_BYTES_MAX];
    str_clear(&finding->folders);
    finding->images_count = 0;
    finding->listed = folder;
    int status = *folder ? io_join_path(finding->options->source, folder, path, finding->err)
                         : io_join_path("", finding->options->source, path, finding->err);
    return status ? status
                  : finding->io->names->list(finding->io, path, visit_entry, finding, finding->err);
}

static bool is_folder(const struct finding *finding, const char *folder)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    return io_join_path(finding->options->source, folder, path, NULL) == 0 &&
           finding->io->names->stat(finding->io, path, &info, NULL) == 0 &&
           info.kind == IO_ENTRY_FOLDER;
}

static int add_split(struct finding *finding, const char *name, const char *folder)
{
    struct yolo_layout *layout = finding->layout;
    if (layout->splits_count == CONVERT_SPLITS_MAX || strlen(name) >= CONVERT_SPLIT_NAME_BYTES_MAX)
        return reject(finding, -EINVAL, "the splits cannot be used",
                      "at most 16 splits, with names of at most 63 bytes", name,
                      "leave out folders with --ignore");
    struct yolo_split *split = &layout->splits[layout->splits_count++];
    strcpy(split->name, name);
    return io_join_path("", folder, split->folder, finding->err);
}

/* images/SPLIT or SPLIT/images: the folder to add for each name in finding->folders that has it. */
static int add_folders(struct finding *finding, const char *before, const char *behind)
{
    const char *name = finding->folders.data, *end = name + finding->folders.bytes;
    char folder[IO_PATH_BYTES_MAX];
    int status = 0;
    for (; name < end && !status; name += strlen(name) + 1) {
        snprintf(folder, sizeof folder, "%s%.1024s%s", before, name, behind);
        if (is_folder(finding, folder))
            status = add_split(finding, name, folder);
    }
    return status;
}

/* Without splits in data.yaml. */
static int find_folders(struct finding *finding)
{
    if (!is_folder(finding, "images"))
        return add_folders(finding, "", "/images");
    int status = list(finding, "images");
    if (status)
        return status;
    if (finding->folders.bytes == 0)
        return add_split(finding, "", "images");
    if (finding->images_count > 0)
        return reject(finding, -EINVAL, "the folder images has both folders and images",
                      "images, or a folder for each split", finding->folders.data,
                      "move the images into a folder, or leave some out with --ignore");
    return add_folders(finding, "images/", "");
}

/* ---- data.yaml. ---- */

static int add_class(struct finding *finding, const char *name)
{
    uint32_t number;
    bool is_new = false;
    if (!*name)
        return reject(finding, -EINVAL, "a class has no name", "a name for each class", name,
                      "name it");
    int status =
        name_set_add(&finding->layout->classes, name, strlen(name), &number, &is_new, finding->err);
    return status || is_new ? status
                            : reject(finding, -EINVAL, "two classes have the same name",
                                     "another name for each class", name, "rename one of them");
}

/* The path of a split's images: below data.yaml's folder. As Ultralytics does, drops the "../" that
 * Roboflow writes. */
static int add_yaml_split(struct finding *finding, const struct yaml_leaf *leaf)
{
    const char *path = leaf->values[0];
    char folder[IO_PATH_BYTES_MAX];
    if (leaf->is_sequence || str_ends_with(path, ".txt"))
        return reject(finding, -ENOTSUP, "lists of images are not supported",
                      "a folder of images for each split", leaf->path,
                      "move the images of each split into a folder");
    if (!*path)
        return 0;
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    if (strncmp(path, "../", 3) == 0)
        path += 3;
    int status = io_join_path("", path, folder, finding->err);
    size_t bytes = status ? 0 : strlen(folder);
    while (bytes > 1 && folder[bytes - 1] == '/')
        folder[--bytes] = '\0';
    if (!status && (folder[0] == '/' || strstr(folder, "..") || !is_folder(finding, folder)))
        status = reject(finding, -ENOENT, "a folder of images does not exist in the source",
                        "a path relative to the source", leaf->values[0],
                        "correct the path, or remove the split from the file");
    return status ? status : add_split(finding, leaf->path, folder);
}

static int visit_leaf(void *context, const struct yaml_leaf *leaf)
{
    struct finding *finding = context;
    char next[32];
    int status = 0;
    if (strcmp(leaf->path, "train") == 0 || strcmp(leaf->path, "val") == 0 ||
        strcmp(leaf->path, "test") == 0)
        return add_yaml_split(finding, leaf);
    if (strcmp(leaf->path, "kpt_shape") == 0)
        return reject(finding, -ENOTSUP, "keypoints of YOLO are not supported",
                      "labels with boxes or polygons", leaf->path,
                      "convert the keypoints to COCO's format");
    if (strcmp(leaf->path, "names") == 0) {
        for (size_t i = 0; i < leaf->values_count && leaf->is_sequence && !status; i++)
            status = add_class(finding, leaf->values[i]);
        return status;
    }
    if (strncmp(leaf->path, "names.", 6) != 0)
        return 0;
    snprintf(next, sizeof next, "names.%zu", (size_t)name_set_count(&finding->layout->classes));
    return strcmp(leaf->path, next) == 0 && !leaf->is_sequence
               ? add_class(finding, leaf->values[0])
               : reject(finding, -EINVAL, "the class numbers are not in order",
                        "numbers from 0 on, each once", leaf->path, "order them");
}

static int read_yaml(struct finding *finding)
{
    char *text = NULL;
    size_t bytes = 0;
    if (finding->yamls_count > 1 && strcmp(finding->yaml, "data.yaml") != 0)
        return reject(finding, -EINVAL, "the source has several YAML files",
                      "data.yaml, or one file", finding->yaml, "leave some out with --ignore");
    int status = io_join_path(finding->options->source, finding->yaml, finding->path, finding->err);
    if (!status)
        status =
            io_read_file(finding->io, finding->path, TEXT_BYTES_MAX, &text, &bytes, finding->err);
    if (!status)
        status = yaml_walk(text, bytes, finding->path, visit_leaf, finding, finding->err);
    free(text);
    return status;
}

/* A name per line. */
static int read_names(struct finding *finding, const char *relative)
{
    char *text = NULL;
    size_t bytes = 0;
    int status = io_join_path(finding->options->source, relative, finding->path, finding->err);
    if (!status)
        status =
            io_read_file(finding->io, finding->path, TEXT_BYTES_MAX, &text, &bytes, finding->err);
    for (char *line = text, *next; !status && line && *line; line = next) {
        size_t line_bytes = strcspn(line, "\n");
        next = line + line_bytes + (line[line_bytes] == '\n');
        line[line_bytes] = '\0';
        while (line_bytes > 0 && strchr(" \t\r", line[line_bytes - 1]))
            line[--line_bytes] = '\0';
        if (line_bytes > 0 || *next)
            status = add_class(finding, line);
    }
    free(text);
    return status;
}

static int find_names(struct finding *finding)
{
    static const char *const lists[] = {"classes.txt", "labels/classes.txt"};
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    for (size_t i = 0; i < 2 && name_set_count(&finding->layout->classes) == 0; i++) {
        if (io_join_path(finding->options->source, lists[i], path, NULL) ||
            finding->io->names->stat(finding->io, path, &info, NULL))
            continue;
        int status = read_names(finding, lists[i]);
        if (status)
            return status;
    }
    return name_set_count(&finding->layout->classes) > 0
               ? 0
               : reject(finding, -EINVAL, "the class names of the YOLO dataset are missing",
                        "`names` in data.yaml, or classes.txt", "neither",
                        "write classes.txt into the source, with a name per line");
}

static int find(struct finding *finding)
{
    int status = list(finding, "");
    if (!status && finding->yamls_count > 0)
        status = read_yaml(finding);
    if (!status && finding->layout->splits_count == 0)
        status = find_folders(finding);
    if (!status && finding->layout->splits_count == 0)
        status = reject(finding, -ENOENT, "the source has no folder of images",
                        "images or SPLIT/images", "none", "add it");
    return status ? status : find_names(finding);
}

int yolo_layout_find(struct yolo_layout *layout, struct io *io,
                     const struct convert_options *options, struct err *err)
{
    struct finding *finding = calloc(1, sizeof *finding);
    if (!finding)
        return err_set(err, -ENOMEM, "out of memory for a source");
    *layout = (struct yolo_layout){0};
    *finding = (struct finding){.layout = layout, .io = io, .options = options, .err = err};
    int status = find(finding);
    str_deinit(&finding->folders);
    free(finding);
    return status;
}
