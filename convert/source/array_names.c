/*
 * array_names — see array_names.h.
 */
#include "convert/source/array_names.h"

#include "convert/source/file_names.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_cifar_name(const char *name)
{
    static const char *const names[] = {"test_batch.bin", "batches.meta.txt",
                                        "fine_label_names.txt", "coarse_label_names.txt"};
    size_t digits = strncmp(name, "data_batch_", 11) == 0 ? strspn(name + 11, "0123456789") : 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return digits > 0 && strcmp(name + 11 + digits, ".bin") == 0;
}

enum array_format array_format_of_name(const struct convert_options *options, const char *name)
{
    if (options->fields.count > 0)
        return ARRAY_FORMAT_NONE;
    if (str_ends_with_nocase(name, ".npy"))
        return ARRAY_FORMAT_NUMPY;
    if (str_ends_with(name, "-ubyte") || str_ends_with(name, "-ubyte.gz"))
        return ARRAY_FORMAT_IDX;
    if (is_cifar_name(name))
        return ARRAY_FORMAT_CIFAR;
    if (strcmp(name, "train.bin") == 0 || strcmp(name, "test.bin") == 0)
        return ARRAY_FORMAT_CIFAR_100_DATA;
    return ARRAY_FORMAT_NONE;
}

bool array_layout_is(const struct source_layout *layout, enum array_format format)
{
    return !layout->file && layout->array_formats == 1U << format &&
           !layout->has_other_than_arrays && !layout->has_folders;
}

struct names_listing {
    const struct convert_options *options;
    struct source *source;
    struct str *names;
};

static int add_name(void *context, const struct io_entry *entry)
{
    struct names_listing *listing = context;
    bool is_hidden = name_is_hidden(entry->name),
         is_ignored = name_is_ignored(listing->options, entry->name);
    if (listing->source) {
        listing->source->hidden_count += is_hidden;
        listing->source->ignored_count += !is_hidden && is_ignored;
    }
    if (!is_hidden && !is_ignored && entry->kind == IO_ENTRY_FILE &&
        !name_is_readme(entry->name, true))
        str_add(listing->names, entry->name, strlen(entry->name) + 1);
    return 0;
}

int array_names_list(struct io *io, const struct convert_options *options, struct source *source,
                     const char *folder, struct str *names, struct err *err)
{
    struct names_listing listing = {options, source, names};
    int status = io->names->list(io, folder, add_name, &listing, err);
    return !status && str_status(names) ? err_set(err, -ENOMEM, "out of memory for file names")
                                        : status;
}

int array_splits_add(struct convert_options *options, const struct name_set *splits,
                     struct err *err)
{
    uint64_t count = name_set_count(splits);
    int status = 0;
    if (count < 2 || options->split_folders == CONVERT_SPLIT_FOLDERS_NO)
        return 0;
    if (options->splits_count > 0) {
        err_set(err, -EINVAL, "--split cannot be used with a source that already has splits");
        err_at(err, options->source, ERR_NO_OFFSET);
        err_found(err, "%s and %s", name_set_at(splits, 0), name_set_at(splits, 1));
        err_advise(err, "remove --split, or leave out one of them with --ignore '*%s*'",
                   name_set_at(splits, 0));
        return -EINVAL;
    }
    for (uint64_t i = 0; i < count && !status; i++)
        status = source_add_split(options, name_set_at(splits, i), err);
    return status;
}

uint32_t array_split_find(const struct convert_options *options, const char *name)
{
    for (uint32_t i = 0; source_has_split_folders(options) && i < options->splits_count; i++)
        if (strcmp(options->splits[i].name, name) == 0)
            return i;
    return 0;
}
