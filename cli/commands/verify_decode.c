#include "cli/commands/verify_decode.h"

#include "base/os/thread_pool.h"
#include "base/str.h"
#include "cli/commands/verify_member.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct decode_job {
    struct verify_member member; /* its strings and data point into bytes */
    struct str bytes;
    struct err err;
    int status;
};

struct verify_decode {
    void (*on_problem)(void *context, const struct verify_problem *problem);
    void *context;
    struct thread_pool *pool;
    struct image_checker *checkers[THREAD_POOL_THREADS_MAX]; /* one per worker */
    struct decode_job jobs[VERIFY_DECODE_MEMBERS_MAX];
    size_t count;
    uint64_t bytes;
};

int verify_decode_open(void (*on_problem)(void *context, const struct verify_problem *problem),
                       void *context, struct verify_decode **ret_decode, struct err *err)
{
    struct verify_decode *decode = calloc(1, sizeof *decode);
    if (!decode)
        return err_set(err, -ENOMEM, "out of memory for decoding");
    decode->on_problem = on_problem;
    decode->context = context;
    int status = thread_pool_open(0, &decode->pool, err);
    for (unsigned i = 0; !status && i < thread_pool_count(decode->pool); i++)
        status = image_checker_open(&decode->checkers[i], err);
    if (status)
        verify_decode_close(decode);
    else
        *ret_decode = decode;
    return status;
}

void verify_decode_close(struct verify_decode *decode)
{
    if (!decode)
        return;
    thread_pool_close(decode->pool);
    for (size_t i = 0; i < THREAD_POOL_THREADS_MAX; i++)
        image_checker_close(decode->checkers[i]);
    for (size_t i = 0; i < VERIFY_DECODE_MEMBERS_MAX; i++)
        str_deinit(&decode->jobs[i].bytes);
    free(decode);
}

static void run_job(void *context, size_t tile, unsigned worker)
{
    struct verify_decode *decode = context;
    struct decode_job *job = &decode->jobs[tile];
    job->err = (struct err){.offset = ERR_NO_OFFSET};
    job->status = verify_member_image(decode->checkers[worker], &job->member, true, &job->err);
}

void verify_decode_flush(struct verify_decode *decode)
{
    thread_pool_run(decode->pool, decode->count, run_job, decode);
    for (size_t i = 0; i < decode->count; i++) {
        const struct decode_job *job = &decode->jobs[i];
        const struct verify_problem problem = {.kind = VERIFY_IMAGE,
                                               .path = job->member.path,
                                               .key = job->member.key,
                                               .err = &job->err};
        if (job->status)
            decode->on_problem(decode->context, &problem);
    }
    decode->count = 0;
    decode->bytes = 0;
}

int verify_decode_add(struct verify_decode *decode, const struct verify_member *member,
                      struct err *err)
{
    struct decode_job *job = &decode->jobs[decode->count];
    const char *texts[] = {member->path, member->key, member->extension};
    size_t at = member->size_bytes;
    str_clear(&job->bytes);
    str_add(&job->bytes, member->data, member->size_bytes);
    for (size_t i = 0; i < 3; i++)
        str_add(&job->bytes, texts[i], strlen(texts[i]) + 1);
    if (str_status(&job->bytes))
        return err_set(err, -ENOMEM, "out of memory for a member of %zu bytes", at);
    job->member = *member;
    job->member.data = job->bytes.data;
    job->member.path = job->bytes.data + at;
    job->member.key = job->member.path + strlen(texts[0]) + 1;
    job->member.extension = job->member.key + strlen(texts[1]) + 1;
    decode->bytes += member->size_bytes;
    if (++decode->count == VERIFY_DECODE_MEMBERS_MAX || decode->bytes >= VERIFY_DECODE_BYTES_MAX)
        verify_decode_flush(decode);
    return 0;
}
