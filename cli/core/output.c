#include "cli/core/output.h"

#include "base/display.h"
#include "base/json/jsonx.h"
#include "cli/core/console.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

enum { COLUMNS_MAX = 16, NAME_COLUMNS = 22 };

void output_begin(struct output *output)
{
    *output = (struct output){0};
    output->json.out = &output->text;
    jsonx_begin_object(&output->json, NULL);
}

void output_abort(struct output *output)
{
    str_deinit(&output->text);
}

/* Labels for keys that are not self-explanatory. */
static const struct {
    const char *key, *label;
} labels[] = {
    {"a_step", "per step"},
    {"because", "reason"},
    {"cuttable", "has tiles"},
    {"wanted_bytes", "used by samples"},
};

/* "mean_sample_bytes" -> "mean sample"; "read_bytes_per_second" -> "read per second";
 * "of_limit_fraction" -> "of limit" */
static void add_label(struct str *out, const char *key)
{
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++)
        if (strcmp(key, labels[i].key) == 0) {
            str_add_text(out, labels[i].label);
            return;
        }
    static const char *const units[] = {"_bytes", "_count", "_seconds", "_fraction"};
    static const char *const rates[] = {"_per_second", "_per_cpu_second"};
    size_t bytes = strlen(key);
    const char *rate = NULL;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        rate = str_ends_with(key, rates[i]) ? rates[i] : rate;
    if (rate)
        bytes -= strlen(rate);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t unit = strlen(units[i]);
        if (bytes > unit && memcmp(key + bytes - unit, units[i], unit) == 0) {
            bytes -= unit;
            break;
        }
    }
    struct str name = {0};
    for (size_t i = 0; i < bytes; i++)
        str_add(&name, key[i] == '_' ? " " : &key[i], 1);
    display_add(out, str_text(&name)); /* keys may be class names from a file */
    str_merge_status(out, &name);
    str_deinit(&name);
    for (const char *at = rate ? rate : ""; *at; at++)
        str_add(out, *at == '_' ? " " : at, 1);
}

/* exact: also adds the number of bytes */
static void add_number(struct str *out, const char *key, const struct json_t *value, bool exact)
{
    uint64_t whole = 0;
    int64_t integer;
    double real = 0;
    bool is_bytes = (strcmp(key, "bytes") == 0 || str_ends_with(key, "_bytes")) &&
                    jsonx_u64(value, &whole) == 0;
    jsonx_f64(value, &real);
    char size[STR_SIZE_BYTES];
    if (strcmp(key, "bytes_per_second") == 0 || str_ends_with(key, "_bytes_per_second") ||
        str_ends_with(key, "_bytes_per_cpu_second"))
        str_add_text(out, str_format_size((uint64_t)real, size));
    else if (str_ends_with(key, "_per_second") || str_ends_with(key, "_per_cpu_second"))
        str_add_format(out, real < 100 ? "%.1f" : "%.0f", real);
    else if (str_ends_with(key, "_seconds") && real > 0 && real < 1e-5)
        str_add_format(out, "%.3g us", real * 1e6);
    else if (str_ends_with(key, "_seconds") && real > 0 && real < 0.01)
        str_add_format(out, "%.3g ms", real * 1e3);
    else if (str_ends_with(key, "_share") || str_ends_with(key, "_fraction"))
        str_add_format(out, "%.1f%%", real * 100);
    else if (str_ends_with(key, "_seconds"))
        str_add_format(out, "%.2f s", real);
    else if (is_bytes && whole < 1024)
        str_add_format(out, "%" PRIu64 " bytes", whole);
    else if (is_bytes)
        str_add_format(out, exact ? "%s (%" PRIu64 ")" : "%s", str_format_size(whole, size), whole);
    else if (str_ends_with(key, "_per_gigabyte"))
        str_add_format(out, "%.3g", real);
    else if (jsonx_i64(value, &integer) == 0)
        str_add_format(out, "%" PRId64, integer);
    else
        str_add_format(out, "%.6g", real);
}

static void add_scalar(struct str *out, const char *key, const struct json_t *value, bool exact)
{
    const char *text;
    bool flag;
    if (jsonx_text(value, &text) == 0)
        display_add(out, text);
    else if (jsonx_bool(value, &flag) == 0)
        str_add_text(out, flag ? "yes" : "no");
    else if (jsonx_kind(value) == JSON_KIND_NULL)
        str_add_text(out, "-");
    else
        add_number(out, key, value, exact);
}

/* Adds to a cell: "val loss 1.2, val accuracy 0.5". */
static int add_entry_to_cell(void *context, const char *key, struct json_t *value)
{
    struct str *out = context;
    if (out->bytes > 0)
        str_add_text(out, ", ");
    add_label(out, key);
    str_add_text(out, " ");
    add_scalar(out, key, value, false);
    return 0;
}

static void add_object_cell(struct str *out, const struct json_t *object)
{
    struct str text = {0};
    jsonx_each((struct json_t *)object, add_entry_to_cell, &text);
    str_add_text(out, text.bytes ? str_text(&text) : "-");
    str_merge_status(out, &text);
    str_deinit(&text);
}

static void add_cell(struct str *out, const char *key, const struct json_t *value, bool exact)
{
    if (jsonx_kind(value) == JSON_KIND_OBJECT) {
        add_object_cell(out, value);
        return;
    }
    if (jsonx_kind(value) != JSON_KIND_ARRAY) {
        add_scalar(out, key, value, exact);
        return;
    }
    size_t count = jsonx_count(value);
    bool are_numbers = count == 0 || jsonx_kind(jsonx_at(value, 0)) == JSON_KIND_INT;
    str_add_text(out, are_numbers ? "[" : "");
    for (size_t i = 0; i < count; i++) {
        str_add_text(out, i ? ", " : "");
        add_scalar(out, key, jsonx_at(value, i), exact);
    }
    str_add_text(out, are_numbers ? "]" : "");
}

/* Adds text starting at column `at`, wrapped to `columns`. */
static void add_wrapped(struct str *out, const char *text, size_t at, unsigned columns)
{
    const size_t indent = at;
    for (bool is_first = true; *text; is_first = false) {
        size_t bytes = strcspn(text, " ");
        struct str word = {0};
        str_add(&word, text, bytes);
        size_t width = display_columns(str_text(&word));
        bool must_break = !is_first && at + 1 + width >= columns;
        str_merge_status(out, &word);
        str_deinit(&word);
        if (must_break) {
            str_add_text(out, "\n");
            str_add_fill(out, ' ', indent);
            at = indent;
        } else if (!is_first) {
            str_add_text(out, " ");
            at++;
        }
        str_add(out, text, bytes);
        at += width;
        text += bytes + (text[bytes] == ' ');
    }
}

struct table {
    struct str *out;
    const char *columns[COLUMNS_MAX];
    size_t widths[COLUMNS_MAX];
    size_t count;
    size_t column; /* of the current cell */
    unsigned indent;
    bool is_measuring;
};

static int add_column(void *context, const char *key, struct json_t *value)
{
    (void)value;
    struct table *table = context;
    if (table->count < COLUMNS_MAX)
        table->columns[table->count++] = key;
    return 0;
}

static void add_table_cell(struct table *table, const char *text, bool is_last)
{
    size_t columns = display_columns(text), *width = &table->widths[table->column++];
    if (table->is_measuring) {
        *width = columns > *width ? columns : *width;
        return;
    }
    str_add_text(table->out, text);
    if (!is_last)
        str_add_fill(table->out, ' ', *width - columns + 2);
}

static void add_table_line(struct table *table, const struct json_t *row)
{
    struct str text = {0};
    table->column = 0;
    if (!table->is_measuring)
        str_add_fill(table->out, ' ', table->indent);
    for (size_t c = 0; c < table->count; c++) {
        str_clear(&text);
        if (row)
            add_cell(&text, table->columns[c], jsonx_get(row, table->columns[c]), false);
        else
            add_label(&text, table->columns[c]);
        add_table_cell(table, str_text(&text), c + 1 == table->count);
    }
    if (!table->is_measuring)
        str_add_text(table->out, "\n");
    str_merge_status(table->out, &text);
    str_deinit(&text);
}

static void add_table_lines(struct table *table, const struct json_t *rows)
{
    add_table_line(table, NULL);
    for (size_t i = 0; i < jsonx_count(rows); i++)
        add_table_line(table, jsonx_at(rows, i));
}

struct layout {
    struct str *out;
    unsigned indent, columns;
    size_t value_column;
};

static bool is_table(const struct json_t *value)
{
    return jsonx_kind(value) == JSON_KIND_ARRAY &&
           jsonx_kind(jsonx_at(value, 0)) == JSON_KIND_OBJECT;
}

static bool is_block(const struct json_t *value)
{
    return jsonx_kind(value) == JSON_KIND_OBJECT && jsonx_count(value) > 0;
}

static int measure_label(void *context, const char *key, struct json_t *value)
{
    struct layout *layout = context;
    struct str name = {0};
    if (is_table(value) || is_block(value))
        return 0;
    add_label(&name, key);
    size_t needed_column = layout->indent + display_columns(str_text(&name)) + 2;
    layout->value_column =
        needed_column > layout->value_column ? needed_column : layout->value_column;
    str_deinit(&name);
    return 0;
}

static int add_entry(void *context, const char *key, struct json_t *value);

static void add_object(struct str *out, unsigned indent, unsigned columns, struct json_t *object)
{
    struct layout layout = {out, indent, columns, NAME_COLUMNS};
    jsonx_each(object, measure_label, &layout);
    jsonx_each(object, add_entry, &layout);
}

/* Adds a table that is too wide row by row. */
static void add_table(struct str *out, unsigned indent, unsigned columns, struct json_t *rows)
{
    struct table table = {.out = out, .indent = indent, .is_measuring = true};
    size_t width = indent;
    jsonx_each(jsonx_at(rows, 0), add_column, &table);
    add_table_lines(&table, rows);
    for (size_t c = 0; c < table.count; c++)
        width += table.widths[c] + (c + 1 < table.count ? 2 : 0);
    table.is_measuring = false;
    if (width < columns)
        add_table_lines(&table, rows);
    for (size_t i = 0; i < jsonx_count(rows) && width >= columns; i++) {
        str_add_text(out, i ? "\n" : "");
        add_object(out, indent, columns, jsonx_at(rows, i));
    }
}

static int add_entry(void *context, const char *key, struct json_t *value)
{
    struct layout *layout = context;
    enum { INDENT = 2 };
    struct str name = {0};
    add_label(&name, key);
    size_t at = layout->indent + display_columns(str_text(&name));
    str_add_fill(layout->out, ' ', layout->indent);
    str_add_text(layout->out, str_text(&name));
    str_merge_status(layout->out, &name);
    str_deinit(&name);
    if (is_table(value) || is_block(value))
        str_add_text(layout->out, "\n");
    if (is_table(value)) {
        add_table(layout->out, layout->indent + INDENT, layout->columns, value);
        return 0;
    }
    if (is_block(value)) {
        add_object(layout->out, layout->indent + INDENT, layout->columns, value);
        return 0;
    }
    str_add_fill(layout->out, ' ', layout->value_column - at);
    struct str cell = {0};
    add_cell(&cell, key, value, true);
    add_wrapped(layout->out, str_text(&cell), layout->value_column, layout->columns);
    str_add_text(layout->out, "\n");
    str_merge_status(layout->out, &cell);
    str_deinit(&cell);
    return 0;
}

static int print_text(const struct str *document, FILE *stream, struct err *err)
{
    struct json_t *root = NULL;
    struct str text = {0};
    int status = jsonx_parse(document->data, document->bytes, "result", 0, &root, err);
    if (!status) {
        add_object(&text, 0, console_columns(fileno(stream), UINT_MAX), root);
        status = str_status(&text);
    }
    if (!status)
        fputs(str_text(&text), stream);
    jsonx_free(root);
    str_deinit(&text);
    return status;
}

int output_end(struct output *output, bool as_json, FILE *stream, struct err *err)
{
    jsonx_end_object(&output->json);
    int status = str_status(&output->text);
    if (status)
        err_set(err, status, "out of memory for the result");
    else if (as_json)
        fprintf(stream, "%s\n", str_text(&output->text));
    else
        status = print_text(&output->text, stream, err);
    output_abort(output);
    return status;
}

int output_end_report(struct output *output, bool as_json, bool quiet, struct err *err)
{
    if (as_json || !quiet)
        return output_end(output, as_json, stdout, err);
    output_abort(output);
    return 0;
}

int output_flush(struct err *err)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    int code = errno ? -errno : -EIO;
    err_errno(err, code, "cannot write to stdout");
    return code;
}
