/*
 * verify_member — checks the content of a member: an image must decode, a class number must be one
 * of the dataset's, and tokens must have the dataset's layout.
 */
#ifndef MILLRACE_CLI_COMMANDS_VERIFY_MEMBER_H
#define MILLRACE_CLI_COMMANDS_VERIFY_MEMBER_H

#include "base/err.h"
#include "image/pipeline/check.h"
#include "shards/dataset/dataset.h"
#include "shards/verify/verify.h"

/* Checks a member other than an image; dataset may be NULL. -EBADMSG with *ret_kind and a detail
 * that names the member and its position. */
int verify_member_content(const struct dataset *dataset, const struct verify_member *member,
                          enum verify_kind *ret_kind, struct err *err);
/* Checks an image's headers, or decodes it completely. -EBADMSG as above, -ENOMEM. */
int verify_member_image(struct image_checker *checker, const struct verify_member *member,
                        bool decodes_fully, struct err *err);
/* Whether a sample needs only one of these fields: both are images and differ only in their
 * extension, like "left.jpg" and "left.png". */
bool verify_member_is_alternative(const char *a, const char *b);

#endif
