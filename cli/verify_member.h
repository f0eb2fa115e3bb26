/*
 * verify_member — one member of one sample: its checksums and what it must hold. Part of verify_shards.
 */
#ifndef MILLRACE_CLI_VERIFY_MEMBER_H
#define MILLRACE_CLI_VERIFY_MEMBER_H

#include "base/err.h"
#include "image/jpeg.h"
#include "shards/dataset.h"
#include "shards/shard.h"

/* What one thread needs. Zero until opened. Owner thread. */
struct member_checker {
    struct io *io;
    struct io_queue *queue;
    struct jpeg_decoder *decoder;
    uint8_t *buffer;
    size_t buffer_bytes;
};

int member_checker_open(struct io *io, struct member_checker *checker, struct err *err);
void member_checker_close(struct member_checker *checker);

/* dataset may be NULL. 0, or -errno with a detail that names the member: -EBADMSG where it is bad, else it could not be read. */
int member_check(struct member_checker *checker, const struct shard *shard, const struct dataset *dataset,
                 uint64_t sample, uint32_t field, struct err *err);

/* "key.ext" into name (cut to bytes). Returns name. */
const char *member_name(const struct shard_index *index, uint64_t sample, uint32_t field, char *name,
                        size_t bytes);

#endif
