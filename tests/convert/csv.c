/*
 * csv: rows and cells of comma- and tab-separated values, also compared with Python's csv module.
 */
#include "convert/source/csv.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Formats rows as [a][b]|[c]; the input must be valid. */
static const char *format_rows(const char *text, char delimiter)
{
    static char formatted[1024];
    struct csv_row row = {0};
    struct csv_span span;
    struct err err = {0};
    size_t bytes = strlen(text), cell_bytes;
    formatted[0] = '\0';
    for (size_t at = 0; csv_find_row(text + at, bytes - at, delimiter, true, &span);
         at += span.next) {
        if (at > 0)
            strcat(formatted, "|");
        assert_ok(csv_parse_row(text + at, span.bytes, delimiter, &row, &err), &err);
        for (size_t i = 0; i < csv_cells_count(&row); i++)
            sprintf(formatted + strlen(formatted), "[%s]", csv_cell_text(&row, i, &cell_bytes));
    }
    csv_row_deinit(&row);
    return formatted;
}

static void quotes_enclose_delimiters_line_ends_and_doubled_quotes(void **state)
{
    (void)state;
    assert_string_equal(format_rows("a,b\nc,d", ','), "[a][b]|[c][d]");
    assert_string_equal(format_rows("\"a,\"\"b\"\"\",\"x\r\ny\"\r\n,\r\n", ','),
                        "[a,\"b\"][x\r\ny]|[][]");
    assert_string_equal(format_rows("\"\",\"\"\"\"\n", ','), "[][\"]");
    assert_string_equal(format_rows("5\" nail\ta\"\"b\n\"x\ty\"\tz\n", '\t'),
                        "[5\" nail][a\"\"b]|[x\ty][z]");
    assert_string_equal(format_rows("a\n\nb\n", ','), "[a]|[]|[b]");
}

static void lines_are_counted_within_quotes(void **state)
{
    (void)state;
    struct csv_span span;
    const char *text = "a,\"1\n2\n\"\nb";
    assert_true(csv_find_row(text, strlen(text), ',', false, &span));
    assert_int_equal(span.bytes, 8);
    assert_int_equal(span.next, 9);
    assert_int_equal(span.lines, 3);
}

static void an_incomplete_row_needs_more_text(void **state)
{
    (void)state;
    struct csv_span span;
    assert_false(csv_find_row("a,b", 3, ',', false, &span));
    assert_false(csv_find_row("a,\"b\n", 5, ',', false, &span));
    assert_false(csv_find_row("", 0, ',', true, &span));
    assert_true(csv_find_row("a,b", 3, ',', true, &span));
    assert_int_equal(span.lines, 0);
}

static void invalid_rows_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what, *found;
    } cases[] = {
        {"a,\"b", "a quoted value is not closed", "it in column 2"},
        {"\"a\"b,c", "text follows the quote that closes a value", "it in column 1"},
        {"a,b\rc", "a carriage return does not end a line", "it in column 2"},
    };
    struct csv_row row = {0};
    struct err err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(csv_parse_row(cases[i].text, strlen(cases[i].text), ',', &row, &err),
                         -EBADMSG);
        assert_string_equal(err.what, cases[i].what);
        assert_string_equal(err.found, cases[i].found);
    }
    assert_int_equal(csv_parse_row("a\0b", 3, ',', &row, &err), -EBADMSG);
    csv_row_deinit(&row);
}

/* Random tables, written by Python with random quoting and line ends. Then one line per cell, in
 * hexadecimal, and an empty line per row. */
static const char generate[] =
    "import csv, random, sys\n"
    "seed, delimiter, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]\n"
    "r = random.Random(seed)\n"
    "parts = ['a', 'bc', ' ', ',', '\\t', '\"', '\"\"', '\\n', '\\r\\n', '7', '007', '\\u00e9', "
    "'\\U0001f600', '']\n"
    "rows = [[''.join(r.choices(parts, k=r.randrange(6))) for _ in range(r.randrange(2, 6))] for _ "
    "in range(300)]\n"
    "with open(folder + '/table', 'w', newline='', encoding='utf-8') as f:\n"
    "    for row in rows:\n"
    "        w = csv.writer(f, delimiter=delimiter, quoting=r.choice([csv.QUOTE_ALL, "
    "csv.QUOTE_MINIMAL]), lineterminator=r.choice(['\\n', '\\r\\n']))\n"
    "        w.writerow(row)\n"
    "with open(folder + '/table', newline='', encoding='utf-8') as f, open(folder + '/expected', "
    "'w') as out:\n"
    "    for row in csv.reader(f, delimiter=delimiter):\n"
    "        for cell in row: out.write(':' + cell.encode().hex() + '\\n')\n"
    "        out.write('\\n')\n";

static void write_rows(const char *text, size_t bytes, char delimiter, const char *path)
{
    struct str out = {0};
    struct csv_row row = {0};
    struct csv_span span;
    struct err err = {0};
    size_t cell_bytes;
    for (size_t at = 0; csv_find_row(text + at, bytes - at, delimiter, true, &span);
         at += span.next) {
        assert_ok(csv_parse_row(text + at, span.bytes, delimiter, &row, &err), &err);
        for (size_t i = 0; i < csv_cells_count(&row); i++) {
            const char *cell = csv_cell_text(&row, i, &cell_bytes);
            str_add_text(&out, ":");
            for (size_t b = 0; b < cell_bytes; b++)
                str_add_format(&out, "%02x", (unsigned char)cell[b]);
            str_add_text(&out, "\n");
        }
        str_add_text(&out, "\n");
    }
    test_write_file(path, out.data, out.bytes);
    str_deinit(&out);
    csv_row_deinit(&row);
}

static void cells_equal_those_of_pythons_csv_module(void **state)
{
    (void)state;
    const char *python = test_need_python("csv");
    test_write_file(in_folder("generate.py"), generate, strlen(generate));
    for (int seed = 0; seed < 20; seed++) {
        char delimiter = seed % 2 ? ',' : '\t';
        size_t bytes;
        assert_int_equal(test_run("%s '%s' %d '%s' '%s'", python, in_folder("generate.py"), seed,
                                  seed % 2 ? "," : "\t", folder),
                         0);
        unsigned char *text = test_read_file(in_folder("table"), &bytes);
        write_rows((const char *)text, bytes, delimiter, in_folder("ours"));
        free(text);
        if (test_run("cmp '%s' '%s'", in_folder("ours"), in_folder("expected")) != 0)
            fail_msg("seed %d differs", seed);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(quotes_enclose_delimiters_line_ends_and_doubled_quotes),
        CASE(lines_are_counted_within_quotes),
        CASE(an_incomplete_row_needs_more_text),
        CASE(invalid_rows_are_refused),
        CASE(cells_equal_those_of_pythons_csv_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
