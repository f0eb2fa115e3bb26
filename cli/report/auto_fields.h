/*
 * auto_fields — `--field auto`: fields chosen by the stored bytes of a dataset.
 *
 * Looks at the first 16 values of each extension, in up to 64 shards. All of them must be of the
 * chosen kind:
 *
 *     cls; jpg, jpeg, png, webp and ppm without a prefix   no field: the label and the image
 *     a NumPy file                                         array, of this dtype and rank
 *     a gray or palette PNG as large as the image          labels, if images are decoded
 *     another picture as large as the image                image, if images are decoded
 *     a picture but no such PNG, if no sample has an image image
 *     valid UTF-8, if the extension is or ends with txt    str
 *     JSON, if it is or ends with json                     json
 *     other text without control characters                str
 *     a JSON integer, number, or true or false, not in txt int, f64, bool
 *     anything else, or text of more than 4 MiB            bytes
 */
#ifndef MILLRACE_CLI_REPORT_AUTO_FIELDS_H
#define MILLRACE_CLI_REPORT_AUTO_FIELDS_H

#include "base/log.h"
#include "cli/verbs/options.h"
#include "io/io.h"

/* Sets *ret_is_auto to whether the values of --field are `auto`. -EINVAL: auto and others. */
int auto_fields_check(const struct option_list *specs, bool *ret_is_auto, struct err *err);

/* Chooses fields for the dataset or shard at path and logs them as options of the command line.
 * *ret_specs: their NAME=SPEC, for read_fields_parse; for auto_fields_deinit, even after a failure.
 * Blocks. -EINVAL: there are none, or too many; also errors of opening and reading the dataset. */
int auto_fields_choose(struct io *io, const char *path, bool decodes_images, const struct log *log,
                       struct option_list *ret_specs, struct err *err);
void auto_fields_deinit(struct option_list *specs);

#endif
