/*
 * sample_record — fuzz target: the input as a record of a stream of samples
 * (convert/source/sample_stream.h). Fields lie within the record, one after another, and a reader
 * of the tar finds the same keys and extensions.
 */
#include "convert/source/sample_stream.h"
#include "shards/format/member_name.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>

static void check_field(const struct source_sample *sample, uint32_t number, size_t record_bytes,
                        const char *key)
{
    const struct sample_field *field = &sample->fields[number];
    const char *path = sample->data.data + field->path_at;
    size_t before = number > 0 ? field[-1].at + field[-1].bytes : 0;
    struct member_name name;
    bool is_field;
    if (field->at < before || field->at > record_bytes || field->bytes > record_bytes - field->at ||
        field->path_at < record_bytes || field->path_at + strlen(path) >= sample->data.bytes)
        abort();
    if (member_name_split(path, &name, &is_field, NULL) || !is_field ||
        strcmp(name.key, key) != 0 || strcmp(name.extension, field->extension) != 0)
        abort();
    for (uint32_t i = 0; i < number; i++)
        if (strcmp(sample->fields[i].extension, field->extension) == 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct source_sample *sample = calloc(1, sizeof *sample);
    char key[SHARD_KEY_BYTES_MAX];
    struct err err = {0};
    if (!sample)
        abort();
    str_add(&sample->data, data, bytes);
    int status = sample_record_parse(sample, key, &err);
    if (status ? !err.what[0] : sample->fields_count == 0)
        abort();
    for (uint32_t i = 0; i < sample->fields_count && !status; i++)
        check_field(sample, i, bytes, key);
    str_deinit(&sample->data);
    free(sample);
    return 0;
}
