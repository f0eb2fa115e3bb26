/*
 * packed_file — the shards of MDS and the chunks of litdata, which begin alike:
 *
 *     0   u32 n, the number of samples
 *     4   u32 offset[n + 1]; sample i is [offset[i], offset[i + 1])
 */
#ifndef MILLRACE_CONVERT_RECORD_PACKED_FILE_H
#define MILLRACE_CONVERT_RECORD_PACKED_FILE_H

#include "convert/record/packed_sample.h"
#include "convert/record/record_source.h"

/* A folder that index.json describes. */
struct packed_index {
    struct io *io;
    const char *folder;
    const char *what; /* of the files, in messages: "an MDS shard" */
    char path[IO_PATH_BYTES_MAX];
    struct json_t *root;
    struct err *err;
};

/* Reads index.json. The caller frees root with jsonx_free. */
int packed_index_read(struct packed_index *index);
/* Returns status, with the index's path. */
int packed_index_reject(const struct packed_index *index, int status, const char *what,
                        const char *expected);

/* A file as index.json describes it. */
struct packed_file {
    const char *name;
    uint64_t samples, bytes;
};

/* Sets path, identity and offsets. -EBADMSG: the file's size, samples or offsets are not those of
 * the index. -ENOENT. Blocks. */
int packed_file_list(const struct packed_index *index, struct io_queue *queue,
                     const struct packed_file *described, struct record_file *file);

#endif
