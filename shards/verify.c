/*
 * verify — see verify.h.
 */
#include "shards/verify.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/hash.h"
#include "io/whole.h"
#include "shards/member_name.h"
#include "shards/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A shard read once from its start to its end; hashed as it comes. */
struct stream {
    struct shard *shard;
    struct io_queue *queue;
    struct hash_stream *hash;
    uint8_t *buffer;
    uint64_t buffer_offset, buffer_bytes;
    uint64_t file_bytes;
};

struct verification {
    struct io *io;
    const struct verify_options *options;
    struct verify_result *result;
    struct err *err; /* of failures of verifying itself */
    const char *path;
    uint64_t bytes_before, bytes_total; /* for progress: of the shards before, of all */
    struct stream stream;
    struct str member; /* the member at hand */
    uint64_t sample;   /* the next the index names */
    uint32_t field;
    uint64_t seen; /* of another tool's tar: a bit a field of the sample at hand that has come */
};

static void report(struct verification *v, const char *key, const struct err *err)
{
    struct verify_problem problem = {.path = v->path, .key = key, .err = err};
    v->result->problems_count++;
    if (v->options->problem)
        v->options->problem(v->options->context, &problem);
}

static void note(struct verification *v, const char *key, uint64_t offset, const char *what,
                 const char *advice)
{
    struct err err;
    struct verify_problem noted = {.path = v->path, .key = key, .err = &err};
    err_set(&err, -EBADMSG, "%s", what);
    err_at(&err, v->path, (int64_t)offset);
    err_advise(&err, "%s", advice);
    v->result->notes_count++;
    if (v->options->note)
        v->options->note(v->options->context, &noted);
}

/* A problem with two numbers: sizes, offsets, counts. */
static void complain(struct verification *v, const char *key, uint64_t offset, const char *what,
                     uint64_t expected, uint64_t found)
{
    struct err err;
    err_set(&err, -EBADMSG, "%s", what);
    err_at(&err, v->path, (int64_t)offset);
    err_expected(&err, "%" PRIu64, expected);
    err_found(&err, "%" PRIu64, found);
    report(v, key, &err);
}

/* A problem with two checksums of so many hexadecimal digits. */
static void complain_sum(struct verification *v, const char *key, uint64_t offset, const char *what,
                         int digits, uint64_t expected, uint64_t found)
{
    struct err err;
    err_set(&err, -EBADMSG, "%s", what);
    err_at(&err, v->path, (int64_t)offset);
    err_expected(&err, "%0*" PRIx64, digits, expected);
    err_found(&err, "%0*" PRIx64, digits, found);
    report(v, key, &err);
}

static int fill(struct verification *v)
{
    struct stream *stream = &v->stream;
    if (v->options->stop && atomic_load(v->options->stop))
        return err_set(v->err, -EINTR, "verification was stopped");
    stream->buffer_offset += stream->buffer_bytes;
    stream->buffer_bytes = bytes_min(VERIFY_BUFFER_BYTES, stream->file_bytes - stream->buffer_offset);
    int status = io_read_exact(stream->queue, v->io, stream->shard->file, v->path, stream->buffer_offset,
                               stream->buffer, stream->buffer_bytes, v->err);
    if (status)
        return status;
    hash_stream_update(stream->hash, stream->buffer, stream->buffer_bytes);
    v->result->bytes += stream->buffer_bytes;
    if (v->options->progress)
        v->options->progress(v->options->context,
                             v->bytes_before + stream->buffer_offset + stream->buffer_bytes, v->bytes_total);
    return 0;
}

/* The bytes at offset, which must not be before the buffer; data NULL: only reads on up to there. Offsets only grow. */
static int read_on(struct verification *v, uint64_t offset, void *data, uint64_t bytes)
{
    struct stream *stream = &v->stream;
    uint8_t *to = data;
    if (offset < stream->buffer_offset || offset > stream->file_bytes || bytes > stream->file_bytes - offset)
        return -ENODATA;
    while (bytes > 0) {
        uint64_t end = stream->buffer_offset + stream->buffer_bytes;
        if (offset >= end) {
            int status = fill(v);
            if (status)
                return status;
            continue;
        }
        uint64_t piece = bytes_min(bytes, end - offset);
        if (to) {
            memcpy(to, stream->buffer + (offset - stream->buffer_offset), piece);
            to += piece;
        }
        offset += piece;
        bytes -= piece;
    }
    return 0;
}

static int scanner_read(void *context, uint64_t offset, void *data, size_t bytes)
{
    return read_on(context, offset, data, bytes);
}

/* Moves sample and field to the next field that is present. False at the end. */
static bool next_expected(struct verification *v, struct shard_field *ret_field)
{
    const struct shard_index *index = v->stream.shard->index;
    for (; v->sample < shard_index_samples(index); v->sample++, v->field = 0) {
        for (; v->field < shard_index_fields(index); v->field++) {
            shard_index_field(index, v->sample, v->field, ret_field);
            if (ret_field->present)
                return true;
        }
    }
    return false;
}

static void write_key(const struct verification *v, char key[SHARD_KEY_BYTES_MAX])
{
    uint32_t bytes;
    const char *text = shard_index_key(v->stream.shard->index, v->sample, &bytes);
    memcpy(key, text, bytes);
    key[bytes] = '\0';
}

/* Reads the member block by block and checks each block's CRC and the whole's. *ret_good: all hold. */
static int check_data(struct verification *v, const char *key, const struct shard_field *field,
                      bool *ret_good)
{
    uint32_t crc = 0;
    bool keep = field->size_bytes <= VERIFY_MEMBER_BYTES_MAX;
    uint64_t problems = v->result->problems_count;
    uint8_t block[SHARD_BLOCK_BYTES];
    str_clear(&v->member);
    if (keep && str_reserve(&v->member, field->size_bytes))
        return err_set(v->err, -ENOMEM, "out of memory for a member of %" PRIu64 " bytes", field->size_bytes);
    for (uint64_t at = 0; at < field->size_bytes; at += SHARD_BLOCK_BYTES) {
        uint64_t bytes = bytes_min(SHARD_BLOCK_BYTES, field->size_bytes - at);
        int status = read_on(v, field->data_offset + at, block, bytes);
        if (status)
            return status;
        uint32_t block_crc = crc32c(0, block, bytes);
        crc = crc32c(crc, block, bytes);
        if (keep)
            str_add(&v->member, block, bytes);
        if (!field->block_crc32c)
            continue;
        uint32_t expected = bytes_get_u32(field->block_crc32c + at / SHARD_BLOCK_BYTES * 4);
        if (block_crc != expected)
            complain_sum(v, key, field->data_offset + at, "CRC32C of a block does not hold", 8, expected,
                         block_crc);
    }
    if (field->has_crc && crc != field->crc32c)
        complain_sum(v, key, field->data_offset, "CRC32C of a member does not hold", 8, field->crc32c, crc);
    *ret_good = v->result->problems_count == problems;
    return 0;
}

static void hand_over(struct verification *v, const char *key, const struct shard_field *field)
{
    struct err err = {.offset = ERR_NO_OFFSET};
    struct verify_member member = {
        .path = v->path,
        .key = key,
        .extension = shard_index_extension(v->stream.shard->index, v->field),
        .offset = field->data_offset,
        .data = str_text(&v->member),
        .size_bytes = field->size_bytes,
    };
    if (v->options->member && field->size_bytes <= VERIFY_MEMBER_BYTES_MAX &&
        v->options->member(v->options->context, &member, &err))
        report(v, key, &err);
}

/* Padding behind data must be zeros. */
static int check_zeros(struct verification *v, const char *key, uint64_t offset, uint64_t end)
{
    uint8_t block[SHARD_TRAILER_BYTES];
    while (offset < end) {
        uint64_t bytes = bytes_min(sizeof block, end - offset);
        int status = read_on(v, offset, block, bytes);
        if (status)
            return status;
        for (uint64_t i = 0; i < bytes; i++) {
            if (block[i]) {
                complain(v, key, offset + i, "padding is not zero", 0, block[i]);
                return 0;
            }
        }
        offset += bytes;
    }
    return 0;
}

/* A member as the tar has it, against the index. */
static int check_member(struct verification *v, const struct tar_member *member)
{
    char key[SHARD_KEY_BYTES_MAX], name[SHARD_KEY_BYTES_MAX + SHARD_EXTENSION_BYTES_MAX];
    struct shard_field field;
    if (!next_expected(v, &field)) {
        complain(v, "", member->header_offset, "archive has members that the index does not name", 0,
                 member->data_offset);
        return 0;
    }
    write_key(v, key);
    snprintf(name, sizeof name, "%s.%s", key, shard_index_extension(v->stream.shard->index, v->field));
    if (member->kind != TAR_FILE || strcmp(name, member->name) != 0) {
        struct err err;
        err_set(&err, -EBADMSG, "archive and index name different members");
        err_at(&err, v->path, (int64_t)member->header_offset);
        err_expected(&err, "%s", name);
        err_found(&err, "%s", member->name);
        report(v, key, &err);
    } else if (member->data_offset != field.data_offset || member->size_bytes != field.size_bytes) {
        complain(v, key, member->header_offset, "archive and index place a member differently",
                 field.data_offset, member->data_offset);
    } else {
        bool good = false;
        int status = check_data(v, key, &field, &good);
        if (!status && good)
            hand_over(v, key, &field);
        uint64_t end = field.data_offset + field.size_bytes;
        if (!status)
            status = check_zeros(v, key, end, bytes_round_up(end, TAR_BLOCK_BYTES));
        if (status)
            return status;
    }
    v->result->members_count++;
    v->field++;
    return 0;
}

/* Leaves the sample at hand of another tool's tar, all of whose fields must have come. */
static void leave_sample(struct verification *v)
{
    const struct shard_index *index = v->stream.shard->index;
    if (v->seen == 0)
        return;
    for (uint32_t f = 0; f < shard_index_fields(index); f++) {
        struct shard_field field;
        shard_index_field(index, v->sample, f, &field);
        if (field.present && !(v->seen >> f & 1)) {
            char key[SHARD_KEY_BYTES_MAX];
            write_key(v, key);
            complain(v, key, field.data_offset, "index names a member that the archive lacks",
                     field.data_offset, 0);
        }
    }
    v->sample++;
    v->seen = 0;
}

/* Finds the member in the index, where the fields of a sample may come in any order. False where it is not there. */
static bool find_foreign(struct verification *v, const struct tar_member *member,
                         const struct member_name *name, struct shard_field *ret_field)
{
    const struct shard_index *index = v->stream.shard->index;
    char key[SHARD_KEY_BYTES_MAX] = "";
    if (v->seen) {
        write_key(v, key);
        if (strcmp(key, name->key) != 0)
            leave_sample(v);
    }
    int number = shard_index_find(index, name->extension);
    if (v->sample == shard_index_samples(index) || number < 0)
        return false;
    write_key(v, key);
    v->field = (uint32_t)number;
    shard_index_field(index, v->sample, v->field, ret_field);
    bool is_it = strcmp(key, name->key) == 0 && ret_field->present && !(v->seen >> number & 1) &&
                 ret_field->data_offset == member->data_offset && ret_field->size_bytes == member->size_bytes;
    if (is_it)
        v->seen |= UINT64_C(1) << number;
    return is_it;
}

/* A member of another tool's tar. Its padding is nobody's. */
static int check_foreign_member(struct verification *v, const struct tar_member *member)
{
    struct member_name name;
    struct shard_field field;
    struct err err;
    bool is_field = false, good = false;
    if (member->kind != TAR_FILE && member->kind != TAR_SPARSE)
        return 0;
    if (member_name_split(member->name, &name, &is_field, &err)) {
        err_at(&err, v->path, (int64_t)member->header_offset);
        report(v, "", &err);
    }
    if (!is_field)
        return 0;
    if (member->kind == TAR_SPARSE) {
        note(v, name.key, member->header_offset, "field is a sparse file, which is no part of its sample",
             "make the tar again without --sparse");
        return 0;
    }
    v->result->members_count++;
    if (!find_foreign(v, member, &name, &field)) {
        err_set(&err, -EBADMSG, "archive has a member that its kept index does not name there");
        err_at(&err, v->path, (int64_t)member->header_offset);
        err_found(&err, "\"%.200s\"", member->name);
        err_advise(&err, "make the index anew by `millrace index %s`", v->path);
        report(v, name.key, &err);
        return 0;
    }
    int status = check_data(v, name.key, &field, &good);
    if (!status && good)
        hand_over(v, name.key, &field);
    return status;
}

/* Walks the archive. A header that is wrong ends the walk of this shard: what follows can't be told. */
static int walk(struct verification *v)
{
    const struct shard_trailer *trailer = &v->stream.shard->trailer;
    struct tar_scanner scanner = {.read = scanner_read, .context = v, .path = v->path};
    scanner.file_bytes = v->stream.file_bytes;
    struct tar_member member;
    struct err err;
    struct shard_field field;
    int status = 0;
    for (;;) {
        status = tar_scan(&scanner, &member, &err);
        if (status == -EBADMSG) {
            report(v, "", &err);
            status = 0;
            goto out;
        }
        if (!status && member.kind != TAR_END)
            status =
                v->stream.shard->is_foreign ? check_foreign_member(v, &member) : check_member(v, &member);
        if (status || member.kind == TAR_END)
            break;
    }
    if (!status && member.data_offset != trailer->archive_end)
        complain(v, "", member.data_offset, "archive ends where the trailer does not say",
                 trailer->archive_end, member.data_offset);
    if (!status && v->stream.shard->is_foreign) {
        if (trailer->archive_end == v->stream.file_bytes)
            note(v, "", trailer->archive_end, "archive has no end: if it was cut, then between two members",
                 "compare its size with the original's");
        leave_sample(v);
        v->field = 0;
    }
    if (!status && next_expected(v, &field))
        complain(v, "", trailer->archive_end, "index names members that the archive lacks", field.data_offset,
                 0);
    if (!status && !v->stream.shard->is_foreign)
        status = check_zeros(v, "", trailer->archive_end, trailer->index_offset);
out:
    tar_scanner_deinit(&scanner);
    return status;
}

/* The bytes from the index on are covered by its CRC and the trailer's, but for the padding between. */
static int check_tail(struct verification *v, const struct dataset_shard *expected)
{
    const struct shard *shard = v->stream.shard;
    const struct shard_trailer *trailer = &shard->trailer;
    uint64_t at = v->stream.buffer_offset + v->stream.buffer_bytes;
    int status = 0;
    if (!shard->is_foreign && at < trailer->index_offset + trailer->index_bytes)
        status = read_on(v, at, NULL, trailer->index_offset + trailer->index_bytes - at);
    uint64_t padding_at = trailer->index_offset + trailer->index_bytes;
    if (!status && !shard->is_foreign && padding_at >= v->stream.buffer_offset)
        status = check_zeros(v, "", padding_at, v->stream.file_bytes - SHARD_TRAILER_BYTES);
    at = v->stream.buffer_offset + v->stream.buffer_bytes;
    if (!status && at < v->stream.file_bytes)
        status = read_on(v, at, NULL, v->stream.file_bytes - at);
    if (status || !expected)
        return status;
    uint64_t xxh3 = hash_stream_64(v->stream.hash);
    if (!expected->lacks_xxh3 && xxh3 != expected->xxh3)
        complain_sum(v, "", 0, "XXH3 of the shard is not that of dataset.json", 16, expected->xxh3, xxh3);
    if (v->stream.file_bytes != expected->file_bytes)
        complain(v, "", 0, "size of the shard is not that of dataset.json", expected->file_bytes,
                 v->stream.file_bytes);
    if (trailer->samples != expected->samples)
        complain(v, "", 0, "shard has not as many samples as dataset.json says", expected->samples,
                 trailer->samples);
    if (shard->identity_crc32c != expected->index_crc32c)
        complain_sum(v, "", trailer->index_offset, "CRC of the index is not that of dataset.json", 8,
                     expected->index_crc32c, shard->identity_crc32c);
    return 0;
}

struct hashed_key {
    uint64_t hash, sample;
};

static int compare_hashes(const void *a, const void *b)
{
    const struct hashed_key *left = a, *right = b;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    return left->sample < right->sample ? -1 : left->sample > right->sample;
}

/* Equal keys have equal hashes; of 64 bits, other keys hardly ever. */
static int check_keys(struct verification *v)
{
    const struct shard_index *index = v->stream.shard->index;
    uint64_t samples = shard_index_samples(index);
    struct hashed_key *keys = malloc((samples + 1) * sizeof *keys);
    if (!keys)
        return err_set(v->err, -ENOMEM, "out of memory for the keys of %" PRIu64 " samples", samples);
    for (uint64_t s = 0; s < samples; s++) {
        uint32_t bytes;
        const char *key = shard_index_key(index, s, &bytes);
        keys[s] = (struct hashed_key){hash_64(key, bytes), s};
    }
    qsort(keys, samples, sizeof *keys, compare_hashes);
    for (uint64_t i = 1; i < samples; i++) {
        if (keys[i].hash != keys[i - 1].hash)
            continue;
        char key[SHARD_KEY_BYTES_MAX];
        struct shard_field field;
        v->sample = keys[i].sample;
        v->field = 0;
        write_key(v, key);
        uint64_t at = next_expected(v, &field) ? field.data_offset : 0;
        complain(v, key, at, "key stands twice in the shard: numbers of the samples", keys[i - 1].sample,
                 keys[i].sample);
    }
    free(keys);
    return 0;
}

static int open_stream(struct verification *v)
{
    struct stream *stream = &v->stream;
    stream->file_bytes = v->io->ops->file_size(stream->shard->file);
    stream->hash = hash_stream_open();
    stream->buffer = malloc(VERIFY_BUFFER_BYTES);
    if (!stream->hash || !stream->buffer)
        return err_set(v->err, -ENOMEM, "out of memory for verifying");
    return v->io->ops->queue_open(v->io, 1, &stream->queue, v->err);
}

static void close_stream(struct verification *v)
{
    if (v->stream.queue)
        v->io->ops->queue_close(v->stream.queue);
    hash_stream_close(v->stream.hash);
    free(v->stream.buffer);
    shard_close(v->stream.shard);
    str_deinit(&v->member);
}

/* Shards that can't be opened are a problem; that memory is out or the disk fails is not theirs. */
static bool is_shards_fault(int status)
{
    return status == -EBADMSG || status == -ENOENT || status == -ENODATA || status == -EISDIR;
}

static int verify_one(struct verification *v, const struct dataset_shard *expected)
{
    struct err err;
    v->result->shards_count++;
    int status = shard_open(v->io, v->path, &v->stream.shard, &err);
    if (is_shards_fault(status)) {
        report(v, "", &err);
        return 0;
    }
    if (status) {
        if (v->err)
            *v->err = err;
        return status;
    }
    v->result->samples_count += v->stream.shard->trailer.samples;
    status = open_stream(v);
    if (!status)
        status = walk(v);
    if (!status)
        status = check_tail(v, expected);
    if (!status)
        status = check_keys(v);
    return status;
}

int verify_shard(struct io *io, const char *path, const struct dataset_shard *expected,
                 const struct verify_options *options, struct verify_result *result, struct err *err)
{
    struct verification v = {.io = io, .options = options, .result = result, .err = err, .path = path};
    struct io_stat info;
    v.bytes_total = expected                               ? expected->file_bytes
                    : io->ops->stat(io, path, &info, NULL) ? 0
                                                           : info.size_bytes;
    int status = verify_one(&v, expected);
    close_stream(&v);
    return status;
}

int verify_dataset(struct io *io, const struct dataset *dataset, const struct verify_options *options,
                   struct verify_result *result, struct err *err)
{
    uint64_t bytes_total = 0, bytes_before = 0;
    for (uint64_t i = 0; i < dataset->shards_count; i++)
        bytes_total += dataset->shards[i].file_bytes;
    for (uint64_t i = 0; i < dataset->shards_count; i++) {
        char path[IO_PATH_BYTES_MAX];
        struct verification v = {.io = io, .options = options, .result = result, .err = err, .path = path};
        v.bytes_total = bytes_total;
        v.bytes_before = bytes_before;
        int status = dataset_shard_path(dataset, i, path, err);
        if (!status)
            status = verify_one(&v, &dataset->shards[i]);
        close_stream(&v);
        if (status)
            return status;
        bytes_before += dataset->shards[i].file_bytes;
    }
    return 0;
}
