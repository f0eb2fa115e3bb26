/*
 * source_yolo — the source for YOLO datasets: folders of images, and label files of the same names
 * in folders called labels instead of images.
 */
#include "convert/source/annotated.h"
#include "convert/source/file_names.h"
#include "convert/source/sample_key.h"
#include "convert/source/yolo_label.h"
#include "convert/source/yolo_layout.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The label file of an image when listed. */
struct label_file {
    uint64_t bytes, identity_hash;
    bool exists;
};

/* Immutable once open. */
struct yolo_source {
    struct annotated_list images;
    struct str labels; /* struct label_file, by image */
    bool has_polygons;
};

static const struct label_file *label_at(const struct yolo_source *yolo, uint64_t number)
{
    return (const struct label_file *)(const void *)yolo->labels.data + number;
}

/* ---- Listing. ---- */

struct yolo_listing {
    struct io *io;
    struct io_queue *queue;
    struct source *source;
    struct hash_stream *hash;
    struct yolo_label label;
    struct str text;
    uint32_t split;
    const char *root; /* below the source, of the images or labels that are listed */
    bool is_labels;
    struct err *err;
};

struct listed_folder {
    struct yolo_listing *listing;
    const char *relative; /* below the root */
    struct str folders;   /* names, each with its NUL */
};

static int read_label(struct io *io, struct io_queue *queue, const struct label_file *label,
                      const char *path, struct str *text, struct err *err)
{
    const struct listed_file file = {.bytes = label->bytes, .identity_hash = label->identity_hash};
    str_clear(text);
    return listed_file_read(&file, io, queue, path, 0, file.bytes, text, err);
}

/* The path of an image's label file. */
static int label_path(const struct yolo_source *yolo, uint64_t number, char path[IO_PATH_BYTES_MAX],
                      struct err *err)
{
    char relative[IO_PATH_BYTES_MAX];
    yolo_labels_path(annotated_path(&yolo->images, number), relative);
    char *dot = strrchr(relative, '.');
    if ((size_t)(dot - relative) + sizeof ".txt" > sizeof relative)
        return io_long_path_error(yolo->images.root, relative, err);
    strcpy(dot, ".txt");
    return io_join_path(yolo->images.root, relative, path, err);
}

/* Checks the label file of an image. */
static int list_label(struct yolo_listing *listing, const char *path, struct label_file *label)
{
    struct yolo_source *yolo = listing->source->state;
    struct io_stat info;
    struct listed_file file;
    int status = listing->io->names->stat(listing->io, path, &info, listing->err);
    if (status == -ENOENT) {
        err_clear(listing->err);
        return 0;
    }
    if (status)
        return status;
    listed_file_set(&file, &info);
    *label = (struct label_file){file.bytes, file.identity_hash, true};
    status = read_label(listing->io, listing->queue, label, path, &listing->text, listing->err);
    if (status)
        return status;
    hash_stream_update(listing->hash, str_text(&listing->text), listing->text.bytes);
    listing->source->bytes += file.bytes;
    status = yolo_label_parse(&listing->label, str_text(&listing->text), listing->text.bytes,
                              listing->source->classes_count, path, listing->err);
    if (!status && yolo_objects_count(&listing->label) > 0)
        yolo->has_polygons |= yolo_objects(&listing->label)[0].polygon_count > 0;
    return status;
}

static int add_image(struct yolo_listing *listing, const char *name)
{
    struct yolo_source *yolo = listing->source->state;
    char path[IO_PATH_BYTES_MAX];
    struct label_file label = {0};
    uint64_t number = annotated_count(&yolo->images);
    const struct annotated_image image = {.folder = listing->root,
                                          .name = name,
                                          .split = listing->split,
                                          .listed_in = listing->root,
                                          .offset = ERR_NO_OFFSET};
    int status = annotated_add(&yolo->images, listing->io, listing->source, &image, listing->err);
    if (status == -EBADMSG)
        err_advise(listing->err, "leave it out with --ignore");
    if (!status)
        status = label_path(yolo, number, path, listing->err);
    if (!status)
        status = list_label(listing, path, &label);
    str_add(&yolo->labels, &label, sizeof label);
    return !status && str_status(&yolo->labels)
               ? err_set(listing->err, -ENOMEM, "out of memory for a list of images")
               : status;
}

/* A label file must have an image: one that got lost would otherwise not be noticed. */
static int check_label(struct yolo_listing *listing, const char *name)
{
    const struct yolo_source *yolo = listing->source->state;
    char key[1 + SHARD_KEY_BYTES_MAX], relative[IO_PATH_BYTES_MAX], path[IO_PATH_BYTES_MAX] = "";
    uint32_t number;
    if (!str_ends_with(name, ".txt") || strcmp(name, "classes.txt") == 0)
        return 0;
    key[0] = annotated_split_char(listing->split);
    if (!sample_key_make(name, true, key + 1) &&
        name_set_find(&yolo->images.keys, key, strlen(key), &number))
        return 0;
    if (io_join_path(listing->root, name, relative, NULL) == 0)
        io_join_path(yolo->images.root, relative, path, NULL);
    err_set(listing->err, -ENOENT, "the image of a label file does not exist");
    err_at(listing->err, path, ERR_NO_OFFSET);
    err_advise(listing->err, "add the image, or leave out the label file with --ignore");
    return -ENOENT;
}

static int visit_entry(void *context, const struct io_entry *entry)
{
    struct listed_folder *folder = context;
    struct yolo_listing *listing = folder->listing;
    char name[IO_PATH_BYTES_MAX], relative[IO_PATH_BYTES_MAX];
    int status = io_join_path(folder->relative, entry->name, name, listing->err);
    if (!status)
        status = io_join_path(listing->root, name, relative, listing->err);
    if (status)
        return status;
    if (name_is_hidden(entry->name)) {
        listing->source->hidden_count++;
        return 0;
    }
    if (name_is_ignored(listing->source->options, relative)) {
        listing->source->ignored_count++;
        return 0;
    }
    if (entry->kind == IO_ENTRY_FOLDER) {
        str_add(&folder->folders, entry->name, strlen(entry->name) + 1);
        return str_status(&folder->folders)
                   ? err_set(listing->err, -ENOMEM, "out of memory for folders' names")
                   : 0;
    }
    if (listing->is_labels)
        return check_label(listing, name);
    /* Label files next to their images, and Ultralytics' cache of images. */
    bool is_other = str_ends_with(entry->name, ".txt") || str_ends_with(entry->name, ".npy");
    return is_other ? 0 : add_image(listing, name);
}

static int list_folder(struct yolo_listing *listing, const char *relative, unsigned depth)
{
    const struct yolo_source *yolo = listing->source->state;
    char path[IO_PATH_BYTES_MAX], child[IO_PATH_BYTES_MAX];
    struct listed_folder folder = {.listing = listing, .relative = relative};
    if (depth > FILE_LIST_DEPTH_MAX) {
        err_set(listing->err, -ELOOP, "folders are nested too deeply");
        err_at(listing->err, relative, ERR_NO_OFFSET);
        err_expected(listing->err, "at most %d levels", FILE_LIST_DEPTH_MAX);
        return -ELOOP;
    }
    int status = io_join_path(yolo->images.root, listing->root, path, listing->err);
    if (!status && *relative)
        status = io_join_path(path, relative, path, listing->err);
    if (!status)
        status = listing->io->names->list(listing->io, path, visit_entry, &folder, listing->err);
    for (size_t at = 0; at < folder.folders.bytes && !status;
         at += strlen(folder.folders.data + at) + 1) {
        status = io_join_path(relative, folder.folders.data + at, child, listing->err);
        if (!status)
            status = list_folder(listing, child, depth + 1);
    }
    str_deinit(&folder.folders);
    return status;
}

static int list_split(struct yolo_listing *listing, const struct yolo_split *split)
{
    const struct yolo_source *yolo = listing->source->state;
    uint64_t before = annotated_count(&yolo->images);
    char labels[IO_PATH_BYTES_MAX], path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    listing->root = split->folder;
    listing->is_labels = false;
    int status = list_folder(listing, "", 0);
    if (!status && annotated_count(&yolo->images) == before) {
        status = err_set(listing->err, -ENODATA, "a folder of images is empty");
        err_at(listing->err, split->folder, ERR_NO_OFFSET);
        err_advise(listing->err, "remove the split, or leave it out with --ignore");
    }
    if (status || !yolo_labels_path(split->folder, labels))
        return status;
    status = io_join_path(yolo->images.root, labels, path, listing->err);
    listing->root = labels;
    listing->is_labels = true;
    return status || listing->io->names->stat(listing->io, path, &info, NULL)
               ? status
               : list_folder(listing, "", 0);
}

static int set_classes(struct source *source, const struct name_set *names, struct err *err)
{
    uint64_t count = name_set_count(names);
    if (count > FILE_LIST_CLASSES_MAX)
        return err_set(err, -E2BIG, "there are more than %d classes", FILE_LIST_CLASSES_MAX);
    source->classes = calloc(count + 1, sizeof *source->classes);
    while (source->classes && source->classes_count < count) {
        char *copy = strdup(name_set_at(names, source->classes_count));
        if (!copy)
            break;
        source->classes[source->classes_count++] = copy;
    }
    return source->classes && source->classes_count == count
               ? 0
               : err_set(err, -ENOMEM, "out of memory for class names");
}

static int list_splits(struct yolo_listing *listing, const struct yolo_layout *layout)
{
    int status = listing->io->ops->queue_open(listing->io, 1, &listing->queue, listing->err);
    for (uint32_t i = 0; i < layout->splits_count && !status; i++) {
        listing->split = i;
        status = list_split(listing, &layout->splits[i]);
    }
    yolo_label_deinit(&listing->label);
    str_deinit(&listing->text);
    if (listing->queue)
        listing->io->ops->queue_close(listing->queue);
    return status;
}

static int yolo_open(struct io *io, struct source *source, struct err *err)
{
    struct yolo_source *yolo = source->state = calloc(1, sizeof *yolo);
    struct yolo_layout *layout = calloc(1, sizeof *layout);
    struct yolo_listing listing = {
        .io = io, .source = source, .hash = hash_stream_open(), .err = err};
    int status = yolo && layout && listing.hash
                     ? annotated_open(&yolo->images, source, false, err)
                     : err_set(err, -ENOMEM, "out of memory for a source");
    if (!status)
        status = yolo_layout_find(layout, io, source->options, err);
    if (!status)
        status = set_classes(source, &layout->classes, err);
    if (!status)
        status = list_splits(&listing, layout);
    if (!status) {
        annotated_identify(&yolo->images, listing.hash);
        for (uint64_t i = 0; i < source->classes_count; i++)
            hash_stream_update(listing.hash, source->classes[i], strlen(source->classes[i]) + 1);
        source->identity = hash_stream_64(listing.hash);
    }
    hash_stream_close(listing.hash);
    if (layout)
        yolo_layout_deinit(layout);
    free(layout);
    return status;
}

static void yolo_close(struct source *source)
{
    struct yolo_source *yolo = source->state;
    if (!yolo)
        return;
    annotated_deinit(&yolo->images);
    str_deinit(&yolo->labels);
    free(yolo);
}

static int yolo_find_splits(struct io *io, struct convert_options *options, struct err *err)
{
    struct yolo_layout *layout = calloc(1, sizeof *layout);
    int status = layout ? yolo_layout_find(layout, io, options, err)
                        : err_set(err, -ENOMEM, "out of memory for a source");
    for (uint32_t i = 0; !status && layout->splits_count > 1 && i < layout->splits_count; i++)
        status = source_add_split(options, layout->splits[i].name, err);
    if (layout)
        yolo_layout_deinit(layout);
    free(layout);
    return status;
}

static void yolo_describe(const struct source *source, uint64_t number, struct source_item *item)
{
    const struct yolo_source *yolo = source->state;
    annotated_describe(&yolo->images, source, number, item);
    item->bytes += label_at(yolo, number)->bytes;
}

/* ---- Reading. ---- */

struct yolo_reader {
    struct yolo_label label;
    struct str text;
};

static int yolo_reader_open(struct source_reader *reader, struct err *err)
{
    reader->state = calloc(1, sizeof(struct yolo_reader));
    return reader->state ? 0 : err_set(err, -ENOMEM, "out of memory for a reader");
}

static void yolo_reader_close(struct source_reader *reader)
{
    struct yolo_reader *state = reader->state;
    if (!state)
        return;
    yolo_label_deinit(&state->label);
    str_deinit(&state->text);
    free(state);
}

static void write_numbers(struct jsonx_writer *json, const double *numbers, size_t count)
{
    jsonx_begin_array(json, NULL);
    for (size_t i = 0; i < count; i++)
        jsonx_write_f64(json, NULL, numbers[i]);
    jsonx_end_array(json);
}

static void add_objects(const struct yolo_source *yolo, const struct yolo_label *label,
                        const char *path, struct source_sample *sample)
{
    struct jsonx_writer json = {.out = &sample->data};
    const struct yolo_object *objects = yolo_objects(label);
    const double *polygons = (const double *)(const void *)label->polygons.data;
    size_t start = sample->data.bytes, count = yolo_objects_count(label);
    jsonx_begin_object(&json, NULL);
    jsonx_begin_array(&json, "boxes");
    for (size_t i = 0; i < count; i++)
        write_numbers(&json, objects[i].box, 4);
    jsonx_end_array(&json);
    jsonx_begin_array(&json, "classes");
    for (size_t i = 0; i < count; i++)
        jsonx_write_u64(&json, NULL, objects[i].class_number);
    jsonx_end_array(&json);
    jsonx_end_object(&json);
    source_end_field(sample, "json", start, path);
    if (!yolo->has_polygons)
        return;
    start = sample->data.bytes;
    json.needs_comma = false;
    jsonx_begin_array(&json, NULL);
    for (size_t i = 0; i < count; i++)
        if (objects[i].polygon_count > 0)
            write_numbers(&json, polygons + objects[i].polygon_at, objects[i].polygon_count);
        else
            jsonx_write_null(&json, NULL);
    jsonx_end_array(&json);
    source_end_field(sample, "segmentation.json", start, path);
}

static int yolo_read(struct source_reader *reader, const struct source_item *item,
                     struct source_sample *sample, struct err *err)
{
    const struct yolo_source *yolo = reader->source->state;
    const struct label_file *file = label_at(yolo, item->number);
    struct yolo_reader *state = reader->state;
    char path[IO_PATH_BYTES_MAX];
    int status = annotated_read(&yolo->images, reader, NULL, item->number, 0, 0, "", sample, err);
    if (!status)
        status = label_path(yolo, item->number, path, err);
    str_clear(&state->text);
    if (!status && file->exists)
        status = read_label(reader->io, reader->queue, file, path, &state->text, err);
    if (!status)
        status = yolo_label_parse(&state->label, str_text(&state->text), state->text.bytes,
                                  reader->source->classes_count, path, err);
    if (!status)
        add_objects(yolo, &state->label, path, sample);
    return status;
}

static bool is_yolo(const struct source_layout *layout)
{
    return layout->has_yolo;
}

const struct source_ops source_yolo_ops = {
    .name = "yolo",
    .probe = is_yolo,
    .find_splits = yolo_find_splits,
    .open = yolo_open,
    .close = yolo_close,
    .describe = yolo_describe,
    .read = yolo_read,
    .reader_open = yolo_reader_open,
    .reader_close = yolo_reader_close,
};
