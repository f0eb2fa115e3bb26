/*
 * http_retry — which requests are sent again, and when: exponential backoff with full jitter (M.
 * Brooker, "Exponential Backoff And Jitter", AWS 2015), until a total deadline.
 */
#ifndef MILLRACE_IO_HTTP_HTTP_RETRY_H
#define MILLRACE_IO_HTTP_HTTP_RETRY_H

#include "io/http/http.h"
#include "io/io.h"

#define HTTP_RETRY_FIRST_NS    UINT64_C(100000000)    /* the longest first delay: 0.1 s */
#define HTTP_RETRY_DELAY_NS    UINT64_C(10000000000)  /* the longest delay: 10 s */
#define HTTP_RETRY_DEADLINE_NS UINT64_C(120000000000) /* after the first attempt: 2 min */

/* Of one request that may be sent several times. */
struct http_retry {
    uint64_t begun_ns; /* 0: not yet sent */
    unsigned attempts;
};

/* Whether a failed response may be followed by a better one: the server is busy or failed (408,
 * 429, 5xx), or the connection did. */
bool http_is_transient(const struct http_response *response);
/* Returns whether to send the request again, and when, on the clock of clock_now_ns. random: any
 * number that differs between clients. */
bool http_retry_next(struct http_retry *retry, const struct http_response *response,
                     uint64_t random, uint64_t now_ns, uint64_t *ret_due_ns);

/* Sets the error of a response that is final, and returns it: -ENOENT (404, 410), -EACCES (401,
 * 403), -ESTALE (412), -ETIMEDOUT, -EPROTO, or the transport's. path: shown without what may be
 * secret (http_url.h). */
int http_describe(const struct http_request *request, const char *path, unsigned attempts,
                  struct err *err);
/* The same number without the detail. */
int http_status_errno(const struct http_response *response);

#endif
