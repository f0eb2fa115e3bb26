/*
 * field_tokens — encodes texts to tokens (LOADER_FIELD_TOKENS).
 */
#include "loader/field_values.h"

#include "base/bytes.h"
#include "tokenizer/bpe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct field_tokens {
    struct bpe *bpe;     /* that of the field `owner`, the first one with this tokenizer */
    uint32_t owner;      /* number of that field */
    uint32_t begin, end; /* BPE_NONE: none */
    char *length_name;   /* of the field of lengths; NULL: ragged */
};

int field_check_tokens(const struct loader_field *field, struct err *err)
{
    if (field->decode != LOADER_FIELD_TOKENS)
        return 0;
    uint32_t added = (field->begin_token != NULL) + (field->end_token != NULL);
    if (field->tokenizer && *field->tokenizer && field->length <= LOADER_FIELD_LENGTH_MAX &&
        (field->length == 0 || (field->length > added && field->length >= field->length_min)) &&
        field->pad_token <= INT32_MAX)
        return 0;
    err_set(err, -EINVAL, "field \"%.80s\" cannot be tokens", field->name);
    err_expected(err,
                 "a tokenizer, and a length of at least length_min and at most %d, with room for a "
                 "token of the text",
                 LOADER_FIELD_LENGTH_MAX);
    err_found(err, "tokenizer \"%.80s\", length %" PRIu32 ", length_min %" PRIu32,
              field->tokenizer ? field->tokenizer : "", field->length, field->length_min);
    return -EINVAL;
}

static int open_tokenizer(struct loader *loader, const char *path, struct bpe **ret_bpe,
                          struct err *err)
{
    return str_ends_with_nocase(path, ".json") ? bpe_open_json(loader->io, path, "", ret_bpe, err)
                                               : bpe_open_folder(loader->io, path, ret_bpe, err);
}

static int find_token(const struct loader_field *type, const struct bpe *bpe, const char *name,
                      uint32_t *ret_token, struct err *err)
{
    *ret_token = name ? bpe_find_special(bpe, name) : BPE_NONE;
    if (!name || *ret_token != BPE_NONE)
        return 0;
    err_set(err, -EINVAL, "the tokenizer of field \"%.80s\" has no such token", type->name);
    err_at(err, type->tokenizer, ERR_NO_OFFSET);
    err_expected(err, "the name of one of its added_tokens");
    err_found(err, "\"%.80s\"", name);
    return -EINVAL;
}

static int open_field(struct loader *loader, uint32_t field, struct err *err)
{
    const struct loader_field *fields = loader->options.fields, *type = &fields[field];
    struct field_tokens *tokens = &loader->tokens[field];
    tokens->owner = 0;
    while (fields[tokens->owner].decode != LOADER_FIELD_TOKENS ||
           strcmp(fields[tokens->owner].tokenizer, type->tokenizer) != 0)
        tokens->owner++;
    int status = 0;
    if (tokens->owner == field)
        status = open_tokenizer(loader, type->tokenizer, &tokens->bpe, err);
    if (status)
        return status;
    tokens->bpe = loader->tokens[tokens->owner].bpe;
    if (type->length > 0 && asprintf(&tokens->length_name, "%s_length", type->name) < 0) {
        tokens->length_name = NULL;
        return err_set(err, -ENOMEM, "out of memory for the name of a field");
    }
    status = find_token(type, tokens->bpe, type->begin_token, &tokens->begin, err);
    return status ? status : find_token(type, tokens->bpe, type->end_token, &tokens->end, err);
}

int field_tokens_open(struct loader *loader, struct err *err)
{
    const struct loader_options *options = &loader->options;
    int status = 0;
    for (uint32_t f = 0; f < options->fields_count && !status; f++) {
        if (options->fields[f].decode != LOADER_FIELD_TOKENS)
            continue;
        if (!loader->tokens)
            loader->tokens = calloc(options->fields_count, sizeof *loader->tokens);
        status = loader->tokens ? open_field(loader, f, err)
                                : err_set(err, -ENOMEM, "out of memory for a list of tokenizers");
    }
    return status;
}

const struct bpe *field_common_tokenizer(const struct loader *loader)
{
    const struct bpe *only = NULL;
    for (uint32_t f = 0; loader->tokens && f < loader->options.fields_count; f++) {
        const struct bpe *bpe = loader->tokens[f].bpe;
        if (bpe && only && bpe != only)
            return NULL;
        only = bpe ? bpe : only;
    }
    return only;
}

void field_tokens_close(struct loader *loader)
{
    for (uint32_t f = 0; loader->tokens && f < loader->options.fields_count; f++) {
        if (loader->tokens[f].owner == f)
            bpe_close(loader->tokens[f].bpe);
        free(loader->tokens[f].length_name);
    }
    free(loader->tokens);
}

const char *field_length_name(const struct loader *loader, uint32_t field)
{
    return loader->tokens ? loader->tokens[field].length_name : NULL;
}

uint32_t field_tokenizers_count(const struct loader *loader)
{
    uint32_t count = 0;
    for (uint32_t f = 0; loader->tokens && f < loader->options.fields_count; f++)
        count += loader->tokens[f].bpe && loader->tokens[f].owner == f;
    return count;
}

void field_encoders_close(struct load_worker *worker)
{
    for (uint32_t f = 0; worker->encoders && f < worker->loader->options.fields_count; f++)
        bpe_encoder_close(worker->encoders[f]);
    free(worker->encoders);
    str_deinit(&worker->tokens);
}

/* Opened on first use: its cache takes 2 MiB. */
static int find_encoder(struct load_worker *worker, uint32_t field,
                        struct bpe_encoder **ret_encoder, struct err *err)
{
    const struct field_tokens *tokens = &worker->loader->tokens[field];
    if (!worker->encoders)
        worker->encoders = calloc(worker->loader->options.fields_count, sizeof *worker->encoders);
    if (!worker->encoders)
        return err_set(err, -ENOMEM, "out of memory for a tokenizer");
    struct bpe_encoder **encoder = &worker->encoders[tokens->owner];
    int status = *encoder ? 0 : bpe_encoder_open(tokens->bpe, encoder, err);
    *ret_encoder = *encoder;
    return status;
}

static uint32_t token_at(const struct str *tokens, size_t width, size_t at)
{
    return width == 2 ? bytes_get_u16(tokens->data + at * width)
                      : bytes_get_u32(tokens->data + at * width);
}

/* Writes begin, the first `count` tokens of the text, and end. Returns the number written. */
static uint32_t put_tokens(const struct field_tokens *type, const struct str *tokens, size_t count,
                           int32_t *to)
{
    size_t width = bpe_token_bytes(type->bpe);
    uint32_t n = 0;
    if (type->begin != BPE_NONE)
        to[n++] = (int32_t)type->begin;
    for (size_t i = 0; i < count; i++)
        to[n++] = (int32_t)token_at(tokens, width, i);
    if (type->end != BPE_NONE)
        to[n++] = (int32_t)type->end;
    return n;
}

static void store_padded(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                         uint32_t field, size_t count)
{
    const struct loader *loader = worker->loader;
    const struct loader_field *type = &loader->options.fields[field];
    const struct field_tokens *tokens = &loader->tokens[field];
    int32_t *values = (int32_t *)(void *)(slot->memories[BATCH_MEMORY_SMALL]->data +
                                          fields_offset(loader, field));
    int32_t *lengths = values + (size_t)loader->options.batching.micro * type->length;
    uint32_t added = (tokens->begin != BPE_NONE) + (tokens->end != BPE_NONE);
    values += (size_t)item * type->length;
    uint32_t n =
        put_tokens(tokens, &worker->tokens, bytes_min(count, type->length - added), values);
    lengths[item] = (int32_t)n;
    while (n < type->length)
        values[n++] = (int32_t)type->pad_token;
}

static int store_ragged(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                        uint32_t field, size_t count, struct err *err)
{
    const struct field_tokens *tokens = &worker->loader->tokens[field];
    int status = pixels_reserve(&worker->numbers, (count + 2) * sizeof(int32_t), err);
    if (status)
        return status;
    uint64_t n =
        put_tokens(tokens, &worker->tokens, count, (int32_t *)(void *)worker->numbers.data);
    return ragged_store(worker->loader, slot, item, field, worker->numbers.data,
                        n * sizeof(int32_t), &n, err);
}

int field_encode_tokens(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                        uint32_t field, const void *text, uint64_t bytes, struct err *err)
{
    const struct loader *loader = worker->loader;
    struct bpe_encoder *encoder = NULL;
    if (bytes > BPE_TEXT_BYTES_MAX) {
        err_set(err, -EBADMSG, "a text of field \"%.80s\" is too long for a tokenizer",
                loader->options.fields[field].name);
        err_expected(err, "at most %d bytes", BPE_TEXT_BYTES_MAX);
        err_found(err, "%" PRIu64, bytes);
        return -EBADMSG;
    }
    int status = find_encoder(worker, field, &encoder, err);
    str_clear(&worker->tokens);
    if (!status)
        status = bpe_encode(encoder, text, bytes, &worker->tokens, err);
    if (status)
        return status;
    const struct loader_field *type = &loader->options.fields[field];
    size_t count = worker->tokens.bytes / bpe_token_bytes(loader->tokens[field].bpe);
    size_t added = (type->begin_token != NULL) + (type->end_token != NULL);
    if (count + added < type->length_min) {
        err_set(err, -EBADMSG, "a text of field \"%.80s\" is too short", type->name);
        err_expected(err, "at least %" PRIu32 " tokens", type->length_min);
        err_found(err, "%zu", count + added);
        return -EBADMSG;
    }
    if (type->length == 0)
        return store_ragged(worker, slot, item, field, count, err);
    store_padded(worker, slot, item, field, count);
    return 0;
}
