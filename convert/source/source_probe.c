/*
 * source_probe — see source.h. Chooses a source by the names on its first two levels:
 *
 *     a.tar, ROOT/a.tar               shards; also ROOT/dataset.json, a wids list, a pattern, and
 *                                     a.tar.zst with a seek table
 *     a.tfrecord, ROOT/a.tfrecord     records of TensorFlow; also a pattern
 *     ROOT/index.json, ROOT/a.mds     MDS shards; also chunk-0-0.bin: litdata chunks
 *     ROOT/a.npy                      NumPy; also a.npz
 *     a.beton                         FFCV
 *     ROOT/train-images-idx3-ubyte    MNIST's idx
 *     ROOT/data_batch_1.bin           CIFAR
 *     ROOT/a.txt                      text; with a tokenizer also a.jsonl, ROOT/a.jsonl
 *     a.bin, ROOT/a.bin               tokens, if the content is
 *     ROOT/CLASS/photos               class folders
 *     ROOT/photos                     files
 *     ROOT/metadata.csv               files with a row each
 *     ROOT/{train,val,...}/CLASS/...  split folders of class folders: one dataset each
 *     ROOT/{train,val,...}/photos     split folders of files: one dataset each
 *     ROOT/annotations                COCO; also ROOT/_annotations.coco.json and
 *                                     ROOT/{train,val,...}/_annotations.coco.json
 *     ROOT/{Annotations,JPEGImages}   Pascal VOC
 *     ROOT/{images,labels}            YOLO; also ROOT/{train,val,...}/{images,labels}
 */
#include "convert/source/archive_paths.h"
#include "convert/source/array_names.h"
#include "convert/source/coco_layout.h"
#include "convert/source/file_names.h"
#include "convert/source/source.h"
#include "convert/source/table_folder.h"
#include "io/file_util.h"
#include "io/zstd/seekable_io.h"
#include "shards/dataset/dataset.h"
#include "shards/dataset/url_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct folder_summary {
    const struct convert_options *options;
    const char *relative;
    struct source_layout layout;
    struct str folders; /* names, each with its NUL */
    uint32_t folders_count;
    char bin_file[IO_PATH_BYTES_MAX]; /* the first .bin or .idx file by name, or "" */
    bool describes_records;           /* see name_describes_records */
    bool has_coco_export;             /* see coco_layout.h */
    const char *unsupported_format;   /* of unsupported_file, or NULL */
    char unsupported_file[IO_PATH_BYTES_MAX];
};

struct probe {
    struct io *io;
    struct convert_options *options;
    struct err *err;
};

static const char *next_name(const char *name)
{
    return name + strlen(name) + 1;
}

static bool has_folder(const struct folder_summary *summary, const char *folder)
{
    const char *name = summary->folders.data;
    for (uint32_t i = 0; i < summary->folders_count; i++, name = next_name(name))
        if (strcmp(name, folder) == 0)
            return true;
    return false;
}

static void note_bin_file(struct folder_summary *summary, const char *relative)
{
    if (!summary->bin_file[0] || strcmp(relative, summary->bin_file) < 0)
        strcpy(summary->bin_file, relative);
}

static int summarize_entry(void *context, const struct io_entry *entry)
{
    struct folder_summary *summary = context;
    const char *name = entry->name;
    char relative[IO_PATH_BYTES_MAX];
    if (io_join_path(summary->relative, name, relative, NULL) || name_is_hidden(name) ||
        name_is_ignored(summary->options, relative))
        return 0;
    if (entry->kind == IO_ENTRY_FOLDER) {
        str_add(&summary->folders, name, strlen(name) + 1);
        summary->folders_count++;
        summary->layout.has_folders = true;
        return 0;
    }
    if (entry->kind != IO_ENTRY_FILE || name_is_readme(name, true))
        return 0;
    if (strcmp(name, COCO_EXPORT_NAME) == 0)
        summary->has_coco_export = true;
    if (name_is_metadata(name)) {
        summary->layout.has_metadata = true;
        return 0;
    }
    enum array_format array_format = array_format_of_name(summary->options, name);
    if (array_format != ARRAY_FORMAT_NONE)
        summary->layout.array_formats |= 1U << array_format;
    else
        summary->layout.has_other_than_arrays = true;
    if (name_describes_records(name)) {
        summary->describes_records = true;
        return 0;
    }
    const char *format = name_unsupported_format(summary->options, name);
    if (format && strcmp(name, DATASET_FILE_NAME) == 0)
        summary->layout.has_dataset = true;
    else if (format && str_ends_with_nocase(name, ".tar"))
        summary->layout.has_tars = true;
    else if (format && name_is_archive(name))
        summary->layout.has_archives = true;
    else if (format && name_is_tfrecord(name))
        summary->layout.has_tfrecords = true;
    else if (format && name_is_mds(name))
        summary->layout.has_mds = true;
    else if (format && name_is_litdata(name))
        summary->layout.has_chunks = true;
    else if (str_ends_with_nocase(name, ".txt"))
        summary->layout.has_text_files = true;
    else if (str_ends_with_nocase(name, ".bin") || str_ends_with_nocase(name, ".idx"))
        note_bin_file(summary, relative);
    else
        summary->layout.has_other_files = true;
    if (format && !summary->unsupported_format) {
        summary->unsupported_format = format;
        strcpy(summary->unsupported_file, relative);
    }
    return 0;
}

/* Decides whether .bin and .idx files are tokens; mixed with others they are not. */
static int recognize_tokens(const struct probe *probe, struct folder_summary *summary)
{
    struct source_layout *layout = &summary->layout;
    char path[IO_PATH_BYTES_MAX];
    bool is_mixed = layout->has_text_files || layout->has_other_files || layout->has_folders ||
                    layout->has_metadata || layout->has_tars || layout->has_archives ||
                    layout->has_dataset || layout->has_tfrecords || layout->has_mds ||
                    layout->has_chunks;
    int status = 0;
    if (!summary->bin_file[0])
        return 0;
    if (!is_mixed)
        status = io_join_path(probe->options->source, summary->bin_file, path, probe->err);
    if (!is_mixed && !status)
        status = tokens_detect(probe->io, path, &layout->has_tokens, probe->err);
    layout->has_other_files |= !layout->has_tokens;
    return status;
}

/* Recognizes images with annotations by the names of folders. */
static void recognize_dataset(struct folder_summary *summary)
{
    struct source_layout *layout = &summary->layout;
    if (layout->has_metadata)
        return;
    layout->has_voc = has_folder(summary, "Annotations") && has_folder(summary, "JPEGImages");
    layout->has_coco =
        has_folder(summary, "annotations") || (summary->has_coco_export && !*summary->relative);
    layout->has_yolo = has_folder(summary, "images") && has_folder(summary, "labels") &&
                       !layout->has_voc && !layout->has_coco;
}

/* A dataset with annotations in a folder of the source. */
static int reject_nested(const struct probe *probe, const char *relative, const char *layout)
{
    err_set(probe->err, -EINVAL, "%s is in a folder of the source", layout);
    err_at(probe->err, probe->options->source, ERR_NO_OFFSET);
    err_found(probe->err, "%.200s", relative);
    err_advise(probe->err, "convert it by itself: `millrace convert dataset %.80s/%.50s DST`",
               probe->options->source, relative);
    return -EINVAL;
}

/* The caller deinits summary->folders. */
static int summarize(const struct probe *probe, const char *relative,
                     struct folder_summary *summary)
{
    char path[IO_PATH_BYTES_MAX];
    *summary = (struct folder_summary){.options = probe->options, .relative = relative};
    int status = *relative ? io_join_path(probe->options->source, relative, path, probe->err)
                           : io_join_path("", probe->options->source, path, probe->err);
    if (!status)
        status = probe->io->names->list(probe->io, path, summarize_entry, summary, probe->err);
    if (!status && str_status(&summary->folders))
        status = err_set(probe->err, -ENOMEM, "out of memory for a folder's names");
    if (summary->describes_records && !summary->layout.has_tfrecords && !summary->layout.has_mds &&
        !summary->layout.has_chunks)
        summary->layout.has_other_files = true;
    if (!status)
        status = recognize_tokens(probe, summary);
    if (!status && summary->unsupported_format && !probe->options->tokenizer &&
        !summary->layout.has_metadata && !array_layout_is(&summary->layout, ARRAY_FORMAT_IDX) &&
        !source_layout_has_shards(&summary->layout) &&
        !source_layout_has_archives(&summary->layout) &&
        !source_layout_has_records(&summary->layout))
        status = reject_unsupported_format(summary->unsupported_file, summary->unsupported_format,
                                           probe->err);
    if (status || probe->options->tokenizer ||
        probe->options->split_folders != CONVERT_SPLIT_FOLDERS_AUTO)
        return status;
    recognize_dataset(summary);
    if (*relative && (summary->layout.has_coco || summary->layout.has_voc))
        return reject_nested(probe, relative,
                             summary->layout.has_coco ? "a COCO dataset" : "a Pascal VOC dataset");
    return 0;
}

static int reject_folders(const struct probe *probe, const char *what, const char *found,
                          const char *advice)
{
    err_set(probe->err, -EINVAL, "%s", what);
    err_at(probe->err, probe->options->source, ERR_NO_OFFSET);
    err_found(probe->err, "%s", found);
    err_advise(probe->err, "%s", advice);
    return -EINVAL;
}

/* A class may be named train if it contains only photos. If it contains folders, it is a split:
 * splits among classes are an error. */
static int reject_mixed_folders(const struct probe *probe, const struct folder_summary *root)
{
    const char *name = root->folders.data, *other = NULL, *split = NULL;
    int status = 0;
    for (uint32_t i = 0; i < root->folders_count && !status; i++, name = next_name(name)) {
        struct folder_summary child;
        if (!name_is_split(name)) {
            other = name;
            continue;
        }
        status = summarize(probe, name, &child);
        if (child.folders_count > 0)
            split = name;
        str_deinit(&child.folders);
    }
    if (status || !split || !other)
        return status;
    char found[ERR_TEXT_BYTES_MAX], advice[ERR_TEXT_BYTES_MAX];
    snprintf(found, sizeof found, "%s (with subfolders) next to %.150s", split, other);
    snprintf(advice, sizeof advice,
             "add --ignore '%.100s' if it is not a split, --split-folders yes if all folders are "
             "splits, or --split-folders no if all are classes",
             other);
    return reject_folders(probe, "some folders look like splits, others like classes", found,
                          advice);
}

/* Adds all folders of the root as splits. They must be of the same kind. */
static int add_splits(const struct probe *probe, const struct folder_summary *root,
                      const struct source_ops **ret_ops)
{
    const char *name = root->folders.data, *flat_folder = NULL, *class_parent = NULL,
               *text_folder = NULL;
    uint32_t metadata_count = 0, yolo_count = 0, coco_count = 0;
    const struct source_ops *ops = NULL;
    int status = 0;
    for (uint32_t i = 0; i < root->folders_count && !status; i++, name = next_name(name)) {
        struct folder_summary child;
        status = summarize(probe, name, &child);
        metadata_count += child.layout.has_metadata;
        yolo_count += child.layout.has_yolo;
        coco_count += child.has_coco_export;
        if (child.folders_count > 0)
            class_parent = name;
        else
            flat_folder = name;
        ops = source_find(&child.layout);
        if (ops->is_stream || ops->is_ordered || ops->find_splits)
            text_folder = name;
        str_deinit(&child.folders);
        if (!status)
            status = source_add_split(probe->options, name, probe->err);
    }
    if (status)
        return status;
    if (yolo_count == root->folders_count || coco_count == root->folders_count) {
        probe->options->splits_count = 0;
        *ret_ops = coco_count == root->folders_count ? &source_coco_ops : &source_yolo_ops;
        return 0;
    }
    if (yolo_count > 0 || coco_count > 0)
        return reject_folders(probe,
                              yolo_count > 0
                                  ? "only some of the split folders have images and labels"
                                  : "only some of the split folders have " COCO_EXPORT_NAME,
                              root->folders.data,
                              "leave out the other folders with --ignore, or add --split-folders "
                              "no if the folders are classes");
    char found[ERR_TEXT_BYTES_MAX], advice[ERR_TEXT_BYTES_MAX];
    snprintf(
        advice, sizeof advice,
        "convert each one separately, for example `millrace convert dataset %.80s/%.50s DST/%.50s`",
        probe->options->source, root->folders.data, root->folders.data);
    if (text_folder || probe->options->tokenizer)
        return reject_folders(probe,
                              "the split folders contain text, tars, records or arrays; convert "
                              "them one folder at a time",
                              text_folder ? text_folder : root->folders.data, advice);
    if (metadata_count > 0) {
        *ret_ops = &source_table_ops; /* names a folder without metadata */
        return 0;
    }
    if (flat_folder && class_parent) {
        snprintf(found, sizeof found, "none in %s, some in %s", flat_folder, class_parent);
        return reject_folders(probe, "only some of the split folders have class folders", found,
                              advice);
    }
    *ret_ops = ops;
    return 0;
}

static bool all_are_splits(const struct folder_summary *root)
{
    const char *name = root->folders.data;
    for (uint32_t i = 0; i < root->folders_count; i++, name = next_name(name))
        if (!name_is_split(name))
            return false;
    return root->folders_count > 0;
}

static int reject_both_splits(const struct probe *probe, const struct folder_summary *root)
{
    return reject_folders(probe,
                          "--split cannot be used with a source that already has split folders",
                          root->folders.data,
                          "remove --split, or add --split-folders no if these folders are classes");
}

static int choose_source(const struct probe *probe, const struct folder_summary *root,
                         const struct source_ops **ret_ops)
{
    struct convert_options *options = probe->options;
    enum convert_split_folders mode = options->split_folders;
    bool splits = mode == CONVERT_SPLIT_FOLDERS_YES ||
                  (mode == CONVERT_SPLIT_FOLDERS_AUTO && all_are_splits(root));
    if (splits && root->layout.has_metadata)
        return reject_folders(probe, "the metadata lies next to the split folders",
                              root->folders.data,
                              "put a metadata file into each of them, or add --split-folders no to "
                              "get one dataset");
    if (splits && root->folders_count == 0)
        return reject_folders(probe, "--split-folders yes needs folders", "none",
                              "remove --split-folders");
    if (splits && options->splits_count > 0)
        return reject_both_splits(probe, root);
    if (splits)
        return add_splits(probe, root, ret_ops);
    if (root->layout.has_coco && root->layout.has_voc)
        return reject_folders(probe, "the source may be a COCO or a Pascal VOC dataset",
                              "the folders annotations, Annotations and JPEGImages",
                              "add --ignore annotations or --ignore Annotations");
    *ret_ops = source_find(&root->layout);
    return *ret_ops == &source_classes_ops && mode == CONVERT_SPLIT_FOLDERS_AUTO
               ? reject_mixed_folders(probe, root)
               : 0;
}

/* A file. Its content counts where its name says nothing. */
static int choose_file_source(const struct probe *probe, const struct source_ops **ret_ops)
{
    const struct convert_options *options = probe->options;
    struct io_head head = {0};
    int status = io_read_head(probe->io, options->source, SOURCE_HEAD_BYTES, &head, probe->err);
    if (status)
        return status;
    struct source_layout layout = {.file = options->source,
                                   .head = head.data,
                                   .head_bytes = head.bytes,
                                   .has_tokenizer = options->tokenizer};
    status = tokens_detect(probe->io, options->source, &layout.has_tokens, probe->err);
    if (status) {
        free(head.data);
        return status;
    }
    const char *format = name_unsupported_format(options, options->source);
    bool is_own = format && name_is_own_source(options->source);
    *ret_ops = source_find(&layout);
    if (format && !is_own && !name_is_archive(options->source) && *ret_ops != &source_shards_ops &&
        *ret_ops != &source_tfrecord_ops)
        *ret_ops = NULL;
    if (!*ret_ops && !format && head.bytes > 0 && head.data[0] == '[')
        format = "a JSON array";
    free(head.data);
    return *ret_ops ? 0 : reject_unsupported_format(options->source, format, probe->err);
}

/* By the names, or else by the first file: a pattern may match archives, compressed or not. */
static int choose_pattern_source(const struct probe *probe, const struct source_ops **ret_ops)
{
    struct url_list paths = {0};
    struct io_head head = {0};
    *ret_ops = &source_shards_ops;
    int status = archive_paths_list(probe->io, probe->options, NULL, &paths, probe->err);
    if (!status && paths.count > 0 &&
        io_read_head(probe->io, paths.urls[0], SOURCE_HEAD_BYTES, &head, NULL) == 0) {
        const struct source_layout layout = {
            .file = paths.urls[0], .head = head.data, .head_bytes = head.bytes};
        if (source_find(&layout) == &source_tfrecord_ops)
            *ret_ops = &source_tfrecord_ops;
    }
    for (size_t i = 0; i < paths.count; i++)
        if (name_is_archive(paths.urls[i]))
            *ret_ops = &source_archive_ops;
    free(head.data);
    url_list_deinit(&paths);
    return status;
}

/* A tar, or a compressed one with a seek table. */
static bool can_be_read_in_parts(struct io *seekable_io, const char *path)
{
    struct io_file *file;
    if (str_ends_with_nocase(path, ".tar"))
        return true;
    if (!seekable_io_is_name(path) || seekable_io->ops->file_open(seekable_io, path, &file, NULL))
        return false;
    bool is_compressed = seekable_io_is_compressed(file);
    seekable_io->ops->file_close(file);
    return is_compressed;
}

/* Compressed shards are shards: an archive would lose their classes and index fields. */
static int prefer_shards(const struct probe *probe, const struct source_ops **ret_ops)
{
    struct url_list paths = {0};
    struct io *seekable_io = NULL;
    int status =
        archive_paths_list(probe->io, probe->options, name_is_tar_or_archive, &paths, probe->err);
    if (!status)
        status = seekable_io_open(probe->io, 1, &seekable_io, probe->err);
    size_t i = 0;
    while (!status && i < paths.count && can_be_read_in_parts(seekable_io, paths.urls[i]))
        i++;
    if (!status && i == paths.count)
        *ret_ops = &source_shards_ops;
    io_close(seekable_io);
    url_list_deinit(&paths);
    return status;
}

static int check_order(const struct probe *probe, const struct source_ops *ops)
{
    return ops->is_sequential && probe->options->shuffle
               ? reject_folders(probe,
                                "compressed tars, zips and streams of samples cannot be "
                                "shuffled: they are read in order",
                                "--order shuffle",
                                "convert without it, then convert the result with it")
               : 0;
}

static int reject_option(const struct probe *probe, const char *option)
{
    err_set(probe->err, -EINVAL, "%s is not for lists, records and arrays", option);
    err_at(probe->err, probe->options->source, ERR_NO_OFFSET);
    err_advise(probe->err, "map columns to fields with --column NAME=FIELD");
    return -EINVAL;
}

static int check_columns(const struct probe *probe, const struct source_ops *ops)
{
    const struct convert_options *options = probe->options;
    if (ops->has_columns && options->tokenizer)
        return reject_option(probe, "--tokenizer");
    if (ops->has_columns && options->fields.count > 0)
        return reject_option(probe, "--fields");
    return options->columns.count == 0 || ops->has_columns || ops == &source_text_ops
               ? 0
               : reject_folders(
                     probe, "--column is for lists, records and arrays", "a source without columns",
                     "use it with a CSV, TSV, JSON Lines, TFRecord or NumPy file, or with a "
                     "folder of MDS shards or litdata chunks, or one with metadata.csv or "
                     "metadata.jsonl");
}

static int check_tokens(const struct probe *probe, const struct source_ops *ops)
{
    const struct convert_options *options = probe->options;
    bool is_json = options->tokenizer && str_ends_with_nocase(options->tokenizer, ".json");
    if (ops == &source_tokens_ops ||
        (!options->vocabulary_size && (!options->document_end || is_json)))
        return 0;
    return reject_folders(
        probe,
        options->vocabulary_size ? "--vocab-size is for token files only"
                                 : "--document-end is for a tokenizer.json or token files only",
        "another source", options->vocabulary_size ? "remove it" : "add --tokenizer FILE");
}

static int check_stream(const struct probe *probe)
{
    const struct convert_options *options = probe->options;
    if (!options->stream ||
        (!options->tokenizer && options->fields.count == 0 && options->ignore_globs.count == 0))
        return 0;
    err_set(probe->err, -EINVAL,
            "--tokenizer, --fields and --ignore are not for streams of samples");
    err_advise(probe->err, "send the samples as they are to be stored");
    return -EINVAL;
}

static int choose(const struct probe *probe, const struct source_ops **ret_ops)
{
    struct folder_summary root = {0};
    struct io_stat info;
    int status = probe->io->names->stat(probe->io, probe->options->source, &info, probe->err);
    if (status == -ENOENT && archive_paths_is_pattern(probe->options->source))
        return choose_pattern_source(probe, ret_ops);
    if (status)
        return status;
    if (info.kind == IO_ENTRY_FILE)
        return choose_file_source(probe, ret_ops);
    status = summarize(probe, "", &root);
    root.layout.has_tokenizer = probe->options->tokenizer;
    if (!status)
        status = choose_source(probe, &root, ret_ops);
    str_deinit(&root.folders);
    return status;
}

static int find_splits(const struct probe *probe, const struct source_ops *ops)
{
    struct convert_options *options = probe->options;
    uint32_t given = options->splits_count;
    int status = ops->find_splits(probe->io, options, probe->err);
    return !status && given > 0 && options->splits_count > given
               ? reject_folders(probe, "--split cannot be used with a source that has splits",
                                options->splits[given].name, "remove --split")
               : status;
}

int source_probe(struct io *io, struct convert_options *options, const struct source_ops **ret_ops,
                 struct err *err)
{
    const struct probe probe = {io, options, err};
    *ret_ops = &source_stream_ops;
    int status = options->stream ? check_stream(&probe) : choose(&probe, ret_ops);
    if (!status && *ret_ops == &source_archive_ops)
        status = prefer_shards(&probe, ret_ops);
    if (!status && (*ret_ops)->find_splits)
        status = find_splits(&probe, *ret_ops);
    if (!status && (*ret_ops)->is_ordered && !options->shuffle)
        options->keep_order = true;
    if (!status)
        status = check_order(&probe, *ret_ops);
    if (!status)
        status = check_columns(&probe, *ret_ops);
    return status ? status : check_tokens(&probe, *ret_ops);
}
