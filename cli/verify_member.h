/*
 * verify_member — what a member must hold, beyond its checksum: an image (JPEG, PNG, WebP, PPM) that decodes to its end, a class that
 * exists, tokens of the layout that the dataset names.
 */
#ifndef MILLRACE_CLI_VERIFY_MEMBER_H
#define MILLRACE_CLI_VERIFY_MEMBER_H

#include "base/err.h"
#include "image/check.h"
#include "shards/dataset.h"
#include "shards/verify.h"

/* dataset may be NULL: then only images are looked at. 0, or -EBADMSG with a detail that names the member and the place in the
 * shard; -ENOMEM. */
int verify_member_content(struct image_checker *checker, const struct dataset *dataset,
                          const struct verify_member *member, struct err *err);

#endif
