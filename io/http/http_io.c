/*
 * http_io — files on a web server, read by ranged GETs: the schemes http and https. See io.h.
 *
 * The server must send ranges (status 206). A file that is replaced while it is open is noticed:
 * reads fail with -ESTALE if its ETag, its date or its size is another one. Requests that fail for
 * a passing reason are sent again (http_retry.h). Folders cannot be listed, and nothing can be
 * written. Proxies are those of libcurl's environment variables.
 */
#include "base/clock.h"
#include "base/hmac.h"
#include "io/http/http_retry.h"
#include "io/http/http_url.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GAP_BYTES: of a latency of 10 ms and 100 MB/s. */
enum { GAP_BYTES = 1 << 20, HEADER_BYTES_MAX = HTTP_ETAG_BYTES_MAX + 32 };

/* A pool of one connection, for requests that block. */
struct connection {
    struct http_pool *pool;
    struct connection *next;
};

struct http_io {
    struct io base;
    pthread_mutex_t mutex; /* guards idle */
    struct connection *idle;
    atomic_bool has_answered; /* a server was reached */
};

/* Immutable. */
struct io_file {
    char path[IO_PATH_BYTES_MAX], url[HTTP_URL_BYTES_MAX];
    uint64_t bytes;
    char etag[HTTP_ETAG_BYTES_MAX], modified[HTTP_DATE_BYTES_MAX];
    char condition[HEADER_BYTES_MAX]; /* a header; "": the server gives nothing to compare */
    const char *headers[2];
};

/* A read in progress. */
struct read {
    struct http_request http;
    struct io_request *request;
    struct http_retry retry;
    uint64_t due_ns; /* of a delayed one */
    bool is_delayed;
    struct read *next; /* in the list of free ones */
};

/* Owner thread. */
struct io_queue {
    struct http_pool *pool;
    uint64_t random;
    unsigned depth, delayed_count;
    struct read *free;
    struct io_request *done, **done_end;
    struct read reads[]; /* [depth] */
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t seed_of(const void *object)
{
    return (clock_wall_ns() ^ (uint64_t)(uintptr_t)object) | 1;
}

/* ---- Requests that block. ---- */

static struct connection *take_connection(struct http_io *http, struct err *err)
{
    pthread_mutex_lock(&http->mutex);
    struct connection *connection = http->idle;
    if (connection)
        http->idle = connection->next;
    pthread_mutex_unlock(&http->mutex);
    if (connection)
        return connection;
    connection = calloc(1, sizeof *connection);
    if (!connection || http_pool_open(1, &connection->pool, err)) {
        free(connection);
        err_set(err, -ENOMEM, "out of memory for requests over HTTP");
        return NULL;
    }
    return connection;
}

static void return_connection(struct http_io *http, struct connection *connection)
{
    pthread_mutex_lock(&http->mutex);
    connection->next = http->idle;
    http->idle = connection;
    pthread_mutex_unlock(&http->mutex);
}

/* A server that never answered is rather misspelled than restarting. */
static bool is_unknown_server(const struct http_io *http, const struct http_response *response)
{
    return !atomic_load(&http->has_answered) &&
           (response->error == -ECONNREFUSED || response->error == -EHOSTUNREACH);
}

/* Sends the request until it gets a final answer. -ENOMEM, or 0: request->response has it. */
static int perform(struct http_io *http, struct http_request *request, unsigned *ret_attempts,
                   struct err *err)
{
    struct connection *connection = take_connection(http, err);
    if (!connection)
        return -ENOMEM;
    struct http_retry retry = {.begun_ns = clock_now_ns()};
    uint64_t random = seed_of(request), due_ns = 0;
    struct http_request *done;
    int status;
    do {
        uint64_t now_ns = clock_now_ns();
        if (due_ns > now_ns)
            clock_sleep_ns(due_ns - now_ns);
        status = http_start(connection->pool, request);
        if (!status)
            http_wait(connection->pool, &done, 1, 1, -1);
        if (request->response.status)
            atomic_store(&http->has_answered, true);
    } while (
        !status && !is_unknown_server(http, &request->response) &&
        http_retry_next(&retry, &request->response, next_random(&random), clock_now_ns(), &due_ns));
    return_connection(http, connection);
    *ret_attempts = retry.attempts;
    return status ? err_set(err, status, "out of memory for a request over HTTP") : 0;
}

/* Asks for the first byte, since servers answer HEAD in fewer cases than GET. */
static int get_head(struct http_io *http, const char *path, const char *url,
                    struct http_response *ret_response, struct err *err)
{
    char byte;
    unsigned attempts = 0;
    struct http_request request = {
        .url = url, .range_bytes = 1, .data = &byte, .capacity_bytes = 1};
    int status = perform(http, &request, &attempts, err);
    const struct http_response *response = &request.response;
    bool is_empty = !response->error && (response->status == 416 || response->status == 200) &&
                    response->whole_bytes == 0;
    if (!status && !is_empty &&
        (response->error || response->status != 206 || response->whole_bytes == UINT64_MAX))
        status = http_describe(&request, path, attempts, err);
    *ret_response = request.response;
    str_deinit(&request.message);
    return status;
}

/* ---- Files. ---- */

static void set_condition(struct io_file *file)
{
    bool is_strong = file->etag[0] == '"';
    if (is_strong)
        snprintf(file->condition, sizeof file->condition, "If-Match: %s", file->etag);
    else if (file->modified[0])
        snprintf(file->condition, sizeof file->condition, "If-Unmodified-Since: %s",
                 file->modified);
    file->headers[0] = file->condition[0] ? file->condition : NULL;
}

static int http_file_open(struct io *io, const char *path, struct io_file **ret_file,
                          struct err *err)
{
    struct http_response response;
    struct io_file *file = calloc(1, sizeof *file);
    if (!file)
        return err_set(err, -ENOMEM, "out of memory for a file");
    int status = http_url_encode(path, file->url, err);
    if (!status)
        status = get_head((struct http_io *)io, path, file->url, &response, err);
    if (status) {
        free(file);
        return status;
    }
    snprintf(file->path, sizeof file->path, "%s", path);
    snprintf(file->etag, sizeof file->etag, "%s", response.etag);
    snprintf(file->modified, sizeof file->modified, "%s", response.modified);
    file->bytes = response.whole_bytes;
    set_condition(file);
    *ret_file = file;
    return 0;
}

static void http_file_close(struct io_file *file)
{
    free(file);
}

static uint64_t http_file_size(const struct io_file *file)
{
    return file->bytes;
}

static int identify(const char *etag, const char *modified, uint64_t bytes,
                    struct io_identity *ret_identity, struct err *err)
{
    char text[HTTP_ETAG_BYTES_MAX + HTTP_DATE_BYTES_MAX + 32];
    int length =
        snprintf(text, sizeof text, "%s\n%s\n%llu", etag, modified, (unsigned long long)bytes);
    ret_identity->bytes_count = SHA256_BYTES;
    int status = sha256(text, (size_t)length, ret_identity->bytes);
    return status ? err_errno(err, status, "could not hash a file's version") : 0;
}

static int http_file_identity(const struct io_file *file, struct io_identity *ret_identity,
                              struct err *err)
{
    return identify(file->etag, file->modified, file->bytes, ret_identity, err);
}

/* ---- Queues. ---- */

static int http_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue,
                           struct err *err)
{
    (void)io;
    if (depth < 1 || depth > IO_QUEUE_DEPTH_MAX)
        return err_set(err, -EINVAL, "a queue of %u requests is not possible", depth);
    struct io_queue *queue = calloc(1, sizeof *queue + depth * sizeof queue->reads[0]);
    if (!queue)
        return err_set(err, -ENOMEM, "out of memory for a queue of requests");
    int status = http_pool_open(depth, &queue->pool, err);
    if (status) {
        free(queue);
        return status;
    }
    queue->depth = depth;
    queue->random = seed_of(queue);
    queue->done_end = &queue->done;
    for (unsigned i = 0; i < depth; i++) {
        queue->reads[i].next = queue->free;
        queue->free = &queue->reads[i];
    }
    *ret_queue = queue;
    return 0;
}

static void http_queue_close(struct io_queue *queue)
{
    http_pool_close(queue->pool);
    for (unsigned i = 0; i < queue->depth; i++)
        str_deinit(&queue->reads[i].http.message);
    free(queue);
}

static void add_done(struct io_queue *queue, struct io_request *request, ssize_t result)
{
    request->result = result;
    request->next = NULL;
    *queue->done_end = request;
    queue->done_end = &request->next;
}

static void end_read(struct io_queue *queue, struct read *read, ssize_t result)
{
    add_done(queue, read->request, result);
    read->request = NULL;
    read->next = queue->free;
    queue->free = read;
}

/* Sends a read, for the first time or again. */
static void start_read(struct io_queue *queue, struct read *read)
{
    int status = http_start(queue->pool, &read->http);
    if (status)
        end_read(queue, read, status);
}

static void begin_read(struct io_queue *queue, struct io_request *request)
{
    const struct io_file *file = request->file;
    struct read *read = queue->free;
    uint64_t left = request->offset < file->bytes ? file->bytes - request->offset : 0;
    uint64_t bytes = request->bytes < left ? request->bytes : left;
    if (request->kind != IO_READ || bytes == 0) {
        add_done(queue, request, request->kind != IO_READ ? -EROFS : 0);
        return;
    }
    queue->free = read->next;
    struct str message = read->http.message; /* keeps its memory */
    read->request = request;
    read->retry = (struct http_retry){.begun_ns = clock_now_ns()};
    read->http = (struct http_request){.url = file->url,
                                       .headers = file->headers,
                                       .range_begin = request->offset,
                                       .range_bytes = bytes,
                                       .data = request->data,
                                       .capacity_bytes = bytes,
                                       .user = read,
                                       .message = message};
    start_read(queue, read);
}

static int http_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count)
{
    unsigned accepted = 0;
    while (accepted < count && queue->free)
        begin_read(queue, requests[accepted++]);
    return (int)accepted;
}

/* -ESTALE if the response is of another version of the file than the one that was opened. */
static int check_version(const struct io_file *file, const struct http_response *response)
{
    bool has_other_tag = response->etag[0] && file->etag[0] && strcmp(response->etag, file->etag);
    bool has_other_date = !file->etag[0] && response->modified[0] && file->modified[0] &&
                          strcmp(response->modified, file->modified);
    return has_other_tag || has_other_date || response->whole_bytes != file->bytes ? -ESTALE : 0;
}

static void take_response(struct io_queue *queue, struct read *read)
{
    struct http_response *response = &read->http.response;
    bool is_range = !response->error && response->status == 206;
    if (is_range && (response->range_begin != read->http.range_begin ||
                     response->body_bytes != read->http.range_bytes)) {
        response->error = check_version(read->request->file, response); /* it may be shorter now */
        if (!response->error)
            response->error = -EPROTO;
    } else if (is_range) {
        int status = check_version(read->request->file, response);
        end_read(queue, read, status ? status : (ssize_t)response->body_bytes);
        return;
    }
    if (http_retry_next(&read->retry, response, next_random(&queue->random), clock_now_ns(),
                        &read->due_ns)) {
        read->is_delayed = true;
        queue->delayed_count++;
    } else {
        end_read(queue, read, http_status_errno(response));
    }
}

/* Sends the delayed reads that are due. Returns when the next one is; UINT64_MAX: none is left. */
static uint64_t start_due(struct io_queue *queue)
{
    uint64_t next_ns = UINT64_MAX, now_ns = clock_now_ns();
    for (unsigned i = 0; i < queue->depth && queue->delayed_count > 0; i++) {
        struct read *read = &queue->reads[i];
        if (!read->is_delayed)
            continue;
        if (read->due_ns > now_ns) {
            next_ns = read->due_ns < next_ns ? read->due_ns : next_ns;
            continue;
        }
        read->is_delayed = false;
        queue->delayed_count--;
        start_read(queue, read);
    }
    return next_ns;
}

static unsigned take_done(struct io_queue *queue, struct io_request **done, unsigned count_max)
{
    unsigned count = 0;
    for (; count < count_max && queue->done; count++) {
        done[count] = queue->done;
        queue->done = queue->done->next;
    }
    if (!queue->done)
        queue->done_end = &queue->done;
    return count;
}

/* The shorter of two waits in milliseconds, of which less than 0 is endless. */
static int wait_ms_until(uint64_t due_ns, uint64_t now_ns, int timeout_ms)
{
    if (due_ns == UINT64_MAX)
        return timeout_ms;
    uint64_t ms = due_ns > now_ns ? (due_ns - now_ns + 999999) / 1000000 : 0;
    return timeout_ms < 0 || ms < (uint64_t)timeout_ms ? (int)(ms < 60000 ? ms : 60000)
                                                       : timeout_ms;
}

static int http_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                     unsigned count_min, int timeout_ms)
{
    enum { BATCH = 32 };
    struct http_request *finished[BATCH];
    uint64_t begun_ns = clock_now_ns();
    unsigned count = 0;
    while (true) {
        uint64_t due_ns = start_due(queue);
        bool is_idle = http_count_in_progress(queue->pool) == 0 && queue->delayed_count == 0;
        count += take_done(queue, done + count, count_max - count);
        uint64_t now_ns = clock_now_ns(), passed_ms = (now_ns - begun_ns) / 1000000;
        int left_ms = timeout_ms < 0                      ? -1
                      : passed_ms >= (uint64_t)timeout_ms ? 0
                                                          : timeout_ms - (int)passed_ms;
        if (count >= count_min || count == count_max || is_idle || (left_ms == 0 && timeout_ms > 0))
            break;
        int wait_ms = wait_ms_until(due_ns, now_ns, left_ms);
        unsigned taken = 0;
        if (http_count_in_progress(queue->pool) > 0)
            taken = http_wait(queue->pool, finished, BATCH, 1, wait_ms);
        else if (wait_ms > 0)
            clock_sleep_ns((uint64_t)wait_ms * 1000000);
        for (unsigned i = 0; i < taken; i++)
            take_response(queue, finished[i]->user);
        if (timeout_ms == 0) {
            count += take_done(queue, done + count, count_max - count);
            break;
        }
    }
    return (int)count;
}

static void http_cancel_read(struct io_queue *queue, struct io_request *request)
{
    for (unsigned i = 0; i < queue->depth; i++) {
        struct read *read = &queue->reads[i];
        if (read->request != request)
            continue;
        http_cancel(queue->pool, &read->http);
        queue->delayed_count -= read->is_delayed;
        read->is_delayed = false;
        end_read(queue, read, -ECANCELED);
        return;
    }
}

/* ---- Names. ---- */

/* Web servers do not say what is a folder. One is what they redirect to a URL that ends with "/",
 * or what they do not send and whose name has no extension. */
static bool is_folder(const struct http_response *response, const char *path)
{
    bool is_absent = response->status == 403 || response->status == 404;
    return response->is_folder || (is_absent && !http_url_has_extension(path));
}

static int http_stat(struct io *io, const char *path, struct io_stat *ret_stat, struct err *err)
{
    char url[HTTP_URL_BYTES_MAX];
    struct http_response response = {0};
    int status = http_url_encode(path, url, err);
    if (!status)
        status = get_head((struct http_io *)io, path, url, &response, err);
    if (response.status && is_folder(&response, path)) {
        *ret_stat = (struct io_stat){.kind = IO_ENTRY_FOLDER};
        return 0;
    }
    if (status)
        return status;
    struct io_stat info = {.kind = IO_ENTRY_FILE, .size_bytes = response.whole_bytes};
    if (response.modified_s > 0)
        info.mtime_ns = (uint64_t)response.modified_s * CLOCK_NS_PER_S;
    status = identify(response.etag, response.modified, response.whole_bytes, &info.identity, err);
    if (!status)
        *ret_stat = info;
    return status;
}

static uint64_t http_gap_bytes(struct io *io, const char *path)
{
    (void)io;
    (void)path;
    return GAP_BYTES;
}

static int refuse(const char *path, int code, const char *what, const char *advice, struct err *err)
{
    char shown[IO_PATH_BYTES_MAX];
    http_url_redact(path, shown);
    err_set(err, code, "%s", what);
    err_at(err, shown, ERR_NO_OFFSET);
    err_advise(err, "%s", advice);
    return code;
}

static int refuse_write(const char *path, struct err *err)
{
    return refuse(path, -EROFS, "a web server's files can only be read", "write to a local folder",
                  err);
}

static int http_list(struct io *io, const char *path,
                     int (*entry)(void *context, const struct io_entry *entry), void *context,
                     struct err *err)
{
    (void)io;
    (void)entry;
    (void)context;
    return refuse(path, -EOPNOTSUPP, "a web server's folders cannot be listed",
                  "name the dataset's dataset.json, or its tars by a pattern such as "
                  "shard-{000000..000099}.tar",
                  err);
}

static int http_make_folder(struct io *io, const char *path, struct err *err)
{
    (void)io;
    return refuse_write(path, err);
}

static int http_begin(struct io *io, const struct io_transaction_options *options,
                      struct io_transaction **ret_transaction, struct err *err)
{
    (void)io;
    (void)ret_transaction;
    return refuse_write(options->path, err);
}

static int http_join(struct io *io, const struct io_transaction_options *options,
                     const char *staging_path, struct io_transaction **ret_transaction,
                     struct err *err)
{
    (void)staging_path;
    return http_begin(io, options, ret_transaction, err);
}

static int http_sweep(struct io *io, const char *folder, const char *owner_id,
                      bool (*is_ours)(const char *entry_name), struct err *err)
{
    (void)io;
    (void)owner_id;
    (void)is_ours;
    return refuse_write(folder, err);
}

static int http_acquire(struct io *io, const char *folder, const struct io_lock_options *options,
                        struct io_lock **ret_lock, struct err *err)
{
    (void)io;
    (void)options;
    (void)ret_lock;
    return refuse_write(folder, err);
}

/* ---- The backend. ---- */

static void http_close(struct io *io)
{
    struct http_io *http = (struct http_io *)io;
    while (http->idle) {
        struct connection *connection = http->idle;
        http->idle = connection->next;
        http_pool_close(connection->pool);
        free(connection);
    }
    pthread_mutex_destroy(&http->mutex);
    free(http);
}

static const struct io_ops http_ops = {
    .name = "libcurl",
    .scheme = "http",
    .file_open = http_file_open,
    .file_close = http_file_close,
    .file_size = http_file_size,
    .file_identity = http_file_identity,
    .queue_open = http_queue_open,
    .queue_close = http_queue_close,
    .submit = http_submit,
    .reap = http_reap,
    .cancel = http_cancel_read,
    .close = http_close,
};

static const struct io_name_ops http_names = {
    .stat = http_stat,
    .gap_bytes = http_gap_bytes,
    .list = http_list,
    .make_folder = http_make_folder,
    .remove = http_make_folder,
};

/* No transaction and no lock can begin, so the other hooks are never called. */
static const struct io_transaction_ops http_transactions = {
    .begin = http_begin, .join = http_join, .sweep = http_sweep};
static const struct io_lock_ops http_locks = {.acquire = http_acquire};

int io_http_open(const struct io_options *options, struct io **ret_io, struct err *err)
{
    (void)options;
    struct http_io *http = calloc(1, sizeof *http);
    if (!http)
        return err_set(err, -ENOMEM, "out of memory for a storage backend");
    http->base = (struct io){.ops = &http_ops,
                             .names = &http_names,
                             .transactions = &http_transactions,
                             .locks = &http_locks};
    pthread_mutex_init(&http->mutex, NULL);
    *ret_io = &http->base;
    return 0;
}
