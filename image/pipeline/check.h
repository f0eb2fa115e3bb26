/*
 * check — checks that an image file decodes completely, for converters and verifiers.
 */
#ifndef MILLRACE_IMAGE_PIPELINE_CHECK_H
#define MILLRACE_IMAGE_PIPELINE_CHECK_H

#include "base/err.h"
#include "image/formats/pixels.h"

#include <stdbool.h>
#include <stddef.h>

struct image_checker; /* one thread at a time; reuses memory */
int image_checker_open(struct image_checker **ret_checker, struct err *err);
void image_checker_close(struct image_checker *checker); /* NULL is fine */

/* Checks a JPEG, PNG, WebP or PPM file, detected by content. path (may be NULL) is for messages.
 * -EBADMSG, -ENOMEM. */
int image_check(struct image_checker *checker, const void *data, size_t bytes, const char *path,
                struct err *err);
/* Checks and returns the headers without decoding. */
int image_check_headers(struct image_checker *checker, const void *data, size_t bytes,
                        const char *path, struct pixels_info *ret_info, struct err *err);

/* Extensions of image members, in lookup order, then NULL. */
extern const char *const image_extensions[];
/* True if a member with this extension should be an image: "jpg", "jpeg", "png", "webp", "ppm",
 * also after a dot ("left.png"). */
bool is_image_extension(const char *extension);

#endif
