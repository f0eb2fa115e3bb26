/*
 * verify_member — what a member must hold, beyond its checksum: a JPEG that decodes to its end, a class that exists, tokens of
 * the layout that the dataset names.
 */
#ifndef MILLRACE_CLI_VERIFY_MEMBER_H
#define MILLRACE_CLI_VERIFY_MEMBER_H

#include "base/err.h"
#include "image/jpeg.h"
#include "shards/dataset.h"
#include "shards/verify.h"

/* dataset may be NULL: then only JPEGs are looked at. 0, or -EBADMSG with a detail that names the member and the place in the
 * shard. */
int verify_member_content(struct jpeg_decoder *decoder, const struct dataset *dataset,
                          const struct verify_member *member, struct err *err);

#endif
