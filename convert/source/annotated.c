/*
 * annotated — see annotated.h.
 */
#include "convert/source/annotated.h"

#include "convert/source/file_names.h"
#include "convert/source/sample_key.h"
#include "image/pipeline/check.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct listed_image {
    uint64_t path_at; /* offset in paths */
    uint64_t bytes, identity_hash;
};

int annotated_open(struct annotated_list *list, const struct source *source, bool in_pixels,
                   struct err *err)
{
    const struct convert_options *options = source->options;
    bool scales = in_pixels && options->max_side > 0 && options->max_side < PIXELS_SIDE_MAX &&
                  (options->jpeg == CONVERT_JPEG_REENCODE || options->store == CONVERT_STORE_RAW);
    if (!scales && options->fields.count == 0)
        return io_join_path("", options->source, list->root, err);
    err_set(err, -EINVAL, "%s images with annotations",
            scales ? "--jpeg reencode and --store raw would scale" : "--fields is not for");
    err_at(err, options->source, ERR_NO_OFFSET);
    err_advise(err, "%s",
               scales ? "add --max-side 65500: boxes are in pixels of the images as they are"
                      : "remove it; readers choose fields, for example `millrace read --field`");
    return -EINVAL;
}

void annotated_deinit(struct annotated_list *list)
{
    str_deinit(&list->paths);
    str_deinit(&list->images);
    name_set_deinit(&list->keys);
}

static const struct listed_image *image_at(const struct annotated_list *list, uint64_t number)
{
    return (const struct listed_image *)(const void *)list->images.data + number;
}

uint64_t annotated_count(const struct annotated_list *list)
{
    return list->images.bytes / sizeof(struct listed_image);
}

const char *annotated_path(const struct annotated_list *list, uint64_t number)
{
    return list->paths.data + image_at(list, number)->path_at;
}

static int reject(const struct annotated_image *image, int code, const char *what,
                  const char *expected, const char *found, struct err *err)
{
    err_set(err, code, "%s", what);
    err_at(err, image->listed_in, image->offset);
    err_expected(err, "%s", expected);
    err_found(err, "\"%.200s\"", found);
    return code;
}

static bool is_inside(const char *path)
{
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return path[0] != '/';
}

static int check_name(const struct annotated_image *image, struct err *err)
{
    char extension[SHARD_EXTENSION_BYTES_MAX];
    const char *slash = strrchr(image->name, '/');
    name_write_extension(slash ? slash + 1 : image->name, extension);
    if (!is_inside(image->name))
        return reject(image, -EBADMSG, "the path of an image leaves the folder of images",
                      "a path relative to it, without \"..\"", image->name, err);
    if (!name_is_plain(image->name))
        return reject(image, -EILSEQ, "a file name is not plain UTF-8",
                      "UTF-8 without control characters", image->name, err);
    return is_image_extension(extension) ? 0
                                         : reject(image, -EBADMSG, "not the name of an image",
                                                  "jpg, png, webp or ppm", image->name, err);
}

static int stat_image(const struct annotated_list *list, struct io *io,
                      const struct annotated_image *image, char path[IO_PATH_BYTES_MAX],
                      struct listed_file *ret_file, struct err *err)
{
    char relative[IO_PATH_BYTES_MAX];
    struct io_stat info;
    int status = io_join_path(image->folder, image->name, relative, err);
    if (!status)
        status = io_join_path(list->root, relative, path, err);
    if (status)
        return status;
    status = io->names->stat(io, path, &info, err);
    if (status == -ENOENT || status == -ENOTDIR || (!status && info.kind != IO_ENTRY_FILE)) {
        reject(image, -ENOENT, status ? "an image does not exist" : "an image is not a file",
               "a file", path, err);
        err_advise(err, "add the image, or remove its entry");
        return -ENOENT;
    }
    if (!status)
        listed_file_set(ret_file, &info);
    strcpy(path, relative);
    return status;
}

static int add_key(struct annotated_list *list, const struct annotated_image *image,
                   struct err *err)
{
    char key[1 + SHARD_KEY_BYTES_MAX];
    uint32_t number;
    bool is_new = false;
    const char *expected = sample_key_make(image->name, true, key + 1);
    if (expected)
        return reject(image, -EBADMSG, "the name of an image gives no valid key", expected,
                      image->name, err);
    key[0] = annotated_split_char(image->split);
    int status = name_set_add(&list->keys, key, strlen(key), &number, &is_new, err);
    if (status || is_new)
        return status;
    err_set(err, -EEXIST, "two images have the same key");
    err_at(err, image->listed_in, image->offset);
    err_expected(err, "names that differ before the extension; other dots and spaces count as _");
    err_found(err, "\"%.100s\" and \"%.100s\"", annotated_path(list, number), image->name);
    return -EEXIST;
}

int annotated_add(struct annotated_list *list, struct io *io, struct source *source,
                  const struct annotated_image *image, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct listed_file file;
    const atomic_int *stop = source->options->stop;
    int status =
        stop && atomic_load(stop) ? err_set(err, -EINTR, "stopped while images were listed") : 0;
    if (!status && annotated_count(list) == UINT32_MAX)
        status = err_set(err, -E2BIG, "there are more than %" PRIu32 " images", UINT32_MAX);
    if (!status)
        status = check_name(image, err);
    if (!status)
        status = stat_image(list, io, image, path, &file, err);
    if (!status)
        status = add_key(list, image, err);
    if (status)
        return status;
    const struct listed_image listed = {list->paths.bytes, file.bytes, file.identity_hash};
    str_add(&list->paths, path, strlen(path) + 1);
    str_add(&list->images, &listed, sizeof listed);
    if (str_status(&list->paths) || str_status(&list->images))
        return err_set(err, -ENOMEM, "out of memory for a list of images");
    source->bytes += file.bytes;
    source->items_count++;
    return 0;
}

void annotated_describe(const struct annotated_list *list, const struct source *source,
                        uint64_t number, struct source_item *item)
{
    const char *key = name_set_at(&list->keys, number);
    strcpy(item->key, key + 1);
    item->split = source_has_split_folders(source->options)
                      ? (uint32_t)(key[0] - '0')
                      : source_choose_split(source->options, item->key);
    item->bytes = image_at(list, number)->bytes;
}

void annotated_identify(const struct annotated_list *list, struct hash_stream *hash)
{
    hash_stream_update(hash, list->paths.data, list->paths.bytes);
    for (uint64_t i = 0; i < annotated_count(list); i++)
        hash_stream_update(hash, &image_at(list, i)->bytes, sizeof(uint64_t));
    hash_stream_update(hash, list->keys.text.data, list->keys.text.bytes);
}

static int check_size(struct image_checker *checker, const char *data, size_t bytes,
                      const char *path, uint32_t width, uint32_t height, const char *listed_in,
                      struct err *err)
{
    struct pixels_info info;
    int status = image_check_headers(checker, data, bytes, path, &info, err);
    if (status)
        return status;
    bool is_turned = info.orientation > 4;
    uint32_t found_width = is_turned ? info.height : info.width,
             found_height = is_turned ? info.width : info.height;
    if (found_width == width && found_height == height)
        return 0;
    err_set(err, -EBADMSG, "an image has another size than its annotations state");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "%" PRIu32 " x %" PRIu32 " pixels, by %.150s", width, height, listed_in);
    err_found(err, "%" PRIu32 " x %" PRIu32 "%s", found_width, found_height,
              info.orientation > 1 ? " when turned upright by its EXIF orientation" : "");
    err_advise(err, "use the original images, or leave it out with --on-error skip");
    return -EBADMSG;
}

int annotated_read(const struct annotated_list *list, struct source_reader *reader,
                   struct image_checker *checker, uint64_t number, uint32_t width, uint32_t height,
                   const char *listed_in, struct source_sample *sample, struct err *err)
{
    const struct listed_image *image = image_at(list, number);
    const struct listed_file file = {.bytes = image->bytes, .identity_hash = image->identity_hash};
    char path[IO_PATH_BYTES_MAX], extension[SHARD_EXTENSION_BYTES_MAX];
    size_t start = sample->data.bytes;
    int status = io_join_path(list->root, annotated_path(list, number), path, err);
    if (!status)
        status = listed_file_read(&file, reader->io, reader->queue, path, 0, image->bytes,
                                  &sample->data, err);
    if (!status && width > 0 && height > 0)
        status = check_size(checker, sample->data.data + start, image->bytes, path, width, height,
                            listed_in, err);
    if (status)
        return status;
    name_write_extension(path, extension);
    source_end_field(sample, extension, start, path);
    return 0;
}
