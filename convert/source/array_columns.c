/*
 * array_columns — see array_table.h. Chooses how the columns of arrays are stored.
 */
#include "convert/source/array_table.h"
#include "convert/source/file_names.h"
#include "image/pipeline/check.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int reject(const struct array_column *column, const char *path, const char *what,
                  const char *expected, struct err *err)
{
    static const char *const forms[] = {
        [ARRAY_PICTURE] = "pictures", [ARRAY_BYTES] = "bytes", [ARRAY_JSON_TEXT] = "JSON"};
    struct str type = {0};
    if (column->form == ARRAY_NUMBERS)
        array_type_describe(&column->type, &type);
    else
        str_add_text(&type, forms[column->form]);
    err_set(err, -EINVAL, "column \"%.100s\" %s", column->name, what);
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "%s", expected);
    err_found(err, "rows of %s", str_text(&type));
    str_deinit(&type);
    return -EINVAL;
}

static bool has_image_name(const struct array_column *column)
{
    static const char *const names[] = {"image", "images", "img", "imgs", "x", NULL};
    return name_is_one_of(column->name, names);
}

static bool is_class_like(const struct array_column *column)
{
    static const char *const names[] = {"label",      "labels",      "class",   "classes",
                                        "category",   "target",      "targets", "y",
                                        "fine_label", "fine_labels", NULL};
    const struct array_type *type = &column->type;
    return name_is_one_of(column->name, names) && !column->is_elsewhere &&
           array_type_is_integer(type) &&
           (type->rank == 0 || (type->rank == 1 && type->shape[0] == 1));
}

/* Makes a column an image. */
static int set_image(struct array_column *column, const char *field, const char *path,
                     struct err *err)
{
    static const char expected[] = "rows of U8 [h, w], [h, w, 1], [h, w, 3] or [3, h, w]";
    enum array_image_result result = array_type_image(&column->type, &column->image);
    if (result == ARRAY_IS_IMAGE) {
        column->use = ARRAY_IMAGE;
        snprintf(column->field, sizeof column->field, "%s", field);
        return 0;
    }
    reject(column, path,
           result == ARRAY_NOT_IMAGE ? "is not of images" : "may have its channels first or last",
           result == ARRAY_NOT_IMAGE ? expected : "channels last: [h, w, 1] or [h, w, 3]", err);
    err_advise(err, "save it as such, or store it as it is with --column '%.60s=%.40s.npy'",
               column->name, column->name);
    return -EINVAL;
}

/* Makes a column of pictures an image. prefix: see struct array_column. */
static int set_picture(struct array_column *column, const char *prefix, const char *path,
                       struct err *err)
{
    size_t bytes = strlen(prefix);
    column->use = ARRAY_IMAGE;
    strcpy(column->field, prefix);
    if ((bytes == 0 || prefix[bytes - 1] == '.') && bytes + 4 < sizeof column->field)
        return 0;
    reject(column, path, "holds JPEGs and pixels, whose fields end with jpg and png",
           "no ending of a field", err);
    err_found(err, "%s", prefix);
    err_advise(err, "map it with --column '%.60s=:image' or '%.60s=NAME.:image'", column->name,
               column->name);
    return -EINVAL;
}

/* NAME.ENDING, in lower case. -EINVAL: that is no valid field. */
static int set_field(struct array_column *column, enum array_use use, const char *ending,
                     const char *path, struct err *err)
{
    int bytes = snprintf(column->field, sizeof column->field, "%s%s", column->name, ending);
    bool is_valid = bytes < (int)sizeof column->field && column->field[0] != '.';
    for (unsigned char *at = (unsigned char *)column->field; *at && is_valid; at++) {
        is_valid = *at > 0x20 && *at != 0x7f && *at != '/';
        *at = (unsigned char)tolower(*at);
    }
    column->use = use;
    if (is_valid)
        return 0;
    reject(column, path, "needs another name for its field", "at most 47 bytes without spaces",
           err);
    err_advise(err, "name the fields with --column NAME=FIELD");
    return -EINVAL;
}

/* ---- By names and types. ---- */

static int choose_column(struct array_table *table, struct array_column *column, uint32_t images,
                         uint32_t classes, const char *path, struct err *err)
{
    struct array_image image;
    if (column->form == ARRAY_PICTURE && images == 1)
        return set_picture(column, "", path, err);
    if (column->form == ARRAY_PICTURE)
        return set_field(column, ARRAY_IMAGE, ".", path, err);
    if (column->form == ARRAY_BYTES)
        return set_field(column, ARRAY_FILE, ".bin", path, err);
    bool is_image =
        has_image_name(column) && column->type.dtype == DTYPE_U8 && column->type.rank >= 2;
    if (is_image && array_type_image(&column->type, &image) != ARRAY_IS_IMAGE)
        return set_image(column, "", path, err); /* explains */
    if (is_image)
        column->image = image;
    if (is_image && images == 1)
        return set_image(column, "png", path, err);
    if (is_image)
        return set_field(column, ARRAY_IMAGE, ".png", path, err);
    if (classes == 1 && is_class_like(column)) {
        column->use = ARRAY_CLASS;
        return 0;
    }
    if (column->type.rank > 0)
        return set_field(column, ARRAY_NPY, ".npy", path, err);
    column->use = ARRAY_MEMBER;
    strcpy(table->rest, "json");
    return 0;
}

static int choose_all(struct array_table *table, const char *path, struct err *err)
{
    uint32_t images = 0, classes = 0;
    int status = 0;
    for (uint32_t i = 0; i < table->columns_count; i++) {
        images += table->columns[i].form == ARRAY_PICTURE || has_image_name(&table->columns[i]);
        classes += is_class_like(&table->columns[i]);
    }
    for (uint32_t i = 0; i < table->columns_count && !status; i++)
        status = choose_column(table, &table->columns[i], images, classes, path, err);
    return status;
}

/* ---- By mappings. ---- */

static struct array_column *find_column(struct array_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->columns_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return &table->columns[i];
    return NULL;
}

static int reject_name(const struct array_table *table, const char *name, const char *path,
                       struct err *err)
{
    struct str names = {0};
    for (uint32_t i = 0; i < table->columns_count && names.bytes < ERR_TEXT_BYTES_MAX; i++)
        str_add_format(&names, "%s%s", i > 0 ? ", " : "", table->columns[i].name);
    if (table->left_out.bytes > 0)
        str_add_format(&names, "%s%s", names.bytes > 0 ? ", " : "", str_text(&table->left_out));
    err_set(err, -EINVAL, "the source has no column \"%.150s\"", name);
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "%s", str_text(&names));
    str_deinit(&names);
    return -EINVAL;
}

/* A field of kind file or image: a PNG or a NumPy file. */
static int map_file(struct array_column *column, const struct column *mapping, const char *path,
                    struct err *err)
{
    char field[SHARD_EXTENSION_BYTES_MAX];
    size_t bytes = strlen(mapping->field);
    bool is_image = mapping->kind == COLUMN_IMAGE || is_image_extension(mapping->field);
    bool is_open = bytes == 0 || mapping->field[bytes - 1] == '.'; /* without an ending */
    if (column->form == ARRAY_PICTURE)
        return set_picture(column, mapping->field, path, err);
    if (column->form == ARRAY_BYTES && !is_open) {
        column->use = ARRAY_FILE;
        strcpy(column->field, mapping->field);
        return 0;
    }
    if (column->form != ARRAY_NUMBERS)
        return reject(column, path, "cannot be stored in this format",
                      "of bytes, a field such as wav; of JSON, :json", err);
    if (snprintf(field, sizeof field, "%s%s", mapping->field,
                 !is_open   ? ""
                 : is_image ? "png"
                            : "npy") >= (int)sizeof field)
        return reject(column, path, "has a field with a long name", "at most 47 bytes", err);
    const char *dot = strrchr(field, '.'), *ending = dot ? dot + 1 : field;
    if (is_image && strcmp(ending, "png") == 0)
        return set_image(column, field, path, err);
    if (is_image || strcmp(ending, "npy") != 0) {
        reject(column, path, "cannot be stored in this format",
               "png for images, npy for arrays, or a kind: int, float, bool, json, class", err);
        err_found(err, "%s", field);
        return -EINVAL;
    }
    column->use = ARRAY_NPY;
    strcpy(column->field, field);
    return 0;
}

static int map_column(struct array_column *column, const struct column *mapping, const char *path,
                      struct err *err)
{
    const struct array_type *type = &column->type;
    bool is_integer = array_type_is_integer(type), is_bool = type->dtype == DTYPE_BOOL;
    bool is_numbers = column->form == ARRAY_NUMBERS;
    bool is_number = is_numbers && (type->rank == 0 || (type->rank == 1 && type->shape[0] == 1));
    if (is_number && (mapping->kind == COLUMN_INT || mapping->kind == COLUMN_FLOAT ||
                      mapping->kind == COLUMN_BOOL))
        column->type.rank = 0;
    column->use = ARRAY_JSON;
    strcpy(column->field, mapping->field);
    switch (mapping->kind) {
    case COLUMN_FILE:
    case COLUMN_IMAGE:
        return map_file(column, mapping, path, err);
    case COLUMN_CLASS:
        column->use = ARRAY_CLASS; /* without a field */
        return is_integer && is_number && !column->is_elsewhere
                   ? 0
                   : reject(column, path, "is not of class numbers", "one integer per row", err);
    case COLUMN_INT:
        return is_integer && is_number
                   ? 0
                   : reject(column, path, "is not of integers", "one integer per row", err);
    case COLUMN_FLOAT:
        return !is_bool && is_number
                   ? 0
                   : reject(column, path, "is not of numbers", "one number per row", err);
    case COLUMN_BOOL:
        return is_bool && is_number
                   ? 0
                   : reject(column, path, "is not of truth values", "one per row", err);
    case COLUMN_JSON:
        return is_numbers || column->form == ARRAY_JSON_TEXT
                   ? 0
                   : reject(column, path, "is not of numbers or JSON", "another kind", err);
    default:
        return reject(column, path, "has another kind",
                      "image, file, int, float, bool, json or class; keys are row numbers", err);
    }
}

static int map_all(struct array_table *table, const struct columns *mappings, const char *path,
                   struct err *err)
{
    int status = 0;
    for (uint32_t i = 0; i < mappings->count && !status; i++) {
        const struct column *mapping = &mappings->items[i];
        struct array_column *column = find_column(table, mapping->name);
        if (strcmp(mapping->name, "*") == 0)
            strcpy(table->rest, mapping->field);
        else if (!column && strcmp(mapping->name, "#") != 0) /* keys are row numbers anyway */
            status = reject_name(table, mapping->name, path, err);
        else if (column && column->use != ARRAY_LEFT_OUT)
            status = reject(column, path, "is mapped twice", "one --column for it", err);
        else if (column)
            status = map_column(column, mapping, path, err);
    }
    for (uint32_t i = 0; i < table->columns_count && table->rest[0]; i++)
        if (table->columns[i].use == ARRAY_LEFT_OUT && table->columns[i].form != ARRAY_PICTURE &&
            table->columns[i].form != ARRAY_BYTES)
            table->columns[i].use = ARRAY_MEMBER;
    return status;
}

/* Two columns may have the same field, because names differ only in case or by an open ending. */
static int check_fields(const struct array_table *table, const char *path, struct err *err)
{
    for (uint32_t i = 0; i < table->columns_count; i++) {
        const char *field = table->columns[i].field;
        bool is_repeated = field[0] && strcmp(field, table->rest) == 0;
        for (uint32_t k = 0; k < i && field[0] && !is_repeated; k++)
            is_repeated = strcmp(table->columns[k].field, field) == 0;
        if (is_repeated) {
            reject(&table->columns[i], path, "has the same field as another", "different fields",
                   err);
            err_found(err, "%s", field);
            err_advise(err, "name the fields with --column NAME=FIELD");
            return -EINVAL;
        }
    }
    return 0;
}

int array_columns_choose(struct array_table *table, const struct columns *mappings,
                         const char *path, struct err *err)
{
    int status =
        mappings->count > 0 ? map_all(table, mappings, path, err) : choose_all(table, path, err);
    return status ? status : check_fields(table, path, err);
}

static void describe_use(const struct array_table *table, enum array_use use, const char *prefix,
                         struct str *out)
{
    const char *separator = prefix;
    for (uint32_t i = 0; i < table->columns_count; i++)
        if (table->columns[i].use == use) {
            str_add_format(out, "%s%s", separator, table->columns[i].name);
            separator = ", ";
        }
}

void array_columns_describe(const struct array_table *table, struct str *out)
{
    const char *separator = "";
    char prefix[SHARD_EXTENSION_BYTES_MAX + 32];
    for (uint32_t i = 0; i < table->columns_count; i++) {
        const struct array_column *column = &table->columns[i];
        if (column->use == ARRAY_LEFT_OUT || column->use == ARRAY_MEMBER)
            continue;
        str_add_format(out, "%s%s -> %s%s%s", separator, column->name,
                       column->use == ARRAY_CLASS ? "class" : column->field,
                       column->form == ARRAY_PICTURE ? "jpg or png" : "",
                       column->use == ARRAY_JSON ? " (json)" : "");
        separator = ", ";
    }
    snprintf(prefix, sizeof prefix, "%sothers -> %s: ", separator, table->rest);
    describe_use(table, ARRAY_MEMBER, prefix, out);
    describe_use(table, ARRAY_LEFT_OUT, "; left out: ", out);
    if (table->left_out.bytes > 0)
        str_add_format(out, "; left out: %s", str_text(&table->left_out));
}
