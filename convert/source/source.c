/*
 * source — opens a source and orders its items. See source.h.
 */
#include "convert/source/source.h"

#include "base/cipher.h"
#include "base/hash.h"
#include "base/philox.h"
#include "io/file_util.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_tokenizer(struct io *io, struct source *source, struct err *err)
{
    const struct convert_options *options = source->options;
    if (!options->tokenizer || strcmp(options->tokenizer, "bytes") == 0)
        return 0;
    if (strcmp(options->tokenizer, "gpt2") != 0) {
        err_set(err, -EINVAL, "the tokenizer is unknown");
        err_expected(err, "bytes or gpt2");
        err_found(err, "%s", options->tokenizer);
        return -EINVAL;
    }
    if (options->vocabulary)
        return bpe_open(io, options->vocabulary, &source->bpe, err);
    err_set(err, -EINVAL, "the tokenizer gpt2 needs a vocabulary");
    err_expected(err, "a folder with encoder.json and vocab.bpe");
    return -EINVAL;
}

/* For split folders: the split that contains the file, and where its name continues below it. */
static uint32_t folder_split(const struct source *source, uint64_t file, size_t *ret_at)
{
    const struct convert_options *options = source->options;
    const char *name = source_file_name(source, file);
    uint32_t split = 0;
    size_t bytes;
    do
        bytes = strlen(options->splits[split].name);
    while ((strncmp(name, options->splits[split].name, bytes) != 0 || name[bytes] != '/') &&
           ++split < options->splits_count);
    assert(split < options->splits_count);
    *ret_at = bytes + 1;
    return split;
}

/* Each split folder must contain files. */
static int check_splits(const struct source *source, struct err *err)
{
    const struct convert_options *options = source->options;
    bool has_files[CONVERT_SPLITS_MAX] = {false};
    size_t at;
    if (!source_has_split_folders(options))
        return 0;
    for (uint64_t file = 0; file < source->files_count; file++)
        has_files[folder_split(source, file, &at)] = true;
    for (uint32_t split = 0; split < options->splits_count; split++)
        if (!has_files[split]) {
            err_set(err, -ENODATA, "a split folder has no samples");
            err_at(err, options->splits[split].name, ERR_NO_OFFSET);
            err_advise(err, "skip it with --ignore %s", options->splits[split].name);
            return -ENODATA;
        }
    return 0;
}

int source_open(struct io *io, const struct convert_options *options, enum source_kind kind,
                struct source **ret_source, struct err *err)
{
    struct source *source = calloc(1, sizeof *source);
    if (!source)
        return err_set(err, -ENOMEM, "out of memory for a source");
    source->options = options;
    source->kind = kind;
    int status = source->kind == SOURCE_TEXT ? open_tokenizer(io, source, err) : 0;
    if (!status)
        status = source_list_files(io, source, err);
    if (!status)
        status = source_reject_unmatched(source, err);
    if (!status)
        status = source->kind == SOURCE_TEXT ? source_split_text(io, source, err)
                                             : source_group_files(source, err);
    if (!status && source->kind == SOURCE_TEXT)
        source_lay_out_tokens(source);
    if (!status && source->items == 0) {
        status = err_set(err, -ENODATA, "the source has no files to convert");
        err_at(err, options->source, ERR_NO_OFFSET);
        status = -ENODATA;
    }
    if (!status)
        status = check_splits(source, err);
    if (status)
        source_close(source);
    else
        *ret_source = source;
    return status;
}

void source_close(struct source *source)
{
    if (!source)
        return;
    for (uint64_t i = 0; i < source->classes_count; i++)
        free(source->classes[i]);
    free(source->classes);
    free(source->unmatched);
    free(source->files);
    free(source->first_files);
    free(source->pieces);
    bpe_close(source->bpe);
    str_deinit(&source->names);
    free(source);
}

int source_file_path(const struct source *source, uint64_t file, char *path, struct err *err)
{
    return io_join_path(source->root, source_file_name(source, file), path, err);
}

int source_read_file(const struct source *source, struct io *io, struct io_queue *queue,
                     uint64_t file, const char *path, uint64_t offset, uint64_t count,
                     struct str *out, struct err *err)
{
    struct io_file *handle;
    int status = io->ops->file_open(io, path, &handle, err);
    if (status)
        return status;
    uint64_t size = io->ops->file_size(handle), listed = source->files[file].bytes;
    if (size != listed) {
        status = err_set(err, -ESTALE, "the file changed after it was listed");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "%" PRIu64 " bytes", listed);
        err_found(err, "%" PRIu64, size);
    }
    if (!status && str_reserve(out, count))
        status = err_set(err, -ENOMEM, "out of memory for a file of %" PRIu64 " bytes", count);
    if (!status)
        status = io_read_exact(queue, io, handle, path, offset, out->data + out->bytes, count, err);
    if (!status) {
        out->bytes += count;
        out->data[out->bytes] = '\0';
    }
    io->ops->file_close(handle);
    return status;
}

/* Chooses a key's split by the key's hash, so that it does not depend on the folder's other
 * files. */
static uint32_t choose_split(const struct convert_options *options, const char *key)
{
    if (options->splits_count == 0)
        return 0;
    struct philox_block block =
        philox(options->seed, (uint64_t)PHILOX_SPLIT << 32, hash_64(key, strlen(key)));
    double place = (double)(((uint64_t)block.word[0] << 32 | block.word[1]) >> 11) * 0x1p-53,
           end = 0;
    for (uint32_t split = 0; split + 1 < options->splits_count; split++) {
        end += options->splits[split].fraction;
        if (place < end)
            return split;
    }
    return options->splits_count - 1;
}

/* Writes the key, from the file's name after at. */
static void write_key(const struct source *source, uint64_t file, size_t at,
                      char key[SHARD_KEY_BYTES_MAX])
{
    const struct source_file *facts = &source->files[file];
    size_t bytes = facts->dot_at - at;
    memcpy(key, source_file_name(source, file) + at, bytes);
    key[bytes] = '\0';
    for (size_t i = facts->base_at - at; i < bytes; i++)
        if (key[i] == '.' || key[i] == ' ')
            key[i] = '_';
}

void source_describe(const struct source *source, uint64_t position, struct source_item *ret_item)
{
    uint64_t item = position;
    if (source->kind == SOURCE_TEXT) {
        source_describe_tokens(source, item, ret_item);
        return;
    }
    if (!source->options->keep_order) {
        struct cipher cipher;
        cipher_init(&cipher, source->items,
                    (const uint64_t[4]){source->options->seed, PHILOX_CONVERT, 0, 0});
        item = cipher_encrypt(&cipher, position);
    }
    ret_item->number = item;
    bool is_split = source_has_split_folders(source->options);
    uint64_t first = source->first_files[item];
    size_t at = 0;
    if (is_split)
        ret_item->split = folder_split(source, first, &at);
    write_key(source, first, at, ret_item->key);
    if (!is_split)
        ret_item->split = choose_split(source->options, ret_item->key);
    ret_item->bytes = 0;
    for (uint64_t file = first; file < source->first_files[item + 1]; file++)
        ret_item->bytes += source->files[file].bytes;
}

int source_identity(const struct source *source, uint64_t *ret_identity, struct err *err)
{
    struct hash_stream *hash = hash_stream_open();
    if (!hash)
        return err_set(err, -ENOMEM, "out of memory for a source's identity");
    for (uint64_t file = 0; file < source->files_count; file++) {
        const char *name = source_file_name(source, file);
        /* No times: a copy of the files gives the same dataset.json. */
        uint64_t bytes = source->files[file].bytes;
        hash_stream_update(hash, name, strlen(name) + 1);
        hash_stream_update(hash, &bytes, sizeof bytes);
    }
    *ret_identity = hash_stream_64(hash);
    hash_stream_close(hash);
    return 0;
}
