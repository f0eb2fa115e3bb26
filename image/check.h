/*
 * check — whether an image file can be decoded to its end. For converters and verifiers: nothing is
 * kept of the pixels.
 */
#ifndef MILLRACE_IMAGE_CHECK_H
#define MILLRACE_IMAGE_CHECK_H

#include "base/err.h"
#include "image/pixels.h"

#include <stdbool.h>
#include <stddef.h>

struct image_checker; /* owner thread: decoders and their memory, reused */
int image_checker_open(struct image_checker **ret_checker, struct err *err);
void image_checker_close(struct image_checker *checker); /* NULL is fine */

/* JPEG, PNG, WebP or PPM, told by its content; path (may be NULL) serves messages. -EBADMSG,
 * -ENOMEM. */
int image_check(struct image_checker *checker, const void *data, size_t bytes, const char *path,
                struct err *err);
/* The same of its headers alone: nothing is decoded. ret_info: what they say. */
int image_check_headers(struct image_checker *checker, const void *data, size_t bytes,
                        const char *path, struct pixels_info *ret_info, struct err *err);

/* The extensions that such a file has, in the order in which they are looked for; ends in NULL. */
extern const char *const image_extensions[];
/* Whether a member with this extension should be such a file: "jpg", "jpeg", "png", "webp", "ppm",
 * also behind a dot ("left.png"). */
bool image_is_expected(const char *extension);

#endif
