/*
 * sample_stream — samples that another program sends through a pipe, such as the Python package.
 *
 * All numbers are little-endian u32. The sender writes
 *
 *     "millrace samples 1\n"
 *     bytes, and so many bytes of JSON: {"identity": TEXT, "classes": [NAME, ...]}
 *
 * and waits for a line: "begin N" if the first N samples are stored already (--resume), or
 * "complete". After "begin N", it sends its samples from number N on, each as
 *
 *     bytes, of all that follows
 *     fields, key bytes, key
 *     for each field: extension bytes, data bytes, extension, data
 *
 * and at last a 0, without which the samples are not complete. identity is any text that differs
 * if the samples do; a conversion resumes only with the same one. classes are the names of the
 * numbers in the field cls; none: no names.
 */
#ifndef MILLRACE_CONVERT_SOURCE_SAMPLE_STREAM_H
#define MILLRACE_CONVERT_SOURCE_SAMPLE_STREAM_H

#include "base/err.h"
#include "base/str.h"
#include "convert/source/source.h"

enum {
    SAMPLE_STREAM_MAGIC_BYTES = 19,
    SAMPLE_STREAM_HEADER_BYTES_MAX = 64 << 20,
};

/* Whether so many bytes, at most SAMPLE_STREAM_MAGIC_BYTES, begin a stream. */
bool sample_stream_detect(const char *head, size_t bytes);

struct sample_stream; /* use from one thread at a time */
/* Reads the header from input, behind the magic. Borrows both descriptors, and stop, as in
 * convert_options. -EPROTO: not a stream; -EINTR. Blocks. */
int sample_stream_open(int input, int reply, const atomic_int *stop,
                       struct sample_stream **ret_stream, struct err *err);
void sample_stream_close(struct sample_stream *stream); /* NULL is fine */
/* The header's JSON. */
const struct str *sample_stream_header(const struct sample_stream *stream);
/* Sends the reply. samples_done: UINT64_MAX: complete. -EPIPE: the sender has ended. */
int sample_stream_reply(struct sample_stream *stream, uint64_t samples_done, struct err *err);
/* Appends the next sample's fields to sample, which is empty, and sets its key. Returns 1, 0 after
 * the last sample, or an error. -EAGAIN: none begins to arrive within 10 ms. -EPROTO: the sender
 * has ended early, or sends no samples; -EINTR. Blocks. */
int sample_stream_next(struct sample_stream *stream, char key[SHARD_KEY_BYTES_MAX],
                       struct source_sample *sample, struct err *err);

/* Parses what follows a sample's length, which sample->data contains. -EPROTO. */
int sample_record_parse(struct source_sample *sample, char key[SHARD_KEY_BYTES_MAX],
                        struct err *err);

#endif
