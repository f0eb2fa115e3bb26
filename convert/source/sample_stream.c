/*
 * sample_stream — see sample_stream.h.
 */
#include "convert/source/sample_stream.h"

#include "base/bytes.h"
#include "convert/source/sample_key.h"
#include "convert/source/standard_input.h"
#include "shards/format/member_name.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUMBER_BYTES = 4, BUFFER_BYTES = 1 << 20, NEXT_POLL_MS = 10 };

static const char magic[SAMPLE_STREAM_MAGIC_BYTES + 1] = "millrace samples 1\n";

struct sample_stream {
    int input, reply;
    const atomic_int *stop;
    struct str header;
    uint64_t samples_count; /* so far, for messages */
    char *buffer;           /* BUFFER_BYTES */
    size_t at, end;         /* what the buffer holds */
};

bool sample_stream_detect(const char *head, size_t bytes)
{
    return bytes <= SAMPLE_STREAM_MAGIC_BYTES && memcmp(head, magic, bytes) == 0;
}

/* ---- Reading. ---- */

static int end_early(const struct sample_stream *stream, struct err *err)
{
    err_set(err, -EPROTO, "the stream of samples ends early");
    err_expected(err, "a 0 after the last sample");
    err_found(err, "the end after %" PRIu64 " samples", stream->samples_count);
    return -EPROTO;
}

/* Reads so many bytes: small ones through the buffer, which may then hold more. */
static int read_exactly(struct sample_stream *stream, void *data, size_t bytes, struct err *err)
{
    size_t done = bytes_min(bytes, stream->end - stream->at);
    memcpy(data, stream->buffer + stream->at, done);
    stream->at += done;
    while (done < bytes) {
        size_t count = 0;
        bool is_large = bytes - done >= BUFFER_BYTES;
        void *target = is_large ? (char *)data + done : stream->buffer;
        int status = standard_input_read_some(stream->input, stream->stop, target,
                                              is_large ? bytes - done : BUFFER_BYTES, &count, err);
        if (status)
            return status;
        if (count == 0)
            return end_early(stream, err);
        if (!is_large) {
            stream->at = bytes_min(count, bytes - done);
            stream->end = count;
            memcpy((char *)data + done, stream->buffer, stream->at);
            count = stream->at;
        }
        done += count;
    }
    return 0;
}

static int read_number(struct sample_stream *stream, uint32_t *ret_number, struct err *err)
{
    uint8_t bytes[NUMBER_BYTES];
    int status = read_exactly(stream, bytes, sizeof bytes, err);
    *ret_number = status ? 0 : bytes_get_u32(bytes);
    return status;
}

/* Appends so many bytes. */
static int read_text(struct sample_stream *stream, uint32_t bytes, uint32_t bytes_max,
                     struct str *text, struct err *err)
{
    if (bytes > bytes_max) {
        err_set(err, -EPROTO, "a part of the stream of samples is too large");
        err_expected(err, "at most %" PRIu32 " bytes", bytes_max);
        err_found(err, "%" PRIu32 " after %" PRIu64 " samples", bytes, stream->samples_count);
        return -EPROTO;
    }
    if (bytes == 0)
        return 0;
    if (str_reserve(text, bytes))
        return err_set(err, -ENOMEM, "out of memory for samples");
    int status = read_exactly(stream, text->data + text->bytes, bytes, err);
    if (!status) {
        text->bytes += bytes;
        text->data[text->bytes] = '\0';
    }
    return status;
}

/* ---- The stream. ---- */

int sample_stream_open(int input, int reply, const atomic_int *stop,
                       struct sample_stream **ret_stream, struct err *err)
{
    struct sample_stream *stream = calloc(1, sizeof *stream);
    uint32_t bytes;
    if (stream)
        *stream = (struct sample_stream){
            .input = input, .reply = reply, .stop = stop, .buffer = malloc(BUFFER_BYTES)};
    if (!stream || !stream->buffer) {
        sample_stream_close(stream);
        return err_set(err, -ENOMEM, "out of memory for samples");
    }
    int status = read_number(stream, &bytes, err);
    if (!status)
        status = read_text(stream, bytes, SAMPLE_STREAM_HEADER_BYTES_MAX, &stream->header, err);
    if (status)
        sample_stream_close(stream);
    else
        *ret_stream = stream;
    return status;
}

void sample_stream_close(struct sample_stream *stream)
{
    if (!stream)
        return;
    str_deinit(&stream->header);
    free(stream->buffer);
    free(stream);
}

const struct str *sample_stream_header(const struct sample_stream *stream)
{
    return &stream->header;
}

int sample_stream_reply(struct sample_stream *stream, uint64_t samples_done, struct err *err)
{
    char line[40] = "complete\n";
    if (samples_done != UINT64_MAX)
        snprintf(line, sizeof line, "begin %" PRIu64 "\n", samples_done);
    for (size_t done = 0, bytes = strlen(line); done < bytes;) {
        ssize_t count = write(stream->reply, line + done, bytes - done);
        if (count < 0 && errno != EINTR)
            return err_errno(err, -errno, "could not reply to the sender of samples");
        done += count > 0 ? (size_t)count : 0;
    }
    stream->samples_count = samples_done;
    return 0;
}

int sample_stream_next(struct sample_stream *stream, char key[SHARD_KEY_BYTES_MAX],
                       struct source_sample *sample, struct err *err)
{
    struct pollfd ready = {.fd = stream->input, .events = POLLIN};
    uint32_t bytes;
    if (stream->at == stream->end && poll(&ready, 1, NEXT_POLL_MS) <= 0)
        return -EAGAIN;
    int status = read_number(stream, &bytes, err);
    if (status || bytes == 0)
        return status;
    status = read_text(stream, bytes, SOURCE_ITEM_BYTES_MAX, &sample->data, err);
    if (!status)
        status = sample_record_parse(sample, key, err);
    if (status == -EPROTO && !err->found[0])
        err_found(err, "sample %" PRIu64, stream->samples_count);
    stream->samples_count++;
    return status ? status : 1;
}

/* ---- A sample. ---- */

struct record {
    struct source_sample *sample;
    size_t at, end; /* in sample->data */
    struct err *err;
};

static int reject(const struct record *record, const char *what)
{
    return err_set(record->err, -EPROTO, "%s", what);
}

static int take_number(struct record *record, uint32_t *ret_number)
{
    if (record->end - record->at < NUMBER_BYTES)
        return reject(record, "a sample of the stream ends early");
    *ret_number = bytes_get_u32(record->sample->data.data + record->at);
    record->at += NUMBER_BYTES;
    return 0;
}

/* Takes text without a NUL. bytes_max includes one. */
static int take_text(struct record *record, uint32_t bytes, size_t bytes_max, char *text,
                     const char *what)
{
    if (record->end - record->at < bytes)
        return reject(record, "a sample of the stream ends early");
    const char *from = record->sample->data.data + record->at;
    if (bytes == 0 || bytes >= bytes_max || memchr(from, '\0', bytes))
        return reject(record, what);
    memcpy(text, from, bytes);
    text[bytes] = '\0';
    record->at += bytes;
    return 0;
}

static int check_key(const struct record *record, const char *key)
{
    char clean[SHARD_KEY_BYTES_MAX];
    const char *expected = sample_key_make(key, false, clean);
    if (!expected && strcmp(clean, key) == 0)
        return 0;
    reject(record, "a sample of the stream has a wrong key");
    err_expected(record->err, "%s",
                 expected ? expected : "a relative path whose last part has no dot and no space");
    err_found(record->err, "\"%.200s\"", key);
    return -EPROTO;
}

/* A reader of the tar must find the same key and extension in path. */
static int check_extension(const struct record *record, const char *path, const char *key,
                           const char *extension)
{
    struct member_name split;
    bool is_field = false;
    if (member_name_split(path, &split, &is_field, NULL) == 0 && is_field &&
        !strchr(extension, ' ') && strcmp(split.key, key) == 0 &&
        strcmp(split.extension, extension) == 0)
        return 0;
    reject(record, "a field of the stream has a wrong name");
    err_expected(record->err, "a lower-case extension without spaces, and no control characters");
    err_found(record->err, "\"%.60s\" of \"%.140s\"", extension, key);
    return -EPROTO;
}

static bool has_field(const struct source_sample *sample, const char *extension)
{
    for (uint32_t i = 0; i < sample->fields_count; i++)
        if (strcmp(sample->fields[i].extension, extension) == 0)
            return true;
    return false;
}

static int take_field(struct record *record, const char *key, size_t key_bytes)
{
    char extension[SHARD_EXTENSION_BYTES_MAX];
    char path[SHARD_KEY_BYTES_MAX + SHARD_EXTENSION_BYTES_MAX + 1];
    uint32_t extension_bytes = 0, data_bytes = 0;
    int status = take_number(record, &extension_bytes);
    if (!status)
        status = take_number(record, &data_bytes);
    if (!status)
        status = take_text(record, extension_bytes, sizeof extension, extension,
                           "an extension of the stream is too long, empty or has a NUL");
    if (status)
        return status;
    memcpy(path, key, key_bytes);
    path[key_bytes] = '.';
    memcpy(path + key_bytes + 1, extension, extension_bytes + 1);
    status = check_extension(record, path, key, extension);
    if (status)
        return status;
    if (record->end - record->at < data_bytes)
        return reject(record, "a sample of the stream ends early");
    if (has_field(record->sample, extension))
        return reject(record, "a sample of the stream has a field twice");
    source_add_field(record->sample, extension, record->at, data_bytes, path);
    record->at += data_bytes;
    return 0;
}

int sample_record_parse(struct source_sample *sample, char key[SHARD_KEY_BYTES_MAX],
                        struct err *err)
{
    struct record record = {.sample = sample, .end = sample->data.bytes, .err = err};
    uint32_t fields_count = 0, key_bytes = 0;
    int status = take_number(&record, &fields_count);
    if (!status)
        status = take_number(&record, &key_bytes);
    if (!status)
        status = take_text(&record, key_bytes, SHARD_KEY_BYTES_MAX, key,
                           "a key of the stream is too long, empty or has a NUL");
    if (!status)
        status = check_key(&record, key);
    if (!status && (fields_count == 0 || fields_count > SHARD_FIELDS_MAX))
        status = reject(&record, "a sample of the stream has no fields, or more than 64");
    for (uint32_t i = 0; i < fields_count && !status; i++)
        status = take_field(&record, key, key_bytes);
    if (!status && record.at != record.end)
        status = reject(&record, "a sample of the stream has bytes after its fields");
    return status;
}
