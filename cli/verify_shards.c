/*
 * verify_shards — see verify_shards.h.
 *
 * A shard is one job of a crew: tile 0 walks its headers, tile 1 hashes the file, the others check SAMPLES_A_TILE samples
 * each. Faults are gathered with their place and told in order once the job is done.
 */
#include "cli/verify_shards.h"

#include "base/hash.h"
#include "base/workers.h"
#include "cli/verify_member.h"
#include "io/whole.h"
#include "shards/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES_A_TILE = 32, TILE_HEADERS = 0, TILE_HASH = 1, TILES_FIXED = 2, HASH_CHUNK_BYTES = 1 << 20 };

struct fault {
    uint64_t place; /* sample + TILES_FIXED; the fixed tiles' own number */
    struct err detail;
};

/* One shard's job. faults and status are guarded by lock, the rest is immutable while it runs. */
struct job {
    struct io *io;
    const struct shard *shard;
    const struct dataset *dataset;        /* may be NULL */
    const struct dataset_shard *promised; /* what dataset.json says of it; NULL without dataset */
    struct member_checker *checkers;      /* one a worker */
    atomic_uint_fast64_t members, bytes;
    pthread_mutex_t lock;
    struct fault *faults;
    uint64_t faults_count; /* all, named or not */
    int status;            /* the first failure that is no fault of the data */
    struct err failure;
};

static void note(struct job *job, uint64_t place, int status, const struct err *detail)
{
    pthread_mutex_lock(&job->lock);
    if (status != -EBADMSG && status != -ENODATA) {
        if (!job->status) {
            job->status = status;
            job->failure = *detail;
        }
    } else {
        if (job->faults_count < VERIFY_NAMED_MAX)
            job->faults[job->faults_count] = (struct fault){.place = place, .detail = *detail};
        job->faults_count++;
    }
    pthread_mutex_unlock(&job->lock);
}

struct header_walk {
    const struct job *job;
    struct io_queue *queue;
    uint64_t sample;
    uint32_t field; /* the next member is the first present one from here on */
};

static int read_block(void *context, uint64_t offset, void *data, size_t bytes)
{
    const struct header_walk *walk = context;
    const struct shard *shard = walk->job->shard;
    return io_read_exact(walk->queue, walk->job->io, shard->file, shard->path, offset, data, bytes, NULL);
}

/* The member that the index has next; false at its end. */
static bool next_in_index(struct header_walk *walk, uint64_t *ret_sample, uint32_t *ret_field)
{
    const struct shard_index *index = walk->job->shard->index;
    for (; walk->sample < shard_index_samples(index); walk->sample++, walk->field = 0)
        while (walk->field < shard_index_fields(index)) {
            struct shard_field field;
            shard_index_field(index, walk->sample, walk->field++, &field);
            if (field.present) {
                *ret_sample = walk->sample;
                *ret_field = walk->field - 1;
                return true;
            }
        }
    return false;
}

static int compare_member(struct header_walk *walk, const struct tar_member *member, struct err *err)
{
    const struct shard *shard = walk->job->shard;
    char name[TAR_NAME_BYTES_MAX];
    uint64_t sample;
    uint32_t number;
    struct shard_field field;
    if (!next_in_index(walk, &sample, &number)) {
        err_set(err, -EBADMSG, "the archive has a member that the index has not");
        err_at(err, shard->path, (int64_t)member->header_offset);
        err_found(err, "%.200s", member->name);
        return -EBADMSG;
    }
    shard_index_field(shard->index, sample, number, &field);
    member_name(shard->index, sample, number, name, sizeof name);
    if (strcmp(name, member->name) == 0 && field.data_offset == member->data_offset &&
        field.size_bytes == member->size_bytes)
        return 0;
    err_set(err, -EBADMSG, "the archive and the index disagree about a member");
    err_at(err, shard->path, (int64_t)member->header_offset);
    err_expected(err, "%.120s, %" PRIu64 " bytes at %" PRIu64, name, field.size_bytes, field.data_offset);
    err_found(err, "%.120s, %" PRIu64 " bytes at %" PRIu64, member->name, member->size_bytes,
              member->data_offset);
    return -EBADMSG;
}

static int compare_end(struct header_walk *walk, const struct tar_member *member, struct err *err)
{
    const struct shard *shard = walk->job->shard;
    uint64_t sample;
    uint32_t number;
    if (!next_in_index(walk, &sample, &number) && member->data_offset == shard->trailer.archive_end)
        return 0;
    err_set(err, -EBADMSG, "the archive ends where the index does not");
    err_at(err, shard->path, (int64_t)member->data_offset);
    err_expected(err, "%" PRIu64 " samples and the end at %" PRIu64, shard->trailer.samples,
                 shard->trailer.archive_end);
    return -EBADMSG;
}

static int walk_headers(struct job *job, struct io_queue *queue, struct err *err)
{
    struct header_walk walk = {.job = job, .queue = queue};
    struct tar_scanner scanner = {.read = read_block,
                                  .context = &walk,
                                  .path = job->shard->path,
                                  .file_bytes = job->shard->trailer.file_bytes};
    int status;
    for (;;) {
        struct tar_member member;
        status = tar_scan(&scanner, &member, err);
        if (!status)
            status = member.kind == TAR_END ? compare_end(&walk, &member, err)
                                            : compare_member(&walk, &member, err);
        if (status || member.kind == TAR_END)
            break;
    }
    tar_scanner_deinit(&scanner);
    return status;
}

static int hash_file(struct job *job, struct member_checker *checker, struct err *err)
{
    const struct shard *shard = job->shard;
    struct hash_stream *stream = hash_stream_open();
    if (!stream)
        return err_set(err, -ENOMEM, "out of memory for a hash");
    int status = 0;
    for (uint64_t done = 0; done < shard->trailer.file_bytes && !status;) {
        uint64_t left = shard->trailer.file_bytes - done;
        size_t bytes = left < HASH_CHUNK_BYTES ? left : HASH_CHUNK_BYTES;
        status = io_read_exact(checker->queue, job->io, shard->file, shard->path, done, checker->buffer,
                               bytes, err);
        hash_stream_update(stream, checker->buffer, status ? 0 : bytes);
        done += bytes;
    }
    uint64_t found = hash_stream_64(stream);
    hash_stream_close(stream);
    if (status || found == job->promised->xxh3)
        return status;
    err_set(err, -EBADMSG, "the file is not the one that the dataset names");
    err_at(err, shard->path, ERR_NO_OFFSET);
    err_expected(err, "XXH3 %016" PRIx64, job->promised->xxh3);
    err_found(err, "%016" PRIx64, found);
    return -EBADMSG;
}

static void check_samples(struct job *job, struct member_checker *checker, uint64_t first)
{
    const struct shard_index *index = job->shard->index;
    for (uint64_t s = first; s < first + SAMPLES_A_TILE && s < shard_index_samples(index); s++)
        for (uint32_t f = 0; f < shard_index_fields(index); f++) {
            struct shard_field field;
            struct err detail = {0};
            shard_index_field(index, s, f, &field);
            int status = member_check(checker, job->shard, job->dataset, s, f, &detail);
            if (status)
                note(job, TILES_FIXED + s, status, &detail);
            atomic_fetch_add(&job->members, field.present);
            atomic_fetch_add(&job->bytes, field.size_bytes);
        }
}

static void do_tile(void *context, size_t tile, unsigned worker)
{
    struct job *job = context;
    struct member_checker *checker = &job->checkers[worker];
    struct err detail = {0};
    int status = 0;
    if (tile == TILE_HEADERS)
        status = walk_headers(job, checker->queue, &detail);
    else if (tile == TILE_HASH)
        status = job->promised ? hash_file(job, checker, &detail) : 0;
    else
        check_samples(job, checker, (tile - TILES_FIXED) * SAMPLES_A_TILE);
    if (status)
        note(job, tile, status, &detail);
}

static int compare_faults(const void *a, const void *b)
{
    const struct fault *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* The crew and its checkers; one a verification. */
struct bench {
    struct io *io;
    const struct verify_options *options;
    struct workers *crew;
    struct member_checker *checkers;
    struct fault *faults; /* room for VERIFY_NAMED_MAX */
    struct verify_result *result;
};

static int bench_open(struct bench *bench, struct err *err)
{
    int status = workers_open(bench->options->workers, &bench->crew, err);
    if (status)
        return status;
    unsigned count = workers_count(bench->crew);
    bench->checkers = calloc(count, sizeof *bench->checkers);
    bench->faults = calloc(VERIFY_NAMED_MAX, sizeof *bench->faults);
    if (!bench->checkers || !bench->faults)
        return err_set(err, -ENOMEM, "out of memory for verifying");
    for (unsigned i = 0; i < count && !status; i++)
        status = member_checker_open(bench->io, &bench->checkers[i], err);
    return status;
}

static void bench_close(struct bench *bench)
{
    for (unsigned i = 0; bench->checkers && i < workers_count(bench->crew); i++)
        member_checker_close(&bench->checkers[i]);
    free(bench->checkers);
    free(bench->faults);
    workers_close(bench->crew);
}

static void tell(struct bench *bench, const struct err *detail)
{
    bench->result->bad_count++;
    bench->options->bad(bench->options->context, detail);
}

static int check_members(struct bench *bench, const struct shard *shard, const struct dataset *dataset,
                         const struct dataset_shard *promised, struct err *err)
{
    struct job job = {.io = bench->io,
                      .shard = shard,
                      .dataset = dataset,
                      .promised = promised,
                      .checkers = bench->checkers,
                      .faults = bench->faults};
    pthread_mutex_init(&job.lock, NULL);
    uint64_t samples = shard_index_samples(shard->index);
    workers_run(bench->crew, TILES_FIXED + (samples + SAMPLES_A_TILE - 1) / SAMPLES_A_TILE, do_tile, &job);
    pthread_mutex_destroy(&job.lock);
    if (job.status) {
        if (err)
            *err = job.failure;
        return job.status;
    }
    uint64_t named = job.faults_count < VERIFY_NAMED_MAX ? job.faults_count : VERIFY_NAMED_MAX;
    qsort(job.faults, named, sizeof *job.faults, compare_faults);
    for (uint64_t i = 0; i < named; i++)
        tell(bench, &job.faults[i].detail);
    bench->result->bad_count += job.faults_count - named;
    bench->result->samples_count += samples;
    bench->result->members_count += atomic_load(&job.members);
    bench->result->checked_bytes += atomic_load(&job.bytes);
    return 0;
}

static void compare_number(struct bench *bench, const char *path, const char *what, uint64_t promised,
                           uint64_t found)
{
    struct err detail;
    if (promised == found)
        return;
    err_set(&detail, -EBADMSG, "%s is not what the dataset says", what);
    err_at(&detail, path, ERR_NO_OFFSET);
    err_expected(&detail, "%" PRIu64, promised);
    err_found(&detail, "%" PRIu64, found);
    tell(bench, &detail);
}

static int check_shard(struct bench *bench, const char *path, const struct dataset *dataset,
                       const struct dataset_shard *promised, struct err *err)
{
    struct shard *shard;
    struct err detail = {0};
    bench->result->shards_count++;
    int status = shard_open(bench->io, path, &shard, &detail);
    if (status == -ENOMEM || status == -EMFILE) {
        if (err)
            *err = detail;
        return status;
    }
    if (status) { /* gone, cut or no shard: bad, and the others still count */
        tell(bench, &detail);
        return 0;
    }
    if (promised) {
        compare_number(bench, path, "the number of samples", promised->samples, shard->trailer.samples);
        compare_number(bench, path, "the file's size", promised->file_bytes, shard->trailer.file_bytes);
        compare_number(bench, path, "the index's CRC32C", promised->index_crc32c,
                       shard->trailer.index_crc32c);
    }
    status = check_members(bench, shard, dataset, promised, err);
    shard_close(shard);
    return status;
}

int verify_shard(struct io *io, const char *path, const struct verify_options *options,
                 struct verify_result *ret_result, struct err *err)
{
    struct verify_result result = {0};
    struct bench bench = {.io = io, .options = options, .result = &result};
    int status = bench_open(&bench, err);
    if (!status)
        status = check_shard(&bench, path, NULL, NULL, err);
    bench_close(&bench);
    if (!status)
        *ret_result = result;
    return status;
}

int verify_dataset(struct io *io, const char *path, const struct verify_options *options,
                   struct verify_result *ret_result, struct err *err)
{
    struct verify_result result = {0};
    struct bench bench = {.io = io, .options = options, .result = &result};
    struct dataset *dataset = NULL;
    uint64_t total = 0, done = 0;
    int status = dataset_open(io, path, &dataset, err);
    if (!status)
        status = bench_open(&bench, err);
    for (uint64_t i = 0; !status && i < dataset->shards_count; i++)
        total += dataset->shards[i].file_bytes;
    for (uint64_t i = 0; !status && i < dataset->shards_count; i++) {
        char shard_path[IO_PATH_BYTES_MAX];
        status = dataset_shard_path(dataset, i, shard_path, err);
        if (!status)
            status = check_shard(&bench, shard_path, dataset, &dataset->shards[i], err);
        done += dataset->shards[i].file_bytes;
        if (options->progress)
            options->progress(options->context, done, total);
    }
    bench_close(&bench);
    dataset_close(dataset);
    if (!status)
        *ret_result = result;
    return status;
}
