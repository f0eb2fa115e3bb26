/*
 * jsonx_stream — see jsonx_stream.h.
 */
#include "base/json/jsonx_stream.h"

#include "base/json/jsonx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 20, KEY_BYTES_MAX = 256 };

enum place { AT_BEGIN, AT_MEMBER, AFTER_MEMBER, AT_ELEMENT, AFTER_ELEMENT, AT_END };

struct jsonx_stream {
    struct jsonx_stream_source source;
    struct str text;
    uint64_t text_offset; /* of text in the whole text */
    size_t at;            /* the next byte in text */
    bool is_complete;     /* the source has ended */
    enum place place;
    char key[KEY_BYTES_MAX];
};

int jsonx_stream_open(const struct jsonx_stream_source *source, struct jsonx_stream **ret_stream,
                      struct err *err)
{
    struct jsonx_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return err_set(err, -ENOMEM, "out of memory for a JSON document");
    stream->source = *source;
    *ret_stream = stream;
    return 0;
}

void jsonx_stream_close(struct jsonx_stream *stream)
{
    if (!stream)
        return;
    str_deinit(&stream->text);
    free(stream);
}

static int reject(const struct jsonx_stream *stream, size_t at, const char *expected,
                  struct err *err)
{
    err_set(err, -EBADMSG, "not valid JSON");
    err_at(err, stream->source.path, (int64_t)(stream->text_offset + at));
    err_expected(err, "%s", expected);
    if (at == stream->text.bytes)
        err_found(err, "the end of the file");
    else
        err_found(err, "\"%c\"", stream->text.data[at]);
    return -EBADMSG;
}

/* Drops the text before `at` and reads more, in blocks that grow with a value that has not ended,
 * so that finding its end takes linear time. */
static int read_more(struct jsonx_stream *stream, struct err *err)
{
    struct str *text = &stream->text;
    if (stream->at > 0) {
        memmove(text->data, text->data + stream->at, text->bytes - stream->at);
        text->bytes -= stream->at;
        stream->text_offset += stream->at;
        stream->at = 0;
    }
    size_t before = text->bytes;
    int status = stream->source.read(stream->source.context,
                                     before > BLOCK_BYTES ? before : BLOCK_BYTES, text, err);
    if (!status && str_status(text))
        status = err_set(err, -ENOMEM, "out of memory for a JSON document");
    stream->is_complete = text->bytes == before;
    return status;
}

/* Stores the next byte that is not a space; NUL at the end. */
static int peek(struct jsonx_stream *stream, char *ret_byte, struct err *err)
{
    for (;;) {
        while (stream->at < stream->text.bytes) {
            *ret_byte = stream->text.data[stream->at];
            if (*ret_byte != ' ' && *ret_byte != '\t' && *ret_byte != '\n' && *ret_byte != '\r')
                return 0;
            stream->at++;
        }
        *ret_byte = '\0';
        int status = stream->is_complete ? 0 : read_more(stream, err);
        if (status || stream->is_complete)
            return status;
    }
}

static int expect(struct jsonx_stream *stream, char byte, const char *expected, struct err *err)
{
    char found;
    int status = peek(stream, &found, err);
    if (!status && (found != byte || stream->at == stream->text.bytes))
        return reject(stream, stream->at, expected, err);
    stream->at += !status;
    return status;
}

/* Finds the end of the value that begins at stream->at: a string, a bracketed value, or everything
 * up to a comma, colon, bracket or space. */
static int find_end(struct jsonx_stream *stream, size_t *ret_bytes, struct err *err)
{
    size_t bytes = 0, depth = 0;
    bool is_string = false;
    for (;; bytes++) {
        if (bytes > JSON_BYTES_MAX) {
            err_set(err, -EBADMSG, "a JSON value is too long");
            err_at(err, stream->source.path, (int64_t)(stream->text_offset + stream->at));
            err_expected(err, "at most %d bytes", JSON_BYTES_MAX);
            return -EBADMSG;
        }
        while (stream->at + bytes >= stream->text.bytes && !stream->is_complete) {
            int status = read_more(stream, err);
            if (status)
                return status;
        }
        if (stream->at + bytes >= stream->text.bytes) {
            if (is_string || depth > 0)
                return reject(stream, stream->text.bytes, is_string ? "a quote" : "a bracket", err);
            break;
        }
        char c = stream->text.data[stream->at + bytes];
        if (is_string) {
            bytes += c == '\\';
            if (c != '"')
                continue;
            is_string = false;
            if (depth > 0)
                continue;
            bytes++;
            break;
        }
        if (c == '"') {
            is_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && depth > 0) {
            if (--depth > 0)
                continue;
            bytes++;
            break;
        } else if (depth == 0 && strchr("}],: \t\n\r", c) && c) {
            break;
        }
    }
    *ret_bytes = bytes;
    return bytes > 0 ? 0 : reject(stream, stream->at, "a value", err);
}

/* Takes the next value. */
static int take_value(struct jsonx_stream *stream, struct jsonx_stream_value *ret_value,
                      struct err *err)
{
    size_t bytes = 0;
    int status = find_end(stream, &bytes, err);
    if (status)
        return status;
    *ret_value = (struct jsonx_stream_value){stream->key, stream->text.data + stream->at, bytes,
                                             stream->text_offset + stream->at};
    stream->at += bytes;
    return 0;
}

static int take_key(struct jsonx_stream *stream, struct err *err)
{
    struct jsonx_stream_value key;
    int status = expect(stream, '"', "a member's name in quotes", err);
    if (status)
        return status;
    stream->at--;
    status = take_value(stream, &key, err);
    if (status)
        return status;
    if (key.bytes - 2 >= KEY_BYTES_MAX) {
        err_set(err, -EBADMSG, "the name of a JSON member is too long");
        err_at(err, stream->source.path, (int64_t)key.offset);
        err_expected(err, "at most %d bytes", KEY_BYTES_MAX - 1);
        return -EBADMSG;
    }
    memcpy(stream->key, key.text + 1, key.bytes - 2);
    stream->key[key.bytes - 2] = '\0';
    return expect(stream, ':', "a colon", err);
}

/* Takes the member at the next byte. */
static int take_member(struct jsonx_stream *stream, struct jsonx_stream_value *ret_value,
                       struct err *err)
{
    char next;
    int status = take_key(stream, err);
    if (!status)
        status = peek(stream, &next, err);
    if (status)
        return status;
    if (next != '[') {
        stream->place = AFTER_MEMBER;
        status = take_value(stream, ret_value, err);
        return status ? status : JSONX_STREAM_MEMBER;
    }
    *ret_value =
        (struct jsonx_stream_value){stream->key, NULL, 0, stream->text_offset + stream->at};
    stream->at++;
    stream->place = AT_ELEMENT;
    return JSONX_STREAM_ARRAY;
}

int jsonx_stream_next(struct jsonx_stream *stream, struct jsonx_stream_value *ret_value,
                      struct err *err)
{
    char next;
    int status;
    if (stream->place == AT_BEGIN) {
        status = expect(stream, '{', "an object", err);
        if (status)
            return status;
        stream->place = AT_MEMBER;
    }
    for (;;) {
        bool is_array = stream->place == AT_ELEMENT || stream->place == AFTER_ELEMENT,
             is_first = stream->place == AT_ELEMENT || stream->place == AT_MEMBER;
        status = peek(stream, &next, err);
        if (status)
            return status;
        if (stream->place == AT_END)
            return stream->at == stream->text.bytes
                       ? JSONX_STREAM_END
                       : reject(stream, stream->at, "the end of the file", err);
        if (next == (is_array ? ']' : '}')) {
            stream->at++;
            stream->place = is_array ? AFTER_MEMBER : AT_END;
            continue;
        }
        if (!is_first) {
            status = expect(stream, ',', is_array ? "a comma or \"]\"" : "a comma or \"}\"", err);
            if (!status)
                status = peek(stream, &next, err);
            if (status)
                return status;
        }
        if (!is_array)
            return take_member(stream, ret_value, err);
        stream->place = AFTER_ELEMENT;
        status = take_value(stream, ret_value, err);
        return status ? status : JSONX_STREAM_ELEMENT;
    }
}
