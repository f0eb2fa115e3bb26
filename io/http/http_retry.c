/*
 * http_retry — see http_retry.h.
 */
#include "io/http/http_retry.h"

#include "base/clock.h"
#include "io/http/http_url.h"

#include <errno.h>
#include <string.h>

enum { REASON_BYTES_MAX = 100 };

bool http_is_transient(const struct http_response *response)
{
    switch (response->error) {
    case 0:
        break;
    case -EKEYREJECTED:
    case -EOPNOTSUPP:
    case -ENOMEM:
        return false;
    case -EPROTO: /* a body that ends early is one; another form of answer stays */
        return response->status == 200 || response->status == 206 || response->status == 0;
    default:
        return true;
    }
    return response->status == 408 || response->status == 429 || response->status >= 500;
}

bool http_retry_next(struct http_retry *retry, const struct http_response *response,
                     uint64_t random, uint64_t now_ns, uint64_t *ret_due_ns)
{
    unsigned doublings = retry->attempts < 16 ? retry->attempts : 16;
    uint64_t longest_ns = HTTP_RETRY_FIRST_NS << doublings;
    if (longest_ns > HTTP_RETRY_DELAY_NS)
        longest_ns = HTTP_RETRY_DELAY_NS;
    uint64_t delay_ns = random % longest_ns;
    if (response->retry_after_s > 0)
        delay_ns += (uint64_t)response->retry_after_s * CLOCK_NS_PER_S;
    retry->attempts++;
    *ret_due_ns = now_ns + delay_ns;
    return http_is_transient(response) && *ret_due_ns < retry->begun_ns + HTTP_RETRY_DEADLINE_NS;
}

int http_status_errno(const struct http_response *response)
{
    if (response->error)
        return response->error;
    switch (response->status) {
    case 404:
    case 410:
        return -ENOENT;
    case 401:
    case 403:
        return -EACCES;
    case 412:
        return -ESTALE;
    case 408:
    case 429:
        return -ETIMEDOUT;
    default:
        return response->status >= 500 ? -EIO : -EPROTO;
    }
}

static const char *advice_for(int status)
{
    switch (status) {
    case -ENOENT:
        return "check the URL; that of a folder may have to end with /";
    case -EACCES:
        return "check that the server lets you read it";
    case -ESTALE:
        return "the file was replaced while it was read: start again";
    case -EHOSTUNREACH:
    case -ECONNREFUSED:
        return "check the host's name and port, and the proxy";
    case -EKEYREJECTED:
        return "check the server's certificate, or name a file with its authority in "
               "CURL_CA_BUNDLE";
    case -EOPNOTSUPP:
        return "use a server that sends parts of files (Accept-Ranges: bytes)";
    default:
        return NULL;
    }
}

/* Of the first line, if it is text and not a page. */
static size_t reason_length(const char *message)
{
    size_t bytes = strcspn(message, "\r\n<");
    return message[0] == '<' || message[0] == '{' ? 0
           : bytes < REASON_BYTES_MAX             ? bytes
                                                  : REASON_BYTES_MAX;
}

int http_describe(const struct http_request *request, const char *path, unsigned attempts,
                  struct err *err)
{
    const struct http_response *response = &request->response;
    int status = http_status_errno(response);
    const char *reason = str_text(&request->message);
    size_t reason_bytes = reason_length(reason);
    char shown[IO_PATH_BYTES_MAX];
    err_set(err, status, "an HTTP request failed");
    http_url_redact(path, shown);
    err_at(err, shown, ERR_NO_OFFSET);
    if (response->error)
        err_found(err, "%s", response->why);
    else
        err_found(err, "status %d%s%.*s", response->status, reason_bytes ? ": " : "",
                  (int)reason_bytes, reason);
    const char *advice = advice_for(status);
    if (advice)
        err_advise(err, "%s", advice);
    else if (attempts > 1)
        err_advise(err, "it was tried %u times; try again later", attempts);
    return status;
}
