/*
 * check — whether an image file decodes completely. For converters and verifiers; the pixels are
 * discarded.
 */
#ifndef MILLRACE_IMAGE_PIPELINE_CHECK_H
#define MILLRACE_IMAGE_PIPELINE_CHECK_H

#include "base/err.h"
#include "image/formats/pixels.h"

#include <stdbool.h>
#include <stddef.h>

struct image_checker; /* owner thread; reuses decoders and their memory */
int image_checker_open(struct image_checker **ret_checker, struct err *err);
void image_checker_close(struct image_checker *checker); /* NULL is fine */

/* JPEG, PNG, WebP or PPM, detected by content; path (may be NULL) is for messages. -EBADMSG,
 * -ENOMEM. */
int image_check(struct image_checker *checker, const void *data, size_t bytes, const char *path,
                struct err *err);
/* Checks only the headers, without decoding. Gives their contents in ret_info. */
int image_check_headers(struct image_checker *checker, const void *data, size_t bytes,
                        const char *path, struct pixels_info *ret_info, struct err *err);

/* Extensions of image members, in lookup order; ends with NULL. */
extern const char *const image_extensions[];
/* Whether a member with this extension should be an image: "jpg", "jpeg", "png", "webp", "ppm",
 * also after a dot ("left.png"). */
bool image_is_expected(const char *extension);

#endif
