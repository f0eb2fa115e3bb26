/*
 * dali — see dali.h.
 */
#include "shards/dataset/dali.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int add_member(const struct shard *shard, const char *key, const char *extension,
                      const struct shard_field *field, struct str *out, struct err *err)
{
    if (strchr(key, ' ') || strchr(extension, ' ')) {
        err_set(err, -ENOTSUP, "DALI's index cannot hold a name with a space");
        err_at(err, shard->path, (int64_t)field->data_offset);
        err_found(err, "\"%.180s.%s\"", key, extension);
        err_advise(err, "create the shard again with names without spaces");
        return -ENOTSUP;
    }
    str_add_format(out, "%s%s %" PRIu64 " %" PRIu64 " %s.%s",
                   out->data[out->bytes - 1] == '\n' ? "" : " ", extension, field->data_offset,
                   field->size_bytes, key, extension);
    return 0;
}

int dali_index_encode(const struct shard *shard, struct str *out, struct err *err)
{
    const struct shard_index *index = shard->index;
    str_add_format(out, "v1.2 %" PRIu64 "\n", shard_index_samples(index));
    for (uint64_t s = 0; s < shard_index_samples(index) && !str_status(out); s++) {
        char key[SHARD_KEY_BYTES_MAX];
        uint32_t bytes;
        const char *text = shard_index_key(index, s, &bytes);
        snprintf(key, sizeof key, "%.*s", (int)bytes, text);
        for (uint32_t f = 0; f < shard_index_fields(index) && !str_status(out); f++) {
            struct shard_field field;
            shard_index_field(index, s, f, &field);
            int status = field.present ? add_member(shard, key, shard_index_extension(index, f),
                                                    &field, out, err)
                                       : 0;
            if (status)
                return status;
        }
        str_add(out, "\n", 1);
    }
    return str_status(out) ? err_set(err, -ENOMEM, "out of memory for DALI's index") : 0;
}
