/*
 * drop_cache — see drop_cache.h.
 */
#include "shards/dataset/drop_cache.h"

#include "io/local/page_cache.h"
#include "shards/dataset/dataset.h"

#include <errno.h>
#include <string.h>

int dataset_drop_cache(struct io *io, const char *path, struct err *err)
{
    struct dataset *dataset;
    if (strcmp(io->ops->scheme, "file") != 0) {
        err_set(err, -EINVAL, "only local files are in the page cache");
        err_at(err, path, ERR_NO_OFFSET);
        err_advise(err, "read it without dropping the cache, or read a local copy");
        return -EINVAL;
    }
    /* Damage does not matter here; the reader reports it. */
    int status = dataset_open_salvaging(io, path, NULL, &dataset, err);
    if (status)
        return status;
    for (uint64_t i = 0; !status && i < dataset->shards_count; i++) {
        char shard[IO_PATH_BYTES_MAX];
        status = dataset_shard_path(dataset, i, shard, err);
        if (!status)
            status = page_cache_drop(shard, err);
    }
    dataset_close(dataset);
    return status;
}
