/*
 * field_map — class numbers from names (map in struct loader_field).
 */
#include "loader/field_values.h"

#include "base/json/jsonx.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_integer(enum dtype dtype)
{
    return dtype != DTYPE_BOOL && dtype != DTYPE_F16 && dtype != DTYPE_BF16 && dtype != DTYPE_F32 &&
           dtype != DTYPE_F64 && dtype != DTYPE_F8_E4M3 && dtype != DTYPE_F8_E5M2;
}

int field_check_map(const struct loader_field *field, struct err *err)
{
    if (!field->map || field->decode == LOADER_FIELD_INT ||
        (field->decode == LOADER_FIELD_ARRAY && field->path && is_integer(field->dtype)))
        return 0;
    err_set(err, -EINVAL, "field \"%.80s\" cannot have a map of names", field->name);
    err_expected(err, "an integer, or an array of integers from JSON");
    err_advise(err, "decode it as int, or as array with a path and dtype i64");
    return -EINVAL;
}

int field_find_default(const struct loader *loader, const struct loader_field *field,
                       int64_t *ret_number)
{
    uint64_t number;
    uint8_t value[sizeof *ret_number];
    if (field_find_class(loader, field, field->default_value, strlen(field->default_value),
                         &number) == 0) {
        *ret_number = (int64_t)number;
        return 0;
    }
    int status = field_scalar_parse(LOADER_FIELD_INT, field->default_value, value, NULL);
    if (!status)
        memcpy(ret_number, value, sizeof *ret_number);
    return status || *ret_number >= 0 ? -EINVAL : 0;
}

/* A default is a name, except of arrays, where it is "[]". */
static int check_default(const struct loader *loader, const struct loader_field *field,
                         struct err *err)
{
    const char *name = field->default_value;
    int64_t number;
    if (!name || field->decode != LOADER_FIELD_INT || !field_find_default(loader, field, &number))
        return 0;
    err_set(err, -EINVAL, "the default of field \"%.80s\" is not in its map", field->name);
    err_at(err, field->map, ERR_NO_OFFSET);
    err_expected(err, "a name of the list, or a negative integer");
    err_found(err, "\"%.80s\"", name);
    return -EINVAL;
}

int field_maps_open(struct loader *loader, struct err *err)
{
    const struct loader_options *options = &loader->options;
    int status = 0;
    for (uint32_t f = 0; f < options->fields_count && !status; f++) {
        if (!options->fields[f].map)
            continue;
        if (!loader->maps)
            loader->maps = calloc(options->fields_count, sizeof *loader->maps);
        status = loader->maps ? name_list_read(loader->io, options->fields[f].map,
                                               NAME_LIST_CLASSES, &loader->maps[f], err)
                              : err_set(err, -ENOMEM, "out of memory for class names");
        if (!status)
            status = check_default(loader, &options->fields[f], err);
    }
    return status;
}

void field_maps_close(struct loader *loader)
{
    for (uint32_t f = 0; loader->maps && f < loader->options.fields_count; f++)
        name_list_deinit(&loader->maps[f]);
    free(loader->maps);
}

int field_find_class(const struct loader *loader, const struct loader_field *type, const char *name,
                     size_t bytes, uint64_t *ret_number)
{
    const struct name_list *list = &loader->maps[type - loader->options.fields];
    uint32_t number = 0;
    if (!name_set_find(&list->names, name, bytes, &number))
        return -EBADMSG;
    *ret_number = number;
    return 0;
}

int field_find_class_of(const struct loader *loader, const struct loader_field *type,
                        const struct json_t *node, uint64_t *ret_number)
{
    enum { INTEGER_BYTES = 24 };
    char integer[INTEGER_BYTES];
    const char *name;
    int64_t number;
    if (!jsonx_i64(node, &number)) {
        int bytes = snprintf(integer, sizeof integer, "%" PRId64, number);
        return field_find_class(loader, type, integer, (size_t)bytes, ret_number);
    }
    int status = jsonx_text(node, &name);
    return status ? status : field_find_class(loader, type, name, strlen(name), ret_number);
}
