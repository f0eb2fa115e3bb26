/*
 * split_samples — see split_samples.h.
 */
#include "convert/source/split_samples.h"

#include "base/name_set.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static_assert(SHARD_FIELDS_MAX <= 64, "a sample's fields are the bits of a uint64_t");

static uint64_t fields_of(const struct shard_index *index, uint64_t sample)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < shard_index_fields(index); i++) {
        struct shard_field field;
        shard_index_field(index, sample, i, &field);
        bits |= (uint64_t)field.present << i;
    }
    return bits;
}

static int reject_sample(const char *path, const char *key, struct err *err)
{
    err_set(err, -EBADMSG, "the fields of a sample lie apart in the archive");
    err_at(err, path, ERR_NO_OFFSET);
    err_found(err, "the key \"%.150s\" twice, with different fields", key);
    err_advise(err, "unpack the archive and convert the folder, or pack it again in order of names "
                    "(tar --sort=name)");
    return -EBADMSG;
}

int split_samples_check(const struct shard_index *index, const char *path, struct err *err)
{
    uint64_t samples = shard_index_samples(index), *fields = calloc(samples + 1, sizeof *fields);
    struct name_set keys = {0};
    int status = fields ? 0 : err_set(err, -ENOMEM, "out of memory for the keys of an archive");
    for (uint64_t i = 0; i < samples && !status; i++) {
        uint32_t bytes, number;
        bool is_new;
        const char *key = shard_index_key(index, i, &bytes);
        uint64_t bits = fields_of(index, i);
        status = name_set_add(&keys, key, bytes, &number, &is_new, err);
        if (!status && is_new)
            fields[number] = bits;
        else if (!status && fields[number] != bits)
            status = reject_sample(path, name_set_at(&keys, number), err);
    }
    name_set_deinit(&keys);
    free(fields);
    return status;
}
