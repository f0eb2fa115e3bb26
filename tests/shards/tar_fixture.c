/*
 * tar_fixture — see tar_fixture.h.
 */
#include "tests/shards/tar_fixture.h"

#include "base/bytes.h"
#include "io/file_util.h"
#include "shards/format/tar.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int tar_fixture_set_up(void **state)
{
    struct err err;
    char cache[TEST_PATH_BYTES_MAX];
    fixture_set_up(state, "a.tar");
    const struct fixture *fixture = *state;
    assert_ok(io_join_path(fixture->folder, "cache", cache, &err), &err);
    setenv("XDG_CACHE_HOME", cache, 1);
    return 0;
}

void tar_fixture_write(const struct fixture *fixture, const char *const *members)
{
    struct str text = {0};
    struct err err;
    for (; *members; members++) {
        char name[256];
        const char *equals = strchr(*members, '=');
        size_t bytes = equals ? strlen(*members) - strlen(equals) : strlen(*members);
        size_t size = equals ? strtoul(equals + 1, NULL, 10) : 3;
        snprintf(name, sizeof name, "%.*s", (int)bytes, *members);
        assert_ok(tar_add_header(&text, name, size, &err), &err);
        for (size_t i = 0; i < size; i++)
            str_add(&text, &name[i % bytes], 1);
        str_add_fill(&text, 0, bytes_round_up(size, 512) - size);
    }
    str_add_fill(&text, 0, 1024);
    test_write_file(fixture->path, text.data, text.bytes);
    str_deinit(&text);
}

void tar_fixture_set_mtime(const struct fixture *fixture, time_t when)
{
    struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
    assert_int_equal(utimensat(AT_FDCWD, fixture->path, times, 0), 0);
}

void tar_fixture_list_samples(const struct shard *shard, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint64_t s = 0; s < shard->trailer.samples; s++) {
        uint32_t key_bytes;
        const char *key = shard_index_key(shard->index, s, &key_bytes), *comma = "";
        used += (size_t)snprintf(text + used, bytes - used, "%s%.*s:", s ? " " : "", (int)key_bytes,
                                 key);
        for (uint32_t f = 0; f < shard_index_fields(shard->index); f++) {
            struct shard_field field;
            shard_index_field(shard->index, s, f, &field);
            if (field.present)
                used += (size_t)snprintf(text + used, bytes - used, "%s%s", comma,
                                         shard_index_extension(shard->index, f));
            comma = field.present ? "," : comma;
        }
    }
}

int tar_fixture_load_index(const struct fixture *fixture, bool accept_partial,
                           struct plain_tar_index *ret_index)
{
    struct index_cache_tar tar = {.io = fixture->io, .path = fixture->path};
    struct err err;
    assert_ok(tar.io->ops->file_open(tar.io, tar.path, &tar.file, &err), &err);
    assert_ok(tar.io->ops->queue_open(tar.io, 1, &tar.queue, &err), &err);
    int status = index_cache_load(&tar, accept_partial, ret_index);
    tar.io->ops->queue_close(tar.queue);
    tar.io->ops->file_close(tar.file);
    return status;
}

bool tar_fixture_has_index(const struct fixture *fixture, struct plain_tar_index *ret_index)
{
    return tar_fixture_load_index(fixture, false, ret_index) == 0;
}
