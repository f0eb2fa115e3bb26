/*
 * Tests the manifest: what is written can be read back, and invalid text is refused.
 */
#include "ckpt/format/manifest.h"
#include "base/crc.h"
#include "base/json/jsonx_format.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Inserts a space, so that the general parser reads it. */
static int parse_spaced(char *text, struct manifest *ret_manifest)
{
    char digits[9], *tensors = strstr(text, "\"tensors\":[") + sizeof "\"tensors\":[" - 1;
    memmove(tensors + 1, tensors, strlen(tensors) + 1);
    *tensors = ' ';
    memcpy(text + 11, "00000000", 8);
    snprintf(digits, sizeof digits, "%08x", (unsigned)crc32c(0, text, strlen(text)));
    memcpy(text + 11, digits, 8);
    return manifest_parse(text, strlen(text), "test", ret_manifest, NULL);
}

/* Parses a manifest with one file and one 4x6 tensor with the given chunks, and a correct CRC. */
static int parse_chunks(const char *chunks, struct err *err)
{
    struct manifest_file file = {
        .name = "f", .size_bytes = 5000, .blocks_count = 1, .block_crc32c = &(uint32_t){7}};
    char hash[HASH128_HEX_BYTES], text[4096], digits[9];
    snprintf(text, sizeof text,
             "{\"crc32c\":\"00000000\",\"format\":\"millrace-checkpoint\",\"version\":1,\"step\":3,"
             "\"ranks\":1,"
             "\"created_ns\":5,\"numerics_id\":\"\",\"state\":{},\"block_bytes\":1048576,"
             "\"files\":[{\"name\":\"f\",\"size_bytes\":5000,\"hash\":\"%s\",\"block_crc32c\":"
             "\"00000007\"}],"
             "\"tensors\":[{\"name\":\"t\",\"dtype\":\"F32\",\"shape\":[4,6],\"chunks\":[%s]}]}\n",
             hash128_format(manifest_file_hash(&file), hash), chunks);
    snprintf(digits, sizeof digits, "%08x", (unsigned)crc32c(0, text, strlen(text)));
    memcpy(text + 11, digits, 8);
    struct manifest manifest, other;
    int status = manifest_parse(text, strlen(text), "test", &manifest, err);
    assert_int_equal(parse_spaced(text, &other), status);
    if (!status) {
        assert_int_equal(manifest.step, 3);
        assert_int_equal(manifest.files[0].block_crc32c[0], 7);
        assert_int_equal(manifest.tensors[0].chunks_count, other.tensors[0].chunks_count);
        assert_memory_equal(manifest.chunks, other.chunks,
                            other.tensors[0].chunks_count * sizeof *other.chunks);
        manifest_deinit(&manifest);
        manifest_deinit(&other);
    }
    return status;
}

#define CHUNK(offset, r, c, rows, columns)                                                         \
    "{\"file\":0,\"offset_bytes\":" #offset ",\"start\":[" #r "," #c "],\"extent\":[" #rows        \
    "," #columns "]"                                                                               \
    "}"

static void chunks_that_tile_the_shape_are_accepted(void **state)
{
    (void)state;
    struct err err = {0};
    assert_ok(parse_chunks(CHUNK(4096, 0, 0, 4, 6), &err), &err);
    assert_ok(parse_chunks(CHUNK(4096, 0, 0, 2, 6) "," CHUNK(4200, 2, 0, 2, 6), &err), &err);
    assert_ok(parse_chunks(CHUNK(4096, 0, 3, 4, 3) "," CHUNK(4200, 0, 0, 4, 3), &err), &err);
    assert_ok(parse_chunks(CHUNK(0, 0, 0, 3, 2) "," CHUNK(0, 0, 2, 1, 4) "," CHUNK(
                               0, 1, 2, 3, 4) "," CHUNK(0, 3, 0, 1, 2),
                           &err),
              &err);
}

static void chunks_that_do_not_tile_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        CHUNK(4096, 0, 0, 3, 6),                             /* a missing row */
        CHUNK(4096, 0, 0, 4, 6) "," CHUNK(4096, 0, 0, 4, 6), /* every row twice */
        /* the total is right, but one row is repeated and one is missing */
        CHUNK(4096, 0, 0, 2, 6) "," CHUNK(4096, 1, 0, 2, 6),
        CHUNK(4096, 0, 0, 4, 3) "," CHUNK(4096, 0, 2, 4, 3), /* the same for columns */
        CHUNK(4096, 0, 0, 5, 6),                             /* beyond the shape */
        CHUNK(4096, 1, 0, 4, 6),
        CHUNK(4096, 9223372036854775807, 0, 4, 6), /* the end overflows */
        CHUNK(4096, 0, 0, 9223372036854775807, 9223372036854775807),
        CHUNK(4905, 0, 0, 4, 6), /* one byte beyond the file */
        CHUNK(9223372036854775807, 0, 0, 4, 6),
        CHUNK(-1, 0, 0, 4, 6),
        /* an empty chunk of a tensor that is not empty */
        CHUNK(4096, 0, 0, 4, 6) "," CHUNK(4096, 4, 0, 0, 6),
        "{\"file\":1,\"offset_bytes\":4096,\"start\":[0,0],\"extent\":[4,6]}",
        "{\"file\":0,\"offset_bytes\":4096,\"start\":[0],\"extent\":[4,6]}",
        "{\"file\":0,\"offset_bytes\":4096,\"start\":[0,0],\"extent\":[4,6,1]}",
        "{\"file\":0,\"offset_bytes\":4096.0,\"start\":[0,0],\"extent\":[4,6]}",
        "7",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct err err = {0};
        if (parse_chunks(wrong[i], &err) != -EBADMSG)
            fail_msg("case %zu was accepted", i);
    }
    struct err err = {0};
    assert_ok(parse_chunks(CHUNK(4904, 0, 0, 4, 6), &err), &err); /* just within the file */
}

static void a_written_manifest_reads_back_the_same(void **state)
{
    (void)state;
    uint32_t crcs[2] = {0xdeadbeef, 1};
    struct manifest_file file = {.name = "rank-00000.safetensors",
                                 .size_bytes = (1 << 20) + 5,
                                 .blocks_count = 2,
                                 .block_crc32c = crcs};
    struct manifest_chunk chunk = {.offset_bytes = 4096, .extent = {2, 3}};
    struct manifest_tensor tensors[] = {
        {.name = "a\"\xc3\xa9",
         .dtype = DTYPE_BF16,
         .rank = 2,
         .shape = {2, 3},
         .chunks_count = 1,
         .chunks = &chunk},
        {.name = "none", .dtype = DTYPE_U8, .rank = 1, .shape = {0}},
    };
    struct manifest manifest = {.step = 12,
                                .ranks = 1,
                                .wall_ns = 1700000000123456789,
                                .numerics_id = "cpu",
                                .files = &file,
                                .files_count = 1,
                                .tensors = tensors,
                                .tensors_count = 2};
    struct manifest read;
    struct str text = {0}, state_text = {0};
    struct err err = {0};
    const char *state_json = "{\"z\":[1,2.5,null,true,\"x\"],\"a\":{\"q\":-1,\"b\":1e-9}}";
    assert_ok(manifest_encode(&manifest, state_json, NULL, &text, &err), &err);
    assert_ok(manifest_parse(text.data, text.bytes, "test", &read, &err), &err);
    assert_int_equal(read.step, 12);
    assert_true(read.wall_ns == 1700000000123456789);
    assert_string_equal(read.numerics_id, "cpu");
    assert_int_equal(read.files[0].block_crc32c[0], 0xdeadbeef);
    assert_int_equal(manifest_find_tensor(&read, "a\"\xc3\xa9")->chunks[0].extent[1], 3);
    assert_int_equal(manifest_find_tensor(&read, "none")->chunks_count, 0);
    assert_null(manifest_find_tensor(&read, "absent"));
    assert_int_equal(jsonx_format(read.state, &state_text), 0);
    assert_string_equal(state_text.data,
                        "{\"a\":{\"b\":1e-09,\"q\":-1},\"z\":[1,2.5,null,true,\"x\"]}");
    manifest_deinit(&read);
    for (size_t bytes = 0; bytes < text.bytes; bytes++) /* truncated at any byte */
        assert_int_equal(manifest_parse(text.data, bytes, "test", &read, NULL), -EBADMSG);
    str_deinit(&text);
    str_deinit(&state_text);
}

static void other_versions_are_refused_naming_both(void **state)
{
    (void)state;
    struct manifest manifest = {.ranks = 1, .numerics_id = ""}, read;
    struct str text = {0};
    struct err err = {0};
    char digits[9];
    assert_ok(manifest_encode(&manifest, "{}", NULL, &text, &err), &err);
    strstr(text.data, "\"version\":1")[10] = '2';
    memcpy(text.data + 11, "00000000", 8);
    snprintf(digits, sizeof digits, "%08x", (unsigned)crc32c(0, text.data, text.bytes));
    memcpy(text.data + 11, digits, 8);
    assert_int_equal(manifest_parse(text.data, text.bytes, "test", &read, &err), -EBADMSG);
    assert_non_null(strstr(err.expected, "version 1"));
    assert_non_null(strstr(err.found, "version 2"));
    str_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_that_tile_the_shape_are_accepted),
        cmocka_unit_test(chunks_that_do_not_tile_are_refused),
        cmocka_unit_test(a_written_manifest_reads_back_the_same),
        cmocka_unit_test(other_versions_are_refused_naming_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
