/*
 * export_folder — writes the samples of a source as a folder of files.
 *
 * Each field becomes the file KEY.EXTENSION. If the first sample has an image and a class number
 * (cls), and the source names the classes, the files are those of an ImageFolder:
 * CLASS/KEY.EXTENSION without cls, for all samples. CLASS/ is omitted where the key already begins
 * with it. Each class has a folder. With splits, they are below a folder for each split. The last
 * file, EXPORT_RECORD, is hidden; it has the number of samples and the class names.
 */
#ifndef MILLRACE_CONVERT_DATASET_EXPORT_FOLDER_H
#define MILLRACE_CONVERT_DATASET_EXPORT_FOLDER_H

#include "convert/dataset/dataset.h"

#define EXPORT_RECORD ".millrace-export.json"

/* options->format is CONVERT_FORMAT_FOLDER. The folder appears complete or not at all. Blocks.
 * Errors:
 * - -EEXIST: the target has files and force is not set, or it has other files than an export;
 *   or two samples would have the same file.
 * - -EBUSY: another process is writing the target.
 * - -EBADMSG names the bad sample, or one whose key is not a file name. -ENOTSUP: the source is
 *   text.
 * - -EINTR: stopped. */
int export_folder(struct io *io, const struct convert_options *options,
                  struct convert_result *ret_result, struct err *err);

#endif
