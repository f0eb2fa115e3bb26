/*
 * scan_segments — segments are found and unstuffed; segments outside of the part are left out only
 * if asked; a marker out of order, a fill byte or a missing marker is refused.
 */
#include "image/jpeg_fast/scan_segments.h"

#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

enum { SLACK_BYTES = 16, SEGMENTS_MAX = 3 * SCAN_SEGMENTS_AHEAD };

struct segments {
    struct scan_segments scan;
    struct scan_segment segment[SEGMENTS_MAX];
    uint32_t count;
};

/* Reads all segments. */
static int read_scan(struct segments *segments, const struct scan_layout *layout, const char *data,
                     size_t bytes)
{
    struct scan_segment segment;
    segments->count = 0;
    int status =
        scan_segments_begin(&segments->scan, layout, (const uint8_t *)data, bytes, SLACK_BYTES);
    assert_int_equal(status, 0);
    while ((status = scan_segments_next(&segments->scan, &segment)) > 0) {
        assert_true(segments->count < SEGMENTS_MAX);
        segments->segment[segments->count++] = segment;
    }
    if (status == 0) /* remains the answer */
        assert_int_equal(scan_segments_next(&segments->scan, &segment), 0);
    return status;
}

static void check_segment(const struct segments *segments, uint32_t i, const char *data,
                          uint32_t first_mcu, uint32_t mcus)
{
    const struct scan_segment *segment = &segments->segment[i];
    assert_int_equal(segment->end_bits - segment->begin_bits, 8 * strlen(data));
    assert_memory_equal(segments->scan.data + segment->begin_bits / 8, data, strlen(data));
    assert_int_equal(segment->first_mcu, first_mcu);
    assert_int_equal(segment->mcus, mcus);
}

/* Two rows of four MCUs, two per segment. */
static const char scan[] = "a\xff\0b\xff\xd0"
                           "cd\xff\xd1"
                           "\xff\0\xff\0\xff\xd2"
                           "e\xff\xd9";
static const struct scan_layout whole = {
    .columns = 4, .rows = 2, .restart_interval = 2, .part = {0, 0, 4, 2}};

static void segments_are_unstuffed(void **state)
{
    (void)state;
    struct segments segments = {0};
    assert_int_equal(read_scan(&segments, &whole, scan, sizeof scan - 1), 0);
    assert_int_equal(segments.count, 4);
    check_segment(&segments, 0,
                  "a\xff"
                  "b",
                  0, 2);
    check_segment(&segments, 1, "cd", 2, 2);
    check_segment(&segments, 2, "\xff\xff", 4, 2);
    check_segment(&segments, 3, "e", 6, 2);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(segments.segment[i].is_complete);
    scan_segments_deinit(&segments.scan);
}

static void segments_outside_of_the_part_are_left_out_if_asked(void **state)
{
    (void)state;
    struct segments segments = {0};
    struct scan_layout layout = whole;
    layout.part = (struct image_rect){3, 1, 1, 1};
    assert_int_equal(read_scan(&segments, &layout, scan, sizeof scan - 1), 0);
    assert_int_equal(segments.count, 4);
    layout.skip = true;
    assert_int_equal(read_scan(&segments, &layout, scan, sizeof scan - 1), 0);
    assert_int_equal(segments.count, 1);
    check_segment(&segments, 0, "e", 6, 2);
    layout.part = (struct image_rect){0, 0, 1, 1}; /* what follows is not even read */
    assert_int_equal(read_scan(&segments, &layout, scan, 10), 0);
    assert_int_equal(segments.count, 1);
    scan_segments_deinit(&segments.scan);
}

static void a_scan_without_restarts_is_one_segment_of_the_needed_rows(void **state)
{
    (void)state;
    struct segments segments = {0};
    struct scan_layout layout = {.columns = 4, .rows = 9, .part = {1, 2, 2, 3}};
    assert_int_equal(read_scan(&segments, &layout, "abc\xff\xd9", 5), 0);
    assert_int_equal(segments.count, 1);
    check_segment(&segments, 0, "abc", 0, 4 * 5);
    assert_false(segments.segment[0].is_complete);
    scan_segments_deinit(&segments.scan);
}

static void unusual_markers_are_refused(void **state)
{
    (void)state;
    struct segments segments = {0};
    char copy[sizeof scan];
    static const struct {
        size_t at;
        char value;
    } changes[] = {{5, '\xd1'}, {5, '\xd9'}, {9, '\xd2'}, {15, '\xff'}, {18, '\xd3'}, {18, '\xff'}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        memcpy(copy, scan, sizeof scan);
        assert_int_not_equal(copy[changes[i].at], changes[i].value);
        copy[changes[i].at] = changes[i].value;
        assert_int_equal(read_scan(&segments, &whole, copy, sizeof scan - 1), -ENOTSUP);
    }
    for (size_t bytes = 0; bytes < sizeof scan - 1; bytes++)
        assert_int_equal(read_scan(&segments, &whole, scan, bytes), -ENOTSUP);
    struct scan_layout many = {
        .columns = 60000, .rows = 60000, .restart_interval = 1, .part = {0, 0, 60000, 60000}};
    assert_int_equal(read_scan(&segments, &many, scan, sizeof scan - 1), -ENOTSUP);
    scan_segments_deinit(&segments.scan);
}

static void more_segments_than_are_read_ahead_are_in_order(void **state)
{
    (void)state;
    struct segments segments = {0};
    struct scan_layout layout = {.rows = 1, .restart_interval = 1};
    char data[3 * SEGMENTS_MAX];
    for (uint32_t i = 0; i < SEGMENTS_MAX; i++) {
        data[3 * i] = (char)i;
        data[3 * i + 1] = '\xff';
        data[3 * i + 2] = (char)(0xd0 + i % 8);
    }
    for (uint32_t count = SCAN_SEGMENTS_AHEAD - 1; count <= SEGMENTS_MAX; count++) {
        char restart = data[3 * count - 1];
        layout.columns = layout.part.width = count;
        layout.part.height = 1;
        assert_int_equal(read_scan(&segments, &layout, data, 3 * (size_t)count), -ENOTSUP);
        data[3 * count - 1] = '\xd9';
        assert_int_equal(read_scan(&segments, &layout, data, 3 * (size_t)count), 0);
        data[3 * count - 1] = restart;
        assert_int_equal(segments.count, count);
        for (uint32_t i = 1; i < count; i++)
            check_segment(&segments, i, (char[]){(char)i, 0}, i, 1);
    }
    scan_segments_deinit(&segments.scan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_unstuffed),
        cmocka_unit_test(segments_outside_of_the_part_are_left_out_if_asked),
        cmocka_unit_test(a_scan_without_restarts_is_one_segment_of_the_needed_rows),
        cmocka_unit_test(unusual_markers_are_refused),
        cmocka_unit_test(more_segments_than_are_read_ahead_are_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
