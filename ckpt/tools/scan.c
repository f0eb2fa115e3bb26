#include "ckpt/tools/scan.h"

#include "base/os/thread_pool.h"
#include "ckpt/load/blocks.h"

#include <pthread.h>
#include <string.h>

struct block_run {
    uint32_t file;
    uint64_t block, end;
};

struct scan {
    const struct scan_options *options;
    bool *is_bad;
    pthread_mutex_t mutex;
    struct block_run next; /* where the next run begins; from here on guarded by mutex */
    uint64_t done_bytes;
    int64_t bad_count;
    int status; /* status of the first thread that failed */
    struct err detail;
};

struct scanner {
    struct scan *scan;
    struct block_run run;
};

/* False: all are taken or a thread failed. */
static bool take_run(struct scan *scan, struct block_run *ret_run)
{
    const struct scan_options *options = scan->options;
    const struct manifest *manifest = options->manifest;
    struct block_run *next = &scan->next;
    pthread_mutex_lock(&scan->mutex);
    while (next->file < manifest->files_count) {
        if (options->skipped[next->file] ||
            next->block >= manifest->files[next->file].blocks_count) {
            next->file++;
            next->block = 0;
        } else if (!scan_share_has(&options->share, next->file, next->block)) {
            next->block += SCAN_RUN_BLOCKS;
        } else {
            break;
        }
    }
    bool has_more = !scan->status && next->file < manifest->files_count;
    if (has_more) {
        uint64_t left = manifest->files[next->file].blocks_count - next->block;
        next->end = next->block + (left < SCAN_RUN_BLOCKS ? left : SCAN_RUN_BLOCKS);
        *ret_run = *next;
        next->block = next->end;
    }
    pthread_mutex_unlock(&scan->mutex);
    return has_more;
}

static bool next_block(void *context, struct block_request *ret_request)
{
    struct scanner *scanner = context;
    if (scanner->run.block == scanner->run.end && !take_run(scanner->scan, &scanner->run))
        return false;
    *ret_request = (struct block_request){.file = scanner->run.file, .block = scanner->run.block++};
    return true;
}

static int take_block(void *context, const struct block_result *result)
{
    struct scan *scan = ((struct scanner *)context)->scan;
    const struct ckpt_progress *progress = scan->options->progress;
    pthread_mutex_lock(&scan->mutex);
    scan->done_bytes += result->bytes;
    scan->is_bad[scan->options->first_block[result->file] + result->block] = result->status != 0;
    scan->bad_count += result->status != 0;
    if (progress && progress->report)
        progress->report(progress->context, scan->done_bytes, scan->options->bytes);
    pthread_mutex_unlock(&scan->mutex);
    return 0;
}

static void scan_runs(void *context, size_t tile, unsigned worker)
{
    (void)tile;
    (void)worker;
    struct scan *scan = context;
    struct scanner scanner = {.scan = scan};
    struct blocks_visitor visitor = {next_block, take_block, &scanner};
    struct blocks_options options = {
        .io = scan->options->io, .path = scan->options->path, .manifest = scan->options->manifest};
    struct blocks *blocks = NULL;
    struct err detail = {0};
    int status = blocks_open(&options, &blocks, &detail);
    if (!status)
        status = blocks_walk(blocks, &visitor);
    blocks_close(blocks);
    pthread_mutex_lock(&scan->mutex);
    if (status && !scan->status) {
        scan->status = status;
        scan->detail = detail;
    }
    pthread_mutex_unlock(&scan->mutex);
}

/* At most one thread per CPU of this share, and about two or more runs per thread. */
static unsigned count_threads(const struct scan_options *options)
{
    uint64_t useful = options->bytes / (2 * SCAN_RUN_BLOCKS * (uint64_t)CKPT_BLOCK_BYTES) + 1;
    unsigned cpus = thread_pool_cpu_count(),
             threads_max = cpus < SCAN_THREADS_MAX ? cpus : SCAN_THREADS_MAX;
    threads_max = threads_max > options->share.count ? threads_max / options->share.count : 1;
    return useful < threads_max ? (unsigned)useful : threads_max;
}

int64_t scan_blocks(const struct scan_options *options, bool *is_bad, struct err *err)
{
    struct scan scan = {.options = options, .is_bad = is_bad, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct thread_pool *pool = NULL;
    unsigned threads = count_threads(options);
    int status = thread_pool_open(threads, &pool, err);
    if (status)
        return status;
    thread_pool_run(pool, threads, scan_runs, &scan);
    thread_pool_close(pool);
    pthread_mutex_destroy(&scan.mutex);
    if (scan.status && err)
        *err = scan.detail;
    return scan.status ? scan.status : scan.bad_count;
}
