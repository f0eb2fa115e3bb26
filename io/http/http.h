/*
 * http — GET requests over HTTP and HTTPS, many at a time, by libcurl's multi interface, which only
 * http.c uses.
 *
 *     http_pool_open(64, &pool, err);
 *     struct http_request request = {.url = url, .data = buffer, .capacity_bytes = 4096};
 *     http_start(pool, &request);
 *     http_wait(pool, done, 64, 1, 1000);  // request.response
 *
 * A pool keeps its connections. Requests are sent once: http_retry.h decides what is sent again.
 *
 * Threads: a pool belongs to one thread.
 */
#ifndef MILLRACE_IO_HTTP_HTTP_H
#define MILLRACE_IO_HTTP_HTTP_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HTTP_REQUESTS_MAX = 4096, /* of a pool, at a time */
    HTTP_ETAG_BYTES_MAX = 128,
    HTTP_DATE_BYTES_MAX = 64,
    HTTP_MESSAGE_BYTES_MAX = 64 << 10, /* the body of an error */
    HTTP_STALL_SECONDS = 10,           /* without 1 KiB/s, a transfer counts as broken */
};

struct http_response {
    int status; /* such as 206; 0: none arrived */
    /* If no whole response arrived: -ETIMEDOUT, -ECONNREFUSED, -ECONNRESET, -EHOSTUNREACH (no such
     * host), -EPROTO (not HTTP, another length than announced, or more than capacity_bytes),
     * -EKEYREJECTED (TLS), -EOPNOTSUPP (the whole file instead of a range), -ENOMEM, or -EIO. */
    int error;
    char why[ERR_TEXT_BYTES_MAX]; /* of the error */
    uint64_t body_bytes;
    uint64_t whole_bytes; /* of Content-Range, else of Content-Length; UINT64_MAX: unknown */
    uint64_t range_begin; /* of Content-Range; UINT64_MAX: none */
    char etag[HTTP_ETAG_BYTES_MAX];     /* with its quotes; "": none */
    char modified[HTTP_DATE_BYTES_MAX]; /* Last-Modified; "": none */
    int64_t modified_s;                 /* the same in seconds since 1970; -1: unknown */
    int retry_after_s;                  /* -1: none */
    bool is_folder;                     /* the URL, after redirects, ends with "/" */
};

/* Caller-owned. From start until it is done, the pool owns the request and all it points to. */
struct http_request {
    const char *url;
    const char *const *headers; /* "name: value"; NULL: the end, or none */
    /* A range of the object, which must come with status 206; 0 bytes: all of it. */
    uint64_t range_begin, range_bytes;
    /* Where a successful response's body goes. Errors' bodies go to message. */
    void *data;
    uint64_t capacity_bytes;
    void *user; /* for the caller */
    struct http_response response;
    struct str message; /* the caller frees it */
    void *handle;       /* for the pool */
};

struct http_pool;

/* depth: the requests and connections at a time, at most HTTP_REQUESTS_MAX. -ENOMEM. */
int http_pool_open(unsigned depth, struct http_pool **ret_pool, struct err *err);
/* Ends all requests, which are not done. NULL is fine. */
void http_pool_close(struct http_pool *pool);

/* -EBUSY: as many are in progress as the pool's depth; -ENOMEM. */
int http_start(struct http_pool *pool, struct http_request *request);
/* Waits until count_min requests are done, or timeout_ms have passed; less than 0: no limit.
 * Returns the number stored in done. */
unsigned http_wait(struct http_pool *pool, struct http_request **done, unsigned count_max,
                   unsigned count_min, int timeout_ms);
/* The request is not done afterwards, and belongs to the caller again. */
void http_cancel(struct http_pool *pool, struct http_request *request);
unsigned http_count_in_progress(const struct http_pool *pool);

#endif
