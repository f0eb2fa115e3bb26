/*
 * token_index — see token_index.h.
 */
#include "convert/source/token_index.h"

#include "base/bytes.h"
#include "base/str.h"
#include "io/file_util.h"
#include "shards/dataset/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 34,
    VERSION = 1,
    LENGTH_BYTES = 4,
    POINTER_BYTES = 8,
    BLOCK_BYTES = 1 << 16,
};

struct index_file {
    struct io *io;
    const char *path;
    struct io_file *file;
    struct io_queue *queue;
    struct err *err;
};

/* Reads an array of the file in order. */
struct column {
    const struct index_file *file;
    uint64_t next_read, end; /* offsets in the file */
    size_t width, at, bytes; /* at, bytes: of block */
    uint8_t block[BLOCK_BYTES];
};

static int reject(const struct index_file *file, int code, uint64_t offset, const char *what)
{
    err_set(file->err, code, "%s", what);
    err_at(file->err, file->path, (int64_t)offset);
    return code;
}

static uint64_t column_offset(const struct column *column)
{
    return column->next_read - column->bytes + column->at;
}

static int read_next(struct column *column, uint64_t *ret_value)
{
    const struct index_file *file = column->file;
    if (column->at == column->bytes) {
        size_t bytes = (size_t)bytes_min(BLOCK_BYTES, column->end - column->next_read);
        int status = io_read_exact(file->queue, file->io, file->file, file->path, column->next_read,
                                   column->block, bytes, file->err);
        if (status)
            return status;
        column->next_read += bytes;
        column->bytes = bytes;
        column->at = 0;
    }
    const uint8_t *at = column->block + column->at;
    *ret_value = column->width == LENGTH_BYTES ? bytes_get_u32(at) : bytes_get_u64(at);
    column->at += column->width;
    return 0;
}

struct columns {
    struct column lengths, pointers, bounds;
};

static int set_type(const struct index_file *file, uint8_t code, struct token_index *index)
{
    static const struct {
        uint8_t bytes;
        bool is_signed;
    } types[] = {[1] = {1, false}, [2] = {1, true}, [3] = {2, true},
                 [4] = {4, true},  [5] = {8, true}, [8] = {2, false}};
    if (code >= sizeof types / sizeof types[0] || types[code].bytes == 0) {
        reject(file, -ENOTSUP, 17, "the tokens have a type that is not supported");
        err_expected(file->err, "code 1 to 5 or 8 (integers)");
        err_found(file->err, "%u", code);
        return -ENOTSUP;
    }
    index->token_bytes = types[code].bytes;
    index->is_signed = types[code].is_signed;
    return 0;
}

static int check_size(const struct index_file *file, uint64_t size, uint64_t sequences,
                      uint64_t bounds)
{
    uint64_t expected =
        HEADER_BYTES + (LENGTH_BYTES + POINTER_BYTES) * sequences + POINTER_BYTES * bounds;
    if (size == expected)
        return 0;
    reject(file, size == expected + sequences ? -ENOTSUP : -EBADMSG, 0,
           size == expected + sequences ? "the index has modes: the dataset is multimodal"
                                        : "the index has another size than its header says");
    err_expected(file->err, "%" PRIu64 " bytes", expected);
    err_found(file->err, "%" PRIu64, size);
    return size == expected + sequences ? -ENOTSUP : -EBADMSG;
}

static int read_header(const struct index_file *file, struct token_index *index,
                       uint64_t *ret_sequences, uint64_t *ret_bounds)
{
    uint8_t header[HEADER_BYTES];
    uint64_t size = file->io->ops->file_size(file->file);
    if (size < sizeof header)
        return reject(file, -EBADMSG, 0, "the file is too short for Megatron's index");
    int status = io_read_exact(file->queue, file->io, file->file, file->path, 0, header,
                               sizeof header, file->err);
    if (status)
        return status;
    if (memcmp(header, TOKEN_INDEX_MAGIC, TOKEN_INDEX_MAGIC_BYTES) != 0)
        return reject(file, -EBADMSG, 0, "the file is not Megatron's index");
    if (bytes_get_u64(header + 9) != VERSION) {
        reject(file, -ENOTSUP, 9, "the version of Megatron's index is not supported");
        err_expected(file->err, "%d", VERSION);
        err_found(file->err, "%" PRIu64, bytes_get_u64(header + 9));
        return -ENOTSUP;
    }
    *ret_sequences = bytes_get_u64(header + 18);
    *ret_bounds = bytes_get_u64(header + 26);
    if (*ret_sequences > TOKEN_INDEX_COUNT_MAX || *ret_bounds > TOKEN_INDEX_COUNT_MAX)
        return reject(file, -EBADMSG, 18, "the index has too many sequences or documents");
    status = set_type(file, header[17], index);
    return status ? status : check_size(file, size, *ret_sequences, *ret_bounds);
}

/* Reads a sequence, and advances index->tokens. Sequences lie one after the other. */
static int read_sequence(struct columns *columns, struct token_index *index)
{
    const struct index_file *file = columns->lengths.file;
    uint64_t length, pointer, length_at = column_offset(&columns->lengths),
                              pointer_at = column_offset(&columns->pointers);
    int status = read_next(&columns->lengths, &length);
    if (!status)
        status = read_next(&columns->pointers, &pointer);
    if (status)
        return status;
    if (length > INT32_MAX || length > DATASET_TOKENS_MAX - index->tokens)
        return reject(file, -EBADMSG, length_at, "a sequence has an invalid length");
    if (pointer == index->tokens * index->token_bytes) {
        index->tokens += length;
        return 0;
    }
    reject(file, -EBADMSG, pointer_at, "the sequences do not lie one after the other");
    err_expected(file->err, "offset %" PRIu64, index->tokens * index->token_bytes);
    err_found(file->err, "%" PRIu64, pointer);
    return -EBADMSG;
}

static int read_documents(struct columns *columns, uint64_t sequences, uint64_t bounds,
                          struct token_index *index, struct str *ends)
{
    const struct index_file *file = columns->bounds.file;
    uint64_t sequence = 0, bound, last_end = 0;
    for (uint64_t i = 0; i < bounds; i++) {
        uint64_t at = column_offset(&columns->bounds);
        int status = read_next(&columns->bounds, &bound);
        if (status)
            return status;
        if (bound < sequence || bound > sequences || (i == 0 && bound != 0))
            return reject(file, -EBADMSG, at, "the documents' bounds are out of order");
        for (; sequence < bound && !status; sequence++)
            status = read_sequence(columns, index);
        if (status)
            return status;
        if (index->tokens > last_end)
            str_add(ends, &index->tokens, sizeof index->tokens);
        last_end = index->tokens;
    }
    if (sequence < sequences)
        return reject(file, -EBADMSG, column_offset(&columns->bounds),
                      "sequences follow the last document");
    return str_status(ends) ? err_set(file->err, -ENOMEM, "out of memory for documents") : 0;
}

static int read_index(const struct index_file *file, struct token_index *index)
{
    uint64_t sequences = 0, bounds = 0;
    struct str ends = {0};
    int status = read_header(file, index, &sequences, &bounds);
    if (status)
        return status;
    struct columns *columns = calloc(1, sizeof *columns);
    if (!columns)
        return err_set(file->err, -ENOMEM, "out of memory for an index");
    uint64_t pointers = HEADER_BYTES + LENGTH_BYTES * sequences,
             documents = pointers + POINTER_BYTES * sequences;
    columns->lengths = (struct column){file, HEADER_BYTES, pointers, LENGTH_BYTES, 0, 0, {0}};
    columns->pointers = (struct column){file, pointers, documents, POINTER_BYTES, 0, 0, {0}};
    columns->bounds = (struct column){
        file, documents, documents + POINTER_BYTES * bounds, POINTER_BYTES, 0, 0, {0}};
    status = read_documents(columns, sequences, bounds, index, &ends);
    free(columns);
    /* The index takes ownership of the memory. */
    index->ends = (uint64_t *)(void *)ends.data;
    index->ends_count = ends.bytes / sizeof *index->ends;
    return status;
}

int token_index_open(struct io *io, const char *path, struct token_index *ret_index,
                     struct err *err)
{
    struct index_file file = {.io = io, .path = path, .err = err};
    struct token_index index = {0};
    int status = io->ops->file_open(io, path, &file.file, err);
    if (status)
        return status;
    status = io->ops->queue_open(io, 1, &file.queue, err);
    if (!status)
        status = read_index(&file, &index);
    if (file.queue)
        io->ops->queue_close(file.queue);
    io->ops->file_close(file.file);
    if (status)
        token_index_deinit(&index);
    else
        *ret_index = index;
    return status;
}

void token_index_deinit(struct token_index *index)
{
    free(index->ends);
    *index = (struct token_index){0};
}
