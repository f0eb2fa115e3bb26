/*
 * source_coco — the source for COCO datasets: annotation files and folders of images.
 *
 * Annotations stay in their files: the listing checks all of them and keeps where they are.
 *
 *     DST/SPLIT    image   json            keypoints.json  captions.json, txt  segmentation.json
 *                          instances_*     person_*        captions_*          instances_*
 */
#include "convert/source/annotated.h"
#include "convert/source/coco_file.h"
#include "convert/source/coco_layout.h"
#include "image/pipeline/check.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct image_info {
    int64_t id;
    uint32_t width, height; /* 0: unknown */
};

struct class_of_category {
    int64_t id;
    char *name; /* owned until it becomes the source's */
};

/* Immutable once open. */
struct coco_source {
    struct annotated_list images;
    struct str infos; /* struct image_info, by number */
    struct coco_file *files;
    uint32_t files_count;
    struct class_of_category *categories; /* by id: the index is the class */
    uint64_t categories_count;
};

/* An image of a split, to find it by id. */
struct image_id {
    int64_t id;
    uint32_t number;
    uint64_t offset; /* in the file that listed it last */
};

/* What open uses for one split. */
struct split_listing {
    struct io *io;
    struct source *source;
    struct hash_stream *hash;
    const char *name;
    uint32_t number;
    char folder[IO_PATH_BYTES_MAX]; /* of the images */
    bool has_folder;
    struct str ids; /* struct image_id, by id */
};

static struct image_info *info_at(const struct coco_source *coco, uint64_t number)
{
    return (struct image_info *)(void *)coco->infos.data + number;
}

static int compare_ids(const void *a, const void *b)
{
    const struct image_id *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

static int compare_categories(const void *a, const void *b)
{
    const struct class_of_category *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

static int compare_spans(const void *a, const void *b)
{
    const struct coco_span *left = a, *right = b;
    if (left->image != right->image)
        return left->image < right->image ? -1 : 1;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

/* ---- Categories. ---- */

static struct class_of_category *find_category(const struct coco_source *coco, int64_t id)
{
    const struct class_of_category key = {.id = id};
    return coco->categories_count ? bsearch(&key, coco->categories, coco->categories_count,
                                            sizeof key, compare_categories)
                                  : NULL;
}

static int reject_category(const struct coco_file *file, const struct coco_category *category,
                           const char *what, const char *name,
                           const struct class_of_category *other, struct err *err)
{
    err_set(err, -EINVAL, "%s", what);
    err_at(err, file->path, (int64_t)category->offset);
    err_expected(err, "the same categories in all annotation files, each once");
    err_found(err, "%" PRId64 " \"%.80s\", and before %" PRId64 " \"%.80s\"", category->id, name,
              other->id, other->name);
    err_advise(err, "convert the splits separately, with --ignore for the other files, or correct "
                    "one of the files");
    return -EINVAL;
}

static int add_category(struct coco_source *coco, const struct coco_file *file,
                        const struct coco_category *category, const char *name, struct err *err)
{
    const struct class_of_category *same = find_category(coco, category->id);
    if (same)
        return strcmp(same->name, name) == 0
                   ? 0
                   : reject_category(file, category, "a category has two names", name, same, err);
    for (uint64_t i = 0; i < coco->categories_count; i++)
        if (strcmp(coco->categories[i].name, name) == 0)
            return reject_category(file, category, "two categories have the same name", name,
                                   &coco->categories[i], err);
    if (coco->categories_count == FILE_LIST_CLASSES_MAX)
        return err_set(err, -E2BIG, "there are more than %d categories", FILE_LIST_CLASSES_MAX);
    struct class_of_category *grown =
        realloc(coco->categories, (coco->categories_count + 1) * sizeof *grown);
    if (grown)
        coco->categories = grown;
    char *copy = strdup(name);
    if (!grown || !copy) {
        free(copy);
        return err_set(err, -ENOMEM, "out of memory for categories");
    }
    uint64_t at = coco->categories_count++;
    for (; at > 0 && grown[at - 1].id > category->id; at--)
        grown[at] = grown[at - 1];
    grown[at] = (struct class_of_category){category->id, copy};
    return 0;
}

/* The file's own categories, each once, and those of the files before. */
static int add_categories(struct coco_source *coco, const struct coco_file *file,
                          const struct coco_listing *listing, struct err *err)
{
    const struct coco_category *categories =
        (const struct coco_category *)(const void *)listing->categories.data;
    size_t count = listing->categories.bytes / sizeof *categories;
    int status = 0;
    if (file->kind != COCO_OBJECTS && file->kind != COCO_KEYPOINTS)
        return 0;
    for (size_t i = 0; i < count && !status; i++)
        status = add_category(coco, file, &categories[i],
                              listing->names.data + categories[i].name_at, err);
    return status;
}

/* Gives the names to the source. */
static int set_classes(struct source *source, struct err *err)
{
    struct coco_source *coco = source->state;
    source->classes = calloc(coco->categories_count + 1, sizeof *source->classes);
    if (!source->classes)
        return err_set(err, -ENOMEM, "out of memory for class names");
    for (; source->classes_count < coco->categories_count; source->classes_count++) {
        source->classes[source->classes_count] =
            strdup(coco->categories[source->classes_count].name);
        if (!source->classes[source->classes_count])
            return err_set(err, -ENOMEM, "out of memory for class names");
    }
    return 0;
}

/* ---- Images. ---- */

static struct image_id *find_id(const struct split_listing *split, int64_t id, size_t count)
{
    const struct image_id key = {.id = id};
    return count ? bsearch(&key, split->ids.data, count, sizeof key, compare_ids) : NULL;
}

/* An image that a file before has listed. */
static int check_same_image(struct split_listing *split, const struct coco_file *file,
                            const struct coco_image *image, const char *name,
                            const struct image_id *listed, struct err *err)
{
    const struct coco_source *coco = split->source->state;
    char path[IO_PATH_BYTES_MAX];
    const char *before = annotated_path(&coco->images, listed->number);
    int status = io_join_path(split->folder, name, path, err);
    if (status || strcmp(path, before) == 0)
        return status;
    err_set(err, -EINVAL, "two annotation files of a split have different images with one id");
    err_at(err, file->path, (int64_t)image->offset);
    err_expected(err, "\"%.150s\" for image %" PRId64, before, image->id);
    err_found(err, "\"%.150s\"", path);
    err_advise(err, "leave out one of the files with --ignore");
    return -EINVAL;
}

static int add_image(struct split_listing *split, const struct coco_file *file,
                     const struct coco_image *image, const char *name, struct err *err)
{
    struct coco_source *coco = split->source->state;
    const struct image_info info = {image->id, image->width, image->height};
    const struct image_id id = {image->id, (uint32_t)annotated_count(&coco->images), image->offset};
    const struct annotated_image listed = {.folder = split->folder,
                                           .name = name,
                                           .split = split->number,
                                           .listed_in = file->path,
                                           .offset = (int64_t)image->offset};
    int status = annotated_add(&coco->images, split->io, split->source, &listed, err);
    if (status)
        return status;
    str_add(&coco->infos, &info, sizeof info);
    str_add(&split->ids, &id, sizeof id);
    return str_status(&coco->infos) || str_status(&split->ids)
               ? err_set(err, -ENOMEM, "out of memory for a list of images")
               : 0;
}

static int check_ids(const struct split_listing *split, const struct coco_file *file,
                     struct err *err)
{
    const struct image_id *ids = (const struct image_id *)(const void *)split->ids.data;
    for (size_t i = 1; i < split->ids.bytes / sizeof *ids; i++)
        if (ids[i - 1].id == ids[i].id) {
            uint64_t later = ids[i].number > ids[i - 1].number ? ids[i].offset : ids[i - 1].offset;
            err_set(err, -EBADMSG, "two images have the same id");
            err_at(err, file->path, (int64_t)later);
            err_found(err, "%" PRId64, ids[i].id);
            return -EBADMSG;
        }
    return 0;
}

static int add_images(struct split_listing *split, const struct coco_file *file,
                      const struct coco_listing *listing, struct err *err)
{
    const struct coco_image *images = (const struct coco_image *)(const void *)listing->images.data;
    size_t count = listing->images.bytes / sizeof *images,
           known = split->ids.bytes / sizeof(struct image_id);
    int status = 0;
    if (count > 0 && !split->has_folder) {
        status = coco_layout_find_images(split->source->options, split->io, split->name,
                                         listing->names.data + images[0].name_at, file->path,
                                         images[0].offset, split->folder, err);
        split->has_folder = true;
    }
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = listing->names.data + images[i].name_at;
        const struct image_id *listed = find_id(split, images[i].id, known);
        status = listed ? check_same_image(split, file, &images[i], name, listed, err)
                        : add_image(split, file, &images[i], name, err);
    }
    if (!status && split->ids.bytes > 0)
        qsort(split->ids.data, split->ids.bytes / sizeof(struct image_id), sizeof(struct image_id),
              compare_ids);
    return status ? status : check_ids(split, file, err);
}

/* ---- Annotations. ---- */

static int reject_reference(const struct coco_file *file, const struct coco_reference *reference,
                            const char *array, int64_t id, struct err *err)
{
    err_set(err, -EBADMSG, "an annotation refers to something that is not listed");
    err_at(err, file->path, (int64_t)reference->offset);
    err_expected(err, "an id in \"%s\"", array);
    err_found(err, "%" PRId64, id);
    err_advise(err, "remove the annotation, or add what it refers to");
    return -EBADMSG;
}

static int add_spans(const struct split_listing *split, struct coco_file *file,
                     const struct coco_listing *listing, struct err *err)
{
    const struct coco_source *coco = split->source->state;
    const struct coco_reference *references =
        (const struct coco_reference *)(const void *)listing->references.data;
    size_t count = listing->references.bytes / sizeof *references;
    for (size_t i = 0; i < count; i++) {
        const struct image_id *image =
            find_id(split, references[i].image_id, split->ids.bytes / sizeof(struct image_id));
        if (!image)
            return reject_reference(file, &references[i], "images", references[i].image_id, err);
        if (file->kind != COCO_CAPTIONS && !find_category(coco, references[i].category_id))
            return reject_reference(file, &references[i], "categories", references[i].category_id,
                                    err);
        const struct coco_span span = {references[i].offset, references[i].bytes, image->number};
        str_add(&file->spans, &span, sizeof span);
    }
    if (str_status(&file->spans))
        return err_set(err, -ENOMEM, "out of memory for annotations");
    if (count > 0)
        qsort(file->spans.data, count, sizeof(struct coco_span), compare_spans);
    return 0;
}

static void log_others(const struct source *source, const struct coco_file *file,
                       const struct name_set *others)
{
    struct str names = {0};
    for (uint64_t i = 0; i < name_set_count(others); i++)
        str_add_format(&names, "%s%s", i ? ", " : "", name_set_at(others, i));
    if (names.bytes > 0)
        log_line(source->options->log, LOG_WARN, "%s: left out of the annotations: %s", file->path,
                 str_text(&names));
    str_deinit(&names);
}

static int list_file(struct split_listing *split, const struct coco_layout_file *found,
                     struct coco_file *file, struct err *err)
{
    struct coco_source *coco = split->source->state;
    struct coco_listing listing = {0};
    file->kind = found->kind;
    file->split = found->split;
    int status = io_join_path(coco->images.root, found->name, file->path, err);
    if (!status)
        status = coco_file_list(file, split->io, split->source->options->stop, split->hash,
                                &listing, err);
    if (!status)
        status = add_categories(coco, file, &listing, err);
    if (!status)
        status = add_images(split, file, &listing, err);
    if (!status)
        status = add_spans(split, file, &listing, err);
    if (!status)
        log_others(split->source, file, &listing.others);
    coco_listing_deinit(&listing);
    return status;
}

static int list_files(struct io *io, struct source *source, const struct coco_layout *layout,
                      struct hash_stream *hash, struct err *err)
{
    struct coco_source *coco = source->state;
    struct split_listing split = {.io = io, .source = source, .hash = hash};
    int status = 0;
    coco->files = calloc(layout->files_count, sizeof *coco->files);
    if (!coco->files)
        return err_set(err, -ENOMEM, "out of memory for annotations");
    for (uint32_t i = 0; i < layout->files_count && !status; i++) {
        if (i == 0 || layout->files[i].split != split.number) {
            split.number = layout->files[i].split;
            split.name = layout->splits[split.number];
            split.has_folder = false;
            str_clear(&split.ids);
        }
        status = list_file(&split, &layout->files[i], &coco->files[coco->files_count++], err);
    }
    str_deinit(&split.ids);
    return status;
}

static int coco_open(struct io *io, struct source *source, struct err *err)
{
    struct coco_source *coco = source->state = calloc(1, sizeof *coco);
    struct coco_layout *layout = calloc(1, sizeof *layout);
    struct hash_stream *hash = hash_stream_open();
    int status = coco && layout && hash ? annotated_open(&coco->images, source, true, err)
                                        : err_set(err, -ENOMEM, "out of memory for a source");
    if (!status)
        status = coco_layout_find(layout, io, source->options, err);
    if (!status)
        status = list_files(io, source, layout, hash, err);
    if (!status)
        status = set_classes(source, err);
    if (!status) {
        annotated_identify(&coco->images, hash);
        source->identity = hash_stream_64(hash);
    }
    hash_stream_close(hash);
    free(layout);
    return status;
}

static void coco_close(struct source *source)
{
    struct coco_source *coco = source->state;
    if (!coco)
        return;
    annotated_deinit(&coco->images);
    str_deinit(&coco->infos);
    for (uint32_t i = 0; i < coco->files_count; i++)
        str_deinit(&coco->files[i].spans);
    free(coco->files);
    for (uint64_t i = 0; i < coco->categories_count; i++)
        free(coco->categories[i].name);
    free(coco->categories);
    free(coco);
}

static int coco_find_splits(struct io *io, struct convert_options *options, struct err *err)
{
    struct coco_layout *layout = calloc(1, sizeof *layout);
    int status = layout ? coco_layout_find(layout, io, options, err)
                        : err_set(err, -ENOMEM, "out of memory for a source");
    for (uint32_t i = 0; !status && layout->splits_count > 1 && i < layout->splits_count; i++)
        status = source_add_split(options, layout->splits[i], err);
    free(layout);
    return status;
}

/* ---- Reading. ---- */

struct coco_reader {
    struct image_checker *checker;
    struct io_file **handles; /* of files; NULL: not open yet */
    struct str text, objects; /* objects: struct coco_object */
    struct str classes;       /* uint32_t */
};

static int coco_reader_open(struct source_reader *reader, struct err *err)
{
    const struct coco_source *coco = reader->source->state;
    struct coco_reader *state = reader->state = calloc(1, sizeof *state);
    if (!state)
        return err_set(err, -ENOMEM, "out of memory for a reader");
    state->handles = calloc(coco->files_count, sizeof *state->handles);
    return state->handles ? image_checker_open(&state->checker, err)
                          : err_set(err, -ENOMEM, "out of memory for a reader");
}

static void clear_objects(struct coco_reader *state)
{
    struct coco_object *objects = (struct coco_object *)(void *)state->objects.data;
    for (size_t i = 0; i < state->objects.bytes / sizeof *objects; i++)
        jsonx_free(objects[i].root);
    str_clear(&state->objects);
    str_clear(&state->classes);
}

static void coco_reader_close(struct source_reader *reader)
{
    const struct coco_source *coco = reader->source->state;
    struct coco_reader *state = reader->state;
    if (!state)
        return;
    for (uint32_t i = 0; state->handles && i < coco->files_count; i++)
        if (state->handles[i])
            reader->io->ops->file_close(state->handles[i]);
    clear_objects(state);
    image_checker_close(state->checker);
    str_deinit(&state->text);
    str_deinit(&state->objects);
    str_deinit(&state->classes);
    free(state->handles);
    free(state);
}

static int read_object(struct source_reader *reader, const struct coco_file *file,
                       struct io_file *handle, const struct coco_span *span, struct err *err)
{
    const struct coco_source *coco = reader->source->state;
    struct coco_reader *state = reader->state;
    struct coco_object object;
    str_clear(&state->text);
    int status = str_reserve(&state->text, span->bytes)
                     ? err_set(err, -ENOMEM, "out of memory for an annotation")
                     : io_read_exact(reader->queue, reader->io, handle, file->path, span->offset,
                                     state->text.data, span->bytes, err);
    if (!status)
        status = coco_object_parse(file->kind, state->text.data, span->bytes, file->path,
                                   span->offset, &object, err);
    if (status)
        return status;
    const struct class_of_category *category =
        file->kind == COCO_CAPTIONS ? NULL : find_category(coco, object.category_id);
    uint32_t class_number = category ? (uint32_t)(category - coco->categories) : SOURCE_NO_CLASS;
    str_add(&state->objects, &object, sizeof object);
    if (str_status(&state->objects)) {
        jsonx_free(object.root);
        return err_set(err, -ENOMEM, "out of memory for annotations");
    }
    str_add(&state->classes, &class_number, sizeof class_number);
    return str_status(&state->classes) ? err_set(err, -ENOMEM, "out of memory for annotations") : 0;
}

/* Reads an image's annotations of one file into state->objects. */
static int read_objects(struct source_reader *reader, uint32_t file_number, uint32_t image,
                        struct err *err)
{
    const struct coco_source *coco = reader->source->state;
    const struct coco_file *file = &coco->files[file_number];
    struct coco_reader *state = reader->state;
    size_t count;
    const struct coco_span *spans = coco_file_find(file, image, &count);
    int status = 0;
    clear_objects(state);
    if (count > 0 && !state->handles[file_number])
        status =
            reader->io->ops->file_open(reader->io, file->path, &state->handles[file_number], err);
    for (size_t i = 0; i < count && !status; i++)
        status = read_object(reader, file, state->handles[file_number], &spans[i], err);
    if (!status && count > 0)
        status = listed_file_check(&file->file, reader->io, state->handles[file_number], file->path,
                                   err);
    return status;
}

static void begin_image(struct jsonx_writer *json, const struct image_info *info)
{
    jsonx_begin_object(json, NULL);
    jsonx_write_i64(json, "image_id", info->id);
    if (info->width > 0 && info->height > 0) {
        jsonx_write_u64(json, "width", info->width);
        jsonx_write_u64(json, "height", info->height);
    }
}

static void add_objects(const struct coco_reader *state, const struct coco_file *file,
                        const struct image_info *info, struct source_sample *sample)
{
    const struct coco_object *objects =
        (const struct coco_object *)(const void *)state->objects.data;
    size_t start = sample->data.bytes, count = state->objects.bytes / sizeof *objects;
    struct jsonx_writer json = {.out = &sample->data};
    begin_image(&json, info);
    coco_write_objects(&json, &file->columns, objects,
                       (const uint32_t *)(const void *)state->classes.data, count);
    jsonx_end_object(&json);
    source_end_field(sample, file->kind == COCO_KEYPOINTS ? "keypoints.json" : "json", start,
                     file->path);
    if (file->kind != COCO_OBJECTS || !file->columns.has_segmentations)
        return;
    start = sample->data.bytes;
    json.needs_comma = false;
    coco_write_segmentations(&json, objects, count);
    source_end_field(sample, "segmentation.json", start, file->path);
}

static void add_captions(const struct coco_reader *state, const struct coco_file *file,
                         struct source_sample *sample)
{
    const struct coco_object *objects =
        (const struct coco_object *)(const void *)state->objects.data;
    size_t start = sample->data.bytes, count = state->objects.bytes / sizeof *objects;
    struct jsonx_writer json = {.out = &sample->data};
    jsonx_begin_array(&json, NULL);
    for (size_t i = 0; i < count; i++)
        jsonx_write_string(&json, NULL, objects[i].caption);
    jsonx_end_array(&json);
    source_end_field(sample, "captions.json", start, file->path);
    if (count == 0)
        return;
    start = sample->data.bytes;
    str_add_text(&sample->data, objects[0].caption);
    source_end_field(sample, "txt", start, file->path);
}

/* The split whose files list the image; other splits have no annotations of it. */
static bool is_of_split(const struct coco_file *file, const struct source *source,
                        const struct source_item *item)
{
    return !source_has_split_folders(source->options) || file->split == item->split;
}

static int coco_read(struct source_reader *reader, const struct source_item *item,
                     struct source_sample *sample, struct err *err)
{
    const struct coco_source *coco = reader->source->state;
    struct coco_reader *state = reader->state;
    const struct image_info *info = info_at(coco, item->number);
    bool has_json = false;
    uint32_t first = 0;
    while (!is_of_split(&coco->files[first], reader->source, item))
        first++;
    int status = annotated_read(&coco->images, reader, state->checker, item->number, info->width,
                                info->height, coco->files[first].path, sample, err);
    for (uint32_t i = first; i < coco->files_count && !status; i++) {
        const struct coco_file *file = &coco->files[i];
        if (!is_of_split(file, reader->source, item) || file->kind == COCO_IMAGES)
            continue;
        status = read_objects(reader, i, (uint32_t)item->number, err);
        if (!status && file->kind == COCO_CAPTIONS)
            add_captions(state, file, sample);
        else if (!status)
            add_objects(state, file, info, sample);
        has_json |= file->kind == COCO_OBJECTS;
    }
    if (status || has_json)
        return status;
    size_t start = sample->data.bytes;
    struct jsonx_writer json = {.out = &sample->data};
    begin_image(&json, info);
    jsonx_end_object(&json);
    source_end_field(sample, "json", start, coco->files[first].path);
    return 0;
}

static void coco_describe(const struct source *source, uint64_t number, struct source_item *item)
{
    const struct coco_source *coco = source->state;
    annotated_describe(&coco->images, source, number, item);
    for (uint32_t i = 0; i < coco->files_count; i++) {
        size_t count;
        const struct coco_span *spans = coco_file_find(&coco->files[i], (uint32_t)number, &count);
        for (size_t j = 0; j < count; j++)
            item->bytes += spans[j].bytes;
    }
}

static bool is_coco(const struct source_layout *layout)
{
    return layout->has_coco;
}

const struct source_ops source_coco_ops = {
    .name = "coco",
    .probe = is_coco,
    .find_splits = coco_find_splits,
    .open = coco_open,
    .close = coco_close,
    .describe = coco_describe,
    .read = coco_read,
    .reader_open = coco_reader_open,
    .reader_close = coco_reader_close,
};
