/*
 * read_log — see read_log.h.
 */
#include "tests/support/read_log.h"

#include "tests/support/test.h"

#include <pthread.h>
#include <string.h>

enum { OPENS_MAX = 1024 };

/* One per file_open. */
struct logged_file {
    struct io_file *file; /* NULL once closed */
    char path[IO_PATH_BYTES_MAX];
    uint64_t file_bytes;
    struct read_log_sum sum;
};

static const struct io_ops *real_ops;
static struct io_ops logging_ops;
/* guards the two below */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct logged_file files[OPENS_MAX];
static unsigned files_count;

static int logging_open(struct io *io, const char *path, struct io_file **ret_file, struct err *err)
{
    int status = real_ops->file_open(io, path, ret_file, err);
    if (status)
        return status;
    pthread_mutex_lock(&mutex);
    assert_true(files_count < OPENS_MAX);
    struct logged_file *logged = &files[files_count++];
    *logged = (struct logged_file){
        .file = *ret_file, .file_bytes = real_ops->file_size(*ret_file), .sum = {.opens_count = 1}};
    snprintf(logged->path, sizeof logged->path, "%s", path);
    pthread_mutex_unlock(&mutex);
    return 0;
}

static struct logged_file *find(const struct io_file *file)
{
    for (unsigned i = 0; i < files_count; i++)
        if (files[i].file == file)
            return &files[i];
    return NULL; /* opened before read_log_begin */
}

static void logging_close(struct io_file *file)
{
    pthread_mutex_lock(&mutex);
    struct logged_file *logged = find(file);
    if (logged)
        logged->file = NULL;
    pthread_mutex_unlock(&mutex);
    real_ops->file_close(file);
}

static void log_read(const struct io_request *request)
{
    pthread_mutex_lock(&mutex);
    struct logged_file *logged = find(request->file);
    if (logged) {
        bool is_tail = request->offset + request->bytes >= logged->file_bytes;
        logged->sum.reads_count++;
        logged->sum.read_bytes += request->bytes;
        logged->sum.tail_reads_count += is_tail;
        logged->sum.tail_read_bytes += is_tail ? request->bytes : 0;
    }
    pthread_mutex_unlock(&mutex);
}

/* Submits one request at a time, because the queue may refuse some of them, and the engine owns an
 * accepted request. */
static int logging_submit(struct io_queue *queue, struct io_request *const *requests,
                          unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct io_request request = *requests[i];
        int taken = real_ops->submit(queue, &requests[i], 1);
        if (taken < 1)
            return i > 0 ? (int)i : taken;
        if (request.kind == IO_READ)
            log_read(&request);
    }
    return (int)count;
}

void read_log_begin(struct io *io)
{
    real_ops = io->ops;
    logging_ops = *real_ops;
    logging_ops.file_open = logging_open;
    logging_ops.file_close = logging_close;
    logging_ops.submit = logging_submit;
    files_count = 0;
    io->ops = &logging_ops;
}

void read_log_end(struct io *io)
{
    io->ops = real_ops;
}

struct read_log_sum read_log_sum(const char *text)
{
    struct read_log_sum total = {0};
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < files_count; i++) {
        const struct read_log_sum *sum = &files[i].sum;
        if (!strstr(files[i].path, text))
            continue;
        total.opens_count += sum->opens_count;
        total.reads_count += sum->reads_count;
        total.read_bytes += sum->read_bytes;
        total.tail_reads_count += sum->tail_reads_count;
        total.tail_read_bytes += sum->tail_read_bytes;
    }
    pthread_mutex_unlock(&mutex);
    return total;
}
