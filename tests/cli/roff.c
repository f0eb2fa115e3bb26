/*
 * roff — groff prints the text of a manual page unchanged.
 */
#include "cli/help/roff.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

static const char *const special_texts[] = {
    ".TH begins no title",
    "'quoted' from the start",
    "a \\fBbackslash\\fR and \\n and \\",
    "--long-option=-1 ~/.cache ^caret `tick",
    "\"double\" quotes $HOME $(id) !bang * ? [a-z] {x,y}",
    "ends with a colon: [and] (all) : that; is & special | < > #",
};

/* Runs the command with the text in a file `text` and stores its output. */
static void filter_text(const char *command, const char *text, char *ret, size_t bytes)
{
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 8],
        line[TEST_PATH_BYTES_MAX + 128];
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/text", folder);
    test_write_file(path, text, strlen(text));
    snprintf(line, sizeof line, "cd %s && %s", folder, command);
    assert_int_equal(test_run_output(ret, bytes, "%s", line), 0);
    test_remove_folder(folder);
}

static void a_page_prints_text_verbatim(void **state)
{
    (void)state;
    if (test_run("command -v groff >/dev/null") != 0)
        test_skip("groff is not installed");
    for (size_t i = 0; i < sizeof special_texts / sizeof special_texts[0]; i++) {
        struct str page = {0};
        char rendered[4096];
        roff_begin(&page, "TEST", 1);
        roff_section(&page, "NASTY");
        roff_literal(&page, special_texts[i]);
        filter_text("groff -man -Tascii -P-c text | col -bx", str_text(&page), rendered,
                    sizeof rendered);
        if (!strstr(rendered, special_texts[i]))
            fail_msg("\"%s\" came out as:\n%s", special_texts[i], rendered);
        str_deinit(&page);
    }
}

static void prose_has_paragraphs_tables_and_bold(void **state)
{
    (void)state;
    struct str page = {0};
    roff_prose(&page, "One `word` and ` alone.\n  a  table\n  b  row\n.Two");
    assert_string_equal(str_text(&page),
                        "One \\fBword\\fR and \\(ga alone.\n.PP\n.EX\n  a  table\n  b  row\n"
                        ".EE\n.PP\n\\&.Two\n");
    str_deinit(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_prints_text_verbatim),
        cmocka_unit_test(prose_has_paragraphs_tables_and_bold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
