/*
 * tf_example — fuzz target: the input as a tf.train.Example (convert/record/tf_example.h) whose
 * features become fields: all by default, and one of them by each kind of column. Strings lie
 * within the input.
 */
#include "convert/record/tf_example.h"

#include "convert/record/record_columns.h"
#include "convert/record/record_sample.h"
#include "tests/fuzz/fuzz.h"

static void check_strings(const struct record *record, const uint8_t *data, size_t bytes)
{
    for (uint32_t i = 0; i < record->count; i++) {
        const struct record_value *value = &record->values[i];
        size_t string_bytes;
        for (uint64_t k = 0; value->kind == RECORD_STRINGS && k < value->count; k++) {
            const char *string = record_string(record, value, k, &string_bytes);
            if (string < (const char *)data || string_bytes > bytes ||
                string + string_bytes > (const char *)data + bytes)
                abort();
        }
        if (value->kind == RECORD_NUMBERS &&
            value->first + value->count * dtype_bytes(value->dtype) > record->data.bytes)
            abort();
    }
}

static void read_fields(struct record_sampler *sampler, const struct columns *columns,
                        const struct record *record)
{
    struct source_sample *sample = calloc(1, sizeof *sample);
    struct err err = {0};
    if (sample && record_sample_read(sampler, columns, record, "input", sample, &err) &&
        !err.path[0])
        abort();
    if (sample)
        str_deinit(&sample->data);
    free(sample);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct record *record = calloc(1, sizeof *record);
    struct columns *columns = calloc(1, sizeof *columns);
    struct record_sampler sampler = {0};
    struct err err = {0};
    if (!record || !columns)
        abort();
    record_clear(record, "input", 0);
    if (tf_example_decode(data, bytes, 0, record, &err) == 0) {
        check_strings(record, data, bytes);
        if (record_columns_choose(record, columns, &err) == 0)
            read_fields(&sampler, columns, record);
        bool has_name = record->count > 0 &&
                        columns_check_name(record_name(record, &record->values[0]), &err) == 0;
        for (int kind = 0; has_name && kind < COLUMN_KINDS_COUNT; kind++) {
            columns->count = 1;
            columns->items[0] = (struct column){.kind = (enum column_kind)kind, .field = "x.npy"};
            strcpy(columns->items[0].name, record_name(record, &record->values[0]));
            read_fields(&sampler, columns, record);
        }
    }
    record_sampler_deinit(&sampler);
    record_deinit(record);
    free(record);
    free(columns);
    return 0;
}
