/*
 * columns — see columns.h.
 */
#include "convert/source/columns.h"

#include "base/json/jsonx_path.h"
#include "convert/source/file_names.h"
#include "image/pipeline/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[COLUMN_KINDS_COUNT + 1] = {
    [COLUMN_FILE] = "file", [COLUMN_IMAGE] = "image",   [COLUMN_TEXT] = "text",
    [COLUMN_INT] = "int",   [COLUMN_FLOAT] = "float",   [COLUMN_BOOL] = "bool",
    [COLUMN_JSON] = "json", [COLUMN_BASE64] = "base64", [COLUMN_CLASS] = "class",
    [COLUMN_KEY] = "key",
};

static int reject(const char *mapping, const char *expected, struct err *err)
{
    err_set(err, -EINVAL, "--column has an invalid value");
    err_expected(err, "%s", expected);
    err_found(err, "\"%.150s\"", mapping);
    err_advise(err,
               "for example: --column image=jpg --column caption=txt --column score=score:float"
               " --column label=:class --column id=:key");
    return -EINVAL;
}

/* The kind of a mapping that states none; -1: the field does not tell. */
static int default_kind(const char *field)
{
    static const char *const files[] = {"npy", "npz", "wav",  "flac", "mp3", "ogg", "opus",
                                        "m4a", "mp4", "webm", "avi",  "mov", "mkv", "jpeg",
                                        "bmp", "gif", "tif",  "tiff", "pdf", "bin", "pt"};
    const char *dot = strrchr(field, '.'), *ending = dot ? dot + 1 : field;
    if (strcmp(field, "txt") == 0)
        return COLUMN_TEXT;
    if (strcmp(field, "json") == 0)
        return COLUMN_JSON;
    if (strcmp(field, "cls") == 0)
        return COLUMN_CLASS;
    if (is_image_extension(field))
        return COLUMN_FILE;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(ending, files[i]) == 0)
            return COLUMN_FILE;
    return -1;
}

static int parse_kind(const char *mapping, const char *field, const char *text, struct err *err)
{
    int kind = 0;
    if (!text)
        kind = default_kind(field);
    else
        while (kind_names[kind] && strcmp(kind_names[kind], text) != 0)
            kind++;
    if (kind < 0)
        return reject(mapping,
                      "a kind after the field, for example :text, :int, :float, :bool, "
                      ":json, :file or :base64",
                      err);
    if (kind == COLUMN_KINDS_COUNT)
        return reject(mapping,
                      "a kind: file, image, text, int, float, bool, json, base64, class "
                      "or key",
                      err);
    return kind;
}

static bool field_is_valid(const char *field)
{
    for (const unsigned char *at = (const unsigned char *)field; *at; at++)
        if (*at <= 0x20 || *at == 0x7f || *at == '/' || (*at >= 'A' && *at <= 'Z'))
            return false;
    return field[0] != '.';
}

static int check_field(const char *mapping, const struct column *column, struct err *err)
{
    const char *field = column->field;
    size_t bytes = strlen(field);
    bool is_prefix = bytes > 0 && field[bytes - 1] == '.';
    if (!field_is_valid(field))
        return reject(mapping, "a field without capitals, spaces and slashes, such as jpg", err);
    if (column->kind == COLUMN_CLASS || column->kind == COLUMN_KEY)
        return bytes == 0 || (column->kind == COLUMN_CLASS && strcmp(field, "cls") == 0)
                   ? 0
                   : reject(mapping, "no field before :class or :key", err);
    if (!column_is_file(column) && (bytes == 0 || is_prefix))
        return reject(mapping, "a field, such as txt", err);
    if (column->kind == COLUMN_IMAGE && bytes > 0 && !is_prefix && !is_image_extension(field))
        return reject(mapping, "an image field: jpg, png, webp or ppm", err);
    return 0;
}

int columns_check_name(const char *name, struct err *err)
{
    if (name[0] != '$' && strcmp(name, "*") != 0 && strcmp(name, "#") != 0)
        return 0;
    err_set(err, -EINVAL, "a column's name has another meaning in --column");
    err_expected(err, "a name other than * and # that does not begin with $");
    err_found(err, "\"%.100s\"", name);
    err_advise(err, "rename the column");
    return -EINVAL;
}

static int check_name(const char *mapping, const struct column *column, struct err *err)
{
    const char *name = column->name;
    struct err ignored;
    if (name[0] == '$' && jsonx_path_check(name, &ignored))
        return reject(mapping, "a column, or a JSON path such as $.boxes[0].label", err);
    if (strcmp(name, "#") == 0 && column->kind != COLUMN_KEY)
        return reject(mapping, "#=:key: the row's number is only for keys", err);
    if (strcmp(name, "*") == 0 && column->kind != COLUMN_JSON)
        return reject(mapping, "*=json: all other columns together are JSON", err);
    return 0;
}

static int parse_mapping(const char *mapping, struct column *ret_column, struct err *err)
{
    struct column column = {.name = ""};
    const char *field = strrchr(mapping, '=');
    if (!field || field == mapping || (size_t)(field - mapping) >= sizeof column.name)
        return reject(mapping, "NAME=FIELD or NAME=FIELD:KIND", err);
    memcpy(column.name, mapping, (size_t)(field - mapping));
    field++;
    size_t bytes = strcspn(field, ":");
    if (bytes >= sizeof column.field)
        return reject(mapping, "a field of at most 47 bytes", err);
    memcpy(column.field, field, bytes);
    if (strcmp(column.field, "jpeg") == 0)
        strcpy(column.field, "jpg");
    int kind = parse_kind(mapping, column.field, field[bytes] ? field + bytes + 1 : NULL, err);
    if (kind < 0)
        return kind;
    column.kind = (enum column_kind)kind;
    int status = check_name(mapping, &column, err);
    if (!status)
        status = check_field(mapping, &column, err);
    if (column.kind == COLUMN_CLASS)
        column.field[0] = '\0';
    if (!status)
        *ret_column = column;
    return status;
}

static int check_repeated(const struct columns *columns, const char *mapping,
                          const struct column *column, struct err *err)
{
    for (uint32_t i = 0; i < columns->count; i++) {
        const struct column *other = &columns->items[i];
        bool is_class = column->kind == COLUMN_CLASS, is_key = column->kind == COLUMN_KEY;
        if ((is_class || is_key) && other->kind == column->kind)
            return reject(mapping, is_key ? "one key" : "one class", err);
        if ((column->field[0] && strcmp(other->field, column->field) == 0) ||
            (is_class && strcmp(other->field, "cls") == 0) ||
            (other->kind == COLUMN_CLASS && strcmp(column->field, "cls") == 0))
            return reject(mapping, "a field that no other column has", err);
        if (strcmp(column->name, "*") == 0 && strcmp(other->name, "*") == 0)
            return reject(mapping, "one mapping of *", err);
    }
    return 0;
}

static bool stores_something(const struct columns *columns)
{
    for (uint32_t i = 0; i < columns->count; i++)
        if (columns->items[i].kind != COLUMN_KEY)
            return true;
    return false;
}

int columns_parse(const struct convert_string_list *mappings, struct columns *ret_columns,
                  struct err *err)
{
    ret_columns->count = 0;
    for (size_t i = 0; i < mappings->count; i++) {
        struct column column;
        if (ret_columns->count == SHARD_FIELDS_MAX - 1)
            return reject(mappings->items[i], "at most 63 columns", err);
        int status = parse_mapping(mappings->items[i], &column, err);
        if (!status)
            status = check_repeated(ret_columns, mappings->items[i], &column, err);
        if (status)
            return status;
        ret_columns->items[ret_columns->count++] = column;
    }
    return mappings->count == 0 || stores_something(ret_columns)
               ? 0
               : reject(mappings->items[0], "also a column that becomes a field", err);
}

bool columns_have(const struct columns *columns, const char *name)
{
    for (uint32_t i = 0; i < columns->count; i++) {
        const char *mapped = columns->items[i].name;
        bool is_path = mapped[0] == '$';
        if (is_path ? strncmp(mapped, "$.", 2) == 0 && strcmp(mapped + 2, name) == 0
                    : strcmp(mapped, name) == 0)
            return true;
    }
    return false;
}

const struct column *columns_find(const struct columns *columns, enum column_kind kind)
{
    for (uint32_t i = 0; i < columns->count; i++)
        if (columns->items[i].kind == kind)
            return &columns->items[i];
    return NULL;
}

int columns_check(const struct columns *columns, const struct table_row *row, struct err *err)
{
    const struct csv_row *header = row->format->header;
    size_t bytes, count = header ? csv_cells_count(header) : 0;
    struct str names = {0};
    const char *missing = NULL;
    for (uint32_t i = 0; i < columns->count && header && !missing; i++) {
        const char *name = columns->items[i].name;
        bool is_found = strcmp(name, "*") == 0 || strcmp(name, "#") == 0;
        for (size_t cell = 0; cell < count && !is_found && name[0] != '$'; cell++)
            is_found = strcmp(csv_cell_text(header, cell, &bytes), name) == 0;
        missing = is_found ? NULL : name;
    }
    if (!missing)
        return 0;
    for (size_t cell = 0; cell < count && names.bytes < ERR_TEXT_BYTES_MAX; cell++)
        str_add_format(&names, "%s%s", cell > 0 ? ", " : "", csv_cell_text(header, cell, &bytes));
    err_set(err, -EINVAL, "the list has no column \"%.150s\"", missing);
    err_expected(err, "%s", str_text(&names));
    if (missing[0] == '$')
        err_advise(err, "JSON paths are for JSON Lines; name a column of the list");
    str_deinit(&names);
    return -EINVAL;
}

void columns_hash(const struct columns *columns, struct hash_stream *hash)
{
    for (uint32_t i = 0; i < columns->count; i++) {
        const struct column *column = &columns->items[i];
        hash_stream_update(hash, column->name, strlen(column->name) + 1);
        hash_stream_update(hash, column->field, strlen(column->field) + 1);
        hash_stream_update(hash, &column->kind, sizeof column->kind);
    }
}

struct description {
    const struct columns *columns;
    struct str *out;
    uint32_t others_count;
};

static int describe_other(void *context, const char *name, const struct table_value *value)
{
    struct description *description = context;
    (void)value;
    if (!columns_have(description->columns, name))
        str_add_format(description->out, "%s%s", description->others_count++ > 0 ? ", " : "", name);
    return 0;
}

static void describe_column(const struct column *column, struct str *out)
{
    size_t bytes = strlen(column->field);
    if (column->kind == COLUMN_CLASS || column->kind == COLUMN_KEY)
        str_add_format(out, "%s -> %s", column->name, kind_names[column->kind]);
    else if (bytes == 0 || column->field[bytes - 1] == '.')
        str_add_format(out, "%s -> %s%s (%s)", column->name, column->field,
                       bytes ? "EXT" : "its extension", kind_names[column->kind]);
    else
        str_add_format(out, "%s -> %s (%s)", column->name, column->field, kind_names[column->kind]);
}

void columns_describe(const struct columns *columns, const struct table_row *row, struct str *out)
{
    const struct column *rest = NULL;
    struct str others = {0};
    struct description description = {.columns = columns, .out = &others};
    const char *separator = "";
    for (uint32_t i = 0; i < columns->count; i++) {
        if (strcmp(columns->items[i].name, "*") == 0) {
            rest = &columns->items[i];
            continue;
        }
        str_add_text(out, separator);
        describe_column(&columns->items[i], out);
        separator = ", ";
    }
    table_row_each(row, describe_other, &description);
    if (rest && description.others_count > 0)
        str_add_format(out, "%sothers -> %s (json): %s", separator, rest->field, str_text(&others));
    else if (description.others_count > 0)
        str_add_format(out, "; left out: %s (--column '*=json' stores them)", str_text(&others));
    str_deinit(&others);
}
