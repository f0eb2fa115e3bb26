/*
 * json_stream — fuzz target: of a document that the parser accepts, reading by values
 * (base/json/jsonx_stream.h) gives all values, however the text is divided into blocks.
 */
#include "base/json/jsonx.h"
#include "base/json/jsonx_stream.h"
#include "tests/fuzz/fuzz.h"

struct text_source {
    const char *text;
    size_t bytes, at, block_bytes;
};

static int read_text(void *context, size_t bytes, struct str *out, struct err *err)
{
    struct text_source *source = context;
    size_t count = source->bytes - source->at;
    (void)bytes, (void)err;
    if (count > source->block_bytes)
        count = source->block_bytes;
    str_add(out, source->text + source->at, count);
    source->at += count;
    return 0;
}

static int count_values(void *context, const char *key, struct json_t *value)
{
    (void)key;
    *(size_t *)context += 1 + (jsonx_kind(value) == JSON_KIND_ARRAY ? jsonx_count(value) : 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct text_source source = {(const char *)data, bytes, 0, 1 + bytes % 7};
    struct jsonx_stream *stream;
    struct jsonx_stream_value value;
    struct json_t *root = NULL;
    struct err err;
    size_t expected = 0, count = 0;
    bool is_valid = jsonx_parse(source.text, bytes, "input", 0, &root, &err) == 0 &&
                    jsonx_kind(root) == JSON_KIND_OBJECT;
    if (is_valid)
        jsonx_each(root, count_values, &expected);
    jsonx_free(root);
    if (jsonx_stream_open(&(struct jsonx_stream_source){"input", read_text, &source}, &stream,
                          &err))
        abort();
    int status;
    while ((status = jsonx_stream_next(stream, &value, &err)) > JSONX_STREAM_END) {
        if (value.offset + value.bytes > bytes ||
            (value.bytes && memcmp(source.text + value.offset, value.text, value.bytes) != 0))
            abort();
        root = NULL;
        if (is_valid && status != JSONX_STREAM_ARRAY &&
            jsonx_parse_value(value.text, value.bytes, "input", 0, &root, &err))
            abort();
        jsonx_free(root);
        count++;
    }
    if (is_valid && (status != JSONX_STREAM_END || count != expected))
        abort();
    jsonx_stream_close(stream);
    return 0;
}
