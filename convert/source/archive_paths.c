/*
 * archive_paths — see archive_paths.h.
 */
#include "convert/source/archive_paths.h"

#include "convert/source/file_names.h"
#include "io/file_util.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

struct folder_listing {
    const struct convert_options *options;
    const char *folder; /* "" for the working directory */
    const char *glob;   /* of names; NULL: see is_taken */
    bool (*is_taken)(const char *name);
    struct url_list *list;
    struct err *err;
};

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_glob(const char *path)
{
    return strpbrk(last_part(path), "*?[") != NULL;
}

bool archive_paths_is_pattern(const char *text)
{
    return url_list_is_pattern(text) || is_glob(text);
}

static int add_entry(void *context, const struct io_entry *entry)
{
    const struct folder_listing *listing = context;
    char path[IO_PATH_BYTES_MAX];
    bool is_taken = listing->glob ? fnmatch(listing->glob, entry->name, FNM_PERIOD) == 0
                                  : listing->is_taken(entry->name);
    if (!is_taken || entry->kind != IO_ENTRY_FILE || name_is_hidden(entry->name) ||
        name_is_ignored(listing->options, entry->name))
        return 0;
    int status = io_join_path(listing->folder, entry->name, path, listing->err);
    return status ? status : url_list_add(listing->list, path, listing->err);
}

static int list_folder(struct io *io, const struct convert_options *options, const char *folder,
                       const char *glob, bool (*is_taken)(const char *name), struct url_list *list,
                       struct err *err)
{
    struct folder_listing listing = {options, folder, glob, is_taken, list, err};
    return io->names->list(io, folder, add_entry, &listing, err);
}

static int expand_glob(struct io *io, const struct convert_options *options, const char *path,
                       struct url_list *list, struct err *err)
{
    char folder[IO_PATH_BYTES_MAX];
    size_t before = list->count;
    io_parent_path(path, folder);
    int status = list_folder(io, options, folder, last_part(path), NULL, list, err);
    if (status || list->count > before)
        return status;
    err_set(err, -ENOENT, "no file matches the pattern");
    err_at(err, path, ERR_NO_OFFSET);
    return -ENOENT;
}

static int expand(struct io *io, const struct convert_options *options, struct url_list *list,
                  struct err *err)
{
    struct url_list urls = {0};
    struct io_stat info;
    int status = url_list_is_pattern(options->source) ? url_list_expand(&urls, options->source, err)
                                                      : url_list_add(&urls, options->source, err);
    for (size_t i = 0; i < urls.count && !status; i++)
        status = is_glob(urls.urls[i]) && io->names->stat(io, urls.urls[i], &info, NULL) == -ENOENT
                     ? expand_glob(io, options, urls.urls[i], list, err)
                     : url_list_add(list, urls.urls[i], err);
    url_list_deinit(&urls);
    return status;
}

int archive_paths_list(struct io *io, const struct convert_options *options,
                       bool (*is_taken)(const char *name), struct url_list *list, struct err *err)
{
    struct io_stat info;
    if (io->names->stat(io, options->source, &info, NULL))
        return expand(io, options, list, err);
    return info.kind == IO_ENTRY_FOLDER
               ? list_folder(io, options, options->source, NULL, is_taken, list, err)
               : url_list_add(list, options->source, err);
}
