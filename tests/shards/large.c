/*
 * large — a dataset of a million shards and 10^10 samples: the cost of opening its list and of
 * looking up samples.
 */
#include "base/bytes.h"
#include "base/hash.h"
#include "shards/dataset/dataset.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARDS = 1000000,
    SAMPLES_A_SHARD = 10000,
    TABLE_BYTES_A_SHARD = 128,
    PEAK_MORE_BYTES = 64 << 20
};

/* Writes the list like the converter, but without holding it in memory. Returns its size. */
static uint64_t write_list(const char *path)
{
    FILE *file = fopen(path, "w");
    struct hash_stream *hash = hash_stream_open();
    assert_non_null(file);
    assert_non_null(hash);
    fprintf(file, "{\"__kind__\":\"wids-shard-index-v1\",\"wids_version\":1,\"shardlist\":[");
    for (uint32_t i = 0; i < SHARDS; i++) {
        uint8_t entry[12];
        bytes_put_u64(entry, SAMPLES_A_SHARD);
        bytes_put_u32(entry + 8, i);
        hash_stream_update(hash, entry, sizeof entry);
        fprintf(file,
                "%s\n{\"url\":\"shard-%06" PRIu32
                ".tar\",\"nsamples\":%d,\"filesize\":268435456,\"xxh3\":\"%016" PRIx32
                "\",\"index_crc32c\":\"%08" PRIx32 "\"}",
                i ? "," : "", i, SAMPLES_A_SHARD, i, i);
    }
    fprintf(file,
            "],\"millrace\":{\"version\":1,\"samples\":%" PRIu64 ",\"fingerprint\":\"%016" PRIx64
            "\",\"mean_sample_bytes\":26843,\"fields\":[\"cls\",\"jpg\"],\"classes\":[]}}\n",
            (uint64_t)SHARDS * SAMPLES_A_SHARD, hash_stream_64(hash));
    hash_stream_close(hash);
    long bytes = ftell(file);
    assert_int_equal(fclose(file), 0);
    return (uint64_t)bytes;
}

/* A value of /proc/self/status in bytes. */
static uint64_t read_status_bytes(const char *name)
{
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoull(line + strlen(name), NULL, 10);
    fclose(file);
    return kib << 10;
}

static void reset_peak_memory(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file || fputs("5", file) < 0 || fclose(file))
        test_skip("peak memory cannot be measured here");
}

static void a_million_shards_need_only_their_table(void **state)
{
    (void)state;
    if (test_is_sanitized())
        test_skip("a sanitizer's memory is not the program's");
    struct dataset *dataset;
    struct err err;
    const char *path = in_folder(DATASET_FILE_NAME);
    uint64_t text = write_list(path), before = read_status_bytes("VmRSS:");
    reset_peak_memory();
    assert_ok(dataset_open(io, path, &dataset, &err), &err);
    uint64_t table = read_status_bytes("VmRSS:") - before,
             peak = read_status_bytes("VmHWM:") - before;
    printf("list of %" PRIu64 " bytes: table %" PRIu64 ", at most %" PRIu64 "\n", text, table,
           peak);
    assert_int_equal(dataset->samples, (uint64_t)SHARDS * SAMPLES_A_SHARD);
    for (uint64_t sample = 0; sample < dataset->samples; sample += 123456789) {
        uint64_t within;
        assert_int_equal(dataset_locate(dataset, sample, &within), sample / SAMPLES_A_SHARD);
        assert_int_equal(within, sample % SAMPLES_A_SHARD);
    }
    assert_true(table < (uint64_t)SHARDS * TABLE_BYTES_A_SHARD);
    assert_true(peak < text + table + PEAK_MORE_BYTES);
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_million_shards_need_only_their_table, scratch_set_up,
                                        scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
