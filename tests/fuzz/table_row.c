/*
 * table_row — fuzz target: the input as rows of a list whose columns become fields of every kind
 * (convert/source/table_sample.h). A row that is listed can be read, and without a tree it gives
 * the same fields as with one.
 */
#include "convert/source/table_sample.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const char header_text[] = "a,b,c";
static const char *const lazy[] = {"a=txt", "b=b:int", "c=c:base64", "*=json", "#=:key"};
static const char *const tree[] = {"$.a=txt", "$.b=b:int", "$.c=c:base64", "*=json", "#=:key"};
static const char *const others[] = {"a=a:float", "b=b:bool", "c=c:json", "d=:key", "e=:class"};

struct list_case {
    struct columns columns;
    struct table_list list;
    struct table_sampler sampler;
    struct row_listing row;
    struct source_sample sample;
};

static struct list_case *open_case(const char *const *mappings, char delimiter)
{
    struct list_case *list = calloc(1, sizeof *list);
    struct err err;
    size_t count = delimiter && mappings == others ? 3 : 5; /* CSV has no columns d and e */
    if (!list ||
        columns_parse(&(struct convert_string_list){mappings, count}, &list->columns, &err))
        abort();
    list->list.format.delimiter = delimiter;
    if (delimiter) {
        if (csv_parse_row(header_text, sizeof header_text - 1, ',', &list->list.header, &err))
            abort();
        list->list.format.header = &list->list.header;
    }
    list->sampler.columns = &list->columns;
    return list;
}

static void close_case(struct list_case *list)
{
    table_sampler_deinit(&list->sampler);
    table_list_deinit(&list->list);
    str_deinit(&list->sample.data);
    free(list);
}

/* Lists and reads a row. Returns whether it is valid. */
static bool read_row(struct list_case *list, const char *text, size_t bytes)
{
    const struct table_row_at at = {.bytes = (uint32_t)bytes, .line = 1};
    struct err err = {0};
    str_clear(&list->sample.data);
    list->sample.fields_count = 0;
    if (table_sample_list(&list->sampler, &list->list, &at, text, &list->row, &err))
        return false;
    if (table_sample_read(&list->sampler, &list->list, &at, text, NULL, NULL, &list->sample, &err))
        abort();
    if (list->sample.fields_count != list->sampler.listed.fields_count)
        abort();
    return true;
}

static void compare(const struct source_sample *a, const struct source_sample *b)
{
    if (a->fields_count != b->fields_count)
        abort();
    for (uint32_t i = 0; i < a->fields_count; i++)
        if (a->fields[i].bytes != b->fields[i].bytes ||
            memcmp(a->data.data + a->fields[i].at, b->data.data + b->fields[i].at,
                   a->fields[i].bytes) != 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *text = (const char *)data;
    bool is_csv = bytes > 0 && text[0] != '{';
    struct list_case *first = open_case(lazy, is_csv ? ',' : 0),
                     *second = open_case(is_csv ? lazy : tree, is_csv ? ',' : 0),
                     *third = open_case(others, is_csv ? ',' : 0);
    bool is_valid = read_row(first, text, bytes);
    if (is_valid != read_row(second, text, bytes))
        abort();
    if (is_valid)
        compare(&first->sample, &second->sample);
    read_row(third, text, bytes);
    close_case(first);
    close_case(second);
    close_case(third);
    return 0;
}
