/*
 * rows — tests that only the rows of a crop are read from an uncompressed picture, and that the
 * pixels equal those of the whole picture.
 */
#include "base/bytes.h"
#include "tests/loader/fixture.h"

#include <errno.h>
#include <string.h>

enum { SAMPLES = 60 };

static void make(struct fixture *fixture, bool with_rows, bool with_class)
{
    struct fixture_raw_options options = {
        .samples = SAMPLES, .with_rows = with_rows, .with_class = with_class};
    fixture_make_raw_images(fixture, &options);
}

/* Checks that both datasets deliver the same; stores the bytes read from each. */
static void compare_deliveries(const struct fixture *parts, const struct fixture *wholes,
                               struct loader_options options, uint64_t *ret_part_bytes,
                               uint64_t *ret_whole_bytes)
{
    struct delivery part, whole;
    struct loader_stats part_stats, whole_stats;
    options.io = parts->io;
    options.dataset = parts->folder;
    consume_all(&options, &part, &part_stats, NULL);
    options.io = wholes->io;
    options.dataset = wholes->folder;
    consume_all(&options, &whole, &whole_stats, NULL);
    assert_int_equal(part.items, SAMPLES);
    assert_string_equal(part.text, whole.text);
    assert_true(part.hash == whole.hash);
    assert_int_equal(part_stats.bad_samples_count + whole_stats.bad_samples_count, 0);
    *ret_part_bytes = part_stats.read_bytes;
    *ret_whole_bytes = whole_stats.read_bytes;
    delivery_free(&part);
    delivery_free(&whole);
}

static void partial_reads_give_the_pixels_of_whole_images(void **state)
{
    (void)state;
    static const enum crop_kind crops[] = {CROP_NONE, CROP_CENTER, CROP_RANDOM};
    static const enum order_kind orders[] = {ORDER_SHUFFLE, ORDER_SEQUENTIAL};
    static const uint32_t sizes[][2] = {{20, 16}, {64, 250}, {7, 1}};
    struct fixture parts, wholes;
    make(&parts, true, true);
    make(&wholes, false, true);
    for (size_t i = 0; i < 3 * 2 * 3 * 2; i++) {
        struct loader_options options = fixture_loader_options(&parts, LOADER_IMAGE);
        uint64_t part_bytes, whole_bytes;
        options.image.crop = crop_options_default(crops[i % 3]);
        options.image.crop.center_fraction = 0.4;
        options.image.crop.flip = i & 1;
        options.order = orders[i / 3 % 2];
        options.image.width = sizes[i / 6 % 3][0];
        options.image.height = sizes[i / 6 % 3][1];
        options.verify = i / 18 == 0;
        options.bad_policy = LOADER_BAD_STOP;
        compare_deliveries(&parts, &wholes, options, &part_bytes, &whole_bytes);
        /* the filter may skip rows, and reads may merge differently */
        if (crops[i % 3] == CROP_NONE)
            assert_in_range(part_bytes, whole_bytes * 9 / 10, whole_bytes * 101 / 100);
        /* merged reads include what lies between the samples */
        else
            assert_true(part_bytes < whole_bytes);
    }
    fixture_remove(&parts);
    fixture_remove(&wholes);
}

/* The size of the blocks of a field that contain rows [first, end); without verification, the size
 * of the rows. */
static uint64_t bytes_of_rows(uint64_t sample, int64_t first, int64_t end, bool verify)
{
    uint32_t width, height;
    uint64_t header = fixture_raw_header(sample, &width, &height, NULL);
    first = first < 0 ? 0 : first;
    end = end > height ? height : end;
    uint64_t begin_at = header + 3 * (uint64_t)width * (uint64_t)first;
    uint64_t end_at = header + 3 * (uint64_t)width * (uint64_t)end;
    uint64_t file_bytes = header + 3 * (uint64_t)width * height;
    if (!verify)
        return end_at - begin_at;
    begin_at = begin_at / SHARD_BLOCK_BYTES * SHARD_BLOCK_BYTES;
    return bytes_min(bytes_round_up(end_at, SHARD_BLOCK_BYTES), file_bytes) - begin_at;
}

/* One read per sample, so that nothing between samples is read. The filter also uses rows around
 * the crop: as many as contribute to one output row, plus one. */
static void only_the_checksum_blocks_of_a_crops_rows_are_read(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture, true, false);
    for (int verify = 0; verify < 2; verify++) {
        struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
        struct delivery delivered;
        struct loader_stats stats;
        uint64_t least = 0, most = 0;
        options.batching = (struct batching){.global = 4, .micro = 1, .ranks = 1};
        options.verify = verify;
        for (uint64_t s = 0; s < SAMPLES; s++) {
            uint32_t width, height;
            uint64_t bytes =
                fixture_raw_header(s, &width, &height, NULL) + 3 * (uint64_t)width * height;
            struct image_rect crop =
                crop_choose(&options.image.crop, width, height, options.seed, 0, 0, s).rect;
            bool is_whole = bytes <= SHARD_BLOCK_BYTES;
            int64_t margin = crop.height / options.image.height + 2;
            least +=
                is_whole ? bytes : bytes_of_rows(s, crop.y + 1, crop.y + crop.height - 1, verify);
            most += is_whole ? bytes
                             : bytes_of_rows(s, (int64_t)crop.y - margin,
                                             crop.y + crop.height + margin, verify);
        }
        consume_all(&options, &delivered, &stats, NULL);
        assert_int_equal(delivered.items, SAMPLES);
        assert_int_equal(stats.reads_count, SAMPLES);
        assert_in_range(stats.read_bytes, least, most);
        delivery_free(&delivered);
    }
    fixture_remove(&fixture);
}

static void exactly_the_bytes_used_are_verified(void **state)
{
    (void)state;
    struct fixture fixture;
    enum { SAMPLE = 1 };
    uint32_t width, height;
    size_t header = fixture_raw_header(SAMPLE, &width, &height, NULL), row = 3 * (size_t)width;
    struct loader_stats stats;
    struct delivery intact, outside;
    struct err err;
    make(&fixture, true, true);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    options.image.crop = crop_options_default(CROP_CENTER);
    /* the crop's rows are in the middle, neither in the first nor in the last block */
    options.image.crop.center_fraction = 0.1;
    options.bad_policy = LOADER_BAD_STOP;
    assert_true(header + height / 2 * row > SHARD_BLOCK_BYTES + 16 * row);
    consume_all(&options, &intact, NULL, NULL);
    fixture_flip_in_field(&fixture, SAMPLE, "ppm", 100);
    fixture_flip_in_field(&fixture, SAMPLE, "ppm", header + height * row - 1);
    consume_all(&options, &outside, &stats, NULL);
    assert_true(intact.hash == outside.hash);
    fixture_flip_in_field(&fixture, SAMPLE, "ppm", header + height / 2 * row);
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    assert_non_null(strstr(err.what, "CRC32C of field \"ppm\""));
    delivery_free(&intact);
    delivery_free(&outside);
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_reads_give_the_pixels_of_whole_images),
        cmocka_unit_test(only_the_checksum_blocks_of_a_crops_rows_are_read),
        cmocka_unit_test(exactly_the_bytes_used_are_verified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
