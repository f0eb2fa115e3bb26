/*
 * verify_member — what a member must hold, beyond its checksum: an image (JPEG, PNG, WebP, PPM)
 * that decodes, the number of a class that exists, tokens of the layout that the dataset names.
 */
#ifndef MILLRACE_CLI_COMMANDS_VERIFY_MEMBER_H
#define MILLRACE_CLI_COMMANDS_VERIFY_MEMBER_H

#include "base/err.h"
#include "image/check.h"
#include "shards/dataset.h"
#include "shards/verify.h"

/* Of a member that is no image; dataset may be NULL. 0, or -EBADMSG with a detail that names the
 * member and the place in the shard, and *ret_kind. */
int verify_member_content(const struct dataset *dataset, const struct verify_member *member,
                          enum verify_kind *ret_kind, struct err *err);
/* Of one that is an image: its headers, or all of it. -EBADMSG likewise, -ENOMEM. */
int verify_member_image(struct image_checker *checker, const struct verify_member *member,
                        bool whole, struct err *err);
/* Both are images of one name, as "left.jpg" and "left.png": a sample needs one of them. */
bool verify_member_is_alternative(const char *a, const char *b);

#endif
