/*
 * source_voc — the source for Pascal VOC datasets:
 *
 *     ROOT/JPEGImages/ID.jpg            images
 *     ROOT/Annotations/ID.xml           their objects
 *     ROOT/ImageSets/Main/SPLIT.txt     IDs, one per line; without lists: all images
 *     ROOT/SegmentationClass/ID.png     masks of some images; also SegmentationObject
 */
#include "convert/source/annotated.h"
#include "convert/source/file_names.h"
#include "convert/source/voc_object.h"
#include "convert/source/xml.h"
#include "image/pipeline/check.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_BYTES_MAX = 256 << 20, LINE_BYTES_MAX = SHARD_KEY_BYTES_MAX };

enum companion { COMPANION_XML, COMPANION_CLASSES, COMPANION_OBJECTS, COMPANIONS_COUNT };
static const struct {
    const char *folder, *extension, *field;
} companions[COMPANIONS_COUNT] = {{"Annotations", "xml", "xml"},
                                  {"SegmentationClass", "png", "seg.png"},
                                  {"SegmentationObject", "png", "object.png"}};

/* The files of an image when listed. */
struct voc_files {
    uint64_t bytes[COMPANIONS_COUNT], identity_hash[COMPANIONS_COUNT];
    bool exists[COMPANIONS_COUNT];
};

/* Immutable once open. */
struct voc_source {
    struct annotated_list images;
    struct str files;        /* struct voc_files, by image */
    struct name_set classes; /* in the order of their first object */
    uint32_t *class_numbers; /* of the names in classes */
};

static struct voc_files *files_at(const struct voc_source *voc, uint64_t number)
{
    return (struct voc_files *)(void *)voc->files.data + number;
}

/* ---- Folders and lists. ---- */

struct folder_names {
    const struct convert_options *options;
    const char *folder, *end; /* end of the names, or NULL: images */
    struct name_set stems;
    struct str names;   /* the whole names, each with its NUL, in the order of stems */
    struct str name_at; /* uint64_t */
    struct err *err;
};

static void folder_names_deinit(struct folder_names *names)
{
    name_set_deinit(&names->stems);
    str_deinit(&names->names);
    str_deinit(&names->name_at);
}

static int visit_name(void *context, const struct io_entry *entry)
{
    struct folder_names *names = context;
    char relative[IO_PATH_BYTES_MAX], extension[SHARD_EXTENSION_BYTES_MAX];
    const char *dot = strrchr(entry->name, '.');
    uint64_t at = names->names.bytes;
    uint32_t number;
    bool is_new;
    name_write_extension(entry->name, extension);
    int status = io_join_path(names->folder, entry->name, relative, names->err);
    if (status || entry->kind != IO_ENTRY_FILE || name_is_hidden(entry->name) || !dot ||
        name_is_ignored(names->options, relative) ||
        !(names->end ? strcmp(extension, names->end) == 0 : is_image_extension(extension)))
        return status;
    status = name_set_add(&names->stems, entry->name, (size_t)(dot - entry->name), &number, &is_new,
                          names->err);
    if (status)
        return status;
    if (!is_new) {
        err_set(names->err, -EEXIST, "two files differ only in their extensions");
        err_at(names->err, relative, ERR_NO_OFFSET);
        err_advise(names->err, "remove one of them, or leave it out with --ignore");
        return -EEXIST;
    }
    str_add(&names->names, entry->name, strlen(entry->name) + 1);
    str_add(&names->name_at, &at, sizeof at);
    return str_status(&names->names) || str_status(&names->name_at)
               ? err_set(names->err, -ENOMEM, "out of memory for a folder's names")
               : 0;
}

static const char *folder_name_at(const struct folder_names *names, uint64_t number)
{
    return names->names.data + ((const uint64_t *)(const void *)names->name_at.data)[number];
}

/* A folder that does not exist has no names. */
static int list_folder(struct io *io, const struct convert_options *options, const char *folder,
                       const char *end, struct folder_names *names, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    *names = (struct folder_names){.options = options, .folder = folder, .end = end, .err = err};
    int status = io_join_path(options->source, folder, path, err);
    if (status || io->names->stat(io, path, &info, NULL))
        return status;
    return io->names->list(io, path, visit_name, names, err);
}

/* The lists of VOC, of which trainval repeats train and val. */
static bool is_standard_list(const char *name)
{
    return strcmp(name, "train") == 0 || strcmp(name, "val") == 0 || strcmp(name, "test") == 0;
}

/* Chooses the lists: train, val and test, or else trainval, or else all. Calls add for each. */
static int choose_lists(const struct folder_names *lists,
                        int (*add)(void *context, const char *name, struct err *err), void *context,
                        struct err *err)
{
    uint32_t number;
    bool has_trainval = name_set_find(&lists->stems, "trainval", strlen("trainval"), &number),
         has_parts = name_set_find(&lists->stems, "train", strlen("train"), &number) ||
                     name_set_find(&lists->stems, "val", strlen("val"), &number),
         has_standard = has_parts || name_set_find(&lists->stems, "test", strlen("test"), &number);
    int status = 0;
    for (uint64_t i = 0; i < name_set_count(&lists->stems) && !status; i++) {
        const char *name = name_set_at(&lists->stems, i);
        bool is_trainval = strcmp(name, "trainval") == 0;
        if (has_standard || has_trainval ? is_standard_list(name) || (is_trainval && !has_parts)
                                         : true)
            status = add(context, name, err);
    }
    return status;
}

static int add_split(void *context, const char *name, struct err *err)
{
    return source_add_split(context, name, err);
}

static int count_list(void *context, const char *name, struct err *err)
{
    (void)name, (void)err;
    ++*(uint32_t *)context;
    return 0;
}

static int voc_find_splits(struct io *io, struct convert_options *options, struct err *err)
{
    struct folder_names lists;
    uint32_t count = 0;
    int status = list_folder(io, options, "ImageSets/Main", "txt", &lists, err);
    if (!status)
        status = choose_lists(&lists, count_list, &count, err);
    if (!status && count > 1)
        status = choose_lists(&lists, add_split, options, err);
    folder_names_deinit(&lists);
    return status;
}

/* ---- Listing. ---- */

struct voc_listing {
    struct io *io;
    struct io_queue *queue;
    struct source *source;
    struct hash_stream *hash;
    struct folder_names images;
    struct voc_annotation annotation;
    struct str text;
    uint32_t split;
    uint64_t unannotated_count;
};

static int list_companion(const struct voc_listing *listing, enum companion companion,
                          const char *id, struct voc_files *files, char path[IO_PATH_BYTES_MAX],
                          struct err *err)
{
    const struct voc_source *voc = listing->source->state;
    char relative[IO_PATH_BYTES_MAX];
    struct io_stat info;
    struct listed_file file;
    if (snprintf(relative, sizeof relative, "%s/%s.%s", companions[companion].folder, id,
                 companions[companion].extension) >= (int)sizeof relative)
        return io_long_path_error(companions[companion].folder, id, err);
    if (name_is_ignored(listing->source->options, relative))
        return 0;
    int status = io_join_path(voc->images.root, relative, path, err);
    if (!status)
        status = listing->io->names->stat(listing->io, path, &info, err);
    if (status == -ENOENT) {
        err_clear(err);
        return 0;
    }
    if (status)
        return status;
    listed_file_set(&file, &info);
    files->exists[companion] = true;
    files->bytes[companion] = file.bytes;
    files->identity_hash[companion] = file.identity_hash;
    listing->source->bytes += file.bytes;
    hash_stream_update(listing->hash, &file.bytes, sizeof file.bytes);
    return 0;
}

static int read_companion(struct io *io, struct io_queue *queue, const struct voc_files *files,
                          enum companion companion, const char *path, struct str *out,
                          struct err *err)
{
    const struct listed_file file = {.bytes = files->bytes[companion],
                                     .identity_hash = files->identity_hash[companion]};
    return listed_file_read(&file, io, queue, path, 0, file.bytes, out, err);
}

/* Checks an image's annotations and adds their classes. */
static int list_objects(struct voc_listing *listing, const struct voc_files *files,
                        const char *path, struct err *err)
{
    struct voc_source *voc = listing->source->state;
    uint32_t number;
    bool is_new;
    str_clear(&listing->text);
    int status = read_companion(listing->io, listing->queue, files, COMPANION_XML, path,
                                &listing->text, err);
    if (status)
        return status;
    hash_stream_update(listing->hash, listing->text.data, listing->text.bytes);
    status = voc_annotation_parse(&listing->annotation, str_text(&listing->text),
                                  listing->text.bytes, path, err);
    for (size_t i = 0; i < voc_objects_count(&listing->annotation) && !status; i++) {
        const char *name =
            listing->annotation.names.data + voc_objects(&listing->annotation)[i].name_at;
        status = name_set_add(&voc->classes, name, strlen(name), &number, &is_new, err);
    }
    if (!status && name_set_count(&voc->classes) > FILE_LIST_CLASSES_MAX)
        status = err_set(err, -E2BIG, "there are more than %d classes", FILE_LIST_CLASSES_MAX);
    return status;
}

/* listed_in, offset: where the image is listed, for messages. */
static int add_image(struct voc_listing *listing, const char *id, const char *listed_in,
                     int64_t offset, struct err *err)
{
    struct voc_source *voc = listing->source->state;
    char paths[COMPANIONS_COUNT][IO_PATH_BYTES_MAX];
    struct voc_files files = {0};
    uint32_t number;
    if (!name_set_find(&listing->images.stems, id, strlen(id), &number)) {
        err_set(err, -ENOENT, "an image does not exist");
        err_at(err, listed_in, offset);
        err_expected(err, "%.100s.jpg or another image in JPEGImages", id);
        err_advise(err, "add the image, or remove it from this file");
        return -ENOENT;
    }
    const struct annotated_image image = {.folder = "JPEGImages",
                                          .name = folder_name_at(&listing->images, number),
                                          .split = listing->split,
                                          .listed_in = listed_in,
                                          .offset = offset};
    int status = annotated_add(&voc->images, listing->io, listing->source, &image, err);
    for (int i = 0; i < COMPANIONS_COUNT && !status; i++)
        status = list_companion(listing, (enum companion)i, id, &files, paths[i], err);
    if (!status && files.exists[COMPANION_XML])
        status = list_objects(listing, &files, paths[COMPANION_XML], err);
    listing->unannotated_count += !files.exists[COMPANION_XML];
    str_add(&voc->files, &files, sizeof files);
    return !status && str_status(&voc->files)
               ? err_set(err, -ENOMEM, "out of memory for a list of images")
               : status;
}

static int reject_line(const char *path, int64_t offset, const char *line, struct err *err)
{
    err_set(err, -EBADMSG, "a list of images has another format");
    err_at(err, path, offset);
    err_expected(err, "the name of an image without its extension, one per line");
    err_found(err, "\"%.150s\"", line);
    err_advise(err, "leave out lists of something else with --ignore");
    return -EBADMSG;
}

/* text: NUL-terminated; is changed. */
static int add_lines(struct voc_listing *listing, const char *path, char *text, size_t bytes,
                     struct err *err)
{
    int status = 0;
    if (strlen(text) != bytes)
        return reject_line(path, (int64_t)strlen(text), "a NUL", err);
    for (char *line = text, *next; *line && !status; line = next) {
        size_t line_bytes = strcspn(line, "\n");
        next = line + line_bytes + (line[line_bytes] == '\n');
        line[line_bytes] = '\0';
        while (line_bytes > 0 && strchr(" \t\r", line[line_bytes - 1]))
            line[--line_bytes] = '\0';
        if (line_bytes == 0)
            continue;
        status = line_bytes >= LINE_BYTES_MAX || strpbrk(line, " \t")
                     ? reject_line(path, line - text, line, err)
                     : add_image(listing, line, path, line - text, err);
    }
    return status;
}

static int add_list(void *context, const char *name, struct err *err)
{
    struct voc_listing *listing = context;
    const struct voc_source *voc = listing->source->state;
    char relative[IO_PATH_BYTES_MAX], path[IO_PATH_BYTES_MAX], *text = NULL;
    size_t bytes = 0;
    uint64_t before = annotated_count(&voc->images);
    snprintf(relative, sizeof relative, "ImageSets/Main/%s.txt", name);
    int status = io_join_path(voc->images.root, relative, path, err);
    if (!status)
        status = io_read_file(listing->io, path, LIST_BYTES_MAX, &text, &bytes, err);
    if (!status)
        status = add_lines(listing, path, text, bytes, err);
    if (!status && annotated_count(&voc->images) == before) {
        status = err_set(err, -ENODATA, "a list names no images");
        err_at(err, path, ERR_NO_OFFSET);
        err_advise(err, "leave it out with --ignore '%.100s.txt'", name);
    }
    free(text);
    listing->split++;
    return status;
}

/* Without lists: all images, and each annotation file must have one. */
static int add_all(struct voc_listing *listing, struct err *err)
{
    struct folder_names annotations;
    char path[IO_PATH_BYTES_MAX], relative[IO_PATH_BYTES_MAX];
    const struct voc_source *voc = listing->source->state;
    uint32_t number;
    int status = io_join_path(voc->images.root, "JPEGImages", path, err);
    for (uint64_t i = 0; i < name_set_count(&listing->images.stems) && !status; i++)
        status =
            add_image(listing, name_set_at(&listing->images.stems, i), path, ERR_NO_OFFSET, err);
    if (status)
        return status;
    status =
        list_folder(listing->io, listing->source->options, "Annotations", "xml", &annotations, err);
    for (uint64_t i = 0; i < name_set_count(&annotations.stems) && !status; i++) {
        const char *id = name_set_at(&annotations.stems, i);
        if (name_set_find(&listing->images.stems, id, strlen(id), &number))
            continue;
        snprintf(relative, sizeof relative, "Annotations/%s", folder_name_at(&annotations, i));
        io_join_path(voc->images.root, relative, path, NULL);
        status = err_set(err, -ENOENT, "the image of an annotation file does not exist");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "%.100s.jpg or another image in JPEGImages", id);
        err_advise(err, "add the image, or leave out the annotations with --ignore");
    }
    folder_names_deinit(&annotations);
    return status;
}

static int list_images(struct voc_listing *listing, struct err *err)
{
    const struct convert_options *options = listing->source->options;
    struct folder_names lists = {0};
    int status = listing->io->ops->queue_open(listing->io, 1, &listing->queue, err);
    if (!status)
        status = list_folder(listing->io, options, "JPEGImages", NULL, &listing->images, err);
    if (!status)
        status = list_folder(listing->io, options, "ImageSets/Main", "txt", &lists, err);
    if (!status)
        status = name_set_count(&lists.stems) > 0 ? choose_lists(&lists, add_list, listing, err)
                                                  : add_all(listing, err);
    if (!status && listing->unannotated_count > 0)
        log_line(options->log, LOG_WARN,
                 "%" PRIu64 " images have no annotation file; they get no boxes",
                 listing->unannotated_count);
    folder_names_deinit(&lists);
    folder_names_deinit(&listing->images);
    voc_annotation_deinit(&listing->annotation);
    str_deinit(&listing->text);
    if (listing->queue)
        listing->io->ops->queue_close(listing->queue);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Classes are numbered in byte order, as those of VOC are. */
static int set_classes(struct source *source, struct err *err)
{
    struct voc_source *voc = source->state;
    uint64_t count = name_set_count(&voc->classes);
    uint32_t number = 0;
    source->classes = calloc(count + 1, sizeof *source->classes);
    voc->class_numbers = calloc(count + 1, sizeof *voc->class_numbers);
    for (uint64_t i = 0; i < count && source->classes && voc->class_numbers; i++) {
        source->classes[i] = strdup(name_set_at(&voc->classes, i));
        if (!source->classes[i])
            break;
        source->classes_count++;
    }
    if (!source->classes || !voc->class_numbers || source->classes_count < count)
        return err_set(err, -ENOMEM, "out of memory for class names");
    qsort(source->classes, count, sizeof *source->classes, compare_names);
    for (uint64_t i = 0; i < count; i++)
        if (name_set_find(&voc->classes, source->classes[i], strlen(source->classes[i]), &number))
            voc->class_numbers[number] = (uint32_t)i;
    return 0;
}

static int voc_open(struct io *io, struct source *source, struct err *err)
{
    struct voc_source *voc = source->state = calloc(1, sizeof *voc);
    struct voc_listing listing = {.io = io, .source = source, .hash = hash_stream_open()};
    int status = voc && listing.hash ? annotated_open(&voc->images, source, true, err)
                                     : err_set(err, -ENOMEM, "out of memory for a source");
    if (!status)
        status = list_images(&listing, err);
    if (!status)
        status = set_classes(source, err);
    if (!status) {
        annotated_identify(&voc->images, listing.hash);
        source->identity = hash_stream_64(listing.hash);
    }
    hash_stream_close(listing.hash);
    return status;
}

static void voc_close(struct source *source)
{
    struct voc_source *voc = source->state;
    if (!voc)
        return;
    annotated_deinit(&voc->images);
    str_deinit(&voc->files);
    name_set_deinit(&voc->classes);
    free(voc->class_numbers);
    free(voc);
}

static void voc_describe(const struct source *source, uint64_t number, struct source_item *item)
{
    const struct voc_source *voc = source->state;
    annotated_describe(&voc->images, source, number, item);
    for (int i = 0; i < COMPANIONS_COUNT; i++)
        item->bytes += files_at(voc, number)->bytes[i];
}

/* ---- Reading. ---- */

struct voc_reader {
    struct image_checker *checker;
    struct voc_annotation annotation;
    struct str text;
};

static int voc_reader_open(struct source_reader *reader, struct err *err)
{
    struct voc_reader *state = reader->state = calloc(1, sizeof *state);
    return state ? image_checker_open(&state->checker, err)
                 : err_set(err, -ENOMEM, "out of memory for a reader");
}

static void voc_reader_close(struct source_reader *reader)
{
    struct voc_reader *state = reader->state;
    if (!state)
        return;
    image_checker_close(state->checker);
    voc_annotation_deinit(&state->annotation);
    str_deinit(&state->text);
    free(state);
}

static void write_flags(struct jsonx_writer *json, const char *key,
                        const struct voc_annotation *annotation, size_t flag_at)
{
    jsonx_begin_array(json, key);
    for (size_t i = 0; i < voc_objects_count(annotation); i++)
        jsonx_write_u64(json, NULL,
                        *(const bool *)((const char *)&voc_objects(annotation)[i] + flag_at));
    jsonx_end_array(json);
}

static void write_edge(struct jsonx_writer *json, double edge)
{
    if (edge == (double)(int64_t)edge)
        jsonx_write_i64(json, NULL, (int64_t)edge);
    else
        jsonx_write_f64(json, NULL, edge);
}

static void add_objects(const struct voc_source *voc, const struct voc_annotation *annotation,
                        const char *path, struct source_sample *sample)
{
    struct jsonx_writer json = {.out = &sample->data};
    size_t start = sample->data.bytes, count = voc_objects_count(annotation);
    uint32_t number = 0;
    jsonx_begin_object(&json, NULL);
    if (annotation->width > 0 && annotation->height > 0) {
        jsonx_write_u64(&json, "width", annotation->width);
        jsonx_write_u64(&json, "height", annotation->height);
    }
    jsonx_begin_array(&json, "boxes");
    for (size_t i = 0; i < count; i++) {
        jsonx_begin_array(&json, NULL);
        for (int j = 0; j < 4; j++)
            write_edge(&json, voc_objects(annotation)[i].box[j]);
        jsonx_end_array(&json);
    }
    jsonx_end_array(&json);
    jsonx_begin_array(&json, "classes");
    for (size_t i = 0; i < count; i++) {
        const char *name = annotation->names.data + voc_objects(annotation)[i].name_at;
        name_set_find(&voc->classes, name, strlen(name), &number);
        jsonx_write_u64(&json, NULL, voc->class_numbers[number]);
    }
    jsonx_end_array(&json);
    write_flags(&json, "difficult", annotation, offsetof(struct voc_object, is_difficult));
    write_flags(&json, "truncated", annotation, offsetof(struct voc_object, is_truncated));
    write_flags(&json, "occluded", annotation, offsetof(struct voc_object, is_occluded));
    jsonx_end_object(&json);
    source_end_field(sample, "json", start, path);
}

/* The path of an image's companion: the image's name with another folder and extension. */
static int companion_path(const struct voc_source *voc, uint64_t number, enum companion companion,
                          char path[IO_PATH_BYTES_MAX], struct err *err)
{
    const char *name = strchr(annotated_path(&voc->images, number), '/') + 1;
    char relative[IO_PATH_BYTES_MAX];
    snprintf(relative, sizeof relative, "%s/%.*s.%s", companions[companion].folder,
             (int)(strrchr(name, '.') - name), name, companions[companion].extension);
    return io_join_path(voc->images.root, relative, path, err);
}

static int voc_read(struct source_reader *reader, const struct source_item *item,
                    struct source_sample *sample, struct err *err)
{
    const struct voc_source *voc = reader->source->state;
    struct voc_reader *state = reader->state;
    struct voc_annotation *annotation = &state->annotation;
    const struct voc_files *files = files_at(voc, item->number);
    char path[IO_PATH_BYTES_MAX];
    int status = companion_path(voc, item->number, COMPANION_XML, path, err);
    str_clear(&state->text);
    str_clear(&annotation->objects);
    annotation->width = annotation->height = 0;
    if (!status && files->exists[COMPANION_XML]) {
        status = read_companion(reader->io, reader->queue, files, COMPANION_XML, path, &state->text,
                                err);
        if (!status)
            status = voc_annotation_parse(annotation, str_text(&state->text), state->text.bytes,
                                          path, err);
    }
    if (!status)
        status = annotated_read(&voc->images, reader, state->checker, item->number,
                                annotation->width, annotation->height, path, sample, err);
    if (status)
        return status;
    add_objects(voc, annotation, path, sample);
    for (int i = 0; i < COMPANIONS_COUNT && !status; i++) {
        size_t start = sample->data.bytes;
        if (!files->exists[i])
            continue;
        status = companion_path(voc, item->number, (enum companion)i, path, err);
        if (!status)
            status = read_companion(reader->io, reader->queue, files, (enum companion)i, path,
                                    &sample->data, err);
        if (!status)
            source_end_field(sample, companions[i].field, start, path);
    }
    return status;
}

static bool is_voc(const struct source_layout *layout)
{
    return layout->has_voc;
}

const struct source_ops source_voc_ops = {
    .name = "voc",
    .probe = is_voc,
    .find_splits = voc_find_splits,
    .open = voc_open,
    .close = voc_close,
    .describe = voc_describe,
    .read = voc_read,
    .reader_open = voc_reader_open,
    .reader_close = voc_reader_close,
};
