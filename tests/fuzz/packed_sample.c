/*
 * packed_sample — fuzz target: the input as a sample of MDS or litdata with a column of each
 * encoding, and with one column (convert/record/packed_sample.h); then as an encoding.
 */
#include "convert/record/packed_sample.h"

#include "convert/record/record_columns.h"
#include "convert/record/record_sample.h"
#include "tests/fuzz/fuzz.h"

static const char *const encodings[] = {
    "ndarray",    "pil",
    "list[pil]",  "list[jpeg]",
    "jpeg_array", "json",
    "str_float",  "str",
    "float16",    "int",
    "bytes",      "uint64",
    "uint8",      "ndarray:uint16",
    "numpy",      "tensor",
    "bool",       "no_header_numpy:1",
};

enum { ENCODINGS_COUNT = sizeof encodings / sizeof encodings[0] };

static void add_column(struct packed_schema *schema, const char *encoding)
{
    struct packed_column *column = &schema->columns[schema->count++];
    struct err err = {0};
    strcpy(column->name, encoding);
    if (packed_column_parse_mds(encoding, column, &err) &&
        packed_column_parse_litdata(encoding, column, &err))
        abort();
}

static void decode(const struct packed_schema *schema, const uint8_t *data, size_t bytes)
{
    struct record *record = calloc(1, sizeof *record);
    struct columns *columns = calloc(1, sizeof *columns);
    struct source_sample *sample = calloc(1, sizeof *sample);
    struct record_sampler sampler = {0};
    struct err err = {0};
    if (!record || !columns || !sample)
        abort();
    record_clear(record, "input", 0);
    if (packed_sample_decode(schema, data, bytes, record, &err) == 0) {
        if (record->count != schema->count)
            abort();
        for (uint32_t i = 0; i < record->count; i++)
            if (record->values[i].kind == RECORD_NUMBERS &&
                record->values[i].first +
                        record->values[i].count * dtype_bytes(record->values[i].dtype) >
                    record->data.bytes)
                abort();
        if (record_columns_choose(record, columns, &err) == 0)
            record_sample_read(&sampler, columns, record, "input", sample, &err);
    }
    record_sampler_deinit(&sampler);
    record_deinit(record);
    str_deinit(&sample->data);
    free(sample);
    free(columns);
    free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct packed_schema *schema = calloc(1, sizeof *schema);
    struct err err = {0};
    char *text = fuzz_text(data, bytes);
    if (!schema || !text)
        abort();
    packed_column_parse_mds(text, &schema->columns[0], &err);
    packed_column_parse_litdata(text, &schema->columns[0], &err);
    memset(&schema->columns[0], 0, sizeof schema->columns[0]);
    free(text);
    add_column(schema, encodings[bytes > 0 ? data[0] % ENCODINGS_COUNT : 0]);
    if (bytes > 0)
        decode(schema, data + 1, bytes - 1);
    schema->count = 0;
    for (size_t i = 0; i < ENCODINGS_COUNT; i++)
        add_column(schema, encodings[i]);
    decode(schema, data, bytes);
    free(schema);
    return 0;
}
