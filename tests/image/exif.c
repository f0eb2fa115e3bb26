/*
 * exif — tests the orientation in both byte orders, and segments with wrong lengths.
 */
#include "image/formats/exif.h"

#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t big[] = {
    'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
    0,   2,   1,   15,  0, 2, 0,   0,   0, 1,  0, 0, 0, 0, /* the camera maker */
    1,   18,  0,   3,   0, 0, 0,   1,   0, 6,  0, 0};
static const uint8_t little[] = {'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0,
                                 1,   0,   18,  1,   3, 0, 1,   0,   0,  0, 8, 0, 0, 0};

static uint32_t orientation_with_byte(const uint8_t *segment, size_t bytes, size_t at,
                                      uint8_t value)
{
    uint8_t *copy = malloc(bytes); /* exact size, so that a sanitizer detects overreads */
    assert_non_null(copy);
    memcpy(copy, segment, bytes);
    copy[at] = value;
    uint32_t orientation = exif_orientation(copy, bytes);
    free(copy);
    return orientation;
}

static void orientation_is_read_in_both_byte_orders(void **state)
{
    (void)state;
    assert_int_equal(exif_orientation(big, sizeof big), 6);
    assert_int_equal(exif_orientation(little, sizeof little), 8);
}

static void invalid_orientations_are_treated_as_upright(void **state)
{
    (void)state;
    assert_int_equal(orientation_with_byte(big, sizeof big, 37, 0), 1);
    assert_int_equal(orientation_with_byte(big, sizeof big, 37, 9), 1);
    assert_int_equal(orientation_with_byte(big, sizeof big, 37, 3), 3);
    assert_int_equal(orientation_with_byte(big, sizeof big, 31, 4), 1);  /* type LONG */
    assert_int_equal(orientation_with_byte(big, sizeof big, 35, 2), 1);  /* count 2 */
    assert_int_equal(orientation_with_byte(big, sizeof big, 9, 43), 1);  /* not TIFF */
    assert_int_equal(orientation_with_byte(big, sizeof big, 6, 'I'), 1); /* byte order "IM" */
    assert_int_equal(orientation_with_byte(big, sizeof big, 10, 0xff),
                     1); /* a directory offset out of range */
}

static void truncated_or_damaged_exif_is_read_within_its_segment(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes <= sizeof big; bytes++) {
        uint8_t *copy = malloc(bytes + !bytes);
        assert_non_null(copy);
        memcpy(copy, big, bytes);
        assert_int_equal(exif_orientation(copy, bytes), bytes == sizeof big ? 6 : 1);
        free(copy);
    }
    for (size_t at = 0; at < sizeof big; at++) {
        for (int value = 0; value < 256; value++) {
            uint32_t orientation = orientation_with_byte(big, sizeof big, at, (uint8_t)value);
            assert_in_range(orientation, 1, 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orientation_is_read_in_both_byte_orders),
        cmocka_unit_test(invalid_orientations_are_treated_as_upright),
        cmocka_unit_test(truncated_or_damaged_exif_is_read_within_its_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
