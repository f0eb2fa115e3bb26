/*
 * csv — fuzz target: rows of comma- and tab-separated values (convert/source/csv.h). Rows cover the
 * text, finding them does not depend on how much of the text is known, and cells lie within a row's
 * text.
 */
#include "convert/source/csv.h"
#include "tests/fuzz/fuzz.h"

static void check_row(const char *text, size_t bytes, char delimiter, struct csv_row *row)
{
    struct err err;
    size_t total = 0, cell_bytes;
    if (csv_parse_row(text, bytes, delimiter, row, &err))
        return;
    for (size_t i = 0; i < csv_cells_count(row); i++) {
        const char *cell = csv_cell_text(row, i, &cell_bytes);
        if (cell[cell_bytes] != '\0' || strlen(cell) != cell_bytes)
            abort();
        total += cell_bytes;
    }
    if (csv_cells_count(row) == 0 || total > bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *text = (const char *)data;
    struct csv_row row = {0};
    struct csv_span span, again;
    char delimiter = bytes % 2 ? ',' : '\t';
    for (size_t at = 0; at < bytes; at += span.next) {
        if (!csv_find_row(text + at, bytes - at, delimiter, true, &span) || span.next == 0 ||
            span.bytes > span.next || span.next > bytes - at)
            abort();
        if (csv_find_row(text + at, span.next, delimiter, false, &again) &&
            (again.next != span.next || again.lines != span.lines))
            abort();
        check_row(text + at, span.bytes, delimiter, &row);
    }
    csv_row_deinit(&row);
    return 0;
}
