/*
 * jsonx_stream — reads a JSON object whose members may be very long arrays, one value at a time.
 *
 * Only brackets, commas and quotes delimit values, as in jsonx_scan.h; jsonx_parse_value validates
 * each one. Memory: the longest value, at most JSON_BYTES_MAX, and a block.
 *
 *     jsonx_stream_open(&source, &stream, err);
 *     while ((status = jsonx_stream_next(stream, &value, err)) > JSONX_STREAM_END)
 *         if (status == JSONX_STREAM_ELEMENT && strcmp(value.key, "images") == 0)
 *             jsonx_parse_value(value.text, value.bytes, path, value.offset, &root, err);
 *     jsonx_stream_close(stream);
 */
#ifndef MILLRACE_BASE_JSON_JSONX_STREAM_H
#define MILLRACE_BASE_JSON_JSONX_STREAM_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

struct jsonx_stream; /* owner thread */

struct jsonx_stream_source {
    const char *path; /* for messages */
    /* Appends the next bytes of the text, about `bytes`, to out; none at the end. */
    int (*read)(void *context, size_t bytes, struct str *out, struct err *err);
    void *context;
};

enum jsonx_stream_event {
    JSONX_STREAM_END,
    JSONX_STREAM_MEMBER,  /* a member of the object that is not an array */
    JSONX_STREAM_ARRAY,   /* a member that is an array begins; it has no text */
    JSONX_STREAM_ELEMENT, /* an element of that array */
};

/* Valid until the next call. */
struct jsonx_stream_value {
    const char *key; /* of the member, as written between its quotes */
    const char *text;
    size_t bytes;
    uint64_t offset; /* in the whole text */
};

/* Borrows the source's path and context. -ENOMEM. */
int jsonx_stream_open(const struct jsonx_stream_source *source, struct jsonx_stream **ret_stream,
                      struct err *err);
void jsonx_stream_close(struct jsonx_stream *stream); /* NULL is fine */
/* Returns an event; -EBADMSG: the text is not such an object, or a value is too long; -ENOMEM; or
 * an error of the source. */
int jsonx_stream_next(struct jsonx_stream *stream, struct jsonx_stream_value *ret_value,
                      struct err *err);

#endif
