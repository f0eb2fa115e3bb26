/*
 * columns_choose — see columns.h.
 */
#include "convert/source/columns.h"
#include "convert/source/file_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CANDIDATES_MAX = 8 };

struct candidates {
    const char *names[CANDIDATES_MAX];
    uint32_t count; /* may exceed the maximum */
};

struct choice {
    const struct column_probe *probe;
    struct candidates files, missing_files, texts, classes;
};

bool column_name_is_text(const char *name)
{
    return name_is_one_of(name, (const char *const[]){"text", "caption", NULL});
}

bool column_name_is_class(const char *name)
{
    return name_is_one_of(name, (const char *const[]){"label", "class", "category", NULL});
}

static void add_candidate(struct candidates *candidates, const char *name)
{
    if (candidates->count < CANDIDATES_MAX)
        candidates->names[candidates->count] = name;
    candidates->count++;
}

/* Returns the part of x_file_name before the suffix; NULL: another name. */
static const char *file_name_prefix(const char *name, size_t *ret_bytes)
{
    static const char suffix[] = "_file_name";
    size_t bytes = strlen(name);
    if (bytes < sizeof suffix || strcmp(name + bytes - (sizeof suffix - 1), suffix) != 0)
        return NULL;
    *ret_bytes = bytes - (sizeof suffix - 1);
    return name;
}

static bool is_class_value(const struct table_value *value)
{
    if (value->node)
        return value->text || jsonx_kind(value->node) == JSON_KIND_INT;
    return value->bytes > 0 && !strpbrk(value->text, ".\n");
}

static int add_column(void *context, const char *name, const struct table_value *value)
{
    static const char *const file_names[] = {
        "file_name",  "filename",   "file",       "file_path",  "filepath",   "path",
        "image",      "img",        "image_path", "img_path",   "image_file", "audio",
        "audio_path", "audio_file", "video",      "video_path", NULL};
    struct choice *choice = context;
    size_t bytes;
    bool is_file_name = strcmp(name, "file_name") == 0 || file_name_prefix(name, &bytes);
    if (choice->probe->has_file_names
            ? is_file_name
            : value->text && choice->probe->is_file(choice->probe->context, value->text))
        add_candidate(&choice->files, name);
    else if (is_file_name || name_is_one_of(name, file_names))
        add_candidate(&choice->missing_files, name);
    else if (value->text && column_name_is_text(name))
        add_candidate(&choice->texts, name);
    else if (column_name_is_class(name) && is_class_value(value))
        add_candidate(&choice->classes, name);
    return 0;
}

static int advise_files(const struct candidates *files, const char *what, const char *advice_end,
                        struct err *err)
{
    struct str found = {0}, advice = {0};
    for (uint32_t i = 0; i < files->count && i < CANDIDATES_MAX; i++) {
        str_add_format(&found, "%s%.60s", i > 0 ? ", " : "", files->names[i]);
        if (i < 3)
            str_add_format(&advice, " --column '%.40s=%s%s:file'", files->names[i],
                           i > 0 ? files->names[i] : "", i > 0 ? "." : "");
    }
    err_set(err, -EINVAL, "%s", what);
    err_found(err, "%s", str_text(&found));
    err_advise(err, "map the columns, for example with%s%s", str_text(&advice), advice_end);
    str_deinit(&found);
    str_deinit(&advice);
    return -EINVAL;
}

static void add_mapping(struct columns *columns, const char *name, const char *field,
                        enum column_kind kind)
{
    struct column *column = &columns->items[columns->count++];
    *column = (struct column){.kind = kind};
    snprintf(column->name, sizeof column->name, "%s", name);
    snprintf(column->field, sizeof column->field, "%s", field);
}

/* The other files of file_name's sample: x_file_name becomes field x.EXT. */
static bool add_prefixed_file(struct columns *columns, const char *name)
{
    char field[SHARD_EXTENSION_BYTES_MAX] = "";
    size_t bytes;
    const char *prefix = file_name_prefix(name, &bytes);
    if (!prefix || bytes + 1 >= sizeof field)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        char c = prefix[i];
        field[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        if ((unsigned char)c <= 0x20 || c == '/' || c == 0x7f || c == '.')
            return false;
    }
    field[bytes] = '.';
    add_mapping(columns, name, field, COLUMN_FILE);
    return true;
}

static int add_files(const struct candidates *files, struct columns *columns, struct err *err)
{
    const char *main_file = files->count == 1 ? files->names[0] : NULL;
    for (uint32_t i = 0; i < files->count && i < CANDIDATES_MAX; i++)
        if (strcmp(files->names[i], "file_name") == 0)
            main_file = files->names[i];
    bool is_clear = files->count <= CANDIDATES_MAX && (files->count == 0 || main_file);
    int status = 0;
    for (uint32_t i = 0; i < files->count && i < CANDIDATES_MAX && !status; i++)
        status = columns_check_name(files->names[i], err);
    if (status)
        return status;
    if (is_clear && main_file)
        add_mapping(columns, main_file, "", COLUMN_FILE);
    for (uint32_t i = 0; i < files->count && is_clear; i++)
        if (files->names[i] != main_file)
            is_clear = add_prefixed_file(columns, files->names[i]);
    return is_clear ? 0
                    : advise_files(files, "several columns hold paths of files",
                                   " --column '*=json'", err);
}

int columns_choose(const struct table_row *row, const struct column_probe *probe,
                   struct columns *ret_columns, struct err *err)
{
    struct choice choice = {.probe = probe};
    ret_columns->count = 0;
    table_row_each(row, add_column, &choice);
    if (probe->has_file_names && choice.files.count == 0) {
        err_set(err, -EINVAL, "the metadata has no column with the files' names");
        err_expected(err, "file_name, or a name that ends with _file_name");
        err_advise(err, "rename the column, or map it with --column NAME=:file");
        return -EINVAL;
    }
    if (choice.files.count == 0 && choice.missing_files.count > 0)
        return advise_files(&choice.missing_files,
                            "a column seems to hold paths, but its first one names no file",
                            " if paths relative to the list are right, or with --column NAME=txt "
                            "--column '*=json' if they are text",
                            err);
    int status = add_files(&choice.files, ret_columns, err);
    if (!status && choice.texts.count == 1)
        add_mapping(ret_columns, choice.texts.names[0], "txt", COLUMN_TEXT);
    if (!status && choice.classes.count == 1)
        add_mapping(ret_columns, choice.classes.names[0], "", COLUMN_CLASS);
    if (!status)
        add_mapping(ret_columns, "*", "json", COLUMN_JSON);
    return status;
}
