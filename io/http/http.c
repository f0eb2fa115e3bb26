/*
 * http — see http.h.
 */
#include "io/http/http.h"

#include "base/clock.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    CONNECT_TIMEOUT_MS = 10000,
    STALL_BYTES_PER_S = 1024,
    REDIRECTS_MAX = 5,
    BUFFER_BYTES = 256 << 10,
};

/* A handle of libcurl and the request it carries. */
struct transfer {
    CURL *curl;
    struct curl_slist *headers;
    struct http_request *request; /* NULL: free */
    bool is_too_large, is_unranged;
    char error[CURL_ERROR_SIZE];
    struct transfer *next; /* in the list of free ones */
};

struct http_pool {
    CURLM *multi;
    unsigned depth, count;
    struct transfer *transfers; /* [depth] */
    struct transfer *free;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_status;
static const char *certificates; /* a file; NULL: libcurl's own choice */

/* libcurl knows the place only on the distribution for which it was built, and does not read the
 * variables that its program reads. */
static void find_certificates(void)
{
    static const char *const variables[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Alpine, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
    };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0] && !certificates; i++)
        certificates = getenv(variables[i]);
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !certificates; i++)
        if (access(files[i], R_OK) == 0)
            certificates = files[i];
}

static void init_curl(void)
{
    curl_status = curl_global_init(CURL_GLOBAL_DEFAULT);
    find_certificates();
}

/* ---- Responses. ---- */

static const struct http_response no_response = {
    .whole_bytes = UINT64_MAX, .range_begin = UINT64_MAX, .modified_s = -1, .retry_after_s = -1};

static bool is_success(int status)
{
    return status >= 200 && status < 300;
}

static size_t take_body(char *data, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    struct http_request *request = transfer->request;
    struct http_response *response = &request->response;
    size_t bytes = size * count;
    long status = 0;
    curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
    if (!is_success((int)status)) {
        size_t left = HTTP_MESSAGE_BYTES_MAX - request->message.bytes;
        str_add(&request->message, data, bytes < left ? bytes : left);
        return bytes;
    }
    if (request->range_bytes > 0 && status != 206) {
        transfer->is_unranged = true;
        return 0;
    }
    if (bytes > request->capacity_bytes - response->body_bytes) {
        transfer->is_too_large = true;
        return 0;
    }
    memcpy((char *)request->data + response->body_bytes, data, bytes);
    response->body_bytes += bytes;
    return bytes;
}

/* The value of a header of that name, without spaces around it; NULL: another header. */
static const char *value_of(const char *line, size_t bytes, const char *name, size_t *ret_bytes)
{
    size_t name_bytes = strlen(name);
    if (bytes <= name_bytes || strncasecmp(line, name, name_bytes) != 0 || line[name_bytes] != ':')
        return NULL;
    const char *begin = line + name_bytes + 1, *end = line + bytes;
    while (begin < end && (*begin == ' ' || *begin == '\t'))
        begin++;
    while (end > begin && strchr(" \t\r\n", end[-1]))
        end--;
    *ret_bytes = (size_t)(end - begin);
    return begin;
}

static void copy_value(const char *value, size_t bytes, char *text, size_t text_bytes)
{
    if (bytes >= text_bytes) /* a longer one cannot be compared */
        bytes = 0;
    memcpy(text, value, bytes);
    text[bytes] = '\0';
}

/* "bytes 0-9/123" or, of an empty object, "bytes " "*" "/0". */
static void take_range(const char *value, struct http_response *response)
{
    unsigned long long begin, end, whole;
    if (sscanf(value, "bytes %llu-%llu/%llu", &begin, &end, &whole) == 3) {
        response->range_begin = begin;
        response->whole_bytes = whole;
    } else if (sscanf(value, "bytes */%llu", &whole) == 1) {
        response->whole_bytes = whole;
    }
}

static size_t take_header(char *line, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    struct http_response *response = &transfer->request->response;
    size_t bytes = size * count, value_bytes;
    const char *value;
    char text[128];
    if (bytes > 5 && strncmp(line, "HTTP/", 5) == 0) { /* also after a redirect or a 100 */
        *response = no_response;
    } else if ((value = value_of(line, bytes, "etag", &value_bytes))) {
        copy_value(value, value_bytes, response->etag, sizeof response->etag);
    } else if ((value = value_of(line, bytes, "last-modified", &value_bytes))) {
        copy_value(value, value_bytes, response->modified, sizeof response->modified);
        response->modified_s = curl_getdate(response->modified, NULL);
    } else if ((value = value_of(line, bytes, "content-range", &value_bytes))) {
        copy_value(value, value_bytes, text, sizeof text);
        take_range(text, response);
    } else if ((value = value_of(line, bytes, "content-length", &value_bytes))) {
        copy_value(value, value_bytes, text, sizeof text);
        if (response->range_begin == UINT64_MAX && response->whole_bytes == UINT64_MAX && text[0])
            response->whole_bytes = strtoull(text, NULL, 10);
    } else if ((value = value_of(line, bytes, "retry-after", &value_bytes))) {
        copy_value(value, value_bytes, text, sizeof text);
        response->retry_after_s = atoi(text);
    }
    return bytes;
}

static int error_of(CURLcode code, const struct transfer *transfer)
{
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_COULDNT_CONNECT:
        return -ECONNREFUSED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
        return -ECONNRESET;
    case CURLE_PARTIAL_FILE:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_TOO_MANY_REDIRECTS:
        return -EPROTO;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return -EKEYREJECTED;
    case CURLE_WRITE_ERROR:
        return transfer->is_too_large ? -EPROTO : transfer->is_unranged ? -EOPNOTSUPP : -EIO;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    default:
        return -EIO;
    }
}

/* ---- Requests. ---- */

static bool add_header(struct transfer *transfer, const char *line)
{
    struct curl_slist *list = curl_slist_append(transfer->headers, line);
    if (list)
        transfer->headers = list;
    return list;
}

static bool set_headers(struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    char range[80];
    bool is_complete = true;
    for (const char *const *line = request->headers; line && *line && is_complete; line++)
        is_complete = add_header(transfer, *line);
    if (request->range_bytes > 0 && is_complete) {
        snprintf(range, sizeof range, "Range: bytes=%llu-%llu",
                 (unsigned long long)request->range_begin,
                 (unsigned long long)(request->range_begin + request->range_bytes - 1));
        is_complete = add_header(transfer, range);
    }
    curl_easy_setopt(transfer->curl, CURLOPT_HTTPHEADER, transfer->headers);
    return is_complete;
}

/* Redirects must not lead to files or other protocols. */
static void limit_protocols(CURL *curl)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static void set_options(struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    CURL *curl = transfer->curl;
    curl_easy_setopt(curl, CURLOPT_URL, request->url);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer->error);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "millrace/" MILLRACE_VERSION);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
    limit_protocols(curl);
    if (certificates)
        curl_easy_setopt(curl, CURLOPT_CAINFO, certificates);
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION,
                     (long)CURL_HTTP_VERSION_1_1); /* many connections */
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_BYTES_PER_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)HTTP_STALL_SECONDS);
}

static void release(struct http_pool *pool, struct transfer *transfer)
{
    curl_multi_remove_handle(pool->multi, transfer->curl);
    curl_easy_reset(transfer->curl); /* keeps connections and caches */
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    transfer->request->handle = NULL;
    transfer->request = NULL;
    transfer->next = pool->free;
    pool->free = transfer;
    pool->count--;
}

/* ---- The pool. ---- */

int http_pool_open(unsigned depth, struct http_pool **ret_pool, struct err *err)
{
    pthread_once(&curl_once, init_curl);
    struct http_pool *pool = curl_status ? NULL : calloc(1, sizeof *pool);
    if (pool)
        *pool = (struct http_pool){.multi = curl_multi_init(),
                                   .depth = depth,
                                   .transfers = calloc(depth, sizeof *pool->transfers)};
    if (!pool || !pool->multi || !pool->transfers) {
        http_pool_close(pool);
        return err_set(err, -ENOMEM, "out of memory for requests over HTTP");
    }
    curl_multi_setopt(pool->multi, CURLMOPT_MAXCONNECTS, (long)depth);
    for (unsigned i = 0; i < depth; i++) {
        pool->transfers[i].next = pool->free;
        pool->free = &pool->transfers[i];
    }
    *ret_pool = pool;
    return 0;
}

void http_pool_close(struct http_pool *pool)
{
    if (!pool)
        return;
    for (unsigned i = 0; pool->transfers && i < pool->depth; i++) {
        if (pool->transfers[i].request)
            release(pool, &pool->transfers[i]);
        curl_easy_cleanup(pool->transfers[i].curl);
    }
    curl_multi_cleanup(pool->multi);
    free(pool->transfers);
    free(pool);
}

int http_start(struct http_pool *pool, struct http_request *request)
{
    struct transfer *transfer = pool->free;
    if (!transfer)
        return -EBUSY;
    if (!transfer->curl && !(transfer->curl = curl_easy_init()))
        return -ENOMEM;
    pool->free = transfer->next;
    pool->count++;
    transfer->request = request;
    transfer->is_too_large = transfer->is_unranged = false;
    transfer->error[0] = '\0';
    request->handle = transfer;
    request->response = no_response;
    str_clear(&request->message);
    set_options(transfer);
    if (set_headers(transfer) && !curl_multi_add_handle(pool->multi, transfer->curl))
        return 0;
    release(pool, transfer);
    return -ENOMEM;
}

static bool is_folder_url(CURL *curl)
{
    const char *url = NULL;
    curl_easy_getinfo(curl, CURLINFO_EFFECTIVE_URL, &url);
    size_t bytes = url ? strcspn(url, "?") : 0;
    return bytes > 0 && url[bytes - 1] == '/';
}

static void finish(struct http_pool *pool, struct transfer *transfer, CURLcode code)
{
    struct http_request *request = transfer->request;
    struct http_response *response = &request->response;
    long status = 0;
    curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
    response->status = (int)status;
    response->is_folder = is_folder_url(transfer->curl);
    response->error = error_of(code, transfer);
    if (transfer->is_unranged)
        snprintf(response->why, sizeof response->why, "the whole file, instead of a part of it");
    else if (transfer->is_too_large)
        snprintf(response->why, sizeof response->why, "more bytes than were requested");
    else if (code)
        snprintf(response->why, sizeof response->why, "%s",
                 transfer->error[0] ? transfer->error : curl_easy_strerror(code));
    release(pool, transfer);
}

static unsigned take_done(struct http_pool *pool, struct http_request **done, unsigned count_max)
{
    unsigned count = 0;
    int left;
    const CURLMsg *message;
    while (count < count_max && (message = curl_multi_info_read(pool->multi, &left))) {
        struct transfer *transfer;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        done[count++] = transfer->request;
        finish(pool, transfer, message->data.result);
    }
    return count;
}

unsigned http_wait(struct http_pool *pool, struct http_request **done, unsigned count_max,
                   unsigned count_min, int timeout_ms)
{
    uint64_t deadline_ns = clock_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
    unsigned count = 0;
    while (true) {
        int running;
        curl_multi_perform(pool->multi, &running);
        count += take_done(pool, done + count, count_max - count);
        if (count >= count_min || count == count_max || pool->count == 0)
            return count;
        uint64_t now_ns = clock_now_ns();
        if (timeout_ms >= 0 && now_ns >= deadline_ns)
            return count;
        int wait_ms = timeout_ms < 0 ? 1000 : (int)((deadline_ns - now_ns + 999999) / 1000000);
        curl_multi_poll(pool->multi, NULL, 0, wait_ms, NULL);
    }
}

void http_cancel(struct http_pool *pool, struct http_request *request)
{
    if (request->handle)
        release(pool, request->handle);
}

unsigned http_count_in_progress(const struct http_pool *pool)
{
    return pool->count;
}
