/*
 * array_names — names of files that hold arrays: which format they have, and which split.
 */
#ifndef MILLRACE_CONVERT_SOURCE_ARRAY_NAMES_H
#define MILLRACE_CONVERT_SOURCE_ARRAY_NAMES_H

#include "base/name_set.h"
#include "convert/source/source.h"

enum array_format {
    ARRAY_FORMAT_NONE,
    ARRAY_FORMAT_NUMPY,
    ARRAY_FORMAT_IDX, /* MNIST's, also compressed */
    ARRAY_FORMAT_CIFAR,
    ARRAY_FORMAT_CIFAR_100_DATA, /* train.bin and test.bin, next to files with names of CIFAR */
};

/* Extensions of options->fields are no arrays. */
enum array_format array_format_of_name(const struct convert_options *options, const char *name);
/* A folder of files of this format and of nothing else. */
bool array_layout_is(const struct source_layout *layout, enum array_format format);

/* Appends the names of the files in a folder, in byte order, each with its NUL. Skips hidden and
 * ignored files, which are counted in source (NULL is fine), and README files. */
int array_names_list(struct io *io, const struct convert_options *options, struct source *source,
                     const char *folder, struct str *names, struct err *err);

/* Adds splits to the options if there are several, unless they are not wanted. -EINVAL: the options
 * have splits already; errors of source_add_split. */
int array_splits_add(struct convert_options *options, const struct name_set *splits,
                     struct err *err);
/* The number of a split in the options; 0 if they have no such splits. */
uint32_t array_split_find(const struct convert_options *options, const char *name);

#endif
