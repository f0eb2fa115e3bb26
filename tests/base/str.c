/*
 * str — growing text, sizes, durations, nearest words; also the small modules err, log, clock,
 * dtype, bytes and utf8.
 */
#include "base/str.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/err.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

static void text_grows_as_it_is_appended_to(void **state)
{
    (void)state;
    struct str text = {0};
    assert_string_equal(str_text(&text), "");
    for (int i = 0; i < 1000; i++)
        str_add_format(&text, "%d,", i);
    str_add_fill(&text, '=', 3);
    str_add(&text, "a\0b", 3);
    str_add(&text, NULL, 0);
    assert_int_equal(str_status(&text), 0);
    assert_int_equal(text.bytes, 10 * 2 + 90 * 3 + 900 * 4 + 6);
    assert_memory_equal(text.data + text.bytes - 8, "9,===a\0b", 9);
    str_clear(&text);
    assert_string_equal(str_text(&text), "");
    str_add_text(&text, "again");
    assert_string_equal(str_text(&text), "again");
    str_deinit(&text);
    assert_null(text.data);
}

static void a_failed_allocation_is_remembered(void **state)
{
    (void)state;
    struct str text = {0}, whole = {0};
    str_add_text(&text, "x");
    str_merge_status(&whole, &text);
    assert_int_equal(str_status(&whole), 0);
    assert_int_equal(str_reserve(&text, SIZE_MAX / 2), -ENOMEM);
    str_add_text(&text, "y");
    assert_int_equal(str_status(&text), -ENOMEM);
    assert_string_equal(str_text(&text), "x");
    str_clear(&text); /* the failure persists, so that one of many texts is not lost silently */
    str_add_text(&text, "z");
    assert_string_equal(str_text(&text), "");
    assert_int_equal(str_status(&text), -ENOMEM);
    str_merge_status(&whole, &text);
    assert_int_equal(str_status(&whole), -ENOMEM);
    str_deinit(&text);
    str_add_text(&text, "again");
    assert_string_equal(str_text(&text), "again");
    str_deinit(&text);
}

static void endings_are_compared_with_and_without_case(void **state)
{
    (void)state;
    assert_true(str_ends_with("a.json", ".json"));
    assert_true(str_ends_with(".json", ".json"));
    assert_true(str_ends_with("x", ""));
    assert_false(str_ends_with("json", ".json"));
    assert_false(str_ends_with("a.JSON", ".json"));
    assert_true(str_ends_with_nocase("a.JSON", ".json"));
    assert_false(str_ends_with_nocase("", ".json"));
}

static void only_well_formed_utf8_is_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        uint32_t code;
    } cases[] = {
        {"a", 1, 'a'},
        {"\xc2\x80", 2, 0x80},
        {"\xdf\xbf", 2, 0x7ff},
        {"\xe0\xa0\x80", 3, 0x800},
        {"\xed\x9f\xbf", 3, 0xd7ff},
        {"\xee\x80\x80", 3, 0xe000},
        {"\xf0\x90\x80\x80", 4, 0x10000},
        {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
        {"\x80", 0, 0},             /* a continuation byte */
        {"\xc1\xbf", 0, 0},         /* too long for its code point */
        {"\xe0\x9f\xbf", 0, 0},     /* likewise */
        {"\xf0\x8f\xbf\xbf", 0, 0}, /* likewise */
        {"\xed\xa0\x80", 0, 0},     /* a surrogate */
        {"\xf4\x90\x80\x80", 0, 0}, /* above U+10FFFF */
        {"\xe2\x82", 0, 0},         /* cut short */
        {"\xe2\x82x", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t code = 0;
        const unsigned char *text = (const unsigned char *)cases[i].text;
        assert_int_equal(utf8_decode(text, strlen(cases[i].text), &code), cases[i].length);
        assert_int_equal(code, cases[i].code);
    }
}

static void sizes_are_parsed_with_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        uint64_t bytes;
    } cases[] = {
        {"0", 0, 0},
        {"8388608", 0, 8388608},
        {"8MiB", 0, 8388608},
        {"8 MiB", 0, 8388608},
        {"8mib", 0, 8388608},
        {"1.5GiB", 0, 1610612736},
        {"3GB", 0, 3000000000},
        {"64k", 0, 65536},
        {"2TiB", 0, UINT64_C(1) << 41},
        {"1e3", 0, 1000},
        {"9007199254740993", 0, UINT64_C(9007199254740993)}, /* not exact as a double */
        {"18446744073709551615", 0, UINT64_MAX},
        {".5k", 0, 512},
        {"20000000000GiB", -ERANGE, 0},
        {"18446744073709551616", -ERANGE, 0},
        {"16777216TiB", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1x", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
        {"inf", -EINVAL, 0},
        {"nan", -EINVAL, 0},
        {".", -EINVAL, 0},
        {"1.2.3", -EINVAL, 0},
        {"MiB", -EINVAL, 0},
        {"1MiBs", -EINVAL, 0},
        {"1s", -EINVAL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 77;
        int status = str_parse_size(cases[i].text, &bytes);
        if (status != cases[i].status || bytes != (status ? 77 : cases[i].bytes))
            fail_msg("\"%s\" gave %d, %llu", cases[i].text, status, (unsigned long long)bytes);
    }
}

static void durations_are_parsed_with_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        uint64_t ns;
    } cases[] = {
        {"90s", 0, 90 * CLOCK_NS_PER_S},
        {"10min", 0, 600 * CLOCK_NS_PER_S},
        {"10m", 0, 600 * CLOCK_NS_PER_S},
        {"23h", 0, 23 * 3600 * CLOCK_NS_PER_S},
        {"2d", 0, 2 * 86400 * CLOCK_NS_PER_S},
        {"250ms", 0, 250000000},
        {"1.5h", 0, 5400 * CLOCK_NS_PER_S},
        {"10", -EINVAL, 0}, /* no unit */
        {"10 MiB", -EINVAL, 0},
        {"999999999d", -ERANGE, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t ns = 77;
        int status = str_parse_duration(cases[i].text, &ns);
        if (status != cases[i].status || ns != (status ? 77 : cases[i].ns))
            fail_msg("\"%s\" gave %d, %llu", cases[i].text, status, (unsigned long long)ns);
    }
}

static void sizes_are_formatted_for_people(void **state)
{
    (void)state;
    char text[STR_SIZE_BYTES];
    assert_string_equal(str_format_size(0, text), "0 B");
    assert_string_equal(str_format_size(1023, text), "1023 B");
    assert_string_equal(str_format_size(28774, text), "28.1 KiB");
    assert_string_equal(str_format_size(UINT64_C(3) << 29, text), "1.5 GiB");
    assert_string_equal(str_format_size(UINT64_MAX, text), "16.0 EiB");
}

static void a_mistyped_word_finds_the_nearest_one(void **state)
{
    (void)state;
    static const char *const verbs[] = {"convert", "index", "inspect", "verify",
                                        "read",    "train", "eval",    "ckpt"};
    size_t count = sizeof verbs / sizeof verbs[0];
    assert_string_equal(str_nearest("trian", verbs, count), "train");
    assert_string_equal(str_nearest("tran", verbs, count), "train");
    assert_string_equal(str_nearest("convrt", verbs, count), "convert");
    assert_string_equal(str_nearest("inspekt", verbs, count), "inspect");
    assert_string_equal(str_nearest("index", verbs, count), "index");
    assert_null(str_nearest("banana", verbs, count));
    assert_null(str_nearest("x", verbs, 0));
    char long_word[100];
    memset(long_word, 'a', 99);
    long_word[99] = '\0';
    assert_null(str_nearest(long_word, verbs, count));
}

static void an_error_is_one_line_with_advice(void **state)
{
    (void)state;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    assert_int_equal(err_set(&err, -EBADMSG, "the %s is wrong", "magic"), -EBADMSG);
    assert_string_equal(err_format(&err, line, sizeof line), "the magic is wrong");
    err_at(&err, "a.tar", 512);
    err_expected(&err, "%d", 1);
    err_found(&err, "%d", 2);
    err_advise(&err, "run %s", "index");
    assert_int_equal(err.code, -EBADMSG); /* adding details keeps the code */
    assert_string_equal(err_format(&err, line, sizeof line),
                        "the magic is wrong: a.tar at 512: expected 1, found 2; run index");
    err_errno(&err, -ENOENT, "could not open");
    err_at(&err, "b", ERR_NO_OFFSET);
    assert_string_equal(err_format(&err, line, sizeof line),
                        "could not open: No such file or directory: b");
    assert_int_equal(err_set(NULL, -EIO, "no detail is wanted"), -EIO);
    err_at(NULL, "x", 0);
    err_found(NULL, "x");
}

static void long_error_texts_are_truncated(void **state)
{
    (void)state;
    struct err err = {0};
    char text[4000], line[100];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    err_errno(&err, -ENOSPC, "%s", text);
    assert_non_null(strstr(err.what, "No space left"));
    err_at(&err, text, 0);
    err_found(&err, "%s", text);
    assert_int_equal(strlen(err.path), ERR_PATH_BYTES_MAX - 1);
    assert_int_equal(strlen(err_format(&err, line, sizeof line)), sizeof line - 1);
}

static void error_lines_escape_control_characters_and_invalid_utf8(void **state)
{
    (void)state;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX], cut[32];
    err_set(&err, -EBADMSG, "gr\xc3\xbc\xc3\x9f dich");
    err_at(&err, "a\nb\x1b[2J\xff", 7);
    err_expected(&err, "\xf0\x9f\x98\x80");
    err_found(&err, "\xc2\x9b\x33m \x7f\t\xe2\x82 a\\b");
    assert_string_equal(
        err_format(&err, line, sizeof line),
        "gr\xc3\xbc\xc3\x9f dich: a\\x0ab\\x1b[2J\\xff at 7: expected \xf0\x9f\x98\x80, "
        "found \\xc2\\x9b3m \\x7f\\x09\\xe2\\x82 a\\b");
    assert_string_equal(err.path,
                        "a\nb\x1b[2J\xff"); /* unescaped, so that the file can be opened */
    assert_string_equal(err_format(&err, cut, sizeof "gr\xc3"), "gr");
    /* an escape is never cut */
    assert_string_equal(err_format(&err, cut, sizeof "gr\xc3\xbc\xc3\x9f dich: a\\x0"),
                        "gr\xc3\xbc\xc3\x9f dich: a");
    assert_string_equal(err_format(&err, cut, 1), "");
}

static void keep_line(void *context, enum log_level level, const char *line)
{
    snprintf(context, 100, "%d %s", (int)level, line);
}

static void log_lines_below_the_minimum_level_are_dropped(void **state)
{
    (void)state;
    char seen[100] = "";
    struct log log = {.write = keep_line, .context = seen, .level_min = LOG_INFO};
    log_line(&log, LOG_DEBUG, "no");
    assert_string_equal(seen, "");
    log_line(&log, LOG_WARN, "yes %d", 1);
    assert_string_equal(seen, "2 yes 1");
    log_line(NULL, LOG_ERROR, "nobody listens");
}

static void clocks_run_and_dates_are_utc(void **state)
{
    (void)state;
    char text[CLOCK_ISO_BYTES];
    uint64_t before = clock_now_ns();
    assert_true(clock_now_ns() >= before && before > 0);
    assert_string_equal(clock_format_iso(1795419188 * CLOCK_NS_PER_S, text),
                        "2026-11-23T07:33:08Z");
    assert_true(clock_wall_ns() > 1700000000 * CLOCK_NS_PER_S);
}

static void dtypes_round_trip_through_their_names(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype back;
        assert_true(dtype_from_name(dtype_name((enum dtype)i), &back) && (int)back == i);
        assert_in_range(dtype_bytes((enum dtype)i), 1, 8);
    }
    enum dtype unchanged = DTYPE_F32;
    assert_false(dtype_from_name("F99", &unchanged));
    assert_int_equal(dtype_bytes(DTYPE_BF16), 2);
    assert_int_equal(dtype_bytes(DTYPE_F8_E4M3), 1);
    assert_int_equal(dtype_bytes(DTYPE_F64), 8);
}

static void integers_are_stored_little_endian(void **state)
{
    (void)state;
    unsigned char bytes[9] = {0};
    bytes_put_u64(bytes + 1, UINT64_C(0x0807060504030201));
    assert_memory_equal(bytes, "\0\1\2\3\4\5\6\7\10", 9);
    assert_true(bytes_get_u64(bytes + 1) == UINT64_C(0x0807060504030201));
    assert_int_equal(bytes_get_u32(bytes + 1), 0x04030201);
    assert_int_equal(bytes_get_u16(bytes + 1), 0x0201);
    assert_int_equal(bytes_round_up(0, 512), 0);
    assert_int_equal(bytes_round_up(1, 512), 512);
    assert_int_equal(bytes_round_up(512, 512), 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows_as_it_is_appended_to),
        cmocka_unit_test(a_failed_allocation_is_remembered),
        cmocka_unit_test(endings_are_compared_with_and_without_case),
        cmocka_unit_test(only_well_formed_utf8_is_decoded),
        cmocka_unit_test(sizes_are_parsed_with_units),
        cmocka_unit_test(durations_are_parsed_with_units),
        cmocka_unit_test(sizes_are_formatted_for_people),
        cmocka_unit_test(a_mistyped_word_finds_the_nearest_one),
        cmocka_unit_test(an_error_is_one_line_with_advice),
        cmocka_unit_test(long_error_texts_are_truncated),
        cmocka_unit_test(error_lines_escape_control_characters_and_invalid_utf8),
        cmocka_unit_test(log_lines_below_the_minimum_level_are_dropped),
        cmocka_unit_test(clocks_run_and_dates_are_utc),
        cmocka_unit_test(dtypes_round_trip_through_their_names),
        cmocka_unit_test(integers_are_stored_little_endian),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
